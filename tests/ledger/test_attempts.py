"""Attempts: committed before the call, capped where they are opened, exact in money, never lost."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.pricing import PRICES_VERSION, TokenUsage
from extraction_core.states import Select
from resources.ledger.attempts import KeptAnswer, NotOpened, Opened
from tests.factories import (
    COLLECTION,
    Crash,
    CrashAt,
    a_failure,
    a_plan,
    a_run,
    a_set,
    an_answer,
    an_output,
    answer,
    claim,
    claim_one,
    complete,
    fail,
    open_attempt,
)
from tests.ledger.support import (
    HoldAt,
    execute,
    in_background,
    one_row,
    only_postgres,
    rows,
    together,
    wait_until_blocked,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.queue import Held
    from tests.conftest import MakeLedger

TINY = Decimal("0.0000001")


@pytest.fixture
def held(ledger: Ledger) -> Held:
    """The claim of the only result of a run."""
    return claim_one(ledger, a_run(ledger, documents=1))


def claim_anew(ledger: Ledger, held: Held) -> Held:
    """Let the lease of a claim run out; return its successor's claim."""
    execute(ledger, f"UPDATE extraction_results SET lease_expires_ms = 1 WHERE result_id = {held.row_id}")  # noqa: S608 - our number
    run_id = ledger.results.get(held.row_id)["run_id"]
    ledger.results.reclaim(run_id)
    return claim_one(ledger, run_id, worker="successor")


def test_an_open_attempt_is_seen_by_every_other_connection(ledger: Ledger, make_ledger: MakeLedger, held: Held) -> None:
    plan = a_plan(second_try="larger")
    opened = ledger.attempts.open(held, plan, 3)
    assert opened == Opened(attempt_id=1, counted=1)
    row = one_row(make_ledger(), "attempts")
    assert (row["status"], row["closed_ms"], row["cost_usd"], row["counted"]) == ("open", None, None, True)
    asked = (row["token"], row["model"], row["max_output_tokens"], row["reserved_usd"], row["second_try"])
    assert asked == (plan.token, plan.model, plan.max_output_tokens, plan.reserved_usd, plan.second_try)


