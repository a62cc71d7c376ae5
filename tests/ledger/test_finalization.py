"""Closing a run: from SQL aggregates alone, after the last commit, by exactly one of any number of callers."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from tests.factories import (
    Crash,
    CrashAt,
    a_run,
    a_set,
    an_answer,
    answer,
    ask,
    claim,
    claim_one,
    complete,
    fail,
    open_attempt,
)
from tests.ledger.support import Row, execute, rows, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from resources.ledger.claims import Held
    from tests.conftest import MakeLedger


def the_run(ledger: Ledger, run_id: int) -> Row:
    """Return a run that exists."""
    run = ledger.runs.get(run_id)
    assert run is not None
    return dict(run)


def counts(run: Row) -> tuple[int, ...]:
    """Return requests, unexpected, completed, failed and cancelled."""
    return tuple(run[f"{name}_count"] for name in ("request", "unexpected", "completed", "failed", "cancelled"))


def end_all(ledger: Ledger, run_id: int, endings: list[Callable[[Ledger, Held], None]]) -> None:
    """End one row of a run after another."""
    for ending in endings:
        ending(ledger, claim_one(ledger, run_id))


def test_a_run_that_is_not_sealed_does_not_close(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=1, seal=False)
    complete(ledger, claim_one(ledger, run_id))
    before = the_run(ledger, run_id)
    assert ledger.finalize(run_id) is None
    assert the_run(ledger, run_id) == before
    ledger.runs.seal(run_id)
    assert ledger.finalize(run_id) is not None


@pytest.mark.parametrize("unfinished", ["queued", "running"])
def test_a_run_with_an_unfinished_row_does_not_close(ledger: Ledger, unfinished: str) -> None:
    run_id = a_run(ledger, documents=2)
    complete(ledger, claim_one(ledger, run_id))
    if unfinished == "running":
        claim_one(ledger, run_id)
    before = the_run(ledger, run_id)
    assert ledger.finalize(run_id) is None
    assert the_run(ledger, run_id) == before


@pytest.mark.parametrize(
    ("endings", "status"),
    [
        ([], "completed"),
        ([complete, complete], "completed"),
        ([complete, fail], "completed_with_errors"),
        ([fail, fail], "failed"),
    ],
    ids=["no document", "all completed", "some completed", "none completed"],
)
def test_the_status_of_a_closed_run_follows_from_its_rows(
    ledger: Ledger, endings: list[Callable[[Ledger, Held], None]], status: str
) -> None:
    run_id = a_run(ledger, documents=len(endings))
    end_all(ledger, run_id, endings)
    closed = ledger.finalize(run_id)
    assert closed == the_run(ledger, run_id)
    completed = endings.count(complete)
    assert closed["status"] == status
    assert counts(dict(closed)) == (len(endings), 0, completed, len(endings) - completed, 0)


@pytest.mark.parametrize("others", [[], [complete], [fail], [complete, fail]])
def test_a_run_in_which_a_row_was_cancelled_is_cancelled(
    ledger: Ledger, others: list[Callable[[Ledger, Held], None]]
) -> None:
    run_id = a_run(ledger, documents=len(others) + 1)
    end_all(ledger, run_id, others)
    ledger.results.request_cancel(run_id)
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert closed["status"] == "cancelled"
    assert counts(dict(closed)) == (len(others) + 1, 0, others.count(complete), others.count(fail), 1)


@pytest.mark.parametrize(
    ("others", "status"),
    [
        ([], "completed"),
        ([complete], "completed"),
        ([complete, fail], "completed_with_errors"),
        ([fail], "failed"),
    ],
)
def test_a_row_that_was_cancelled_as_a_duplicate_is_counted_and_does_not_make_its_run_cancelled(
    ledger: Ledger, others: list[Callable[[Ledger, Held], None]], status: str
) -> None:
    run_id = a_run(ledger, documents=len(others) + 1)
    end_all(ledger, run_id, others)
    execute(
        ledger,
        "UPDATE extraction_results SET status = 'cancelled', reason = 'duplicate', finished_ms = 1 "
        "WHERE status = 'queued'",
    )
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert closed["status"] == status
    assert counts(dict(closed)) == (len(others) + 1, 0, others.count(complete), others.count(fail), 1)


def test_a_run_with_a_duplicate_in_which_a_person_cancelled_the_rest_is_cancelled(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    execute(
        ledger,
        "UPDATE extraction_results SET status = 'cancelled', reason = 'duplicate', finished_ms = 1 "
        "WHERE document_key LIKE '%1.pdf'",
    )
    ledger.results.request_cancel(run_id)
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert (closed["status"], closed["cancelled_count"]) == ("cancelled", 2)


def test_a_closed_run_balances_with_a_row_that_nobody_requested(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    end_all(ledger, run_id, [complete, fail])
    execute(ledger, "UPDATE extraction_runs SET request_count = 1, unexpected_count = 1")
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert counts(dict(closed)) == (1, 1, 1, 1, 0)


def test_a_run_whose_rows_do_not_add_up_to_what_was_requested_is_not_closed_in_silence(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    end_all(ledger, run_id, [complete, fail])
    execute(ledger, "UPDATE extraction_runs SET request_count = 3")
    with pytest.raises(sa.exc.IntegrityError, match="balance"):
        ledger.finalize(run_id)
    assert the_run(ledger, run_id)["status"] == "open"


def test_the_cost_of_a_run_is_the_sum_over_all_its_attempts(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=3)
    first, second, third = claim(ledger, run_id, 3)
    complete(ledger, first, cost_usd=Decimal("0.1"))
    for cost in (Decimal("0.02"), Decimal("0.003")):  # two answers of a row that fails
        attempt = open_attempt(ledger, second)
        answer(ledger, attempt, cost_usd=cost)
        execute(ledger, f"UPDATE attempts SET verdict = 'unparsable' WHERE attempt_id = {attempt.attempt_id}")  # noqa: S608 - our number
    fail(ledger, second)
    unpriced = open_attempt(ledger, third)
    ledger.attempts.answered(unpriced.token, an_answer(cost_usd=None))
    fail(ledger, third)
    execute(ledger, "UPDATE extraction_results SET cost_usd = NULL")  # what rows say of themselves is not summed
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert (closed["cost_usd"], closed["unknown_cost_count"]) == (Decimal("0.123"), 1)


def test_an_ended_row_holds_the_sum_of_its_own_attempts(ledger: Ledger) -> None:
    first, second = claim(ledger, a_run(ledger, documents=2), 2)
    complete(ledger, first, cost_usd=Decimal("0.1"))
    answer(ledger, open_attempt(ledger, second), cost_usd=Decimal("0.02"))
    fail(ledger, second)
    assert [row["cost_usd"] for row in rows(ledger, "extraction_results")] == [Decimal("0.1"), Decimal("0.02")]


def test_money_of_other_runs_is_not_in_the_sum(ledger: Ledger) -> None:
    document_set = a_set(ledger, 1)
    run_id = a_run(ledger, document_set)
    complete(ledger, claim_one(ledger, run_id), cost_usd=Decimal("0.1"))
    ledger.finalize(run_id)
    ask(ledger, document_set, "another question")
    again = a_run(ledger, document_set)
    complete(ledger, claim_one(ledger, again), cost_usd=Decimal("0.02"))
    closed = ledger.finalize(again)
    assert closed is not None
    assert closed["cost_usd"] == Decimal("0.02")


def test_closing_a_run_abandons_what_is_still_open_of_it(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=1)
    held = claim_one(ledger, run_id)
    open_attempt(ledger, held)
    fail(ledger, held)
    closed = ledger.finalize(run_id)
    assert closed is not None
    assert closed["unknown_cost_count"] == 1
    assert [(row["status"], row["reason"]) for row in rows(ledger, "attempts")] == [("abandoned", "run_closed")]


def test_finalizing_again_changes_nothing(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=1)
    complete(ledger, claim_one(ledger, run_id))
    closed = ledger.finalize(run_id)
    execute(ledger, "UPDATE attempts SET cost_usd = NULL")
    assert ledger.finalize(run_id) is None
    assert the_run(ledger, run_id) == closed


def test_a_run_that_does_not_exist_is_not_closed(ledger: Ledger) -> None:
    assert ledger.finalize(12345) is None


def test_a_crash_before_the_commit_leaves_the_run_open_for_the_next_caller(make_ledger: MakeLedger) -> None:
    crashing = make_ledger(CrashAt(Failpoint.COMMIT_FINALIZE))
    run_id = a_run(crashing, documents=1)
    complete(crashing, claim_one(crashing, run_id))
    before = the_run(crashing, run_id)
    with pytest.raises(Crash):
        crashing.finalize(run_id)
    assert the_run(crashing, run_id) == before
    assert make_ledger().finalize(run_id) is not None


def test_exactly_one_of_sixteen_racing_finalizers_closes_a_run(ledger: Ledger, make_ledger: MakeLedger) -> None:
    run_id = a_run(ledger, documents=1)
    complete(ledger, claim_one(ledger, run_id))
    ledgers = [make_ledger() for _ in range(16)]
    closed = [run for run in together(16, lambda number: ledgers[number].finalize(run_id)) if run is not None]
    assert closed == [the_run(ledger, run_id)]


def test_workers_that_each_finalize_after_their_own_commit_leave_no_run_open(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    ledgers, document_set = [make_ledger() for _ in range(8)], a_set(ledger, 8)
    for _ in range(3):
        run_id = a_run(ledger, document_set)
        held = claim(ledger, run_id, 8)

        def end_and_finalize(number: int, held: list[Held] = held, run_id: int = run_id) -> bool:
            fail(ledgers[number], held[number])
            return ledgers[number].finalize(run_id) is not None

        assert sorted(together(8, end_and_finalize)) == [False] * 7 + [True]
        assert counts(the_run(ledger, run_id)) == (8, 0, 0, 8, 0)


def test_rows_may_end_and_runs_close_in_any_order_of_commits(ledger: Ledger, make_ledger: MakeLedger) -> None:
    run_id = a_run(ledger, documents=6)
    held = claim(ledger, run_id, 6)
    ledgers = [make_ledger() for _ in range(6)]

    def live(number: int) -> None:
        if number % 2:
            complete(ledgers[number], held[number], cost_usd=Decimal("0.001"))
        else:
            fail(ledgers[number], held[number])
        ledgers[number].finalize(run_id)

    together(6, live)
    run = the_run(ledger, run_id)
    assert (run["status"], counts(run), run["cost_usd"]) == (
        "completed_with_errors",
        (6, 0, 3, 3, 0),
        Decimal("0.003"),
    )
