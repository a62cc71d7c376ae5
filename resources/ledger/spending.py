"""What calls cost and hold, in SQL: open attempts, those that were left open, and the sum that a budget weighs."""

from __future__ import annotations

import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.states import AttemptStatus
from resources.ledger.tables import attempts
from resources.ledger.types import AnySelect, ExactDecimal, literal, now_ms, zero

ATTEMPT = attempts.c
IS_OPEN = ATTEMPT.status == literal(AttemptStatus.OPEN)
IS_ABANDONED = ATTEMPT.status == literal(AttemptStatus.ABANDONED)


def spent_or_reserved(run_id: int) -> AnySelect:
    """Return what a run's calls cost; one whose cost is not known weighs what was reserved for it."""
    known_or_reserved = sa.func.coalesce(ATTEMPT.cost_usd, ATTEMPT.reserved_usd, zero())
    total = sa.type_coerce(sa.func.coalesce(sa.func.sum(known_or_reserved), zero()), ExactDecimal)
    return sa.select(total).where(ATTEMPT.run_id == run_id)


def abandon_open(which: sa.ColumnElement[bool]) -> sa.Update:
    """Return the statement that abandons attempts left open by an earlier holder: what became of them is not known."""
    return (
        sa.update(attempts)
        .where(IS_OPEN, which)
        .values(
            status=literal(AttemptStatus.ABANDONED),
            closed_ms=now_ms(),
            reason=Cause.CONNECTION_LOST,
            message="the worker that made the call ended before its answer came",
        )
    )
