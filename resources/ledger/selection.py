"""Which documents of a set a run takes, as one INSERT … SELECT.

``pending`` takes every present document without a completed result for its current input fingerprint; ``failed``
takes those whose latest result for it failed; ``all`` takes every present document and asks anew: each gets the next
edition of its question, with a cap of its own. Documents whose attempts are used up are left out of the first two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from extraction_core.states import AttemptStatus, RowStatus, Select
from resources.ledger.tables import attempts, documents, extraction_results, parse_runs
from resources.ledger.types import literal, now_ms

DOCUMENT = documents.c
IS_OPEN_JOB = sa.and_(parse_runs.c.status == literal(RowStatus.RUNNING), parse_runs.c.job_state.is_not(None))
GATHER_MS = 60_000
COLUMNS = (
    "run_id", "document_id", "collection", "document_key", "input_fingerprint", "edition", "parse_run_id", "created_ms",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a run takes of a set. ``keys`` limits it to some documents; None means no limit."""

    set_id: int
    select: Select
    keys: Sequence[str] | None
    max_attempts: int


def fill_statement(run_id: int, selection: Selection, bounds: tuple[int, int], *, postgres: bool) -> sa.UpdateBase:
    """Return the statement that enqueues the selected documents with ids in ``(bounds[0], bounds[1]]``."""
    edition = latest_edition() if selection.select is not Select.ALL else _next_edition(run_id)
    chosen = (
        sa.select(
            sa.cast(sa.literal(run_id), sa.BigInteger),
            DOCUMENT.document_id,
            DOCUMENT.collection,
            DOCUMENT.document_key,
            DOCUMENT.input_fingerprint,
            edition,
            DOCUMENT.parse_run_id,
            now_ms(),
        )
        .where(chosen_documents(selection), DOCUMENT.document_id > bounds[0], DOCUMENT.document_id <= bounds[1])
        .order_by(DOCUMENT.document_id)  # one order, or two fillers at once deadlock
    )
    insert = postgresql.insert(extraction_results) if postgres else sqlite.insert(extraction_results)
    return insert.from_select(list(COLUMNS), chosen).on_conflict_do_nothing().returning(extraction_results.c.result_id)


def chosen_documents(selection: Selection) -> sa.ColumnElement[bool]:
    """Return the predicate on ``documents`` that a selection stands for."""
    conditions = [
        DOCUMENT.set_id == selection.set_id,
        DOCUMENT.removed_ms.is_(None),
        DOCUMENT.input_fingerprint.is_not(None),
        ~waits_for_a_job(),
        _selected(selection.select, selection.max_attempts),
    ]
    if selection.keys is not None:
        conditions.append(DOCUMENT.document_key.in_(list(selection.keys)))
    return sa.and_(*conditions)


def waits_for_a_job() -> sa.ColumnElement[bool]:
    """Return the predicate of documents whose text a parse service is still making: a run cannot take them yet."""
    return sa.exists().where(parse_runs.c.parse_run_id == DOCUMENT.parse_run_id, IS_OPEN_JOB)


def latest_edition() -> sa.ColumnElement[int]:
    """Return the edition of the current question of a document: 0 unless it was asked anew, or its tries were reset."""
    asked = extraction_results.alias("asked")
    # by name: of itself it would only see the innermost statement that it stands in, which is not always of documents
    newest = sa.select(sa.func.max(asked.c.edition)).where(_same_question(asked)).correlate(documents).scalar_subquery()
    known = sa.func.coalesce(newest, sa.literal_column("0"))
    return sa.case((known < DOCUMENT.lowest_edition, DOCUMENT.lowest_edition), else_=known)


def counted_attempts() -> sa.ScalarSelect[Any]:
    """Return the number of counted attempts of a document's current question."""
    return (
        sa.select(sa.func.count())
        .where(
            attempts.c.document_id == DOCUMENT.document_id,
            attempts.c.input_fingerprint == DOCUMENT.input_fingerprint,
            attempts.c.edition == latest_edition(),
            attempts.c.counted,
        )
        .correlate(documents)
        .scalar_subquery()
    )


def latest_result_id() -> sa.ScalarSelect[Any]:
    """Return the newest result of a document's current question, of whatever edition."""
    asked = extraction_results.alias("asked")
    return sa.select(sa.func.max(asked.c.result_id)).where(_same_question(asked)).correlate(documents).scalar_subquery()


def _next_edition(run_id: int) -> sa.ColumnElement[int]:
    """One more than any earlier run asked; rows of this run do not count, so that filling again changes nothing."""
    asked = extraction_results.alias("asked")
    newest = (
        sa.select(sa.func.max(asked.c.edition)).where(_same_question(asked), asked.c.run_id != run_id).scalar_subquery()
    )
    return sa.func.coalesce(newest + 1, sa.literal_column("0"))


def _selected(select: Select, max_attempts: int) -> sa.ColumnElement[bool]:
    match select:
        case Select.ALL:
            return sa.true()
        case Select.PENDING:
            return sa.and_(~_has_completed(), _may_go_on(max_attempts))
        case Select.FAILED:
            return sa.and_(_latest_failed(), _may_go_on(max_attempts))
        case Select.DUE:
            return sa.and_(sa.or_(_never_asked(), _due_again()), ~_has_completed(), _may_go_on(max_attempts))


def _may_go_on(max_attempts: int) -> sa.ColumnElement[bool]:
    """Attempts are left, or an answer is kept that was paid for and not judged yet."""
    kept = sa.exists().where(
        attempts.c.document_id == DOCUMENT.document_id,
        attempts.c.input_fingerprint == DOCUMENT.input_fingerprint,
        attempts.c.edition == latest_edition(),
        attempts.c.status == literal(AttemptStatus.ANSWERED),
        attempts.c.verdict.is_(None),
    )
    return sa.or_(counted_attempts() < max_attempts, kept)


def _never_asked() -> sa.ColumnElement[bool]:
    asked = extraction_results.alias("asked")
    return ~sa.exists().where(_same_question(asked))


def _due_again() -> sa.ColumnElement[bool]:
    """Due now or within a minute: documents of a set fail at about the same time, and one run should take them all."""
    return DOCUMENT.next_retry_ms <= now_ms() + sa.literal_column(str(GATHER_MS))


def _has_completed() -> sa.ColumnElement[bool]:
    done = extraction_results.alias("done")
    return sa.exists().where(_same_question(done), done.c.status == literal(RowStatus.COMPLETED))


def _latest_failed() -> sa.ColumnElement[bool]:
    last = extraction_results.alias("last")
    return sa.exists().where(last.c.result_id == latest_result_id(), last.c.status == literal(RowStatus.FAILED))


def _same_question(asked: sa.FromClause) -> sa.ColumnElement[bool]:
    return sa.and_(asked.c.document_id == DOCUMENT.document_id, asked.c.input_fingerprint == DOCUMENT.input_fingerprint)
