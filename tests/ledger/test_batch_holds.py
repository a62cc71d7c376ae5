"""Message batches as rows: who holds one, and what a look writes down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_core.batches import UNSETTLED, BatchState
from resources.ledger.claims import Held
from tests.factories import (
    COLLECTION,
    LEASE_S,
    a_look,
)
from tests.ledger.support import (
    SETTLE_S,
    SOON_MS,
    a_batch,
    ask_to_cancel,
    database_now_ms,
    together,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from tests.conftest import MakeLedger


def test_a_look_keeps_what_was_seen_and_stops_holding_the_batch(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    assert ledger.batches.put_back(batch.submitter, 0, message="unclear")
    seen = a_look(counts={"processing": 1, "succeeded": 2, "errored": 3, "canceled": 4, "expired": 5})
    assert ledger.batches.saw(held := batch.take(), seen, wait_s=100, overdue_s=1000)
    row, now = batch.row, database_now_ms(ledger)
    assert (row["status"], row["owner"], row["lease_expires_ms"]) == ("queued", None, None)
    assert (row["provider_id"], row["created_at"], row["expires_at"]) == (
        seen.provider_id, seen.created_at, seen.expires_at,
    )  # fmt: skip
    assert {name: row[name] for name in seen.counts} == seen.counts
    assert (row["message"], row["generation"]) == (None, held.generation)
    assert 0 <= now + 100_000 - row["due_ms"] < SOON_MS
    assert 0 <= now + 1_000_000 - row["overdue_ms"] < SOON_MS


def test_acceptance_and_deadline_are_those_of_the_first_look(ledger: Ledger) -> None:
    batch = a_batch(ledger, state=BatchState.IN_PROGRESS)
    batch.set(accepted_ms=5, overdue_ms=7)
    assert ledger.batches.saw(batch.take(), a_look(counts={"succeeded": 2}), wait_s=0, overdue_s=1000)
    assert (batch.row["accepted_ms"], batch.row["overdue_ms"], batch.row["processing"]) == (5, 7, 0)


def test_the_deadline_is_fixed_anew_when_a_batch_begins_to_be_cancelled(ledger: Ledger) -> None:
    batch = a_batch(ledger, state=BatchState.IN_PROGRESS)
    batch.set(overdue_ms=7)
    seen = a_look(BatchState.CANCELING)
    assert ledger.batches.saw(batch.take(), seen, wait_s=0, overdue_s=1000, anew=True)
    assert batch.row["overdue_ms"] > database_now_ms(ledger)


def test_an_ended_batch_is_due_at_once(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    assert ledger.batches.saw(batch.submitter, a_look(BatchState.ENDED), wait_s=1000, overdue_s=1)
    assert batch.row["due_ms"] <= database_now_ms(ledger)


def test_a_batch_that_is_put_back_is_due_later_and_its_looks_are_counted(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    assert ledger.batches.put_back(batch.submitter, 100, message="unclear", looked=True)
    assert batch.row["due_ms"] > database_now_ms(ledger) + 100_000 - SOON_MS
    assert ledger.batches.put_back(batch.take(), 0)
    row = batch.row
    assert (row["status"], row["message"], row["looks"], row["state"]) == ("queued", "unclear", 1, "reserved")


def test_of_many_that_want_to_hold_a_batch_one_does(ledger: Ledger, make_ledger: MakeLedger) -> None:
    batch = a_batch(ledger, state=BatchState.ENDED)
    ledgers = [make_ledger() for _ in range(6)]
    taken = together(
        6, lambda number: ledgers[number].batches.take(batch.batch_id, f"w{number}", LEASE_S, BatchState.ENDED)
    )
    (held,) = [one for one in taken if one is not None]
    assert held.generation == 2
    assert (batch.row["owner"], batch.row["status"]) == (f"w{taken.index(held)}", "running")


def test_a_batch_is_held_only_in_the_states_that_were_asked_for_and_by_one(ledger: Ledger) -> None:
    batch = a_batch(ledger, 1, state=BatchState.CANCELING)
    before = batch.row
    assert ledger.batches.take(batch.batch_id, "w", LEASE_S, *(set(BatchState) - {BatchState.CANCELING})) is None
    assert batch.row == before
    assert ledger.batches.take(batch.batch_id, "w", LEASE_S, BatchState.CANCELING) == Held(batch.batch_id, 2)
    assert ledger.batches.take(batch.batch_id, "other", LEASE_S, *BatchState) is None
    assert (batch.row["owner"], batch.row["generation"]) == ("w", 2)


def test_a_dead_submitters_reservation_is_due_when_lease_and_settle_time_are_over(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    lease_end = database_now_ms(ledger) - int(SETTLE_S * 1000) + SOON_MS  # the settle time ends in a minute
    batch.set(lease_expires_ms=lease_end)
    assert ledger.batches.reclaim_abandoned(COLLECTION, SETTLE_S) == 1
    row = batch.row
    assert (row["status"], row["owner"], row["reclaims"]) == ("queued", None, 1)
    assert row["due_ms"] == lease_end + SETTLE_S * 1000
    assert ledger.batches.due(COLLECTION, 9) == []
    batch.set(due_ms=row["due_ms"] - SOON_MS)
    assert [one["batch_id"] for one in ledger.batches.due(COLLECTION, 9)] == [batch.batch_id]


def test_a_batch_in_another_state_is_due_as_soon_as_its_holder_is_dead(ledger: Ledger) -> None:
    batch = a_batch(ledger, 1, state=BatchState.IN_PROGRESS)
    batch.take()
    held = batch.row
    for state in sorted(UNSETTLED - {BatchState.RESERVED}):
        batch.set(**{**held, "state": state, "lease_expires_ms": database_now_ms(ledger) - 1, "due_ms": 0})
        assert ledger.batches.reclaim_abandoned(COLLECTION, SETTLE_S) == 1
        assert (batch.row["status"], batch.row["state"]) == ("queued", state)
        assert 0 <= database_now_ms(ledger) - batch.row["due_ms"] < SOON_MS


def test_the_batch_of_a_live_holder_and_those_of_other_collections_are_not_reclaimed(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    before = batch.row
    assert ledger.batches.reclaim_abandoned(COLLECTION, 0) == 0
    batch.set(lease_expires_ms=1)
    assert ledger.batches.reclaim_abandoned("another", 0) == 0
    assert batch.row == {**before, "lease_expires_ms": 1}


def test_a_beat_extends_the_hold_on_a_reservation(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    batch.set(lease_expires_ms=1)
    assert ledger.batches.heartbeat([batch.submitter], LEASE_S) == {batch.batch_id: False}
    assert ledger.batches.reclaim_abandoned(COLLECTION, 0) == 0


def test_a_worker_that_leaves_gives_back_a_batch_but_leaves_a_reservation_to_its_lease(ledger: Ledger) -> None:
    reserved = a_batch(ledger)
    before = reserved.row
    ask_to_cancel(reserved)
    assert ledger.batches.release([reserved.submitter]) == 0
    assert reserved.row == {**before, "cancel_requested": True}
    assert reserved.see(reserved.submitter, BatchState.ENDED)
    assert ledger.batches.release([reserved.take()]) == 1
    assert (reserved.row["status"], reserved.row["state"]) == ("queued", "ended")
