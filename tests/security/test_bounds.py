"""Paths stay below their roots, text stays data in SQL, servers stay on loopback."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_assets.dev import ui_command
from extraction_core.documents import attachment_key, attachment_place
from extraction_core.result_document import output_path
from tests.factories import some_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres_server import PostgresServer
    from tests.sandbox_server import SandboxServer
    from tests.workplace import Workplace

PROJECT_ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("extraction_core", "resources", "sensors", "extraction_assets", "sandbox")
SENDS_SQL = frozenset({"text", "exec_driver_sql", "literal_column", "execute", "executemany", "scalar", "scalars"})
MADE_OF_CONSTANTS = {
    "resources/ledger/engine.py": {"_prepare_sqlite", "_begin_sqlite"},
    "resources/ledger/migrations/versions/0001_main_job.py": {"_tune_for_updates"},
    "resources/ledger/migrations/versions/0004_parse_jobs.py": {"upgrade"},
    "resources/ledger/selection.py": {"_due_again"},
    "resources/ledger/trials.py": {"witnessed"},
    "resources/ledger/types.py": {"literal"},
}
"""Functions that put text together for the database, of constants of the source alone."""

LONGEST_NAME = 255
hostile_names = st.text(min_size=1) | st.text(st.sampled_from("./\\\0:* a\ud800é"), min_size=1, max_size=400)
hostile_keys = st.lists(hostile_names | st.just(".."), min_size=1, max_size=5).map("/".join)


@given(key=hostile_keys)
def test_a_result_stands_below_the_folder_of_its_collection_or_its_key_is_refused(key: str) -> None:
    root = Path("/outputs")
    try:
        path = root / output_path("servers", key)
    except ValueError:
        return
    assert ".." not in path.parts
    assert path.is_relative_to(root / "servers")
    assert path != root / "servers" / "extraction.json"


@given(names=st.lists(hostile_names, min_size=1, max_size=3))
def test_an_attachment_stands_below_its_mail_whatever_it_is_called(names: list[str]) -> None:
    key = "in/letter.eml"
    for number, name in enumerate(names, start=1):
        above, key = key, attachment_key(key, number, name)
        kept = key.removeprefix(f"{above}/")
        assert "/" not in kept
        assert kept not in {".", ".."}
        assert len(kept.encode()) <= LONGEST_NAME
        assert attachment_place(f"{above.removesuffix('.eml')}.eml/{kept}") is not None
    assert output_path("servers", key).is_relative_to("servers/in/letter.eml")


def joined_statements(file: Path) -> Iterator[str]:
    """Return the functions of a source file that hand the database text which they put together."""
    functions = [one for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.FunctionDef)]
    for function in functions:
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and _name(call.func) in SENDS_SQL and call.args and _is_joined(call.args[0]):
                yield function.name


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_joined(text: ast.expr) -> bool:
    """Whether a text holds something that is not a constant of the source."""
    match text:
        case ast.JoinedStr():
            return True
        case ast.BinOp(left=left, op=ast.Mod() | ast.Add(), right=right):
            return _holds_text(left) or _holds_text(right)
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace")):
            return True
        case ast.Call(func=function):
            return _name(function) == "str"
        case _:
            return False


def _holds_text(expression: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(expression))


def test_no_statement_is_put_together_of_anything_but_constants() -> None:
    found: dict[str, set[str]] = {}
    for file in sorted(path for layer in LAYERS for path in (PROJECT_ROOT / layer).rglob("*.py")):
        if joined := set(joined_statements(file)):
            found[file.relative_to(PROJECT_ROOT).as_posix()] = joined
    assert found == MADE_OF_CONSTANTS


@pytest.mark.parametrize(
    "statement",
    [
        'text(f"SELECT {x}")',
        'c.execute("SELECT %s" % x)',
        'sa.text("SELECT " + x)',
        'c.exec_driver_sql("{}".format(x))',
    ],
)
def test_the_search_for_joined_statements_finds_one(tmp_path: Path, statement: str) -> None:
    (tmp_path / "module.py").write_text(f"def ask(c, x):\n    return {statement}\n")
    assert list(joined_statements(tmp_path / "module.py")) == ["ask"]


INJECTION = "r'); DROP TABLE documents; --\"%(x)s :y $1"


def test_quotes_and_statements_in_keys_texts_and_answers_stay_data(workplace: Workplace) -> None:
    files = {f"dell/{INJECTION}.md": f"Model: {INJECTION}\n\nPrice USD: 1000\n", **some_files(1)}
    report = workplace.run(workplace.collection(files))
    assert report.run is not None
    assert report.run["completed_count"] == len(workplace.books.documents) == len(files)
    assert workplace.books.result(f"{INJECTION}.md")["document_key"] == f"dell/{INJECTION}.md"
    assert INJECTION.replace('"', '\\"') in workplace.books.output(f"{INJECTION}.md").read_text()
    workplace.books.assert_settled()


def listening(url: str) -> set[str]:
    """Return the addresses of this machine on which somebody listens at a port."""
    port = urlsplit(url).port
    open_here = [one.laddr for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr]
    return {address.ip for address in open_here if address.port == port}


def test_the_sandbox_listens_on_loopback_unless_told_otherwise(sandbox: SandboxServer) -> None:
    assert listening(sandbox.url) == {"127.0.0.1"}


@pytest.mark.postgres
def test_a_database_of_ones_own_listens_on_loopback(migrated_postgres: str, postgres_server: PostgresServer) -> None:
    assert postgres_server
    assert listening(migrated_postgres) == {"127.0.0.1"}


def test_the_user_interface_is_started_on_loopback() -> None:
    command = ui_command(3000)
    assert command[command.index("-h") + 1] == "127.0.0.1"
