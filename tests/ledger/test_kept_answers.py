"""Answers: kept as they came, and found again instead of being paid for again."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from extraction_core.causes import Cause
from extraction_core.pricing import PRICES_VERSION, TokenUsage
from extraction_core.states import Select
from resources.ledger.attempts import KeptAnswer, Opened
from tests.factories import (
    a_failure,
    a_plan,
    a_run,
    a_set,
    an_answer,
    answer,
    claim_one,
    fail,
    open_attempt,
)
from tests.ledger.support import (
    claim_anew,
    one_row,
    rows,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.claims import Held


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


def test_an_answer_whose_text_fields_are_lists_is_kept_as_the_text_of_them(ledger: Ledger, held: Held) -> None:
    attempt = open_attempt(ledger, held)
    odd: Any = ["end_turn"]
    assert ledger.attempts.answered(attempt.token, an_answer(stop_reason=odd, served_model=odd))
    row = one_row(ledger, "attempts")
    assert (row["stop_reason"], row["served_model"], row["status"]) == ("['end_turn']", "['end_turn']", "answered")
