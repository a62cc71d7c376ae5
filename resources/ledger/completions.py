"""Completing many results at once: one transaction, one statement for all rows, each row guarded for itself.

The order is that of a single completion: the guarded UPDATE, the files into their places, the commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.shares import in_shares
from extraction_core.states import RowStatus
from resources.ledger.attempts import judged_all
from resources.ledger.claims import HELD_COLUMNS, Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.row_sets import is_postgres, row_set, row_set_arguments
from resources.ledger.tables import attempts, documents, extraction_results
from resources.ledger.types import ExactDecimal, literal, now_ms

RESULT = extraction_results.c
ATTEMPT = attempts.c
ACCEPTED = "accepted"
COLUMNS = {
    **HELD_COLUMNS,
    "attempt_id": sa.BigInteger(),
    "path": sa.Text(),
    "sha256": sa.Text(),
    "size_bytes": sa.BigInteger(),
    "notes": sa.Text(),
}


@dataclass(frozen=True, kw_only=True)
class Output:
    """The file of a completed result: where it is below the output root, and what it is."""

    path: str
    sha256: str
    size_bytes: int
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Completed:
    """One of many results that are completed together.

    Attributes:
        held: the claim.
        output: what the row says of the file.
        attempt_id: the attempt whose answer it is.
        publish: puts the file in place.
    """

    held: Held
    output: Output
    attempt_id: int
    publish: Callable[[], None]


def complete_all(engine: LedgerEngine, done: Sequence[Completed], threads: Executor | None = None) -> set[Held]:
    """End held results completed, each with its file.

    Args:
        engine: the ledger's engine.
        done: what is to be completed.
        threads: put the files in place, several at a time: each waits for the disk. None: this thread does.

    Returns:
        Those that were still held. The others are superseded: their ``publish`` was not called.

    Raises:
        OutputStoreError: a file could not be put in place; no row was changed, and whose fault it is shows when they
            are recorded one by one.
    """
    by_claim = {one.held: one for one in done}  # of one row there may be an earlier and a later claim
    rows = [
        (*one.held, one.attempt_id, one.output.path, one.output.sha256, one.output.size_bytes, _notes(one.output))
        for one in sorted(done, key=lambda one: one.held)
    ]

    def transaction(connection: sa.Connection) -> set[Held]:
        won = [by_claim[held] for held in _complete(connection, rows)]
        _publish(won, threads)
        return {one.held for one in won}

    return engine.write(transaction, Failpoint.COMMIT_COMPLETE)


def _complete(connection: sa.Connection, rows: Sequence[Sequence[Any]]) -> list[Held]:
    """End the rows that are still held, judge their attempts, take marks off their documents. Returns their claims."""
    postgres = is_postgres(connection)
    won = connection.execute(_statement(postgres), row_set_arguments(COLUMNS, rows, postgres=postgres)).all()
    if won and not postgres:  # where the statement has done it
        connection.execute(judged_all(ACCEPTED), {"attempt_ids": [row.attempt_id for row in won]})
    marked = [row.document_id for row in won if row.marked is not None]
    if marked:
        mine = documents.c.document_id.in_(marked)
        connection.execute(sa.update(documents).where(mine).values(next_retry_ms=sa.null()))
    return [Held(row.result_id, row.generation) for row in won]


def _publish(won: Sequence[Completed], threads: Executor | None) -> None:
    if threads is None:
        for one in won:
            one.publish()
        return
    in_shares(threads, lambda one: one.publish(), won)


@lru_cache(2)
def _statement(postgres: bool) -> sa.Executable:  # noqa: FBT001 - cached by position
    """The guarded UPDATE. PostgreSQL marks the attempts as judged in the same statement, which SQLite cannot."""
    given = row_set(COLUMNS, postgres=postgres)
    cost = sa.type_coerce(sa.func.sum(ATTEMPT.cost_usd), ExactDecimal)
    mark = sa.select(documents.c.next_retry_ms).where(documents.c.document_id == RESULT.document_id)
    values: dict[str, Any] = {
        "status": literal(RowStatus.COMPLETED),
        "owner": sa.null(),
        "lease_expires_ms": sa.null(),
        "finished_ms": now_ms(),
        "attempt_id": given.c.attempt_id,
        "output_path": given.c.path,
        "output_sha256": given.c.sha256,
        "output_bytes": given.c.size_bytes,
        "notes": given.c.notes,
        "reason": sa.null(),
        "message": sa.null(),
        "cost_usd": sa.select(cost).where(ATTEMPT.result_id == RESULT.result_id).scalar_subquery(),
    }
    update = (
        sa.update(extraction_results)
        .where(
            RESULT.result_id == given.c.row_id,
            RESULT.generation == given.c.generation,
            RESULT.status == literal(RowStatus.RUNNING),
        )
        .values(**values)
        .returning(
            RESULT.result_id,
            RESULT.generation,
            RESULT.document_id,
            RESULT.attempt_id,
            mark.correlate(extraction_results).scalar_subquery().label("marked"),
        )
    )
    if not postgres:
        return update
    done = update.cte("done")
    accepted = (
        sa.update(attempts)
        .where(ATTEMPT.attempt_id == done.c.attempt_id, ATTEMPT.verdict.is_(None))
        .values(verdict=literal(ACCEPTED))
        .cte("accepted")
    )
    return sa.select(*done.c).add_cte(accepted)


def _notes(output: Output) -> str:
    """The notes as their column keeps them; the statement hands them through as text."""
    return json.dumps(list(output.notes), ensure_ascii=True, separators=(",", ":"))
