"""The terminal: what each command prints where, what it changes, and what its exit code tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
import yaml
from click.testing import CliRunner, Result

from extraction_assets.cli import main
from extraction_assets.collections import COMPONENT_TYPE
from extraction_core.causes import Cause
from extraction_core.states import Select
from resources.ledger import Ledger
from resources.ledger.migrate import known_revisions
from resources.ledger.tables import metadata
from tests.factories import SCHEMA, a_document, a_run, a_set, claim, complete, fail, open_attempt
from tests.ledger.support import rows
from tests.project_copy import PROJECT_ROOT, ProjectCopy, cli_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resources.ledger.documents import DocumentSet

WAIT_S = 60.0
DOCUMENTATION = ("README.md", "docs/operations.md")
COMMANDS = {
    "chaos": "prove that nothing was lost or paid twice",
    "scan": "Nothing is parsed or paid for",
    "status": "counts by state, cost, last error",
    "sweep": "Resume and retry what is due now",
    "retry": "Mark documents due for another try",
    "batches": "Show message batches, oldest first",
    "migrate": "Bring the ledger to the newest schema",
}


@pytest.fixture
def home(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this process, with an empty ledger, and a Dagster of its own."""
    home, dagster_home = tmp_path / "home", tmp_path / "dagster"
    home.mkdir()
    dagster_home.mkdir()
    shutil.copy(sqlite_template, home / "ledger.db")
    shutil.copy(PROJECT_ROOT / "dagster.yaml", dagster_home)
    monkeypatch.setenv("EXTRACTION_HOME", str(home))
    monkeypatch.delenv("EXTRACTION_LEDGER_URL", raising=False)
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home))
    monkeypatch.setenv("COLUMNS", "200")
    return home


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    """The ledger that the commands read."""
    with closing(Ledger(f"sqlite:///{home / 'ledger.db'}")) as ledger:
        yield ledger


def run(*arguments: str) -> Result:
    """Run a command in this process; what it did not raise on purpose is the test's."""
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def end(ledger: Ledger, *endings: str, folder: str = "server/dell", collection: str = "servers") -> DocumentSet:
    """Register a set and end its documents, by key: completed, failed, exhausted (all attempts used) or pending."""
    document_set = a_set(ledger, len(endings), folder=folder, collection=collection)
    keys = [a_document(number, folder=folder).key for number, how in enumerate(endings) if how != "pending"]
    run_id = a_run(ledger, document_set, keys=keys)
    ended = [how for how in endings if how != "pending"]
    for held, ending in zip(claim(ledger, run_id, len(endings)), ended, strict=True):
        if ending == "completed":
            complete(ledger, held, cost_usd=Decimal("0.0012345"))
            continue
        for _ in range(3 if ending == "exhausted" else 0):
            attempt = open_attempt(ledger, held)
            ledger.attempts.abandoned(attempt.attempt_id, attempt.token, cause=Cause.TIMEOUT, message="no answer")
        fail(ledger, held)
    ledger.finalize(run_id)
    return document_set


def sets_of(result: Result, collection: str) -> list[dict[str, Any]]:
    """Return the sets of a collection that `status --json` printed."""
    return next(one["sets"] for one in json.loads(result.stdout)["collections"] if one["collection"] == collection)


