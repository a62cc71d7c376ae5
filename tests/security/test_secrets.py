"""Keys and passwords are found nowhere but in the environment, whatever fails and whoever tells of it."""

from __future__ import annotations

import json
import logging
import traceback
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from extraction_assets.cli import main
from extraction_core.errors import ConfigurationError, LedgerError
from resources.extraction.access import access_from
from resources.ledger import Ledger
from resources.ledger.tables import metadata
from tests.dagster.support import a_document, elsewhere
from tests.factories import some_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dagster.support import Place
    from tests.postgres_server import PostgresServer
    from tests.sandbox_server import SandboxServer
    from tests.workplace import Workplace

API_KEY, PARSE_KEY, PASSWORD = "sk-ant-canary-4711", "reducto-canary-4712", "ledger-canary-4713"
CANARIES = (API_KEY, PARSE_KEY, PASSWORD)


def refusal(status: int, kind: str) -> dict[str, object]:
    """Return a fault of a server that answers with the headers of the request in its error."""
    message = f"refused: x-api-key: {API_KEY}, authorization: Bearer {API_KEY}"
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return {"kind": "status", "status": status, "body": body}


def ledger_rows(url: str) -> str:
    """Return every row of every table, read past all of the project's code."""
    with psycopg.connect(url) as connection:
        asked = [f"SELECT to_json(t) FROM {name} t".encode() for name in metadata.tables]  # noqa: S608 - our own names
        return "\n".join(str(connection.execute(statement).fetchall()) for statement in asked)


def files_below(folder: Path) -> str:
    """Return what all files of a folder hold."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(f"{path}\n{path.read_bytes().decode('latin-1')}" for path in found)


def found_in(text: str) -> list[str]:
    """Return the secrets that a text holds."""
    return [canary for canary in CANARIES if canary in text]


@pytest.fixture
def secret_url(migrated_postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty ledger with a password in it; all secrets are set."""
    postgres_server.empty(migrated_postgres, list(metadata.tables))
    url = sa.make_url(migrated_postgres).set(password=PASSWORD).render_as_string(hide_password=False)
    monkeypatch.setenv("EXTRACTION_LEDGER_URL", url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", API_KEY)
    monkeypatch.setenv("REDUCTO_API_KEY", PARSE_KEY)
    return url


@pytest.mark.postgres
@pytest.mark.parametrize("caller_process", ["never", "always"])
def test_a_dagster_run_in_which_all_fails_leaves_no_secret_anywhere(
    place: Place, secret_url: str, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, caller_process: str
) -> None:
    monkeypatch.setenv("EXTRACTION_CALLER_PROCESS", caller_process)
    monkeypatch.setenv("EXTRACTION_RETRY_IN_RUN_S", "0.1")
    monkeypatch.setenv("COLUMNS", "400")
    place.add("servers", {f"{number}.txt": a_document(number) for number in range(4)}, concurrency=1)
    place.scan()
    refused = refusal(400, "invalid_request_error"), refusal(401, "authentication_error")
    sandbox.faults([{"kind": "drop"}, *refused])
    with elsewhere(place, "servers"):
        pass
    told = CliRunner().invoke(main, ["status", "--documents"], catch_exceptions=False).output
    rows, files = ledger_rows(secret_url), files_below(place.root)
    log = json.dumps(sandbox.requests(bodies=True))
    assert [[], [], [], []] == [found_in(rows), found_in(files), found_in(log), found_in(told)]
    for trace in ("HTTP 400: refused: x-api-key: ***", "connection_lost"):
        assert trace in rows
    assert "HTTP 401: refused: x-api-key: ***, authorization: Bearer ***" in files
    assert '"status": 401' in log
    assert "postgres:***@" in told


@pytest.mark.parametrize("mode", ["realtime", "batch"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_key_that_a_server_echoes_is_hidden_where_the_error_is_kept_and_told(
    workplace: Workplace, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", API_KEY)
    caplog.set_level(logging.DEBUG)
    path = "/v1/messages" if mode == "realtime" else "POST /v1/messages/batches"
    workplace.sandbox.faults([{**refusal(401, "authentication_error"), "path": path}])
    report = workplace.run(workplace.collection(some_files(1), mode=mode))
    assert "HTTP 401: refused: x-api-key: ***" in report.reason
    assert found_in(f"{report} {workplace.said} {caplog.text} {files_below(workplace.folder)}") == []


def test_the_line_end_of_a_file_of_secrets_is_no_part_of_the_key() -> None:
    assert access_from({"ANTHROPIC_API_KEY": f" {API_KEY}\r\n"}).api_key == API_KEY
    assert access_from({"ANTHROPIC_AUTH_TOKEN": f"{API_KEY}\n"}).auth_token == API_KEY


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
@pytest.mark.parametrize("inside", ["\n", " ", "\u201c", "\0"])
def test_a_key_that_no_header_can_hold_is_refused_without_telling_it(variable: str, inside: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{variable}: holds characters that no key has") as refused:
        access_from({variable: f"{API_KEY}{inside}{API_KEY}"})
    assert found_in(str(refused.value)) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:{}",
        "postgresql://user:{}@host:port/ledger",
        "postgresql://user:{}@[::1/ledger",
        "postgresql://user:a@{}@127.0.0.1/ledger",
        "postgresql://user@127.0.0.1:1/ledger?password={}&no_such_option=1",
        "postgresql://user:{}@127.0.0.1:1/ledger?no_such_option=1",
        "mysql://user:{}@127.0.0.1/ledger",
        "user:{}@127.0.0.1/ledger",
    ],
)
def test_an_address_that_cannot_be_used_is_not_told_with_its_password(url: str) -> None:
    with pytest.raises((ConfigurationError, LedgerError), match="EXTRACTION_LEDGER_URL") as refused:
        Ledger(url.format(PASSWORD))
    assert found_in("".join(traceback.format_exception(refused.value))) == []
