"""Open message batches and the one door: they hold launches back, and one that has ended is collected by one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_core.batches import BatchSeen, BatchState, new_nonce
from extraction_core.states import Select
from resources.ledger.reservations import BatchOrder, PlannedRequest
from resources.ledger.runs import RunRequest
from resources.ledger.selection import Selection
from sensors.batch_poller import request_collecting
from sensors.door import HeldBack, Launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.ledger.documents import DocumentSet
    from tests.sensors.support import Watch

COUNTS = {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0}


def batch_of(watch: Watch, document_set: DocumentSet, state: BatchState | None) -> None:
    """Let one more document of a set be in a batch of this state; None: its id was never stored."""
    ledger, set_id, name = watch.ledger, document_set.set_id, watch.target.collection.name
    request = RunRequest(
        set_id=set_id,
        collection=name,
        select=Select.PENDING,
        documents=None,
        model="m",
        max_cost_usd=None,
        dagster_run_id=None,
    )
    run = ledger.runs.open_or_join(request)
    ledger.runs.fill(run.run_id, Selection(set_id=set_id, select=Select.PENDING, keys=None, max_attempts=3))
    ledger.runs.seal(run.run_id)
    (claim,) = ledger.results.claim("worker", run.run_id, 1, 300)
    planned = PlannedRequest(held=claim.held, model="m", max_output_tokens=1, reserved_usd=None, second_try=None)
    order = BatchOrder(run_id=run.run_id, worker="worker", nonce=new_nonce(), lease_s=300, max_attempts=3)
    batch = ledger.batches.reserve(order, [planned]).batch
    assert batch is not None
    if state:
        seen = BatchSeen(
            provider_id=f"msgbatch_{batch.row_id}", state=state, counts=COUNTS, created_at=None, expires_at=None
        )
        assert ledger.batches.saw(batch, seen, wait_s=60, overdue_s=3600)


def collecting(watch: Watch) -> list[Launch | HeldBack]:
    return request_collecting(watch.ledger, watch.instance, watch.target)


def folders(answers: Sequence[Launch | HeldBack]) -> list[str]:
    return [answer.due.document_set.folder for answer in answers if isinstance(answer, Launch)]


def test_an_open_batch_holds_the_sweeper_back_whatever_its_state(watch: Watch) -> None:
    states = [None, BatchState.IN_PROGRESS, BatchState.CANCELING]
    for one, state in zip(watch.sets("a", "b", "c"), states, strict=True):
        batch_of(watch, one, state)
    report = watch.sweep()
    assert report.launches == []
    assert ["in flight: message batch" in held.reason for held in report.held_back] == [True] * 3
    assert all(lease == (0, None) for lease in map(watch.lease, (held.due.document_set for held in report.held_back)))


def test_a_batch_that_has_ended_is_collected_by_one_run_however_often_it_is_looked_at(watch: Watch) -> None:
    (one,) = watch.sets("a")
    batch_of(watch, one, BatchState.ENDED)
    assert folders(collecting(watch)) == ["a"]
    assert folders(collecting(watch)) == []
    assert watch.sweep().launches == []


def test_a_run_in_flight_holds_the_collecting_back(watch: Watch) -> None:
    (one,) = watch.sets("a")
    batch_of(watch, one, BatchState.ENDED)
    watch.dagster_run(of=one)
    (answer,) = collecting(watch)
    assert isinstance(answer, HeldBack)
    assert watch.lease(one) == (0, None)


def test_one_batch_is_collected_while_another_of_the_set_is_still_open(watch: Watch) -> None:
    (one,) = watch.sets("a", documents=2)
    batch_of(watch, one, BatchState.IN_PROGRESS)
    batch_of(watch, one, BatchState.ENDED)
    assert watch.sweep().launches == []
    assert folders(collecting(watch)) == ["a"]


def test_no_run_is_asked_for_while_nothing_has_ended(watch: Watch) -> None:
    (one,) = watch.sets("a")
    batch_of(watch, one, BatchState.IN_PROGRESS)
    assert collecting(watch) == []
