"""What must hold after every step: the ledger is as its model says, and the invariants hold in its own rows."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from extraction_core.states import ACTIVE_ROW, TERMINAL_ROW, AttemptStatus, RowStatus, RunStatus
from resources.ledger.tables import attempts, extraction_results, extraction_runs
from resources.ledger.types import now_ms
from tests.ledger.model_rows import attempt_of, row_of, run_of

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from tests.ledger.model import Model
    from tests.ledger.support import Row

TOLERANCE_S = 5_000.0
"""Far less than any lease or jump, far more than any test takes."""

MINE = sa.bindparam("collection", type_=sa.Text)
RUNS = sa.select(extraction_runs).where(extraction_runs.c.collection == MINE)
ROWS = sa.select(extraction_results, now_ms().label("now_ms")).where(extraction_results.c.collection == MINE)
ATTEMPTS = sa.select(attempts).where(attempts.c.run_id.in_(RUNS.with_only_columns(extraction_runs.c.run_id)))


class Seen(NamedTuple):
    """All rows of one collection, by their ids."""

    runs: dict[int, Row]
    rows: dict[int, Row]
    attempts: dict[int, Row]


def look(ledger: Ledger, collection: str) -> Seen:
    """Read everything of one collection."""

    def by_id(connection: sa.Connection, statement: sa.Select[*tuple[object, ...]], key: str) -> dict[int, Row]:
        found = connection.execute(statement, {"collection": collection}).mappings()
        return {row[key]: dict(row) for row in found}

    return ledger.engine.read(
        lambda connection: Seen(
            by_id(connection, RUNS, "run_id"),
            by_id(connection, ROWS, "result_id"),
            by_id(connection, ATTEMPTS, "attempt_id"),
        )
    )


def check(seen: Seen, before: Seen, model: Model, max_attempts: int) -> None:
    """Compare the ledger with its model, and with what it was one step before."""
    assert {result_id: row_of(row) for result_id, row in seen.rows.items()} == model.rows_as_stored()
    assert {attempt_id: attempt_of(row) for attempt_id, row in seen.attempts.items()} == model.attempts
    assert {run_id: run_of(row) for run_id, row in seen.runs.items()} == model.runs
    _leases_are_as_long_as_they_should_be(seen, model)
    _a_terminal_row_never_changes(seen, before)
    _a_document_has_one_active_row(seen)
    _every_completed_row_has_one_file(model)
    _no_question_has_more_counted_attempts_than_the_cap(seen, max_attempts)
    _every_answer_is_kept(seen)
    _closed_runs_balance_to_the_row_and_to_the_cent(seen)


def _leases_are_as_long_as_they_should_be(seen: Seen, model: Model) -> None:
    for result_id, row in model.rows.items():
        if row.lease_until is not None:
            stored = seen.rows[result_id]
            left_s = (stored["lease_expires_ms"] - stored["now_ms"]) / 1000
            assert abs(left_s - (row.lease_until - model.now)) < TOLERANCE_S


def _a_terminal_row_never_changes(seen: Seen, before: Seen) -> None:
    time_itself = dict.fromkeys(("now_ms", "due_ms"))
    for result_id, row in before.rows.items():
        if RowStatus(row["status"]) in TERMINAL_ROW:
            assert seen.rows[result_id] | time_itself == row | time_itself


def _a_document_has_one_active_row(seen: Seen) -> None:
    active = Counter(row["document_id"] for row in seen.rows.values() if RowStatus(row["status"]) in ACTIVE_ROW)
    assert all(number == 1 for number in active.values())


def _every_completed_row_has_one_file(model: Model) -> None:
    for row in model.rows.values():
        assert row.published == (row.status is RowStatus.COMPLETED)


def _no_question_has_more_counted_attempts_than_the_cap(seen: Seen, max_attempts: int) -> None:
    questions = Counter((row["document_id"], row["edition"]) for row in seen.attempts.values() if row["counted"])
    assert all(number <= max_attempts for number in questions.values())


def _every_answer_is_kept(seen: Seen) -> None:
    assert all(row["response"] for row in seen.attempts.values() if row["status"] == AttemptStatus.ANSWERED)


def _closed_runs_balance_to_the_row_and_to_the_cent(seen: Seen) -> None:
    spent = dict.fromkeys(seen.runs, Decimal(0))
    for row in seen.attempts.values():
        spent[row["run_id"]] += row["cost_usd"] or 0
    for run_id, run in seen.runs.items():
        if run["status"] != RunStatus.OPEN:
            ended = run["completed_count"] + run["failed_count"] + run["cancelled_count"]
            assert (run["request_count"], run["cost_usd"]) == (ended, spent[run_id])
