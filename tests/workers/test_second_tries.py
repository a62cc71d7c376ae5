"""Second tries: a larger limit after a cut answer, the error told after an unusable one; once each, never more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import some_files
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

pytestmark = ON_ONE_DATABASE

NOT_SERVED = {"kind": "status", "status": 529, "headers": {"retry-after": "0.05"}}


def limits(workplace: Workplace) -> list[int]:
    return [call["max_tokens"] for call in workplace.calls()]


def run_one(workplace: Workplace, *faults: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Run one document with faults that apply one after another; returns its result."""
    workplace.sandbox.faults(list(faults))
    workplace.run(workplace.collection(some_files(1), **{"max_output_tokens": 1000, **settings}))
    workplace.books.assert_settled()
    return workplace.books.result("r700.md")


def test_a_cut_answer_is_asked_for_once_more_with_twice_the_limit(workplace: Workplace) -> None:
    row = run_one(workplace, {"kind": "max_tokens"})
    assert (row["status"], limits(workplace)) == ("completed", [1000, 2000])
    first, second = workplace.calls()
    assert first["user_text"] == second["user_text"]


def test_an_answer_that_is_cut_again_is_final_and_both_calls_are_paid(workplace: Workplace) -> None:
    row = run_one(workplace, {"kind": "max_tokens", "times": None}, max_attempts=9)
    assert (row["status"], row["reason"], limits(workplace)) == ("failed", "truncated", [1000, 2000])
    assert row["cost_usd"] == workplace.sandbox.billed_usd
    assert workplace.books.documents[0]["next_retry_ms"] is None


def test_a_limit_that_cannot_grow_is_not_paid_for_twice(workplace: Workplace) -> None:
    row = run_one(workplace, {"kind": "max_tokens", "times": None}, max_output_tokens=64_000)
    assert (row["reason"], limits(workplace)) == ("truncated", [64_000])


@pytest.mark.parametrize("fault", [NOT_SERVED, {"kind": "drop"}])
def test_a_larger_try_that_brought_no_answer_is_still_a_larger_try(workplace: Workplace, fault: dict[str, Any]) -> None:
    row = run_one(workplace, {"kind": "max_tokens"}, fault)
    assert (row["status"], limits(workplace)) == ("completed", [1000, 2000, 2000])


@pytest.mark.parametrize("kind", ["wrong_schema", "empty"])
def test_an_unusable_answer_is_asked_for_once_more_with_the_error_told(workplace: Workplace, kind: str) -> None:
    row = run_one(workplace, {"kind": kind})
    assert row["status"] == "completed"
    first, second = workplace.calls()
    told = second["user_text"].removeprefix(first["user_text"])
    assert "An earlier answer for this document could not be used" in told
    assert len(told) < 300
    assert second["max_tokens"] == 1000


def test_the_error_that_is_told_names_the_field_and_does_not_repeat_the_answer(workplace: Workplace) -> None:
    run_one(workplace, {"kind": "wrong_schema"})
    assert "$.model" in workplace.calls()[1]["user_text"].split("An earlier answer")[1]


@pytest.mark.parametrize(("kind", "reason"), [("wrong_schema", "schema_mismatch"), ("empty", "empty_answer")])
def test_an_answer_that_stays_unusable_is_final_after_the_second_call(
    workplace: Workplace, kind: str, reason: str
) -> None:
    row = run_one(workplace, {"kind": kind, "times": None}, max_attempts=9)
    assert (row["reason"], len(workplace.calls())) == (reason, 2)
    assert row["cost_usd"] == workplace.sandbox.billed_usd


def test_an_error_that_was_told_to_nobody_is_told_again(workplace: Workplace) -> None:
    row = run_one(workplace, {"kind": "wrong_schema"}, NOT_SERVED)
    assert row["status"] == "completed"
    assert ["An earlier answer" in call["user_text"] for call in workplace.calls()] == [False, True, True]


def test_two_kinds_of_second_try_are_one_each(workplace: Workplace) -> None:
    row = run_one(workplace, {"kind": "max_tokens"}, {"kind": "wrong_schema"})
    assert (row["status"], len(workplace.calls())) == ("completed", 3)


def test_no_second_try_goes_beyond_the_cap(workplace: Workplace) -> None:
    row = run_one(workplace, {"kind": "max_tokens", "times": None}, max_attempts=1)
    assert (row["reason"], limits(workplace)) == ("truncated", [1000])
    assert "all 1 attempts are used" in row["message"]


def test_a_refusal_is_final_at_once(workplace: Workplace) -> None:
    row = run_one(workplace, {"kind": "refusal", "times": None}, max_attempts=9)
    assert (row["reason"], len(workplace.calls())) == ("refused", 1)
    assert row["cost_usd"] == workplace.sandbox.billed_usd > 0
