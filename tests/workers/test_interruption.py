"""Ends that come from outside: an interruption gives back what is held, a person's cancel ends it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests import processes
from tests.factories import some_files

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

    from extraction_core.collection import Collection
    from tests.workplace import Workplace

DOCUMENTS = 6
HELD = 2


@pytest.fixture
def collection(workplace: Workplace) -> Collection:
    return workplace.collection(some_files(DOCUMENTS), concurrency=HELD)


def at_work(workplace: Workplace, collection: Collection, *, cancelled: bool = False) -> ForkServerProcess:
    """Start a child whose calls are held by the provider: two documents running, four queued."""
    workplace.sandbox.hold("answers", times=HELD)
    child = workplace.child(collection, cancelled=cancelled)
    workplace.sandbox.wait_until_held("answers", HELD)
    return child


def interrupt(child: ForkServerProcess, number: int = signal.SIGINT) -> int:
    """Interrupt a child. Returns its exit code."""
    assert child.pid is not None
    os.kill(child.pid, number)
    return processes.end_of(child)


def test_an_interruption_gives_back_what_was_held_and_another_run_does_it(
    workplace: Workplace, collection: Collection
) -> None:
    assert interrupt(at_work(workplace, collection)) == 1
    books = workplace.books
    assert books.statuses() == {"queued": DOCUMENTS}
    assert books.runs[0]["status"] == "open"
    assert [attempt["status"] for attempt in books.attempts] == ["abandoned"] * HELD
    assert all(worker["ended_ms"] for worker in books.workers)

    report = workplace.run(collection)

    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", DOCUMENTS)
    assert len(workplace.calls()) == DOCUMENTS + HELD
    assert report.run["unknown_cost_count"] == HELD
    books.assert_settled()


def test_a_persons_cancel_ends_every_unfinished_document_and_the_run(
    workplace: Workplace, collection: Collection
) -> None:
    assert interrupt(at_work(workplace, collection, cancelled=True)) == 1
    books = workplace.books
    assert books.statuses() == {"cancelled": DOCUMENTS}
    assert (books.runs[0]["status"], books.runs[0]["cancelled_count"]) == ("cancelled", DOCUMENTS)
    assert books.runs[0]["unknown_cost_count"] == HELD
    assert len(workplace.calls()) == HELD
    books.assert_settled()


def test_a_cancel_keeps_what_was_done(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=1)
    workplace.sandbox.hold("answers", match="R703\\b")
    child = workplace.child(collection, cancelled=True)
    workplace.sandbox.wait_until_held("answers")
    files = workplace.books.files()
    interrupt(child)
    assert workplace.books.statuses() == {"cancelled": 3, "completed": 3}
    assert workplace.books.runs[0]["status"] == "cancelled"
    assert files == workplace.books.files()
    workplace.books.assert_settled()


def test_a_cancel_of_one_of_two_processes_leaves_the_run_to_the_other(
    workplace: Workplace, collection: Collection
) -> None:
    staying = at_work(workplace, collection)
    leaving = at_work(workplace, collection, cancelled=True)
    workplace.sandbox.wait_until_held("answers", 2 * HELD)
    assert interrupt(leaving) == 1
    assert workplace.books.statuses() == {"queued": DOCUMENTS - HELD, "running": HELD}
    workplace.sandbox.release("answers")
    assert processes.end_of(staying) == 0
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
    assert workplace.books.runs[0]["status"] == "completed"


def test_an_answer_that_arrives_while_a_worker_leaves_is_kept_and_not_paid_for_again(
    workplace: Workplace, collection: Collection
) -> None:
    workplace.sandbox.hold("answers", times=HELD)
    child = workplace.child(collection, cancel_grace_s=30.0)
    workplace.sandbox.wait_until_held("answers", HELD)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGINT)
    workplace.sandbox.release("answers")
    assert processes.end_of(child) == 1
    assert {"answered"} == {attempt["status"] for attempt in workplace.books.attempts}
    workplace.run(collection)
    assert len(workplace.calls()) == DOCUMENTS
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    workplace.books.assert_settled()


@pytest.mark.parametrize("folder", ["outputs/servers/dell", "parsed/ab"])
def test_what_a_dead_writer_left_is_swept_by_the_next_run(workplace: Workplace, folder: str) -> None:
    stray = workplace.home / folder / ".t-00000000-1-0.tmp"
    stray.parent.mkdir(parents=True)
    stray.touch()
    os.utime(stray, (0, 0))
    workplace.run(workplace.collection())
    workplace.books.assert_settled()
