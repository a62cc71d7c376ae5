"""Reserving a message batch: one transaction that covers what is still held, within caps and budget, and nothing else."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from extraction_core.batches import custom_id
from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.pricing import TokenUsage
from resources.ledger.claims import Held
from resources.ledger.reservations import BATCH_LEASE_MS, Reservation
from tests.factories import (
    COLLECTION,
    LEASE_S,
    Crash,
    CrashAt,
    a_failure,
    a_planned_request,
    a_run,
    a_set,
    an_order,
    an_output,
    answer,
    claim,
    claim_one,
    complete,
    fail,
    open_attempt,
    reserve,
)
from tests.ledger.support import (
    HoldAt,
    StagedBatch,
    a_batch,
    contents,
    database_now_ms,
    execute,
    in_background,
    one_row,
    only_postgres,
    rows,
    wait_until_blocked,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from tests.conftest import MakeLedger

CENT = Decimal("0.01")
NOTHING = TokenUsage(
    input_tokens=0, cache_write_5m_tokens=0, cache_write_1h_tokens=0, cache_read_tokens=0, output_tokens=0
)


def run_of(ledger: Ledger, held: Held) -> int:
    """Return the run of a claimed row."""
    row = ledger.results.get(held.row_id)
    assert row is not None
    return row["run_id"]


def let_go(ledger: Ledger, held: Held, *, claim_anew: bool) -> None:
    """Let the lease of a claim run out, and perhaps another worker claim its row."""
    run_id = run_of(ledger, held)
    execute(ledger, f"UPDATE extraction_results SET lease_expires_ms = 1 WHERE result_id = {held.row_id}")  # noqa: S608 - our number
    assert ledger.results.reclaim(run_id) == 1
    if claim_anew:
        assert claim_one(ledger, run_id, worker="successor").row_id == held.row_id


def use_up(ledger: Ledger, held: Held, attempts: int) -> None:
    """Let the question of a claimed row have so many attempts that brought nothing."""
    for _ in range(attempts):
        attempt = open_attempt(ledger, held, max_attempts=99)
        ledger.attempts.failed(
            attempt.attempt_id, attempt.token, cause=Cause.SERVER_ERROR, message="500", counted=True, request_id=None
        )


LOSSES: dict[str, Callable[[Ledger, Held], Any]] = {
    "reclaimed": lambda ledger, held: let_go(ledger, held, claim_anew=False),
    "claimed by a successor": lambda ledger, held: let_go(ledger, held, claim_anew=True),
    "completed": complete,
    "failed": fail,
    "in another batch": lambda ledger, held: reserve(ledger, run_of(ledger, held), [held]),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_row_that_its_worker_lost_is_left_out_and_not_touched(ledger: Ledger, loss: str) -> None:
    run_id = a_run(ledger, documents=2)
    lost, held = claim(ledger, run_id, 2)
    LOSSES[loss](ledger, lost)
    before = one_row(ledger, "extraction_results", f"result_id = {lost.row_id}")
    attempts = rows(ledger, "attempts")
    reservation = reserve(ledger, run_id, [lost, held])
    assert reservation.covered == [held]
    assert (reservation.kept, reservation.exhausted, reservation.over_budget) == ({}, {}, [])
    assert one_row(ledger, "extraction_results", f"result_id = {lost.row_id}") == before
    assert rows(ledger, "attempts")[: len(attempts)] == attempts
    assert len(rows(ledger, "attempts")) == len(attempts) + 1
    assert rows(ledger, "message_batches")[-1]["request_count"] == 1


def test_a_reservation_writes_batch_rows_and_attempts_that_name_each_other(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    run_id = a_run(ledger, documents=3)
    claims = claim(ledger, run_id, 3)
    order = an_order(run_id, worker="submitter")
    planned = [a_planned_request(claims[0], second_try="larger", max_output_tokens=9)]
    planned += [a_planned_request(held, reserved_usd=None) for held in claims[1:]]
    reservation = ledger.batches.reserve(order, planned)
    other = make_ledger()
    batch = one_row(other, "message_batches")
    assert (batch["status"], batch["state"], batch["owner"]) == ("running", "reserved", "submitter")
    assert (batch["run_id"], batch["collection"], batch["request_count"]) == (run_id, COLLECTION, 3)
    assert (batch["nonce"], batch["provider_id"]) == (order.nonce, None)
    assert batch["set_id"] == one_row(other, "document_sets")["set_id"]
    assert batch["lease_expires_ms"] == batch["created_ms"] + LEASE_S * 1000
    assert reservation == Reservation(
        batch=Held(batch["batch_id"], batch["generation"]), nonce=order.nonce, covered=claims, over_budget=[]
    )
    covered = rows(other, "extraction_results")
    assert {(row["status"], row["owner"], row["lease_expires_ms"]) for row in covered} == {
        ("running", f"message batch {batch['batch_id']}", BATCH_LEASE_MS)
    }
    asked = rows(other, "attempts")
    assert [row["token"] for row in asked] == [custom_id(order.nonce, held.row_id) for held in claims]
    same = ("result_id", "run_id", "document_id", "input_fingerprint", "edition")
    assert [[row[name] for name in same] for row in asked] == [[row[name] for name in same] for row in covered]
    assert {(row["batch_id"], row["status"], row["counted"]) for row in asked} == {(batch["batch_id"], "open", True)}
    told = [(row["reserved_usd"], row["second_try"], row["max_output_tokens"]) for row in asked]
    assert told == [(CENT, "larger", 9), (None, None, 4096), (None, None, 4096)]


def test_a_crash_before_the_commit_leaves_everything_as_it_was(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(CrashAt(Failpoint.COMMIT_BATCH_RESERVE))
    run_id = a_run(ledger, documents=2)
    claims = claim(ledger, run_id, 2)
    open_attempt(ledger, claims[0])
    before = contents(ledger)
    with pytest.raises(Crash):
        reserve(ledger, run_id, claims)
    assert contents(ledger) == before


def test_reserving_again_after_a_commit_whose_acknowledgement_was_lost_finds_the_same_batch(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=4, max_cost_usd=CENT * 2)
    used_up, *claims = claim(ledger, run_id, 4)
    use_up(ledger, used_up, 1)
    order = an_order(run_id, max_attempts=1)
    planned = [a_planned_request(held) for held in (used_up, *claims)]
    first = ledger.batches.reserve(order, planned)
    assert (first.covered, first.over_budget, first.exhausted) == (claims[:2], claims[2:], {used_up: 1})
    before = contents(ledger)
    again = ledger.batches.reserve(order, planned)
    assert (again.batch, again.covered, again.over_budget, again.exhausted) == (
        first.batch, first.covered, first.over_budget, first.exhausted,
    )  # fmt: skip
    assert contents(ledger) == before


OLD_WORKER: dict[str, Callable[[StagedBatch, Held], Any]] = {
    "claim": lambda batch, _: claim(batch.ledger, batch.run_id, 9, worker="other"),
    "heartbeat": lambda batch, held: batch.ledger.results.heartbeat([held], LEASE_S),
    "reclaim": lambda batch, _: batch.ledger.results.reclaim(batch.run_id),
    "release": lambda batch, held: batch.ledger.results.release([held]),
    "record_failed": lambda batch, held: batch.ledger.results.record_failed(held, a_failure(next_retry_s=1.0)),
    "record_cancelled": lambda batch, held: batch.ledger.results.record_cancelled(held, "no"),
    "record_retry": lambda batch, held: batch.ledger.results.record_retry(
        held, a_failure(), wait_s=0, refused_to_serve=True
    ),
    "record_completed": lambda batch, held: batch.ledger.results.record_completed(
        held, an_output(), batch.attempts[0]["attempt_id"], lambda: None
    ),
    "reserve": lambda batch, held: reserve(batch.ledger, batch.run_id, [held]).covered,
}


def test_nothing_that_a_worker_does_reaches_a_row_that_a_batch_covers(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    before = contents(ledger)
    for verb, act in OLD_WORKER.items():
        assert not act(batch, batch.claims[0]), verb
        assert contents(ledger) == before, verb


def test_a_covered_row_has_no_lease_that_runs_out(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    years_ms = 100 * 365 * 86_400_000
    assert all(row["lease_expires_ms"] > database_now_ms(ledger) + years_ms for row in batch.covered)
    batch.set(lease_expires_ms=1)
    assert ledger.results.reclaim(batch.run_id) == 0


def test_a_batch_holds_its_rows_and_is_always_alive(ledger: Ledger) -> None:
    batch = a_batch(ledger, 3)
    (holder,) = ledger.workers.holders(batch.run_id)
    assert (holder["holder"], holder["rows"], holder["beat_age_ms"]) == (f"message batch {batch.batch_id}", 3, 0)


def test_a_question_whose_attempts_are_used_up_is_left_out_and_named(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=3)
    used_up, almost, held = claim(ledger, run_id, 3)
    use_up(ledger, used_up, 2)
    use_up(ledger, almost, 1)
    before = one_row(ledger, "extraction_results", f"result_id = {used_up.row_id}")
    reservation = reserve(ledger, run_id, [used_up, almost, held], max_attempts=2)
    assert (reservation.covered, reservation.exhausted) == ([almost, held], {used_up: 2})
    assert one_row(ledger, "extraction_results", f"result_id = {used_up.row_id}") == before


def test_a_request_of_a_batch_counts_towards_the_cap_of_its_question(ledger: Ledger) -> None:
    document_set = a_set(ledger, 1)
    for _ in range(2):
        held = claim_one(ledger, run_id := a_run(ledger, document_set))
        batch = reserve(ledger, run_id, [held]).batch
        assert batch is not None
        assert ledger.batches.lose(batch, "gone")
        assert ledger.finalize(run_id) is not None
    held = claim_one(ledger, run_id := a_run(ledger, document_set))
    assert reserve(ledger, run_id, [held], max_attempts=2).exhausted == {held: 2}
    assert ledger.attempts.history(held.row_id)["counted"] == 2


def test_tries_that_do_not_count_leave_room_under_the_cap(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=1)
    for _ in range(3):
        held = claim_one(ledger, run_id)
        reservation = reserve(ledger, run_id, [held], max_attempts=1)
        assert reservation.covered == [held]
        assert reservation.batch is not None
        assert ledger.batches.void(reservation.batch, Cause.RATE_LIMITED, "429")


def test_a_kept_answer_that_was_not_judged_is_handed_back_instead_of_a_request(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=3)
    kept, judged, held = claim(ledger, run_id, 3)
    attempt, unusable = open_attempt(ledger, kept), open_attempt(ledger, judged)
    answer(ledger, attempt, response="kept")
    answer(ledger, unusable)
    execute(ledger, f"UPDATE attempts SET verdict = 'unparsable' WHERE attempt_id = {unusable.attempt_id}")  # noqa: S608 - our number
    before = one_row(ledger, "extraction_results", f"result_id = {kept.row_id}")
    reservation = reserve(ledger, run_id, [kept, judged, held], max_attempts=9)
    assert (reservation.covered, reservation.kept) == ([judged, held], {kept: (attempt.attempt_id, "kept")})
    assert one_row(ledger, "extraction_results", f"result_id = {kept.row_id}") == before


def test_a_kept_answer_is_handed_back_although_all_attempts_are_used(ledger: Ledger) -> None:
    held = claim_one(ledger, run_id := a_run(ledger, documents=1))
    answer(ledger, open_attempt(ledger, held), response="kept")
    reservation = reserve(ledger, run_id, [held], max_attempts=1)
    assert (reservation.kept, reservation.exhausted, reservation.batch) == ({held: (1, "kept")}, {}, None)


def test_the_budget_of_a_run_lets_in_what_fits_from_the_front(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=5, max_cost_usd=Decimal("0.035"))
    spent, *claims = claim(ledger, run_id, 5)
    complete(ledger, spent, cost_usd=CENT)
    large = a_planned_request(claims[2], reserved_usd=CENT * 2)
    planned = [a_planned_request(claims[0]), a_planned_request(claims[1]), large, a_planned_request(claims[3])]
    reservation = ledger.batches.reserve(an_order(run_id), planned)
    assert (reservation.covered, reservation.over_budget) == (claims[:2], claims[2:])
    assert reservation.spent_usd == CENT
    left = reserve(ledger, run_id, reservation.over_budget)
    assert (left.batch, left.covered, left.over_budget, left.spent_usd) == (None, (), claims[2:], CENT * 3)


def test_what_fits_exactly_is_let_in(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2, max_cost_usd=CENT * 2)
    claims = claim(ledger, run_id, 2)
    assert reserve(ledger, run_id, claims).covered == claims


@only_postgres
def test_of_two_reservations_at_once_the_second_sees_what_the_first_took_of_the_budget(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    hold = HoldAt(Failpoint.COMMIT_BATCH_RESERVE)
    slow = make_ledger(hold)
    run_id = a_run(ledger, documents=2, max_cost_usd=CENT)
    first, second = claim(ledger, run_id, 2)
    with in_background(lambda: reserve(slow, run_id, [first])) as reserving:
        hold.wait()
        with in_background(lambda: reserve(ledger, run_id, [second])) as waiting:
            wait_until_blocked(database_url, unless=waiting)
            hold.go_on()
            assert reserving.result().covered == [first]
            assert (waiting.result().covered, waiting.result().over_budget) == ((), [second])


@only_postgres
def test_a_call_that_is_opened_at_once_with_a_reservation_sees_what_it_took_of_the_budget(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    hold = HoldAt(Failpoint.COMMIT_BATCH_RESERVE)
    slow = make_ledger(hold)
    run_id = a_run(ledger, documents=2, max_cost_usd=CENT)
    first, second = claim(ledger, run_id, 2)
    with in_background(lambda: reserve(slow, run_id, [first])) as reserving:
        hold.wait()
        with in_background(lambda: open_attempt(ledger, second)) as waiting:
            wait_until_blocked(database_url, unless=waiting)
            hold.go_on()
            assert reserving.result().covered == [first]
            with pytest.raises(AssertionError, match="cost_limit"):
                waiting.result()


def test_an_attempt_that_an_earlier_holder_left_open_is_abandoned(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    held, other = claim(ledger, run_id, 2)
    open_attempt(ledger, held)
    untouched = open_attempt(ledger, other)
    let_go(ledger, held, claim_anew=False)
    reserve(ledger, run_id, [claim_one(ledger, run_id)])
    found = [(row["status"], row["reason"], row["batch_id"] is None) for row in rows(ledger, "attempts")]
    assert found == [("abandoned", "connection_lost", True), ("open", None, True), ("open", None, False)]
    assert untouched.attempt_id == 2


def test_where_nothing_can_be_covered_there_is_no_batch(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    lost, used_up = claim(ledger, run_id, 2)
    use_up(ledger, used_up, 1)
    let_go(ledger, lost, claim_anew=False)
    reservation = reserve(ledger, run_id, [lost, used_up], max_attempts=1)
    assert (reservation.batch, reservation.covered) == (None, ())
    assert reserve(ledger, run_id, []).batch is None
    assert rows(ledger, "message_batches") == []
    assert len(rows(ledger, "attempts")) == 1


def test_a_row_that_was_asked_to_cancel_after_its_claim_ends_and_is_not_sent(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    asked, held = claim(ledger, run_id, 2)
    earlier = open_attempt(ledger, asked)
    answer(ledger, earlier, cost_usd=CENT, usage=NOTHING)
    execute(ledger, f"UPDATE extraction_results SET cancel_requested = true WHERE result_id = {asked.row_id}")  # noqa: S608 - our number
    assert reserve(ledger, run_id, [asked, held]).covered == [held]
    ended = one_row(ledger, "extraction_results", f"result_id = {asked.row_id}")
    assert (ended["status"], ended["owner"], ended["cost_usd"]) == ("cancelled", None, CENT)
    assert one_row(ledger, "message_batches")["request_count"] == 1


@only_postgres
def test_a_run_that_is_cancelled_while_a_batch_is_being_reserved_cancels_the_batch(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    hold = HoldAt(Failpoint.COMMIT_BATCH_RESERVE)
    slow = make_ledger(hold)
    run_id = a_run(ledger, documents=2)
    claims = claim(ledger, run_id, 2)
    with in_background(lambda: reserve(slow, run_id, claims)) as reserving:
        hold.wait()
        with in_background(lambda: ledger.results.request_cancel(run_id)) as cancelling:
            wait_until_blocked(database_url, unless=cancelling)
            hold.go_on()
            assert reserving.result().covered == claims
            assert cancelling.result() == (0, 2)
    assert one_row(ledger, "message_batches")["cancel_requested"]
    assert all(row["cancel_requested"] for row in rows(ledger, "extraction_results"))


@only_postgres
def test_a_batch_that_is_reserved_while_its_run_is_being_cancelled_covers_nothing(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    hold = HoldAt(Failpoint.COMMIT_RELEASE)
    slow = make_ledger(hold)
    run_id = a_run(ledger, documents=2)
    claims = claim(ledger, run_id, 2)
    with in_background(lambda: slow.results.request_cancel(run_id)) as cancelling:
        hold.wait()
        with in_background(lambda: reserve(ledger, run_id, claims)) as reserving:
            wait_until_blocked(database_url, unless=reserving)
            hold.go_on()
            assert cancelling.result() == (0, 2)
            assert reserving.result().batch is None
    assert [row["status"] for row in rows(ledger, "extraction_results")] == ["cancelled"] * 2
