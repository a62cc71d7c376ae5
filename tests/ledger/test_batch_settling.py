"""Message batches as rows: how each is cancelled and settled."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from extraction_core.batches import BatchState
from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from resources.ledger.claims import Held
from tests.factories import (
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
    SETTLE_S,
    SOON_MS,
    a_batch,
    ask_to_cancel,
    contents,
    database_now_ms,
    end_covered,
    execute,
    one_row,
    rows,
    take,
)
from tests.ledger.test_batch_moves import VERBS

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from tests.conftest import MakeLedger


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
