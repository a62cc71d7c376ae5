"""What is called at a time, and what is in work beside it: an answer that is being written down keeps no call waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import TYPE_CHECKING

from extraction_core.failpoints import Failpoint
from tests import processes
from tests.factories import some_files
from tests.ledger.support import HoldAt

if TYPE_CHECKING:
    from tests.workplace import Books, Workplace

DOCUMENTS = 8
AT_ONCE = 2
IN_WORK = 3
PATIENCE_S = 60.0


def wait_for_answers(books: Books, count: int) -> None:
    """Block until so many answers are kept."""
    deadline = monotonic() + PATIENCE_S
    while sum(attempt["status"] == "answered" for attempt in books.attempts) < count:
        assert monotonic() < deadline, books.attempts
        sleep(0)


def test_a_call_is_made_while_answers_wait_for_the_disk_and_no_more_rows_are_in_work_than_that_takes(
    workplace: Workplace,
) -> None:
    collection, disk = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE), HoldAt(Failpoint.WRITE_OUTPUT)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(workplace.run, collection, failpoints=disk)
        disk.wait()
        wait_for_answers(workplace.books, IN_WORK)
        assert workplace.books.statuses() == {"queued": DOCUMENTS - IN_WORK, "running": IN_WORK}
        disk.go_on()
        ended.result()
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
    assert len(workplace.calls()) == DOCUMENTS
    workplace.books.assert_settled()


def test_while_no_answer_comes_nothing_is_claimed_or_opened_beyond_the_calls_that_may_be_made(
    workplace: Workplace,
) -> None:
    workplace.sandbox.hold("answers", times=None)
    child = workplace.child(workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE))
    workplace.sandbox.wait_until_held("answers", AT_ONCE)
    assert workplace.books.statuses() == {"queued": DOCUMENTS - AT_ONCE, "running": AT_ONCE}
    assert len(workplace.books.attempts) == AT_ONCE
    workplace.sandbox.forget_faults()
    workplace.sandbox.release("answers")
    assert processes.end_of(child) == 0
    assert max(call["concurrency"] for call in workplace.calls()) == AT_ONCE
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
