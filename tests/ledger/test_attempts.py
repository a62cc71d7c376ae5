"""Attempts: committed before the call, capped where they are opened, never lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from resources.ledger.attempts import NotOpened, Opened
from tests.factories import (
    Crash,
    CrashAt,
    a_failure,
    a_plan,
    a_run,
    a_set,
    answer,
    claim,
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
    from tests.conftest import MakeLedger


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
