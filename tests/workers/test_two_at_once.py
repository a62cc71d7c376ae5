"""One set, two processes at the same moment: the work is shared, nothing is done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Result
from tests import processes
from tests.factories import some_files

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 50


def test_two_processes_that_start_at_once_make_one_call_a_document(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS))
    barrier = processes.Meeting(2)
    children = [workplace.child(collection, barrier) for _ in range(2)]
    assert [0, 0] == [processes.end_of(child) for child in children]
    books = workplace.books
    assert len(workplace.calls()) == DOCUMENTS == len(books.attempts)
    assert books.statuses() == {"completed": DOCUMENTS}
    assert [1] * DOCUMENTS == [row["generation"] for row in books.results]
    assert len(books.runs) == 1
    assert len(books.parse_runs) == DOCUMENTS
    assert books.runs[0]["cost_usd"] == workplace.sandbox.billed_usd
    books.assert_settled()


def test_a_second_process_leaves_what_a_living_one_holds_and_names_the_holder(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(3), concurrency=3)
    workplace.sandbox.hold("answers", times=3)
    first = workplace.child(collection)
    workplace.sandbox.wait_until_held("answers", 3)
    report = workplace.run(collection)
    assert report.result == Result.HELD_BY_OTHERS
    (holder,) = {row["owner"] for row in workplace.books.results}
    assert report.reason.split(", ") == [holder]
    assert any("joined extraction run" in line for line in workplace.said)
    workplace.sandbox.release("answers")
    assert processes.end_of(first) == 0
    assert len(workplace.calls()) == 3
    workplace.books.assert_settled()


def test_a_second_process_takes_what_the_first_has_not_claimed(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(6), concurrency=1)
    workplace.sandbox.hold("answers", match="R700\\b")
    first = workplace.child(collection)
    workplace.sandbox.wait_until_held("answers")
    report = workplace.run(collection)
    assert report.result == Result.HELD_BY_OTHERS
    assert workplace.books.statuses() == {"completed": 5, "running": 1}
    workplace.sandbox.release("answers")
    assert processes.end_of(first) == 0
    assert len(workplace.calls()) == 6
    workplace.books.assert_settled()