def test_a_crash_before_the_commit_of_an_opening_leaves_no_attempt(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(CrashAt(Failpoint.COMMIT_ATTEMPT_OPEN))
    held = claim_one(ledger, a_run(ledger, documents=1))
    with pytest.raises(Crash):
        ledger.attempts.open(held, a_plan(), 3)
    assert rows(ledger, "attempts") == []


def test_opening_again_with_one_token_opens_once(ledger: Ledger, held: Held) -> None:
    plan = a_plan()
    assert ledger.attempts.open(held, plan, 1) == ledger.attempts.open(held, plan, 1) == Opened(attempt_id=1, counted=1)
    assert len(rows(ledger, "attempts")) == 1


def test_a_worker_that_lost_its_claim_opens_nothing(ledger: Ledger, held: Held) -> None:
    successor = claim_anew(ledger, held)
    earlier = open_attempt(ledger, successor)
    before = rows(ledger, "attempts")
    assert ledger.attempts.open(held, a_plan(), 3) == NotOpened(cause=None)
    assert rows(ledger, "attempts") == before
    assert before[0]["attempt_id"] == earlier.attempt_id


def test_an_ended_result_takes_no_attempt(ledger: Ledger, held: Held) -> None:
    fail(ledger, held)
    assert ledger.attempts.open(held, a_plan(), 3) == NotOpened(cause=None)
    assert rows(ledger, "attempts") == []


def test_no_attempt_is_opened_beyond_the_cap_whatever_run_asks(ledger: Ledger) -> None:
    document_set = a_set(ledger, 1)
    for expected in (1, 2, 3):
        held = claim_one(ledger, a_run(ledger, document_set))
        opened = ledger.attempts.open(held, plan := a_plan(), 3)
        assert opened == Opened(attempt_id=expected, counted=expected)
        ledger.attempts.abandoned(expected, plan.token, cause=Cause.TIMEOUT, message="no answer")
        fail(ledger, held)
        ledger.finalize(ledger.results.get(held.row_id)["run_id"])
    held = claim_one(ledger, a_run(ledger, document_set, max_attempts=99))
    refused = ledger.attempts.open(held, a_plan(), 3)
    assert isinstance(refused, NotOpened)
    assert (refused.cause, refused.message) == (Cause.EXHAUSTED, "3 of 3 attempts are used for this question")
    assert len(rows(ledger, "attempts")) == 3


def test_a_crash_loop_cannot_call_more_often_than_the_cap(ledger: Ledger, held: Held) -> None:
    for _ in range(3):
        open_attempt(ledger, held)
        held = claim_anew(ledger, held)
    refused = ledger.attempts.open(held, a_plan(), 3)
    assert isinstance(refused, NotOpened)
    assert refused.cause == Cause.EXHAUSTED
    assert [row["status"] for row in rows(ledger, "attempts")] == ["abandoned"] * 3


def test_attempts_that_the_provider_did_not_serve_do_not_count(ledger: Ledger, held: Held) -> None:
    for _ in range(4):
        attempt = open_attempt(ledger, held, max_attempts=1)
        assert ledger.attempts.failed(
            attempt.attempt_id, attempt.token, cause=Cause.RATE_LIMITED, message="429", counted=False, request_id="r"
        )
    assert ledger.attempts.history(held.row_id)["counted"] == 0
    assert ledger.attempts.open(held, a_plan(), 1) == Opened(attempt_id=5, counted=1)


def test_a_refused_call_costs_nothing_and_says_why(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held)
    ledger.attempts.failed(
        attempt.attempt_id, attempt.token, cause=Cause.INVALID_REQUEST, message="bad\0", counted=True, request_id="r"
    )
    row = one_row(ledger, "attempts")
    told = (row["status"], row["cost_usd"], row["reason"], row["message"], row["request_id"], row["counted"])
    assert told == ("failed", 0, "invalid_request", "bad\ufffd", "r", True)


def test_an_answer_is_kept_with_tokens_cost_and_price_list(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held)
    usage = TokenUsage(
        input_tokens=1, cache_write_5m_tokens=2, cache_write_1h_tokens=3, cache_read_tokens=4, output_tokens=5
    )
    response = '{"text": "R770 \\u0000 \\ud800"}'
    answer(ledger, attempt, response=response, usage=usage, cost_usd=Decimal("0.000000000001"), stop_reason="refusal")
    row = one_row(ledger, "attempts")
    tokens = {name: row[name] for name in vars(usage)}
    assert (row["status"], row["response"], tokens) == ("answered", response, vars(usage))
    assert (row["cost_usd"], row["prices"], row["stop_reason"]) == (
        Decimal("0.000000000001"),
        PRICES_VERSION,
        "refusal",
    )
    assert row["closed_ms"] >= row["opened_ms"]


def test_an_unknown_price_and_an_unknown_usage_stay_unknown(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held)
    assert ledger.attempts.answered(attempt.token, an_answer(usage=None, cost_usd=None))
    row = one_row(ledger, "attempts")
    assert (row["cost_usd"], row["input_tokens"], row["output_tokens"]) == (None, None, None)


def test_text_that_a_database_cannot_hold_is_replaced_and_not_lost(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held)
    answer(ledger, attempt, response="before\0after \ud800!")
    assert one_row(ledger, "attempts")["response"] == "before\ufffdafter ?!"


def test_a_kept_answer_that_was_not_judged_is_returned_instead_of_a_new_attempt(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held, second_try="ask_again")
    answer(ledger, attempt, response="kept")
    successor = claim_anew(ledger, held)
    kept = KeptAnswer(attempt_id=attempt.attempt_id, response="kept", second_try="ask_again")
    assert ledger.attempts.open(successor, a_plan(), 1) == kept
    assert len(rows(ledger, "attempts")) == 1


def test_a_kept_answer_is_found_by_a_later_run_of_the_same_question(ledger: Ledger) -> None:
    document_set = a_set(ledger, 1)
    held = claim_one(ledger, run_id := a_run(ledger, document_set))
    attempt = open_attempt(ledger, held)
    ledger.attempts.abandoned(attempt.attempt_id, attempt.token, cause=Cause.TIMEOUT, message="no answer in time")
    fail(ledger, held)
    ledger.finalize(run_id)
    answer(ledger, attempt, response="late")
    again = claim_one(ledger, a_run(ledger, document_set))
    kept = ledger.attempts.open(again, a_plan(), 1)
    assert kept == KeptAnswer(attempt_id=attempt.attempt_id, response="late", second_try=None)


def test_an_answer_that_was_judged_is_not_returned_again(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held)
    answer(ledger, attempt)
    unusable = a_failure(reason="unparsable", attempt_id=attempt.attempt_id)
    ledger.results.record_retry(held, unusable, wait_s=0, refused_to_serve=False)
    assert one_row(ledger, "attempts")["verdict"] == "unparsable"
    successor = claim_one(ledger, ledger.results.get(held.row_id)["run_id"])
    assert ledger.attempts.open(successor, a_plan(), 3) == Opened(attempt_id=2, counted=2)


def test_an_answer_to_another_question_is_not_returned(ledger: Ledger) -> None:
    document_set = a_set(ledger, 1, question="old")
    held = claim_one(ledger, run_id := a_run(ledger, document_set))
    answer(ledger, open_attempt(ledger, held))
    fail(ledger, held)
    ledger.finalize(run_id)
    a_set(ledger, 1, question="new")
    again = claim_one(ledger, a_run(ledger, document_set))
    assert isinstance(ledger.attempts.open(again, a_plan(), 1), Opened)


def test_asking_anew_has_a_cap_of_its_own_and_uses_no_kept_answer(ledger: Ledger) -> None:
    document_set = a_set(ledger, 1)
    held = claim_one(ledger, run_id := a_run(ledger, document_set))
    answer(ledger, open_attempt(ledger, held, max_attempts=1))
    fail(ledger, held)
    ledger.finalize(run_id)
    again = claim_one(ledger, a_run(ledger, document_set, select=Select.ALL))
    assert ledger.attempts.open(again, a_plan(), 1) == Opened(attempt_id=2, counted=1)


def test_attempts_that_an_earlier_holder_left_open_become_abandoned(ledger: Ledger, held: Held) -> None:
    left = open_attempt(ledger, held)
    open_attempt(ledger, claim_anew(ledger, held))
    first, second = rows(ledger, "attempts")
    assert (first["attempt_id"], first["status"], first["reason"]) == (left.attempt_id, "abandoned", "connection_lost")
    assert (first["cost_usd"], first["counted"], second["status"]) == (None, True, "open")


def test_opening_abandons_nothing_of_other_results(ledger: Ledger) -> None:
    first, second = claim(ledger, a_run(ledger, documents=2), 2)
    open_attempt(ledger, first)
    open_attempt(ledger, second)
    assert [row["status"] for row in rows(ledger, "attempts")] == ["open", "open"]


def test_a_late_answer_changes_the_cost_of_a_closed_run_and_nothing_else(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    first, second = claim(ledger, run_id, 2)
    complete(ledger, first, cost_usd=Decimal("0.5"))
    late = open_attempt(ledger, second)
    fail(ledger, second)
    ledger.finalize(run_id)
    before, rows_before = ledger.runs.get(run_id), rows(ledger, "extraction_results")
    assert before is not None
    assert (before["cost_usd"], before["unknown_cost_count"]) == (Decimal("0.5"), 1)
    answer(ledger, late, cost_usd=Decimal("0.25"))
    assert ledger.runs.get(run_id) == {**before, "cost_usd": Decimal("0.75"), "unknown_cost_count": 0}
    assert rows(ledger, "extraction_results") == rows_before


@only_postgres
def test_a_late_answer_that_commits_while_its_run_closes_is_in_the_run_s_cost(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    hold = HoldAt(Failpoint.COMMIT_ATTEMPT_CLOSE)
    slow = make_ledger(hold)
    run_id = a_run(ledger, documents=1)
    held = claim_one(ledger, run_id)
    late = open_attempt(ledger, held)
    fail(ledger, held)
    with in_background(lambda: answer(slow, late, cost_usd=Decimal("0.25"))) as answering:
        hold.wait()
        with in_background(lambda: ledger.finalize(run_id)) as closing:
            wait_until_blocked(database_url)
            hold.go_on()
            answering.result()
            assert closing.result() is not None
    run = ledger.runs.get(run_id)
    assert run is not None
    assert (run["status"], run["cost_usd"], run["unknown_cost_count"]) == ("failed", Decimal("0.25"), 0)


def test_late_answers_at_one_moment_are_all_in_the_closed_run_s_cost(ledger: Ledger, make_ledger: MakeLedger) -> None:
    run_id = a_run(ledger, documents=8)
    late = [open_attempt(ledger, held) for held in claim(ledger, run_id, 8)]
    execute(
        ledger,
        "UPDATE extraction_results SET status = 'failed', owner = NULL, lease_expires_ms = NULL, finished_ms = 1",
    )
    ledger.finalize(run_id)
    ledgers = [make_ledger() for _ in late]
    together(8, lambda number: answer(ledgers[number], late[number], cost_usd=TINY))
    run = ledger.runs.get(run_id)
    assert run is not None
    assert (run["cost_usd"], run["unknown_cost_count"]) == (8 * TINY, 0)


def test_a_budget_weighs_known_costs_and_what_open_and_lost_calls_may_cost(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=4, max_cost_usd=Decimal("1.00"))
    answered, lost, running, refused = claim(ledger, run_id, 4)
    answer(ledger, open_attempt(ledger, answered, reserved_usd=Decimal("0.90")), cost_usd=Decimal("0.10"))
    abandoned = open_attempt(ledger, lost, reserved_usd=Decimal("0.20"))
    ledger.attempts.abandoned(abandoned.attempt_id, abandoned.token, cause=Cause.TIMEOUT, message="no answer")
    open_attempt(ledger, running, reserved_usd=Decimal("0.30"))
    too_much = ledger.attempts.open(refused, a_plan(reserved_usd=Decimal("0.400000000001")), 3)
    assert isinstance(too_much, NotOpened)
    assert (too_much.cause, too_much.wait) == (Cause.COST_LIMIT, True)
    open_attempt(ledger, refused, reserved_usd=Decimal("0.40"))


def test_a_spent_budget_is_not_waited_for(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2, max_cost_usd=Decimal("1.00"))
    first, second = claim(ledger, run_id, 2)
    complete(ledger, first, cost_usd=Decimal("0.95"))
    refused = ledger.attempts.open(second, a_plan(reserved_usd=Decimal("0.10")), 3)
    assert isinstance(refused, NotOpened)
    assert (refused.cause, refused.wait) == (Cause.COST_LIMIT, False)
    assert len(rows(ledger, "attempts")) == 1


def test_money_of_other_runs_does_not_weigh_on_a_budget(ledger: Ledger) -> None:
    elsewhere = a_run(ledger, a_set(ledger, 1, collection="other", folder="elsewhere"))
    open_attempt(ledger, claim_one(ledger, elsewhere), reserved_usd=Decimal(100))
    held = claim_one(ledger, a_run(ledger, documents=1, max_cost_usd=Decimal("0.50")))
    assert isinstance(ledger.attempts.open(held, a_plan(reserved_usd=Decimal("0.50")), 3), Opened)


def test_of_many_openings_that_race_for_the_last_room_of_a_budget_one_wins(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    run_id = a_run(ledger, documents=6, max_cost_usd=Decimal("0.015"))
    held, ledgers = claim(ledger, run_id, 6), [make_ledger() for _ in range(6)]
    plans = [a_plan(reserved_usd=Decimal("0.01")) for _ in range(6)]
    opened = together(6, lambda number: ledgers[number].attempts.open(held[number], plans[number], 3))
    assert sorted(type(outcome).__name__ for outcome in opened) == ["NotOpened"] * 5 + ["Opened"]
    assert one_row(ledger, "attempts")["reserved_usd"] == Decimal("0.01")


@only_postgres
def test_an_opening_sees_what_another_one_reserved_while_it_waited(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    hold = HoldAt(Failpoint.COMMIT_ATTEMPT_OPEN)
    slow = make_ledger(hold)
    first, second = claim(ledger, a_run(ledger, documents=2, max_cost_usd=Decimal("0.015")), 2)
    with in_background(lambda: open_attempt(slow, first)) as opening:
        hold.wait()
        with in_background(lambda: ledger.attempts.open(second, a_plan(), 3)) as waiting:
            wait_until_blocked(database_url)
            hold.go_on()
            opening.result()
            refused = waiting.result()
    assert isinstance(refused, NotOpened)
    assert refused.cause == Cause.COST_LIMIT


def test_money_is_exact_over_thousands_of_tiny_amounts(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=1)
    held = claim_one(ledger, run_id)
    attempt = open_attempt(ledger, held)
    answer(ledger, attempt, cost_usd=TINY)
    row = one_row(ledger, "attempts")
    copies = [{**row, "attempt_id": number, "token": f"token {number}"} for number in range(2, 3001)]
    table = sa.Table("attempts", sa.MetaData(), autoload_with=ledger.engine.raw)
    stored = ledger.engine.read(lambda connection: connection.execute(sa.select(table.c.cost_usd)).scalar_one())
    for start in range(0, len(copies), 500):
        part = [{**copy, "cost_usd": stored, "reserved_usd": None} for copy in copies[start : start + 500]]
        ledger.engine.write(lambda connection, part=part: connection.execute(sa.insert(table), part))
    assert ledger.results.record_completed(held, an_output(), attempt.attempt_id, lambda: None)
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert closed["cost_usd"] == Decimal("0.0003")
    assert one_row(ledger, "extraction_results")["cost_usd"] == Decimal("0.0003")
    assert ledger.reports.total_usage()["cost_usd"] == Decimal("0.0003")
    assert [row["cost_usd"] for row in ledger.reports.sets(COLLECTION)] == [Decimal("0.0003")]


def test_an_answer_whose_text_fields_are_lists_is_kept_as_the_text_of_them(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held)
    odd: Any = ["end_turn"]
    assert ledger.attempts.answered(attempt.token, an_answer(stop_reason=odd, served_model=odd))
    row = one_row(ledger, "attempts")
    assert (row["stop_reason"], row["served_model"], row["status"]) == ("['end_turn']", "['end_turn']", "answered")


@pytest.mark.parametrize(
    ("amount", "problem"),
    [(0.5, "never a float"), (Decimal("0.0000000000001"), "twelve decimals"), (Decimal("NaN"), "twelve decimals")],
    ids=["float", "finer", "nan"],
)
def test_money_that_cannot_be_kept_exactly_is_refused(
    ledger: Ledger, held: Held, amount: Decimal, problem: str
) -> None:
    attempt = open_attempt(ledger, held)
    with pytest.raises((TypeError, ValueError, sa.exc.StatementError), match=problem):
        ledger.attempts.answered(attempt.token, an_answer(cost_usd=amount))
    assert one_row(ledger, "attempts")["status"] == "open"


def test_history_tells_what_was_tried_of_a_question(ledger: Ledger, held: Held) -> None:
    for second_try in (None, "larger", "larger"):
        attempt = open_attempt(ledger, held, second_try=second_try)
        answer(ledger, attempt)
        unusable = a_failure(attempt_id=attempt.attempt_id)
        ledger.results.record_retry(held, unusable, wait_s=0, refused_to_serve=second_try is None)
        held = claim_one(ledger, ledger.results.get(held.row_id)["run_id"])
    assert ledger.attempts.history(held.row_id) == {
        "counted": 3, "second_tries": frozenset({"larger"}), "refusals": 1
    }  # fmt: skip
