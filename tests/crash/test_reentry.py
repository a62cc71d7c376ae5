"""Re-entry: what a dead process had done stays as it is; the next one does the rest, and the run closes with all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from extraction_core.failpoints import Failpoint
from tests import processes
from tests.factories import some_files
from tests.processes import KillAt

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 5
DONE = 3


def done_before(workplace: Workplace, ids: set[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows and attempts of some results, in full."""
    books = workplace.books
    return (
        [row for row in books.results if row["result_id"] in ids],
        [attempt for attempt in books.attempts if attempt["result_id"] in ids],
    )


def test_the_second_process_does_the_rest_and_touches_nothing_that_was_done(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=1)
    child = workplace.child(collection, KillAt(Failpoint.COMMIT_CLAIM, on_pass=DONE + 1))
    assert processes.end_of(child) == -9
    books = workplace.books
    assert books.statuses() == {"completed": DONE, "queued": DOCUMENTS - DONE}
    ids = {row["result_id"] for row in books.results if row["status"] == "completed"}
    rows, files = done_before(workplace, ids), books.files()
    assert len(files) == DONE

    workplace.expire_leases()
    report = workplace.run(collection)

    assert rows == done_before(workplace, ids)
    assert files.items() <= books.files().items()
    assert report.run is not None
    assert (report.run["status"], report.run["request_count"]) == ("completed", DOCUMENTS)
    assert report.run["completed_count"] == DOCUMENTS == len(books.files())
    assert report.run["cost_usd"] == workplace.sandbox.billed_usd
    assert report.run["cost_usd"] == sum(row["cost_usd"] for row in books.results)
    assert len(workplace.calls()) == DOCUMENTS
    books.assert_settled()


def test_rows_that_a_dead_process_held_are_taken_over_when_their_lease_ran_out(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=DOCUMENTS)
    workplace.sandbox.hold("answers", times=None)
    child = workplace.child(collection)
    workplace.sandbox.wait_until_held("answers", DOCUMENTS)
    child.kill()
    assert processes.end_of(child) == -9
    assert workplace.books.statuses() == {"running": DOCUMENTS}

    workplace.sandbox.reset()
    workplace.expire_leases()
    report = workplace.run(collection)

    books = workplace.books
    assert report.run is not None
    assert (report.run["completed_count"], report.run["unknown_cost_count"]) == (DOCUMENTS, DOCUMENTS)
    assert [1] * DOCUMENTS == [row["reclaims"] for row in books.results]
    assert ["abandoned"] * DOCUMENTS == [attempt["status"] for attempt in books.attempts][:DOCUMENTS]
    assert report.run["cost_usd"] == workplace.sandbox.billed_usd
    books.assert_settled()


def test_a_kill_at_half_time_loses_only_what_is_in_the_air(workplace: Workplace) -> None:
    workplace.sandbox.hold("one", match="R702\\b")
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=1)
    child = workplace.child(collection)
    workplace.sandbox.wait_until_held("one")
    child.kill()
    processes.end_of(child)
    assert workplace.books.statuses() == {"completed": 2, "queued": 2, "running": 1}
    assert len(workplace.books.files()) == 2
