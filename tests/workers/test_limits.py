"""Limits: money, context, attempts; each is kept before a call is made."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.core.handed_cases import TEXTS, needs_cases
from tests.factories import some_files
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

SMALL_CONTEXT = "claude-haiku-4-5"
LIMIT = 200_000 - 4096


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_run_never_spends_more_than_its_budget(workplace: Workplace, concurrency: int) -> None:
    budget = "0.001"
    collection = workplace.collection(
        some_files(30), max_cost_usd=budget, concurrency=concurrency, max_output_tokens=200
    )
    report = workplace.run(collection)
    books = workplace.books
    assert report.run is not None
    assert report.run["cost_usd"] == workplace.sandbox.billed_usd <= Decimal(budget)
    assert len(workplace.calls()) == report.run["completed_count"] > 0
    left = [row for row in books.results if row["status"] == "failed"]
    assert {"cost_limit"} == {row["reason"] for row in left}
    assert "limit $0.001" in left[0]["message"]
    assert report.run["status"] == "completed_with_errors"
    books.assert_settled()


def test_what_a_budget_left_undone_is_done_by_a_run_with_a_budget_of_its_own(workplace: Workplace) -> None:
    workplace.run(workplace.collection(some_files(12), max_cost_usd="0.0005", max_output_tokens=200))
    undone = workplace.books.statuses()["failed"]
    report = workplace.run(workplace.collection(some_files(12), max_output_tokens=200))
    assert report.run is not None
    assert report.run["completed_count"] == undone > 0
    assert len(workplace.calls()) == 12


def test_a_budget_for_not_even_one_call_makes_none(workplace: Workplace) -> None:
    workplace.run(workplace.collection(max_cost_usd="0.000001"))
    assert workplace.calls() == []
    assert workplace.books.statuses() == {"failed": 3}


def too_long(workplace: Workplace, text: str) -> tuple[int, int]:
    """Run a document that is too long beside a good one; returns the two numbers of its message."""
    collection = workplace.collection({**some_files(1), "dell/long.txt": text}, model=SMALL_CONTEXT)
    workplace.run(collection)
    row = workplace.books.result("long.txt")
    assert (row["status"], row["reason"]) == ("failed", "too_long")
    assert workplace.books.result("r700.md")["status"] == "completed"
    assert len(workplace.calls()) == 1
    tokens, limit = re.findall(r"\d+", row["message"])[:2]
    return int(tokens), int(limit)


@ON_ONE_DATABASE
def test_a_document_beyond_the_context_fails_before_any_call_with_both_numbers(workplace: Workplace) -> None:
    tokens, limit = too_long(workplace, "Model: R700 and more. " * 60_000 + "\n\nPrice USD: 1\n")
    assert limit == LIMIT
    assert tokens > limit
    assert len(workplace.sandbox.requests()) == 1


@ON_ONE_DATABASE
def test_a_document_near_the_limit_is_counted_by_the_provider_and_not_billed(workplace: Workplace) -> None:
    tokens, limit = too_long(workplace, "請求書の合計。" * 40_000)
    assert 200_000 < tokens < 300_000
    assert limit == LIMIT
    assert [path for path in workplace.sandbox.requests() if path["path"].endswith("count_tokens")]


@needs_cases
@ON_ONE_DATABASE
def test_the_long_document_of_the_collection_of_cases_is_never_cut(workplace: Workplace) -> None:
    text = (TEXTS / "longer-than-context.txt").read_text(encoding="utf-8")
    tokens, _ = too_long(workplace, text)
    assert tokens > LIMIT


def test_attempts_are_used_up_over_runs_and_asked_anew_by_a_changed_question(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "status", "status": 500, "times": None}])
    collection = workplace.collection(some_files(1), max_attempts=2)
    for _ in range(4):
        workplace.run(collection, retry_in_run_s=0.1)
    assert len(workplace.calls()) == 2
    assert len(workplace.books.runs) == 2
    workplace.run(workplace.collection(some_files(1), max_attempts=2, instructions="Other words."), retry_in_run_s=0.1)
    assert len(workplace.calls()) == 3
