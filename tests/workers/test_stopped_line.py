"""Faults of the account or the machine: the line stops, the documents stay as they are, nothing is used up."""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.workers.orders import Result
from extraction_core.errors import ConfigurationError
from extraction_core.failpoints import Failpoint
from resources.ledger.tables import metadata
from tests.core.handed_cases import error_response, needs_cases
from tests.factories import some_files

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 30
AT_ONCE, IN_WORK = 4, 6
CANARY = "sk-ant-canary-0123456789"


def counted(workplace: Workplace) -> int:
    return sum(attempt["counted"] for attempt in workplace.books.attempts)


@needs_cases
@pytest.mark.parametrize("name", ["http-401", "http-404-model", "http-400-credit"])
def test_a_fault_of_the_account_stops_after_the_first_calls_and_a_later_run_does_all(
    workplace: Workplace, name: str
) -> None:
    answer = error_response(name)
    workplace.sandbox.faults([{"kind": "status", **answer, "times": None}])
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE, max_attempts=1)
    report = workplace.run(collection)
    assert report.result == Result.LINE_STOPPED
    assert answer["body"]["error"]["message"] in report.reason
    assert 1 <= len(workplace.calls()) <= AT_ONCE
    assert workplace.books.statuses() == {"queued": DOCUMENTS}
    assert counted(workplace) == 0
    assert report.run is not None
    assert report.run["status"] == "open"

    workplace.sandbox.reset()
    again = workplace.run(collection)
    assert again.run is not None
    assert (again.run["run_id"], again.run["completed_count"]) == (report.run["run_id"], DOCUMENTS)
    assert len(workplace.calls()) == DOCUMENTS
    workplace.books.assert_settled()


def test_without_key_and_address_nothing_is_begun(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        workplace.run(workplace.collection())
    books = workplace.books
    assert [[], [], [], [], []] == [books.parse_runs, books.runs, books.results, books.attempts, books.workers]


def test_a_budget_for_a_model_without_a_price_is_refused_before_anything_is_begun(workplace: Workplace) -> None:
    with pytest.raises(ConfigurationError, match="max_cost_usd"):
        workplace.run(workplace.collection(model="claude-unlisted-9", max_cost_usd="1"))
    assert workplace.books.workers == []


class FullFrom:
    """A disk that is full from the n-th write on."""

    def __init__(self, write: int) -> None:
        self.left = write

    def __call__(self, name: Failpoint) -> None:
        if name == Failpoint.WRITE_OUTPUT:
            self.left -= 1
            if self.left <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_stops_the_line_and_no_answer_is_paid_for_twice(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE)
    report = workplace.run(collection, failpoints=FullFrom(write=3))
    assert report.result == Result.LINE_STOPPED
    assert "No space left" in report.reason
    assert len(workplace.calls()) <= 2 + IN_WORK
    assert workplace.books.temp_files() == []
    workplace.run(collection)
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
    assert len(workplace.calls()) == DOCUMENTS
    workplace.books.assert_settled()


def everything_stored(workplace: Workplace) -> str:
    """Return all that is in the ledger and in the home, as text."""
    tables = [str(workplace.books.rows(table)) for table in metadata.sorted_tables]
    files = [path.read_bytes().decode("utf-8", "replace") for path in workplace.home.rglob("*") if path.is_file()]
    ledger = [path.read_bytes().decode("latin-1") for path in workplace.folder.glob("ledger.db*")]
    return "\n".join([*tables, *files, *ledger])


@pytest.mark.parametrize(
    "fault", [{"kind": "status", "status": 401}, {"kind": "status", "status": 400}, {"kind": "drop"}]
)
def test_the_key_is_nowhere_in_ledger_files_messages_or_logs(
    workplace: Workplace, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    caplog.set_level(logging.DEBUG)
    workplace.sandbox.faults([fault])
    report = workplace.run(workplace.collection(concurrency=1), retry_in_run_s=0.1)
    assert len(workplace.calls()) >= 1
    assert CANARY not in everything_stored(workplace)
    assert CANARY not in f"{report} {workplace.said} {caplog.text}"


def test_the_search_for_the_key_finds_what_is_stored(workplace: Workplace) -> None:
    workplace.run(workplace.collection(some_files(1)))
    stored = everything_stored(workplace)
    for trace in ("r700.md", "price_usd", "Model: R700"):
        assert trace in stored
