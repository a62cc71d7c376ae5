"""The database goes away in every phase for longer than one try, or does what it was told and its reply is lost."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from extraction_assets.sensor_targets import sensor_target
from extraction_assets.workers.orders import Order, Result
from extraction_core.failpoints import Failpoint
from extraction_core.settings import Timing
from resources.ledger import Ledger
from sensors.batch_watch import look_after_batches
from sensors.sweep import Sweep
from tests.factories import some_files
from tests.hostile.line import CutAtEach, LoseEach

if TYPE_CHECKING:
    from extraction_core.collection import Collection
    from tests.hostile.line import Line
    from tests.workplace import Workplace

pytestmark = pytest.mark.postgres
DOCUMENTS = 3
PARSING = frozenset({
    Failpoint.COMMIT_WORKER, Failpoint.COMMIT_DOCUMENTS, Failpoint.COMMIT_PARSE_ENQUEUE, Failpoint.COMMIT_PARSE_CLAIM,
    Failpoint.READ_SOURCE, Failpoint.COMMIT_PARSE,
})  # fmt: skip
QUEUEING = frozenset({
    Failpoint.COMMIT_RUN_OPEN, Failpoint.COMMIT_ENQUEUE, Failpoint.COMMIT_SEAL, Failpoint.COMMIT_CLAIM,
})  # fmt: skip
ASKING = frozenset({
    Failpoint.COMMIT_ATTEMPT_OPEN, Failpoint.CALL_PROVIDER, Failpoint.PROVIDER_ANSWERED, Failpoint.COMMIT_ATTEMPT_CLOSE,
})  # fmt: skip
WRITING = frozenset({Failpoint.BEGIN_COMPLETE, Failpoint.COMMIT_COMPLETE, Failpoint.COMMIT_FINALIZE})
REALTIME = PARSING | QUEUEING | ASKING | WRITING
SUBMITTING = frozenset({
    Failpoint.COMMIT_CLAIM, Failpoint.COMMIT_BATCH_RESERVE, Failpoint.CREATE_BATCH, Failpoint.BATCH_ACCEPTED,
    Failpoint.COMMIT_BATCH_ACCEPTED,
})  # fmt: skip
LOOKING = frozenset({Failpoint.COMMIT_BATCH_TAKE, Failpoint.COMMIT_BATCH_ACCEPTED})
COLLECTING = frozenset({
    Failpoint.COMMIT_BATCH_TAKE, Failpoint.COMMIT_ATTEMPT_CLOSE, Failpoint.COMMIT_COMPLETE,
    Failpoint.COMMIT_BATCH_SETTLE, Failpoint.COMMIT_FINALIZE,
})  # fmt: skip


def commits(names: frozenset[Failpoint]) -> frozenset[Failpoint]:
    """Return those of some failpoints that stand before a commit."""
    return frozenset(name for name in names if name.startswith("commit:"))


def look_after(line: Line, collection: Collection, failpoints: CutAtEach) -> list[str]:
    """Look after the batches that are due, as the poller does in a process of its own. Returns what was found."""
    with closing(Ledger(line.url, failpoints)) as ledger:
        looked = look_after_batches(ledger, collection.name, settle_s=Timing().batch_settle_s)
    return [one.found for one in looked]


def assert_paid_once(workplace: Workplace) -> None:
    """Every document has one result and one attempt, and the ledger equals the bill."""
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
    assert len(workplace.books.attempts) == DOCUMENTS
    assert workplace.sandbox.bill()["calls"] == DOCUMENTS
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    workplace.books.assert_settled()


def test_a_database_that_goes_away_in_every_phase_of_a_run_costs_nothing(far_workplace: Workplace, line: Line) -> None:
    cutting = CutAtEach(line, REALTIME | {Failpoint.COMMIT_HEARTBEAT})
    report = far_workplace.run(far_workplace.collection(some_files(DOCUMENTS)), failpoints=cutting, heartbeat_s=0.2)
    assert (report.result, cutting.left) == (Result.CLOSED, set())
    assert line.refused >= len(REALTIME)
    assert_paid_once(far_workplace)


def test_a_commit_whose_reply_is_lost_counts_once_in_every_phase_of_a_run(far_workplace: Workplace, line: Line) -> None:
    losing = LoseEach(line, commits(REALTIME))
    report = far_workplace.run(far_workplace.collection(some_files(DOCUMENTS)), failpoints=losing)
    assert (report.result, losing.left) == (Result.CLOSED, set())
    assert line.lost == len(commits(REALTIME))
    assert_paid_once(far_workplace)


@pytest.mark.parametrize("fault", [CutAtEach, LoseEach])
def test_a_batch_is_sent_once_and_collected_whatever_happens_to_the_database(
    far_workplace: Workplace, line: Line, fault: type[CutAtEach]
) -> None:
    submitting, looking, collecting = (
        fault(line, commits(names) if fault is LoseEach else names) for names in (SUBMITTING, LOOKING, COLLECTING)
    )
    collection = far_workplace.collection(some_files(DOCUMENTS), mode="batch")
    assert far_workplace.run(collection, failpoints=submitting).result is Result.SUBMITTED
    far_workplace.later(60)
    assert look_after(line, collection, looking) != []
    assert far_workplace.run(collection, failpoints=collecting).result is Result.CLOSED
    assert [submitting.left, looking.left, collecting.left] == [set(), set(), set()]
    assert len(far_workplace.sandbox.batches()) == 1
    assert_paid_once(far_workplace)


def test_a_tick_of_the_sweeper_outlives_the_database(far_workplace: Workplace, line: Line) -> None:
    collection = far_workplace.collection(some_files(DOCUMENTS))
    far_workplace.run(collection, Order(extract=False))
    cutting = CutAtEach(line, frozenset({Failpoint.COMMIT_LAUNCH}))
    with closing(Ledger(line.url, cutting)) as ledger, dg.DagsterInstance.ephemeral() as instance:
        line.cut(refusals=2)
        report = Sweep(ledger, instance, sensor_target(collection)).run()
    assert (len(report.launches), report.held_back, cutting.left) == (1, [], set())
    assert line.refused == 4
