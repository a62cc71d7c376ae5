"""Runs whose calls a process of its own makes: the same rows, files and bill, whoever of the two dies."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers.extraction import MANY_DOCUMENTS, MANY_IN_FLIGHT, calls_apart
from extraction_core.errors import ConfigurationError
from extraction_core.settings import CallerUse
from tests import processes
from tests.caller_processes import callers_of, wait_for_end
from tests.factories import some_files
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 12
HELD = 4


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTRACTION_CALLER_PROCESS", "always")


def test_everything_is_extracted_once_and_accounted_for(workplace: Workplace) -> None:
    report = workplace.run(workplace.collection(some_files(DOCUMENTS)))
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", DOCUMENTS)
    assert len(workplace.calls()) == DOCUMENTS
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    assert callers_of(os.getpid()) == []
    workplace.books.assert_settled()


def test_calls_that_are_lost_with_their_process_are_written_down_and_made_again(workplace: Workplace) -> None:
    workplace.sandbox.hold("answers", times=HELD)
    worker = workplace.child(workplace.collection(some_files(DOCUMENTS), concurrency=HELD), retry_in_run_s=60.0)
    workplace.sandbox.wait_until_held("answers", HELD)
    assert worker.pid is not None
    (caller,) = callers_of(worker.pid)
    os.kill(caller, signal.SIGKILL)
    assert processes.end_of(worker) == 0
    books = workplace.books
    assert books.statuses() == {"completed": DOCUMENTS}
    lost = [attempt for attempt in books.attempts if attempt["status"] == "abandoned"]
    assert [(attempt["reason"], attempt["cost_usd"]) for attempt in lost] == [("connection_lost", None)] * HELD
    assert len(workplace.calls()) == len(books.attempts) == DOCUMENTS + HELD
    books.assert_settled()


@ON_ONE_DATABASE
def test_a_worker_that_is_killed_takes_its_caller_along_and_every_call_has_its_attempt(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=HELD)
    workplace.sandbox.hold("answers", match="R71[01]\\b", times=None)
    worker = workplace.child(collection)
    workplace.sandbox.wait_until_held("answers", 2)
    assert worker.pid is not None
    (caller,) = callers_of(worker.pid)
    os.kill(worker.pid, signal.SIGKILL)
    processes.end_of(worker)
    wait_for_end(caller)
    workplace.sandbox.forget_faults()
    workplace.expire_leases()
    workplace.run(collection)
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
    endings = Counter(attempt["status"] for attempt in workplace.books.attempts)
    assert endings["answered"] == DOCUMENTS
    assert endings["abandoned"] >= 2  # what was held, and what else was in flight just then
    assert DOCUMENTS + 2 <= len(workplace.calls()) <= endings.total()
    workplace.books.assert_settled()


@ON_ONE_DATABASE
@pytest.mark.parametrize("use", ["never", "always"])
def test_what_no_call_can_be_made_with_ends_the_run_and_costs_no_document_a_try(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    monkeypatch.setenv("EXTRACTION_CALLER_PROCESS", use)
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/canary.pem")
    with pytest.raises((ConfigurationError, FileNotFoundError), match=r"FileNotFoundError|No such file"):
        workplace.run(workplace.collection())
    assert workplace.books.statuses() == {"queued": 3}
    assert workplace.books.attempts == []
    assert callers_of(os.getpid()) == []


@pytest.mark.parametrize(
    ("use", "in_flight", "documents", "apart"),
    [
        (CallerUse.AUTO, MANY_IN_FLIGHT, MANY_DOCUMENTS, True),
        (CallerUse.AUTO, MANY_IN_FLIGHT - 1, MANY_DOCUMENTS, False),
        (CallerUse.AUTO, MANY_IN_FLIGHT, MANY_DOCUMENTS - 1, False),
        (CallerUse.ALWAYS, 1, 1, True),
        (CallerUse.NEVER, MANY_IN_FLIGHT, MANY_DOCUMENTS, False),
    ],
)
def test_calls_are_made_apart_where_it_is_worth_it_or_as_was_set(
    use: CallerUse,
    in_flight: int,
    documents: int,
    apart: bool,  # noqa: FBT001 - by name, as a parameter is
) -> None:
    assert calls_apart(use, in_flight=in_flight, documents=documents) is apart