def everything(ledger: Ledger) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return every row of the ledger by table."""
    return {table: rows(ledger, table) for table in metadata.tables}


# scan


def test_scan_registers_the_sample_documents_and_says_so(home: Path, ledger: Ledger) -> None:  # noqa: ARG001 - the place
    result = run("scan")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "invoices: 14 documents in 4 sets (14 new, 0 changed, 0 removed, 0 skipped); 4 new partitions",
        "servers: 26 documents in 8 sets (26 new, 0 changed, 0 removed, 0 skipped); 8 new partitions",
    ]
    assert len(rows(ledger, "documents")) == 40
    assert rows(ledger, "parse_runs") == rows(ledger, "attempts") == []


def test_scan_again_finds_nothing_new(ledger: Ledger) -> None:
    run("scan", "--collection", "invoices")
    before = everything(ledger)
    (again,) = json.loads(run("scan", "--collection", "invoices", "--json").stdout)
    assert again == {
        "collection": "invoices",
        "documents": 14,
        "new": 0,
        "changed": 0,
        "removed": 0,
        "sets": 4,
        "new_partitions": 0,
        "skipped": [],
    }
    assert everything(ledger) == before


@pytest.fixture
def awkward(tmp_path: Path) -> ProjectCopy:
    """A project with one more collection, whose folder holds two documents among much that is none."""
    project = ProjectCopy(tmp_path)
    collection = project.defs / "awkward"
    source = collection / "documents"
    (source / ".git").mkdir(parents=True)
    (source / "a").mkdir()
    for name in ("a/good.md", "ünïcode name.md", "notes.txt", ".git/config", "~$good.docx", "x.pdf.part", "Thumbs.db"):
        (source / name).write_text("Model: R1\n\nPrice USD: 1\n")
    os.mkfifo(source / "pipe.md")
    (source / "nowhere.md").symlink_to(source / "gone.md")
    (source / "outside.md").symlink_to(PROJECT_ROOT / "README.md")
    (source / "loop").symlink_to(source, target_is_directory=True)
    Path(os.fsdecode(os.fsencode(source) + b"/\xff.md")).write_text("x")
    attributes = {"source": "documents", "include": ["**/*.md"], "exclude": []}
    (collection / "schema.json").write_text(json.dumps(SCHEMA))
    (collection / "instructions.md").write_text("Extract.")
    (collection / "defs.yaml").write_text(yaml.safe_dump({"type": COMPONENT_TYPE, "attributes": attributes}))
    return project


SKIPPED = {
    ".git/config": "hidden file",
    "Thumbs.db": "system file",
    "loop": "link to a folder",
    "notes.txt": "matches no include pattern",
    "nowhere.md": "link that leads nowhere",
    "outside.md": "link that leads outside the source",
    "pipe.md": "not a regular file",
    "x.pdf.part": "unfinished transfer",
    "~$good.docx": "lock or resource file of an office program",
    "\ufffd.md": "name is not valid UTF-8",
}


def test_scan_counts_what_is_no_document_and_gives_each_a_reason(awkward: ProjectCopy) -> None:
    done = awkward.extraction_assets("scan", "--collection", "awkward", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (scanned,) = json.loads(done.stdout)
    assert (scanned["documents"], scanned["new"], scanned["sets"]) == (2, 2, 2)
    assert {entry["file"]: entry["reason"] for entry in scanned["skipped"]} == SKIPPED


def test_scan_lists_what_was_skipped_for_people(awkward: ProjectCopy) -> None:
    done = awkward.extraction_assets("scan", "--collection", "awkward")
    first, *listed = done.stdout.splitlines()
    assert first == "awkward: 2 documents in 2 sets (2 new, 0 changed, 0 removed, 10 skipped); 2 new partitions"
    assert sorted(listed) == sorted(f"  skipped {key!r}: {reason}" for key, reason in SKIPPED.items())


def test_scan_of_a_folder_without_documents_is_nothing_to_do(awkward: ProjectCopy) -> None:
    source = awkward.defs / "awkward" / "documents"
    shutil.rmtree(source)
    source.mkdir()
    done = awkward.extraction_assets("scan", "--collection", "awkward")
    assert (done.returncode, done.stderr) == (3, "no documents found\n")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", [("scan",), ("sweep", "--dry-run")], ids=" ".join)
@pytest.mark.parametrize("value", [None, "", "dagster", "/no/such/folder"])
def test_a_dagster_that_is_not_told_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, value: str | None, command: Sequence[str]
) -> None:
    monkeypatch.delenv("DAGSTER_HOME")
    if value is not None:
        monkeypatch.setenv("DAGSTER_HOME", value)
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: DAGSTER_HOME: is {value or ''!r}, not an absolute folder")
    assert "Set it to the folder that holds your dagster.yaml" in result.stderr


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "command",
    [("scan",), ("status",), ("sweep",), ("migrate",), ("retry", "--collection", "servers", "--documents", "a")],
    ids=lambda command: command[0],
)
def test_a_home_that_depends_on_the_working_directory_is_refused_by_every_command(
    monkeypatch: pytest.MonkeyPatch, command: Sequence[str]
) -> None:
    monkeypatch.setenv("EXTRACTION_HOME", "state")
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: EXTRACTION_HOME: is the relative path 'state'")
    assert result.stderr.endswith("Give an absolute path.\n")


def test_a_home_that_cannot_be_made_is_wrong_use_and_no_traceback(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTRACTION_HOME", str(home / "ledger.db" / "below"))
    result = run("status")
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(home / "ledger.db") in result.stderr
    assert "Check that EXTRACTION_HOME" in result.stderr


# status


@pytest.mark.parametrize(
    ("endings", "code"),
    [
        pytest.param((), 3, id="nothing is registered"),
        pytest.param(("failed", "exhausted"), 3, id="all failed"),
        pytest.param(("completed", "failed", "pending"), 1, id="some failed"),
        pytest.param(("completed", "pending"), 0, id="none failed"),
    ],
)
def test_the_exit_code_of_status_tells_how_the_documents_ended(
    ledger: Ledger, endings: Sequence[str], code: int
) -> None:
    if endings:
        end(ledger, *endings)
    assert run("status", "--collection", "servers").exit_code == code


def test_a_collection_in_which_all_failed_beside_one_in_which_none_did_is_some_failed(ledger: Ledger) -> None:
    end(ledger, "failed")
    end(ledger, "completed", collection="invoices", folder="2026/01")
    codes = [run("status", "--collection", name).exit_code for name in ("servers", "invoices")]
    assert (*codes, run("status").exit_code) == (3, 0, 1)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", ["scan", "status", "sweep"])
def test_an_unknown_collection_is_refused_with_the_known_ones(command: str) -> None:
    result = run(command, "--collection", "contracts")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: --collection: there is no collection 'contracts'. The collections are: invoices, servers.\n"
    )


def test_counts_and_money_of_status_are_the_ledgers(ledger: Ledger) -> None:
    dell = end(ledger, "completed", "completed", "failed", "exhausted", "pending")
    january = end(ledger, "completed", collection="invoices", folder="2026/01")
    costs = [row["cost_usd"] for row in rows(ledger, "attempts") if row["cost_usd"] is not None]

    result = run("status", "--json")

    (servers,), (invoices,) = sets_of(result, "servers"), sets_of(result, "invoices")
    assert servers == {
        "partition_key": dell.partition_key,
        "folder": "server/dell",
        "documents": 5,
        "completed": 2,
        "failed": 2,
        "cancelled": 0,
        "active": 0,
        "pending": 1,
        "exhausted": 1,
        "calls": 5,
        "cost_usd": "0.002469",
        "calls_of_unknown_cost": 3,
        "last_error": "server/dell/00003.pdf: refused",
    }
    assert (invoices["partition_key"], invoices["completed"], invoices["calls"]) == (january.partition_key, 1, 1)
    assert Decimal(servers["cost_usd"]) + Decimal(invoices["cost_usd"]) == sum(costs)
    assert servers["calls"] + invoices["calls"] == len(rows(ledger, "attempts"))
    assert servers["documents"] + invoices["documents"] == len(rows(ledger, "documents"))


def test_status_lists_documents_with_state_cause_and_remedy(ledger: Ledger) -> None:
    end(ledger, "completed", "failed", "exhausted", "pending")
    result = run("status", "--documents", "--json", "--collection", "servers")
    (collection,) = json.loads(result.stdout)["collections"]
    found = [(one["document_key"], one["state"], one["reason"], one["attempts"]) for one in collection["documents"]]
    assert found == [
        ("server/dell/00000.pdf", "completed", None, 1),
        ("server/dell/00001.pdf", "failed", "refused", 0),
        ("server/dell/00002.pdf", "exhausted", "refused", 3),
        ("server/dell/00003.pdf", "pending", None, 0),
    ]
    remedies = [one["remedy"] for one in collection["documents"]]
    assert [remedy and remedy.partition(";")[0] for remedy in remedies] == [
        None,
        "The model declines this document",
        "All attempts are used",
        None,
    ]
    assert [one["cost_usd"] for one in collection["documents"]] == ["0.0012345", None, None, None]


def test_status_begins_with_home_and_ledger(home: Path) -> None:
    result = run("status")
    assert result.stdout.splitlines()[0] == f"home {home}, ledger sqlite:///{home}/ledger.db"


def test_status_shows_people_what_scripts_are_told(ledger: Ledger) -> None:
    document_set = end(ledger, "completed", "failed", "exhausted")
    shown = run("status", "--documents", "--collection", "servers").stdout
    line = next(line for line in shown.splitlines() if line.split()[:1] == ["server/dell"])
    assert line.split()[1:8] == ["3", "1", "2", "0", "0", "0", "0.0012345"]
    assert document_set.partition_key in shown
    assert "1 exh." in shown
    assert "+ 3 unknown" in shown
    states = {
        line.split()[0]: line.split()[1] for line in shown.splitlines() if ".pdf " in line and line.startswith(" ")
    }
    assert states["server/dell/00002.pdf"] == "exhausted"


def test_status_warns_on_stderr_when_nothing_is_launched_by_itself_and_tells_scripts(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(ledger, "completed")
    result = run("status", "--json", "--collection", "servers")
    (warning,) = json.loads(result.stdout)["dagster"]["warnings"]
    assert (result.exit_code, result.stderr) == (0, f"warning: {warning}\n")
    assert warning.startswith("no Dagster has run at")
    monkeypatch.delenv("DAGSTER_HOME")
    result = run("status", "--json", "--collection", "servers")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["dagster"]["home"] is None


def test_status_changes_nothing(ledger: Ledger) -> None:
    end(ledger, "completed", "failed", "pending")
    before = everything(ledger)
    run("status", "--documents")
    assert everything(ledger) == before


# migrate


def test_migrate_makes_the_ledger_and_tells_its_revision(
    bare_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTRACTION_LEDGER_URL", bare_database_url)
    result = run("migrate", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["revision"] == known_revisions()[-1]
    with closing(Ledger(bare_database_url)) as ledger:
        assert rows(ledger, "documents") == []


def test_migrate_tells_people_where_the_ledger_is(home: Path) -> None:
    assert run("migrate").stdout == f"sqlite:///{home}/ledger.db is at revision {known_revisions()[-1]}\n"


def test_a_ledger_of_a_newer_version_is_refused(ledger: Ledger) -> None:
    statement = sa.text("UPDATE extraction_alembic_version SET version_num = '9999'")
    ledger.engine.write(lambda connection: connection.execute(statement))
    result = run("migrate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "has schema 9999, which this version does not know. Install" in result.stderr


# sweep


def test_a_dry_sweep_says_what_would_be_launched_and_changes_no_row(ledger: Ledger) -> None:
    run("scan", "--collection", "servers")
    before = everything(ledger)

    result = run("sweep", "--dry-run", "--collection", "servers")

    assert result.exit_code == 0
    assert result.stderr.startswith("warning: no Dagster daemon is alive")
    first, *launches = result.stdout.splitlines()
    assert first.startswith("servers: 8 launched, 0 held back")
    assert launches == [f"  would launch {one['folder']}" for one in before["document_sets"]]
    assert everything(ledger) == before


def test_a_dry_sweep_tells_scripts_the_partitions(ledger: Ledger) -> None:
    run("scan", "--collection", "invoices")
    (swept,) = json.loads(run("sweep", "--dry-run", "--collection", "invoices", "--json").stdout)
    assert (swept["collection"], swept["dry_run"], swept["held_back"]) == ("invoices", True, [])
    assert swept["launched"] == [one["partition_key"] for one in rows(ledger, "document_sets")]


# retry


def selectable(ledger: Ledger, document_set: DocumentSet, select: Select) -> list[str]:
    """Return the documents that a run with this selection takes."""
    run_id = a_run(ledger, document_set, select=select)
    return [row["document_key"] for row in rows(ledger, "extraction_results", f"run_id = {run_id}")]


def test_retry_of_an_unknown_document_is_wrong_use_and_names_it(ledger: Ledger) -> None:
    end(ledger, "failed")
    result = run("retry", "--collection", "servers", "--documents", "no/such.pdf")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "no such document in servers: no/such.pdf\n"


def test_retry_marks_the_known_documents_beside_an_unknown_one(ledger: Ledger) -> None:
    end(ledger, "failed")
    key = "server/dell/00000.pdf"
    result = run("retry", "--collection", "servers", "--documents", key, "--documents", "no/such.pdf")
    assert (result.exit_code, result.stdout) == (2, f"due: {key}\n")
    (document,) = rows(ledger, "documents")
    assert document["due_since_ms"] is not None


def test_retry_makes_a_failed_document_due_and_no_other(ledger: Ledger) -> None:
    document_set = end(ledger, "failed", "failed")
    key = "server/dell/00001.pdf"
    result = run("retry", "--collection", "servers", "--documents", key)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"due: {key}\n", "")
    assert selectable(ledger, document_set, Select.DUE) == [key]


@pytest.mark.parametrize(("options", "taken"), [((), []), (("--reset-attempts",), ["server/dell/00001.pdf"])])
def test_only_a_reset_leads_past_the_cap_of_attempts(
    ledger: Ledger, options: Sequence[str], taken: Sequence[str]
) -> None:
    document_set = end(ledger, "completed", "exhausted")
    result = run("retry", "--collection", "servers", "--documents", "server/dell/00001.pdf", *options)
    assert result.exit_code == 0
    assert selectable(ledger, document_set, Select.PENDING) == taken


# help and errors


def test_every_command_is_described_here() -> None:
    assert {*COMMANDS, "sandbox"} == set(main.commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_says_what_it_does(command: str) -> None:
    result = run(command, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert COMMANDS[command] in " ".join(result.stdout.split())


def test_the_help_lists_every_command() -> None:
    shown = run("--help").stdout
    assert {line.split()[0] for line in shown.partition("Commands:\n")[2].splitlines()} >= set(main.commands)


@pytest.mark.parametrize("arguments", [("status", "--speed"), ("extract",), ("retry",), ("scan", "now")], ids=" ".join)
def test_a_wrong_command_line_is_answered_on_stderr_alone(arguments: Sequence[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_the_help_of_the_sandbox_is_its_own() -> None:
    done = subprocess.run(cli_command("sandbox", "--help"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--port" in done.stdout
    assert "answers by rules" in done.stdout


# real processes


@contextmanager
def answering_to_interrupts() -> Iterator[None]:
    """Let children be started with the usual answer to Ctrl-C: a shell may have started the tests with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("home")
