"""Two collectors on one batch: no row and no file is written twice; the second one does the rest, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Result
from tests import processes
from tests.batches.support import RESULTS, assert_each_document_was_billed_once
from tests.factories import some_files

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 5
READ = 2


def test_a_second_collector_leaves_a_batch_to_the_one_that_holds_it(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS), mode="batch")
    workplace.run(collection)
    workplace.later(60)
    workplace.watch(collection)
    workplace.sandbox.faults([{"kind": "pause", "lines": READ, "name": "half way", "path": RESULTS}])
    first = workplace.child(collection)
    workplace.sandbox.wait_until_held("half way")

    second = workplace.run(collection)

    assert second.result is Result.SUBMITTED
    assert workplace.books.files() == {}
    workplace.sandbox.release("half way")
    assert processes.end_of(first) == 0
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
    workplace.books.assert_settled()


def test_a_collector_whose_lease_ran_out_writes_nothing_that_another_has_written(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(DOCUMENTS), mode="batch")
    workplace.run(collection)
    workplace.later(60)
    workplace.watch(collection)
    workplace.sandbox.faults([{"kind": "pause", "lines": READ, "name": "half way", "path": RESULTS}])
    stale = workplace.child(collection, heartbeat_s=100.0)
    workplace.sandbox.wait_until_held("half way")
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", DOCUMENTS)
    results, attempts, files = workplace.books.results, workplace.books.attempts, workplace.books.files()

    workplace.sandbox.release("half way")
    assert processes.end_of(stale) == 0

    assert workplace.books.results == results
    assert workplace.books.attempts == attempts
    assert workplace.books.files() == files
    assert_each_document_was_billed_once(workplace, DOCUMENTS)
    workplace.books.assert_settled()
