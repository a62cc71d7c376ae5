"""What follows from a failed try: the whole table of causes, and the bounds of every wait."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.causes import POLICIES, Cause, Remedy
from extraction_core.retry import GiveUp, History, Requeue, RetryRules, StopLine, backoff_s, decide

FIRST_TRY = History(counted_attempts=1, refusals_to_serve=0, same_remedy_used=False)
RULES = RetryRules(max_attempts=3, max_refusals_to_serve=8, retry_in_run_s=60.0)

NOT_SERVED = {Cause.RATE_LIMITED, Cause.OVERLOADED, Cause.BATCH_EXPIRED}
TRY_THE_SAME_AGAIN = {
    Cause.SERVER_ERROR, Cause.TIMEOUT, Cause.CONNECTION_LOST, Cause.UNREADABLE_RESPONSE, Cause.WORKER_ERROR,
    Cause.MISSING_FROM_RESULTS,
}  # fmt: skip
ONE_LARGER_TRY = {Cause.TRUNCATED}
ONE_TRY_WITH_THE_ERROR_TOLD = {
    Cause.EMPTY_ANSWER, Cause.UNEXPECTED_STOP, Cause.UNPARSABLE, Cause.AMBIGUOUS, Cause.SCHEMA_MISMATCH,
}  # fmt: skip
FAULT_OF_ACCOUNT_OR_MACHINE = {
    Cause.AUTHENTICATION, Cause.PERMISSION, Cause.BILLING, Cause.SPEND_LIMIT, Cause.MODEL_NOT_FOUND,
    Cause.CALLER_NOT_STARTED,
}  # fmt: skip
FINAL = {
    Cause.INVALID_REQUEST, Cause.REQUEST_TOO_LARGE, Cause.REFUSED, Cause.CONTEXT_EXCEEDED, Cause.TOO_LONG,
    Cause.COST_LIMIT, Cause.EXHAUSTED, Cause.PARSED_TEXT_LOST, Cause.OUTPUT_NOT_WRITTEN,
    Cause.POOR_QUALITY, Cause.FILE_NOT_READ, Cause.BATCH_LOST, Cause.BATCH_CANCELLED, Cause.UNKNOWN_RESULT,
    Cause.CUSTOM_ID_MISMATCH,
}  # fmt: skip
UNANSWERED = {
    Cause.TIMEOUT, Cause.CONNECTION_LOST, Cause.UNREADABLE_RESPONSE, Cause.BATCH_LOST, Cause.MISSING_FROM_RESULTS,
    Cause.UNKNOWN_RESULT,
}  # fmt: skip
ONCE_MORE = ONE_LARGER_TRY | ONE_TRY_WITH_THE_ERROR_TOLD


def decided(cause: Cause, history: History = FIRST_TRY, rules: RetryRules = RULES, **also: Any) -> Any:
    return decide(cause, history, rules, jitter=0.5, **also)


def after(counted: int = 1, *, refusals: int = 0, used: bool = False) -> History:
    return History(counted_attempts=counted, refusals_to_serve=refusals, same_remedy_used=used)


def test_every_cause_is_in_the_table_once() -> None:
    groups = [
        NOT_SERVED,
        TRY_THE_SAME_AGAIN,
        ONE_LARGER_TRY,
        ONE_TRY_WITH_THE_ERROR_TOLD,
        FAULT_OF_ACCOUNT_OR_MACHINE,
        FINAL,
    ]
    assert sorted(Cause) == sorted(cause for group in groups for cause in group)
    assert set(POLICIES) == set(Cause)


@pytest.mark.parametrize("cause", sorted(TRY_THE_SAME_AGAIN | ONCE_MORE))
def test_a_first_failure_that_may_pass_goes_back_to_the_queue(cause: Cause) -> None:
    assert isinstance(decided(cause), Requeue)


@pytest.mark.parametrize("cause", sorted(NOT_SERVED))
def test_a_refusal_to_serve_goes_back_to_the_queue(cause: Cause) -> None:
    assert isinstance(decided(cause, after(0, refusals=1)), Requeue)


@pytest.mark.parametrize("cause", sorted(FINAL))
def test_what_would_fail_the_same_way_again_is_final(cause: Cause) -> None:
    assert decided(cause) == GiveUp(next_retry_s=None)


@pytest.mark.parametrize("cause", sorted(FAULT_OF_ACCOUNT_OR_MACHINE))
def test_a_fault_of_the_account_stops_the_line_and_counts_for_no_document(cause: Cause) -> None:
    assert decided(cause) == StopLine()
    assert not POLICIES[cause].counted


@pytest.mark.parametrize("cause", sorted(ONCE_MORE))
def test_a_special_remedy_is_tried_once_and_never_more(cause: Cause) -> None:
    assert decided(cause, after(2, used=True)) == GiveUp(next_retry_s=None)


@pytest.mark.parametrize("cause", sorted(ONCE_MORE))
def test_a_special_remedy_is_tried_at_once(cause: Cause) -> None:
    assert decided(cause) == Requeue(wait_s=0.0)


@pytest.mark.parametrize("cause", sorted(TRY_THE_SAME_AGAIN | ONCE_MORE))
def test_no_cause_goes_beyond_the_cap_on_attempts(cause: Cause) -> None:
    assert decided(cause, after(3)) == GiveUp(next_retry_s=None, exhausted=True)


@pytest.mark.parametrize("cause", sorted(NOT_SERVED))
def test_a_refusal_to_serve_has_a_bound_of_its_own(cause: Cause) -> None:
    assert isinstance(decided(cause, after(0, refusals=8), retry_after_s=1.0), GiveUp)
    assert isinstance(decided(cause, after(3, refusals=7), retry_after_s=1.0), Requeue)
    assert not POLICIES[cause].counted


@pytest.mark.parametrize("cause", sorted(NOT_SERVED))
def test_a_long_wait_to_be_served_ends_the_row_and_says_when_to_come_back(cause: Cause) -> None:
    decision = decided(cause, after(0, refusals=1), retry_after_s=61.0)
    assert isinstance(decision, GiveUp)
    assert decision.next_retry_s is not None
    assert decision.next_retry_s >= 61.0


def test_a_long_wait_before_the_same_again_ends_the_row_and_says_when_to_come_back() -> None:
    decision = decided(Cause.SERVER_ERROR, after(2), RetryRules(max_attempts=3, retry_in_run_s=0.5))
    assert isinstance(decision, GiveUp)
    assert decision.next_retry_s == 3.0


@pytest.mark.parametrize("cause", sorted(UNANSWERED))
def test_the_cost_of_a_call_without_an_answer_is_unknown(cause: Cause) -> None:
    assert not POLICIES[cause].cost_known
    assert POLICIES[cause].counted


def test_only_calls_without_an_answer_have_an_unknown_cost() -> None:
    unknown = {cause for cause, policy in POLICIES.items() if not policy.cost_known}
    assert unknown == UNANSWERED


jitters = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10_000), jitters)
def test_a_backoff_is_between_half_and_the_whole_of_its_doubling(tries: int, jitter: float) -> None:
    whole = min(3600.0, 2.0 * 2 ** min(tries - 1, 60))
    assert whole / 2 <= backoff_s(tries, jitter) <= whole


@given(st.floats(0.001, 86_400), st.integers(0, 20), jitters)
def test_what_the_provider_asked_to_wait_is_never_cut_short(asked_s: float, refusals: int, jitter: float) -> None:
    history = after(0, refusals=refusals)
    decision = decide(Cause.RATE_LIMITED, history, RULES, jitter=jitter, retry_after_s=asked_s)
    wait_s = decision.wait_s if isinstance(decision, Requeue) else decision.next_retry_s  # type: ignore[union-attr]
    assert wait_s is not None
    assert asked_s <= wait_s <= max(asked_s * 1.1, RULES.retry_in_run_s)


@given(
    st.sampled_from(list(Cause)),
    st.builds(
        History,
        counted_attempts=st.integers(0, 30),
        refusals_to_serve=st.integers(0, 30),
        same_remedy_used=st.booleans(),
    ),
    st.none() | st.floats(0.001, 86_400),
    jitters,
)
def test_a_row_stays_in_its_run_only_for_short_waits(
    cause: Cause, history: History, retry_after_s: float | None, jitter: float
) -> None:
    decision = decide(cause, history, RULES, jitter=jitter, retry_after_s=retry_after_s)
    if isinstance(decision, Requeue):
        assert 0 <= decision.wait_s <= RULES.retry_in_run_s
        assert POLICIES[cause].remedy not in {Remedy.FINAL, Remedy.STOP}
