"""Message batches as rows: who holds one, which moves are possible, and how each is settled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from extraction_core.batches import BATCH_MOVES, UNSETTLED, BatchState
from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.states import RowStatus
from resources.ledger.queue import Held
from tests.factories import (
    COLLECTION,
    LEASE_S,
    Crash,
    CrashAt,
    a_failure,
    a_look,
    a_run,
    a_set,
    answer,
    claim,
    claim_one,
    open_attempt,
    reserve,
)
from tests.ledger.support import (
    StagedBatch,
    a_batch,
    contents,
    database_now_ms,
    execute,
    one_row,
    rows,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from tests.conftest import MakeLedger
    from tests.ledger.support import Row

SETTLE_S = 900.0
SOON_MS = 60_000
"""More than any test takes."""


def end_covered(batch: StagedBatch) -> None:
    """Let every covered row end failed, as a collector does."""
    for held in batch.holds():
        assert batch.ledger.results.record_failed(held, a_failure())


def ask_to_cancel(batch: StagedBatch) -> None:
    """Ask to cancel, whatever the answer."""
    batch.ledger.batches.ask_to_cancel(batch.batch_id)


# Moves


@dataclass(frozen=True)
class Verb:
    """A verb that moves a batch, and where to."""

    to: BatchState
    act: Callable[[StagedBatch, Held], bool]


def _sees(state: BatchState) -> Verb:
    return Verb(state, lambda batch, held: batch.see(held, state))


VERBS: dict[str, Verb] = {
    "saw in_progress": _sees(BatchState.IN_PROGRESS),
    "saw canceling": _sees(BatchState.CANCELING),
    "saw ended": _sees(BatchState.ENDED),
    "void": Verb(BatchState.VOID, lambda batch, held: batch.ledger.batches.void(held, Cause.OVERLOADED, "no")),
    "lose": Verb(BatchState.LOST, lambda batch, held: batch.ledger.batches.lose(held, "gone")),
    "collected": Verb(BatchState.COLLECTED, lambda batch, held: batch.ledger.batches.collected(held, None)),
}
SEEN_AGAIN = {BatchState.IN_PROGRESS, BatchState.CANCELING, BatchState.ENDED}


def a_batch_in(ledger: Ledger, state: BatchState) -> tuple[StagedBatch, Held]:
    """Bring a batch, whose rows have ended, into a state, by the verbs; returns the last hold on it."""
    batch = a_batch(ledger, 1)
    end_covered(batch)
    held = batch.submitter
    if state is BatchState.COLLECTED:
        assert VERBS["saw ended"].act(batch, held)
        held = batch.take()
    reach = next((verb for verb in VERBS.values() if verb.to is state), None)
    if reach:
        assert reach.act(batch, held)
    if state in UNSETTLED and state is not BatchState.RESERVED:
        held = batch.take()
    assert batch.row["state"] == state
    return batch, held


@pytest.mark.parametrize("state", BatchState)
def test_a_held_batch_moves_only_where_it_may_and_else_nothing_changes(ledger: Ledger, state: BatchState) -> None:
    batch, held = a_batch_in(ledger, state)
    original = batch.row
    for name, verb in VERBS.items():
        batch.set(**original)
        before = contents(ledger)
        moved = verb.act(batch, held)
        assert moved is (verb.to in BATCH_MOVES[state] or verb.to is state in SEEN_AGAIN), name
        if moved:
            assert batch.row["state"] == verb.to, name
        else:
            assert contents(ledger) == before, name


def test_the_moves_that_verbs_make_reach_every_state_of_the_table() -> None:
    reached = {verb.to for verb in VERBS.values()} | {BatchState.RESERVED}
    assert reached == set(BatchState)
    assert set().union(*BATCH_MOVES.values()) == reached - {BatchState.RESERVED}


@pytest.mark.parametrize(
    ("state", "loss"), [(BatchState.RESERVED, "taken"), (BatchState.RESERVED, "reclaimed"), (BatchState.ENDED, "taken")]
)
def test_whoever_lost_the_hold_is_superseded_and_changes_nothing(ledger: Ledger, state: BatchState, loss: str) -> None:
    batch, held = a_batch_in(ledger, state)
    if loss == "taken":
        batch.lose_hold(held)
    else:
        batch.set(lease_expires_ms=1)
        assert ledger.batches.reclaim_abandoned(COLLECTION, SETTLE_S) == 1
    before = contents(ledger)
    late: dict[str, Callable[[], Any]] = {
        **{name: lambda verb=verb: verb.act(batch, held) for name, verb in VERBS.items()},
        "put_back": lambda: ledger.batches.put_back(held, 0, message="late", looked=True),
        "release": lambda: ledger.batches.release([held]),
        "heartbeat": lambda: ledger.batches.heartbeat([held], LEASE_S),
    }
    for name, act in late.items():
        assert not act(), name
        assert contents(ledger) == before, name


def test_a_late_submitter_does_not_overwrite_the_batch_that_was_adopted(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    adopter = batch.lose_hold(batch.submitter)
    assert batch.see(adopter, BatchState.IN_PROGRESS, provider_id="msgbatch_adopted")
    before = contents(ledger)
    assert not batch.see(batch.submitter, BatchState.IN_PROGRESS, provider_id="msgbatch_late")
    assert not ledger.batches.void(batch.submitter, Cause.INVALID_REQUEST, "late")
    assert contents(ledger) == before
    assert batch.row["provider_id"] == "msgbatch_adopted"


# What a look writes down


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


# Who holds a batch


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


# Looking for batches


@pytest.fixture
def batches(ledger: Ledger) -> dict[str, int]:
    """Batches of one run, numbered from 1, in several states: their numbers by name."""
    names = ("free", "not due", "held", "ended", "ended later", "lost")
    run_id = a_run(ledger, documents=len(names))
    for name, claimed in zip(names, claim(ledger, run_id, len(names)), strict=True):
        held = reserve(ledger, run_id, [claimed]).batch
        assert held is not None
        state = BatchState.ENDED if name.startswith("ended") else BatchState.IN_PROGRESS
        assert ledger.batches.saw(held, a_look(state, provider_id=name), wait_s=0, overdue_s=1000)
    found = {name: number for number, name in enumerate(names, 1)}
    later = f"UPDATE message_batches SET due_ms = due_ms + 1000000 WHERE batch_id IN ({found['not due']}, {found['ended later']})"  # noqa: S608 - our numbers
    execute(ledger, later)
    take(ledger, found["held"])
    assert ledger.batches.lose(take(ledger, found["lost"]), "gone")
    return found


def take(ledger: Ledger, batch_id: int) -> Held:
    """Hold a batch."""
    held = ledger.batches.take(batch_id, "poller", LEASE_S, *BatchState)
    assert held is not None
    return held


def numbers(found: list[Any]) -> list[int]:
    """Return the numbers of batches."""
    return [row["batch_id"] for row in found]


def test_a_look_is_due_at_batches_that_are_free_and_whose_time_has_come(
    ledger: Ledger, batches: dict[str, int]
) -> None:
    execute(ledger, f"UPDATE message_batches SET due_ms = 0 WHERE batch_id = {batches['ended']}")  # noqa: S608 - our number
    assert numbers(ledger.batches.due(COLLECTION, 1)) == [batches["free"]]  # an ended one does not take its place
    assert numbers(ledger.batches.due(COLLECTION, 9)) == [batches["free"]]
    assert ledger.batches.due("another", 9) == []
    execute(ledger, f"UPDATE message_batches SET due_ms = 5 WHERE batch_id = {batches['not due']}")  # noqa: S608 - our number
    assert numbers(ledger.batches.due(COLLECTION, 9)) == [batches["not due"], batches["free"]]


def test_a_collecting_run_is_for_ended_batches_that_are_free_and_due(ledger: Ledger, batches: dict[str, int]) -> None:
    assert numbers(ledger.batches.to_collect(COLLECTION)) == [batches["ended"]]
    assert ledger.batches.to_collect("another") == []
    take(ledger, batches["ended"])
    assert ledger.batches.to_collect(COLLECTION) == []


def test_batches_of_a_set_and_of_a_run_are_found_by_whether_the_provider_is_at_work(
    ledger: Ledger, batches: dict[str, int]
) -> None:
    at_work = [batches[name] for name in ("free", "not due", "held")]
    assert numbers(ledger.batches.open_of_set(1)) == at_work
    assert ledger.batches.open_of_set(2) == []
    assert numbers(ledger.batches.of_run(1, *UNSETTLED)) == [*at_work, batches["ended"], batches["ended later"]]
    assert numbers(ledger.batches.of_run(1, BatchState.LOST)) == [batches["lost"]]
    assert ledger.batches.of_run(2, *BatchState) == []


def test_the_list_shows_open_batches_oldest_first_and_settled_ones_if_asked(
    ledger: Ledger, batches: dict[str, int]
) -> None:
    changes = f"overdue_ms = CASE batch_id WHEN {batches['ended']} THEN overdue_ms ELSE 1 END"
    execute(ledger, f"UPDATE message_batches SET created_ms = created_ms - 90000, {changes}")  # noqa: S608 - our number
    listed = ledger.batches.listed(COLLECTION, settled=False)
    assert numbers(listed) == sorted(set(batches.values()) - {batches["lost"]})
    assert [bool(row["overdue"]) for row in listed] == [True, True, True, False, True]
    assert all(90 <= row["age_s"] < 150 for row in listed)
    document_set = one_row(ledger, "document_sets")
    assert (listed[0]["partition_key"], listed[0]["folder"]) == (document_set["partition_key"], document_set["folder"])
    everything = ledger.batches.listed(None, settled=True)
    assert numbers(everything) == sorted(batches.values())
    assert not everything[-1]["overdue"]  # what is settled is late no more
    assert ledger.batches.listed("another", settled=True) == []


def test_a_batch_is_found_by_its_number_or_by_its_id_at_the_provider(ledger: Ledger, batches: dict[str, int]) -> None:
    names = {"1": 1, "ended": batches["ended"], str(batches["ended"]): batches["ended"]}
    names |= dict.fromkeys(("99", "", "none", "9" * 40, "-1", "1 OR 1"))
    found = {name: ledger.batches.find(name) for name in names}
    assert {name: row and row["batch_id"] for name, row in found.items()} == names


def test_the_age_of_an_acceptance_and_lateness_are_told_by_the_database(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    assert ledger.batches.accepted_s_ago(batch.batch_id) == 0
    assert not ledger.batches.is_overdue(batch.batch_id)
    assert batch.see(batch.submitter, BatchState.IN_PROGRESS)
    assert not ledger.batches.is_overdue(batch.batch_id)
    batch.set(accepted_ms=batch.row["accepted_ms"] - 90_000, overdue_ms=database_now_ms(ledger) - 1)
    assert 90 <= ledger.batches.accepted_s_ago(batch.batch_id) < 150
    assert ledger.batches.is_overdue(batch.batch_id)


# Cancelling


def test_asking_to_cancel_flags_batch_and_covered_rows_and_makes_a_look_due(ledger: Ledger) -> None:
    batch = a_batch(ledger, 3, state=BatchState.IN_PROGRESS)
    (ended, *covered) = batch.holds()
    ledger.results.record_failed(ended, a_failure())
    batch.set(due_ms=database_now_ms(ledger) + SOON_MS)
    assert ledger.batches.ask_to_cancel(batch.batch_id)
    assert batch.row["cancel_requested"]
    assert batch.row["due_ms"] <= database_now_ms(ledger)
    assert [bool(row["cancel_requested"]) for row in batch.covered] == [False] + [True] * len(covered)
    assert [row["status"] for row in batch.covered] == ["failed", "running", "running"]


def test_asking_to_cancel_one_batch_leaves_other_rows_and_batches_alone(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=3)
    first, second, by_hand = claim(ledger, run_id, 3)
    held = [reserve(ledger, run_id, [one]).batch for one in (first, second)]
    assert held[0] is not None
    assert ledger.batches.ask_to_cancel(held[0].row_id)
    assert [bool(row["cancel_requested"]) for row in rows(ledger, "message_batches")] == [True, False]
    assert [bool(row["cancel_requested"]) for row in rows(ledger, "extraction_results")] == [True, False, False]
    assert ledger.results.heartbeat([by_hand], LEASE_S) == {by_hand.row_id: False}


def test_a_reservation_that_is_asked_to_cancel_keeps_its_settle_time(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    assert ledger.batches.put_back(batch.submitter, SETTLE_S)
    due = batch.row["due_ms"]
    assert ledger.batches.ask_to_cancel(batch.batch_id)
    assert ledger.results.request_cancel(batch.run_id) == (0, 2)
    assert (batch.row["due_ms"], bool(batch.row["cancel_requested"])) == (due, True)


def test_where_the_provider_is_not_at_work_there_is_nothing_to_cancel(ledger: Ledger) -> None:
    batch = a_batch(ledger, state=BatchState.ENDED)
    for state, changes in {
        BatchState.ENDED: {},
        BatchState.COLLECTED: {"status": "completed", "finished_ms": 1},
        BatchState.LOST: {"status": "failed", "finished_ms": 1},
        BatchState.VOID: {"status": "cancelled", "finished_ms": 1},
    }.items():
        batch.set(state=state, **changes)
        before = contents(ledger)
        assert not ledger.batches.ask_to_cancel(batch.batch_id)
        assert contents(ledger) == before


def test_cancelling_a_run_ends_what_is_queued_and_flags_what_runs_and_its_open_batches(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=4)
    claims = claim(ledger, run_id, 3)
    held = [reserve(ledger, run_id, [one]).batch for one in claims[:2]]
    assert held[1] is not None
    assert ledger.batches.saw(held[1], a_look(BatchState.ENDED), wait_s=0, overdue_s=1)
    elsewhere = a_run(ledger, a_set(ledger, 1, folder="elsewhere"))
    reserve(ledger, elsewhere, claim(ledger, elsewhere, 1))
    assert ledger.results.request_cancel(run_id) == (1, 3)
    mine = rows(ledger, "extraction_results", f"run_id = {run_id}")
    assert [(row["status"], bool(row["cancel_requested"])) for row in mine] == [("running", True)] * 3 + [
        ("cancelled", True)
    ]
    flagged = [(row["state"], bool(row["cancel_requested"])) for row in rows(ledger, "message_batches")]
    assert flagged == [("reserved", True), ("ended", False), ("reserved", False)]
    assert not one_row(ledger, "extraction_results", f"run_id = {elsewhere}")["cancel_requested"]


def test_a_crash_while_a_run_is_cancelled_cancels_neither_rows_nor_batches(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(CrashAt(Failpoint.COMMIT_RELEASE))
    batch = a_batch(ledger)
    before = contents(ledger)
    with pytest.raises(Crash):
        ledger.results.request_cancel(batch.run_id)
    assert contents(ledger) == before


def test_the_flag_of_a_batch_stays_when_its_submitter_or_its_adopter_writes_down_what_it_is(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    ask_to_cancel(batch)
    assert batch.see(batch.submitter, BatchState.IN_PROGRESS)
    assert batch.row["cancel_requested"]


# Settling without results


def test_a_reservation_that_came_to_nothing_gives_its_rows_back_and_costs_and_counts_nothing(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    assert ledger.batches.void(batch.submitter, Cause.PERMISSION, "403")
    row = batch.row
    assert (row["status"], row["state"], row["reason"], row["message"]) == ("cancelled", "void", "permission", "403")
    assert row["finished_ms"] is not None
    closed = {(one["status"], one["cost_usd"], bool(one["counted"]), one["reason"]) for one in batch.attempts}
    assert closed == {("failed", Decimal(0), False, "permission")}
    assert {(one["status"], one["owner"], one["reason"]) for one in batch.covered} == {("queued", None, None)}
    assert len(claim(ledger, batch.run_id, 9)) == 2


def test_rows_of_a_void_reservation_that_were_asked_to_cancel_end(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    ask_to_cancel(batch)
    assert ledger.batches.void(batch.submitter, Cause.CONNECTION_LOST, "never made")
    assert [(row["status"], row["cost_usd"]) for row in batch.covered] == [("cancelled", Decimal(0))] * 2
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (closed["status"], closed["cost_usd"], closed["unknown_cost_count"]) == ("cancelled", 0, 0)


def test_a_lost_batch_leaves_its_costs_unknown_and_its_rows_to_a_person(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    first, second = claim(ledger, run_id, 2)
    paid = open_attempt(ledger, first)
    answer(ledger, paid, cost_usd=Decimal("0.25"))
    execute(ledger, "UPDATE attempts SET verdict = 'unparsable'")
    held = reserve(ledger, run_id, [first, second]).batch
    assert held is not None
    assert ledger.batches.lose(held, "gone")
    batch = one_row(ledger, "message_batches")
    assert (batch["status"], batch["state"], batch["reason"], batch["message"]) == (
        "failed", "lost", "batch_lost", "gone",
    )  # fmt: skip
    asked = rows(ledger, "attempts", "batch_id IS NOT NULL")
    assert [(one["status"], one["cost_usd"], bool(one["counted"])) for one in asked] == [("abandoned", None, True)] * 2
    ended = [(row["status"], row["reason"], row["cost_usd"]) for row in rows(ledger, "extraction_results")]
    assert ended == [("failed", "batch_lost", Decimal("0.25")), ("failed", "batch_lost", None)]
    assert {row["next_retry_ms"] for row in rows(ledger, "documents")} == {None}
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert (closed["status"], closed["cost_usd"], closed["unknown_cost_count"]) == ("failed", Decimal("0.25"), 2)


def test_rows_of_a_lost_batch_that_were_asked_to_cancel_end_cancelled(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    ask_to_cancel(batch)
    assert ledger.batches.lose(batch.submitter, "gone")
    assert {row["status"] for row in batch.covered} == {"cancelled"}


@pytest.mark.parametrize("verb", ["void", "lose"])
def test_settling_leaves_what_has_ended_and_what_is_not_covered_alone(ledger: Ledger, verb: str) -> None:
    batch = a_batch(ledger, 3)
    attempt = batch.attempts[0]
    ledger.attempts.failed(
        attempt["attempt_id"], attempt["token"], cause=Cause.INVALID_REQUEST, message="", counted=True, request_id=None
    )
    ledger.results.record_failed(batch.holds()[0], a_failure())
    other = reserve(ledger, run_id := a_run(ledger, a_set(ledger, 1, folder="elsewhere")), claim(ledger, run_id, 1))
    assert other.batch is not None
    ended, closed = batch.covered[0], batch.attempts[0]
    elsewhere = [rows(ledger, table, f"run_id = {run_id}") for table in ("extraction_results", "attempts")]
    assert VERBS[verb].act(batch, batch.submitter)
    assert (batch.covered[0], batch.attempts[0]) == (ended, closed)
    assert [rows(ledger, table, f"run_id = {run_id}") for table in ("extraction_results", "attempts")] == elsewhere


@pytest.mark.parametrize("verb", ["void", "lose"])
def test_a_crash_before_the_commit_settles_nothing(make_ledger: MakeLedger, verb: str) -> None:
    ledger = make_ledger(CrashAt(Failpoint.COMMIT_BATCH_SETTLE))
    batch = a_batch(ledger)
    before = contents(ledger)
    with pytest.raises(Crash):
        VERBS[verb].act(batch, batch.submitter)
    assert contents(ledger) == before


# Collected


def test_a_batch_is_not_collected_while_it_covers_a_row(ledger: Ledger) -> None:
    batch = a_batch(ledger, state=BatchState.ENDED)
    collector = batch.take()
    first, second = batch.holds()
    ledger.results.record_failed(first, a_failure())
    before = batch.row
    assert not ledger.batches.collected(collector, None)
    assert batch.row == before
    ledger.results.record_failed(second, a_failure())
    assert ledger.batches.collected(collector, "1 request is missing")
    row = batch.row
    assert (row["status"], row["state"], row["owner"], row["message"]) == (
        "completed", "collected", None, "1 request is missing",
    )  # fmt: skip


def test_rows_that_another_batch_covers_do_not_keep_one_from_being_collected(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=12)
    claims = claim(ledger, run_id, 12)
    held = [reserve(ledger, run_id, [one]).batch for one in claims]  # batch 1 must not look like 10, 11 and 12
    assert held[0] is not None
    assert ledger.batches.saw(held[0], a_look(BatchState.ENDED), wait_s=0, overdue_s=1)
    collector = take(ledger, 1)
    row = one_row(ledger, "extraction_results", "owner = 'message batch 1'")
    ledger.results.record_failed(Held(row["result_id"], row["generation"]), a_failure())
    assert ledger.batches.collected(collector, None)


def test_a_run_does_not_close_while_a_batch_of_it_is_not_settled(ledger: Ledger) -> None:
    batch = a_batch(ledger, 1)
    end_covered(batch)
    assert ledger.finalize(batch.run_id) is None
    for state in (BatchState.IN_PROGRESS, BatchState.CANCELING, BatchState.ENDED):
        held = batch.submitter if state is BatchState.IN_PROGRESS else batch.take()
        assert batch.see(held, state)
        assert ledger.finalize(batch.run_id) is None
    held = batch.take()
    assert ledger.finalize(batch.run_id) is None
    assert ledger.batches.collected(held, None)
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (closed["status"], closed["failed_count"]) == ("failed", 1)


def test_an_unsettled_batch_of_another_run_does_not_keep_a_run_open(ledger: Ledger) -> None:
    a_batch(ledger)
    run_id = a_run(ledger, a_set(ledger, 1, folder="elsewhere"))
    ledger.results.record_failed(claim_one(ledger, run_id), a_failure())
    assert ledger.finalize(run_id) is not None


# What the database refuses

NONSENSE: dict[str, Row] = {
    "an unknown state": {"state": "sleeping"},
    "in progress without an id": {"state": "in_progress", "provider_id": None},
    "ended without an id": {"state": "ended", "provider_id": None},
    "collected without an end": {"state": "collected"},
    "lost without an end": {"state": "lost"},
    "void without an end": {"state": "void"},
    "an end without being settled": {"finished_ms": 1},
    "ended as a row but not as a batch": {"status": "completed", "finished_ms": 1},
    "settled as a batch but not as a row": {"state": "lost", "finished_ms": 1},
    "held by nobody": {"status": "running", "lease_expires_ms": 1},
    "free with an owner": {"owner": "w"},
    "the id of another batch": {"provider_id": "msgbatch_other"},
    "the nonce of another batch": {"nonce": "0123456789abcdef"},
}


def test_the_database_refuses_a_batch_that_contradicts_itself(ledger: Ledger) -> None:
    other = a_run(ledger, a_set(ledger, 1, folder="elsewhere"))
    held = reserve(ledger, other, claim(ledger, other, 1), nonce="0123456789abcdef").batch
    assert held is not None
    assert ledger.batches.saw(held, a_look(provider_id="msgbatch_other"), wait_s=0, overdue_s=1)
    batch = a_batch(ledger, state=BatchState.IN_PROGRESS)
    before = batch.row
    accepted: list[str] = []
    for contradiction, values in NONSENSE.items():
        try:
            batch.set(**values)
        except IntegrityError:
            continue
        accepted.append(contradiction)
    assert (accepted, batch.row) == ([], before)


@pytest.mark.parametrize(("column", "states"), [("state", BatchState), ("status", RowStatus)])
def test_the_states_that_the_database_allows_are_those_of_the_code(
    ledger: Ledger, column: str, states: type[BatchState]
) -> None:
    with ledger.engine.raw.connect() as connection:
        checks = sa.inspect(connection).get_check_constraints("message_batches")
    (allowed,) = [str(check["sqltext"]) for check in checks if check["name"] == f"ck_message_batches_{column}"]
    assert set(re.findall(r"'(\w+)'", allowed)) == {state.value for state in states}
