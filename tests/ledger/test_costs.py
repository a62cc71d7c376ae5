"""Money: exact, also when an answer comes late, and held against a budget before it is spent."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from resources.ledger.attempts import NotOpened, Opened
from tests.factories import (
    COLLECTION,
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
    from resources.ledger.claims import Held
    from tests.conftest import MakeLedger

TINY = Decimal("0.0000001")


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