def test_ctrl_c_ends_a_command_with_130_and_one_line() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, answering_to_interrupts():
        silent.settimeout(WAIT_S)
        address = f"postgresql://user@127.0.0.1:{silent.getsockname()[1]}/ledger?sslmode=disable"
        with subprocess.Popen(
            cli_command("status"),
            env={**os.environ, "EXTRACTION_LEDGER_URL": address},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            connection, _ = silent.accept()
            with closing(connection):
                assert connection.recv(1) != b""  # now the command waits for an answer that never comes
                process.send_signal(signal.SIGINT)
                stdout, stderr = process.communicate(timeout=WAIT_S)
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")


def test_a_reader_that_has_seen_enough_is_no_error(ledger: Ledger) -> None:
    a_set(ledger, 1500)  # more than a pipe holds
    with subprocess.Popen(
        cli_command("status", "--documents"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("home ")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode != 0  # it did write into the closed pipe


# documentation


def documentation() -> str:
    """Return what a person who runs the project reads."""
    return "\n".join((PROJECT_ROOT / name).read_text() for name in DOCUMENTATION)


@pytest.mark.parametrize("command", main.commands)
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"extraction-assets {command}\b", documentation()), f"add it to one of {DOCUMENTATION}"


def test_every_variable_of_the_environment_is_documented() -> None:
    source = (PROJECT_ROOT / "resources" / "environment.py").read_text()
    variables = set(re.findall(r"\bEXTRACTION_[A-Z_]+\b", source))
    assert "EXTRACTION_HOME" in variables
    assert variables - set(re.findall(r"`(EXTRACTION_[A-Z_]+)`", documentation())) == set()
