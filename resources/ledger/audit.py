"""What must hold of a ledger at rest, counted in SQL: every count here is 0, or a promise was broken.

Read only. It is told from the rows alone, so it can be asked of any ledger; what the provider billed and what stands on
disk is compared by the caller, who knows both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from extraction_core.states import AttemptStatus, RowStatus, RunStatus
from resources.ledger.completions import ACCEPTED
from resources.ledger.engine import LedgerEngine
from resources.ledger.tables import attempts, document_sets, documents, extraction_results, extraction_runs
from resources.ledger.types import AnySelect, ExactDecimal, literal, zero

RESULT = extraction_results.c
ATTEMPT = attempts.c
RUN = extraction_runs.c
ANSWER_MARGIN_MS = 500
"""An answer and an opening closer than this were in two transactions at the same time: neither saw the other."""


def broken_promises(engine: LedgerEngine) -> dict[str, int]:
    """Count what must not be there when nobody is at work.

    Returns:
        ``unfinished`` documents without an ended result; ``completed_twice`` questions answered into two results;
        ``paid_again`` attempts opened although a usable answer was kept; ``unbacked`` completed results whose attempt
        holds no answer; ``open_attempts``; ``open_runs``;
        ``unbalanced`` runs whose counts are not those of their rows; ``wrong_sums`` runs whose cost is not that of
        their attempts.
    """
    counts = {
        "unfinished": _unfinished(),
        "completed_twice": _completed_twice(),
        "paid_again": _paid_again(),
        "unbacked": _unbacked(),
        "open_attempts": _count(attempts, ATTEMPT.status == literal(AttemptStatus.OPEN)),
        "open_runs": _count(extraction_runs, RUN.status == literal(RunStatus.OPEN)),
        "unbalanced": _unbalanced(),
        "wrong_sums": _wrong_sums(),
    }

    def query(connection: sa.Connection) -> dict[str, int]:
        return {name: int(connection.execute(statement).scalar_one()) for name, statement in counts.items()}

    return engine.read(query)


def is_unused(engine: LedgerEngine) -> bool:
    """Whether no document set was ever registered, of whatever collection."""
    first = sa.select(document_sets.c.set_id).limit(1)
    return engine.read(lambda connection: connection.execute(first).first()) is None


def charges(engine: LedgerEngine) -> list[Mapping[str, Any]]:
    """Return a row per attempt: token, document, request id, status, end, cost (None: unknown), whether in a batch."""
    statement = sa.select(
        ATTEMPT.token,
        ATTEMPT.document_id,
        ATTEMPT.request_id,
        ATTEMPT.status,
        ATTEMPT.closed_ms,
        ATTEMPT.cost_usd,
        ATTEMPT.batch_id.is_not(None).label("batched"),
    ).order_by(ATTEMPT.attempt_id)
    rows = engine.read(lambda connection: connection.execute(statement).mappings().all())
    return [dict(row) for row in rows]


def _count(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> AnySelect:
    return sa.select(sa.func.count()).select_from(table).where(*conditions)


def _unfinished() -> AnySelect:
    ended = sa.exists().where(
        RESULT.document_id == documents.c.document_id, RESULT.status.in_(["completed", "failed", "cancelled"])
    )
    return _count(documents, documents.c.removed_ms.is_(None), ~ended)


def _completed_twice() -> AnySelect:
    question = (RESULT.document_id, RESULT.input_fingerprint, RESULT.edition)
    twice = (
        sa.select(*question)
        .where(RESULT.status == literal(RowStatus.COMPLETED))
        .group_by(*question)
        .having(sa.func.count() > 1)
    )
    return sa.select(sa.func.count()).select_from(twice.subquery())


def _paid_again() -> AnySelect:
    kept = attempts.alias("kept")
    usable = sa.or_(kept.c.verdict.is_(None), kept.c.verdict == ACCEPTED)
    earlier = sa.exists().where(
        kept.c.document_id == ATTEMPT.document_id,
        kept.c.input_fingerprint == ATTEMPT.input_fingerprint,
        kept.c.edition == ATTEMPT.edition,
        kept.c.attempt_id != ATTEMPT.attempt_id,
        kept.c.status == literal(AttemptStatus.ANSWERED),
        kept.c.closed_ms + ANSWER_MARGIN_MS < ATTEMPT.opened_ms,
        usable,
    )
    return _count(attempts, earlier)


def _unbacked() -> AnySelect:
    answered = sa.exists().where(
        ATTEMPT.attempt_id == RESULT.attempt_id, ATTEMPT.status == literal(AttemptStatus.ANSWERED)
    )
    return _count(extraction_results, RESULT.status == literal(RowStatus.COMPLETED), ~answered)


def _rows_of_run(*conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    return (
        sa.select(sa.func.count())
        .where(RESULT.run_id == RUN.run_id, *conditions)
        .correlate(extraction_runs)
        .scalar_subquery()
    )


def _unbalanced() -> AnySelect:
    differs = sa.or_(
        RUN.request_count + RUN.unexpected_count != _rows_of_run(),
        RUN.completed_count != _rows_of_run(RESULT.status == literal(RowStatus.COMPLETED)),
        RUN.failed_count != _rows_of_run(RESULT.status == literal(RowStatus.FAILED)),
        RUN.cancelled_count != _rows_of_run(RESULT.status == literal(RowStatus.CANCELLED)),
    )
    return _count(extraction_runs, RUN.status != literal(RunStatus.OPEN), differs)


def _wrong_sums() -> AnySelect:
    total = sa.type_coerce(sa.func.coalesce(sa.func.sum(ATTEMPT.cost_usd), zero()), ExactDecimal)
    spent = sa.select(total).where(ATTEMPT.run_id == RUN.run_id).correlate(extraction_runs).scalar_subquery()
    return _count(extraction_runs, RUN.status != literal(RunStatus.OPEN), RUN.cost_usd != spent)
