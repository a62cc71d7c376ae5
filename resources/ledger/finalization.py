"""Closing an extraction run from SQL aggregates alone.

One UPDATE: it requires a sealed, open run without an unfinished row, and writes counts and sums of the rows and
attempts themselves. It must run in a transaction of its own, *after* the commit of the result that may be the last
one: inside it, two last writers would each see the other's row unfinished, and the run would stay open for ever.
Anyone may call it any number of times; exactly one call closes the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.states import AttemptStatus, RowStatus, RunStatus
from resources.ledger.engine import LedgerEngine
from resources.ledger.tables import ACTIVE, attempts, extraction_results, extraction_runs, message_batches
from resources.ledger.types import AnySelect, ExactDecimal, literal, now_ms, zero

RUN = extraction_runs.c
RESULT = extraction_results.c
ATTEMPT = attempts.c
BATCH = message_batches.c
DUPLICATE = "duplicate"
"""The reason of rows that the ledger itself cancelled, because another run held their document; no person did."""


def finalize(engine: LedgerEngine, run_id: int) -> Mapping[str, Any] | None:
    """Close a run if all its rows are terminal. Returns the closed run for the one call that closed it, else None."""

    def transaction(connection: sa.Connection) -> Mapping[str, Any] | None:
        # the row's lock first, in a statement of its own: an answer that is being kept at this moment is then either
        # in the sums below or finds the run closed (without it, whoever waits for us would still read "open")
        connection.execute(sa.select(RUN.run_id).where(RUN.run_id == run_id).with_for_update())
        row = connection.execute(_close(run_id)).mappings().first()
        if row is None:
            return None
        connection.execute(_abandon_open_attempts(run_id))
        return dict(row)

    return engine.write(transaction, Failpoint.COMMIT_FINALIZE)


def runs_of(which: sa.ColumnElement[bool]) -> AnySelect:
    """Return the statement that locks these attempts' runs, for :func:`keep_runs_from_closing`."""
    theirs = RUN.run_id.in_(sa.select(ATTEMPT.run_id).where(which))
    return (
        sa.select(RUN.run_id, RUN.status).where(theirs).order_by(RUN.run_id).with_for_update(read=True, key_share=True)
    )


def keep_runs_from_closing(
    connection: sa.Connection, runs: AnySelect, arguments: Mapping[str, Any] | None = None
) -> list[int]:
    """Until the transaction ends, hold off the closing of runs; others that do so are let through.

    Returns:
        Those that are closed already, whose cost must be summed anew; the others sum when they close.
    """
    return [row.run_id for row in connection.execute(runs, arguments) if row.status != RunStatus.OPEN]


def rederive_cost(connection: sa.Connection, run_id: int) -> None:
    """Sum a closed run's cost anew after a late answer; counts and status stay. An open run sums when it closes.

    The transaction must have passed :func:`keep_runs_from_closing` before it changed an attempt.
    """
    closed = sa.select(RUN.run_id).where(RUN.run_id == run_id, RUN.status != literal(RunStatus.OPEN))
    # lock, then sum in a second statement: of two late answers at once, the second must see the first
    if connection.execute(closed.with_for_update(key_share=True)).first() is None:
        return
    statement = (
        sa.update(extraction_runs)
        .where(RUN.run_id == run_id)
        .values(cost_usd=_known_cost(run_id), unknown_cost_count=_unknown_costs(run_id))
    )
    connection.execute(statement)


def _close(run_id: int) -> sa.UpdateBase:
    counted = (
        sa.select(
            sa.cast(sa.literal(run_id), sa.BigInteger).label("run_id"),
            _number_of(RowStatus.COMPLETED).label("completed"),
            _number_of(RowStatus.FAILED).label("failed"),
            _number_of(RowStatus.CANCELLED).label("cancelled"),
            _number_of(RowStatus.CANCELLED, RESULT.reason.is_distinct_from(DUPLICATE)).label("by_a_person"),
            sa.func.count().label("rows"),
        )
        .where(RESULT.run_id == run_id)
        .subquery("counted")
    )
    status = sa.case(
        (counted.c.by_a_person > zero(), literal(RunStatus.CANCELLED)),
        (counted.c.failed == zero(), literal(RunStatus.COMPLETED)),
        (counted.c.completed == zero(), literal(RunStatus.FAILED)),
        else_=literal(RunStatus.COMPLETED_WITH_ERRORS),
    )
    finished = counted.c.completed + counted.c.failed + counted.c.cancelled
    return (
        sa.update(extraction_runs)
        .where(
            RUN.run_id == counted.c.run_id,
            RUN.status == literal(RunStatus.OPEN),
            RUN.sealed,
            counted.c.rows == finished,
            ~_has_unsettled_batch(run_id),
        )
        .values(
            status=status,
            unexpected_count=sa.case((counted.c.rows > RUN.request_count, counted.c.rows - RUN.request_count), else_=0),
            completed_count=counted.c.completed,
            failed_count=counted.c.failed,
            cancelled_count=counted.c.cancelled,
            cost_usd=_known_cost(run_id),
            unknown_cost_count=_unknown_costs(run_id),
            closed_ms=now_ms(),
        )
        .returning(*RUN)
    )


def _number_of(status: RowStatus, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.count().filter(RESULT.status == literal(status), *conditions)


def _has_unsettled_batch(run_id: int) -> sa.ColumnElement[bool]:
    """All rows may be terminal while results that nobody asked for are still to come: they are paid for as well."""
    unsettled = sa.or_(*(BATCH.status == literal(status) for status in ACTIVE))
    return sa.exists().where(BATCH.run_id == run_id, unsettled)


def _known_cost(run_id: int) -> sa.ColumnElement[Any]:
    total = sa.type_coerce(sa.func.coalesce(sa.func.sum(ATTEMPT.cost_usd), zero()), ExactDecimal)
    return sa.select(total).where(ATTEMPT.run_id == run_id).scalar_subquery()


def _unknown_costs(run_id: int) -> sa.ColumnElement[int]:
    return sa.select(sa.func.count()).where(ATTEMPT.run_id == run_id, ATTEMPT.cost_usd.is_(None)).scalar_subquery()


def _abandon_open_attempts(run_id: int) -> sa.Update:
    """All rows are terminal, so nobody waits for these calls; should an answer still come, it is accounted for."""
    return (
        sa.update(attempts)
        .where(ATTEMPT.run_id == run_id, ATTEMPT.status == literal(AttemptStatus.OPEN))
        .values(
            status=literal(AttemptStatus.ABANDONED),
            closed_ms=now_ms(),
            reason="run_closed",
            message="the run closed while the call was open",
        )
    )
