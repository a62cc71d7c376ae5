"""Extraction results: the rows that are the tasks, and how each ends.

Completing is one short transaction: the guarded UPDATE first, the file's replacement second, the commit last. So a
stale worker, however long it slept, replaces nothing, and a completed row always has its file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.shares import SHARES
from extraction_core.states import RowStatus
from resources.ledger.attempts import judged, result_cost
from resources.ledger.batches import cancel_batches
from resources.ledger.claims import Held
from resources.ledger.completions import Completed, Output, complete_all
from resources.ledger.engine import LedgerEngine
from resources.ledger.group_commit import GroupCommit
from resources.ledger.queue import WorkQueue
from resources.ledger.tables import documents, extraction_results, parse_runs
from resources.ledger.types import AnySelect, literal, now_ms

RESULT = extraction_results.c
MOST_RUNS = 10
"""Failed results of one question after which only a person asks again, although no attempt may have been counted."""
LONGEST_WAIT_S = 6 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Why and how a row ends failed, or goes back to the queue.

    Attributes:
        attempt_id: the attempt whose kept answer was judged unusable, if any: it is marked in the same transaction.
        next_retry_s: seconds until the sweeper may open a new run for the document; None: only a person may.
    """

    reason: str
    message: str
    attempt_id: int | None = None
    next_retry_s: float | None = None


class Results(WorkQueue):
    """The queue of extraction results; a claim's scope is an extraction run.

    A claimed row has the row of its parse run with it, as ``parse``; None when it has none.

    Attributes:
        completing: the completions that share a transaction.
    """

    def __init__(self, engine: LedgerEngine) -> None:
        super().__init__(
            engine,
            extraction_results,
            RESULT.result_id,
            RESULT.run_id == sa.bindparam("scope", type_=sa.BigInteger),
            Failpoint.COMMIT_CLAIM,
        )
        self.completing = GroupCommit(self._complete_together)
        self._placers = ThreadPoolExecutor(SHARES - 1, "place")

    def close(self) -> None:
        """End the threads that put files in place."""
        self._placers.shutdown()

    def _with_more(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        ids = sorted({row["parse_run_id"] for row in rows} - {None})
        parses = connection.execute(_parse_runs(), {"ids": ids}).mappings() if ids else ()
        by_id = {parse["parse_run_id"]: dict(parse) for parse in parses}
        return [{**row, "parse": by_id.get(row["parse_run_id"])} for row in rows]

    def record_completed(self, held: Held, output: Output, attempt_id: int, publish: Callable[[], None]) -> bool:
        """End a held result completed, with its file.

        Args:
            held: the claim.
            output: what the row says of the file.
            attempt_id: the attempt whose answer it is.
            publish: puts the file in place; called between the guarded UPDATE and the commit. When it raises, the
                transaction rolls back. It may be called again when the transaction is.

        Returns:
            False when superseded: no row was changed, and ``publish`` was not called since the claim was lost.
        """
        done = Completed(held=held, output=output, attempt_id=attempt_id, publish=publish)
        return self.completing.ask(done) or self._completed_before(held, attempt_id)

    def record_all_completed(self, done: Sequence[Completed], threads: Executor) -> set[Held]:
        """End many held results completed at once; see :func:`resources.ledger.completions.complete_all`."""
        return complete_all(self._engine, done, threads)

    def record_failed(self, held: Held, failed: Failed) -> RowStatus | None:
        """End a held result failed (or cancelled, when that was asked). None: superseded."""

        def transaction(connection: sa.Connection) -> RowStatus | None:
            status = self.fail(
                connection,
                held,
                reason=failed.reason,
                message=failed.message,
                retryable=failed.next_retry_s is not None,
            )
            if status is not None:
                connection.execute(
                    sa.update(extraction_results)
                    .where(RESULT.result_id == held.row_id)
                    .values(cost_usd=result_cost(held.row_id))
                )
                _judge_failed(connection, failed)
                _plan_retry(connection, held, failed.next_retry_s if status is RowStatus.FAILED else None)
            return status

        return self._engine.write(transaction, Failpoint.COMMIT_FAIL)

    def record_cancelled(self, held: Held, reason: str) -> bool:
        """End a held result cancelled, because the provider's own record says so. False: superseded."""
        values = {"status": literal(RowStatus.CANCELLED), "message": reason, "cost_usd": result_cost(held.row_id)}
        return self._engine.write(lambda connection: self._end(connection, held, values), Failpoint.COMMIT_FAIL)

    def request_cancel(self, scope: int) -> tuple[int, int]:
        """Cancel a run: queued rows end at once, running ones get the flag, batches are cancelled at the provider."""

        def transaction(connection: sa.Connection) -> tuple[int, int]:
            counts = self._cancel(connection, scope)
            # after the rows: a reservation locks them, so its batch is seen here, or it sees that they are flagged
            connection.execute(cancel_batches(scope))
            return counts

        return self._engine.write(transaction, Failpoint.COMMIT_RELEASE)

    def record_retry(self, held: Held, failed: Failed, *, wait_s: float, refused_to_serve: bool) -> RowStatus | None:
        """Give a held result back for another try (or end it cancelled, when that was asked). None: superseded."""

        def transaction(connection: sa.Connection) -> RowStatus | None:
            status = self.requeue(connection, held, wait_s=wait_s, reason=failed.reason, message=failed.message)
            if status is not None:
                _judge_failed(connection, failed)
                if refused_to_serve:
                    connection.execute(
                        sa.update(extraction_results)
                        .where(RESULT.result_id == held.row_id)
                        .values(refusals_to_serve=RESULT.refusals_to_serve + 1)
                    )
            return status

        return self._engine.write(transaction, Failpoint.COMMIT_FAIL)

    def _complete_together(self, done: Sequence[Completed]) -> list[bool]:
        """Complete for several callers. Of one claim the first wins, as it would if each were alone."""
        first: dict[Held, Completed] = {}
        for one in done:
            first.setdefault(one.held, one)
        won = complete_all(self._engine, list(first.values()), self._placers if len(first) > 1 else None)
        return [one.held in won and first[one.held] is one for one in done]

    def _completed_before(self, held: Held, attempt_id: int) -> bool:
        """Tell our own earlier commit, whose acknowledgement was lost with the connection, from a lost claim."""
        ours: AnySelect = sa.select(RESULT.result_id).where(
            RESULT.result_id == held.row_id,
            RESULT.generation == held.generation,
            RESULT.status == literal(RowStatus.COMPLETED),
            RESULT.attempt_id == attempt_id,
        )
        return self._engine.read(lambda connection: connection.execute(ours).first() is not None)


@lru_cache(1)
def _parse_runs() -> AnySelect:
    return sa.select(parse_runs).where(parse_runs.c.parse_run_id.in_(sa.bindparam("ids", expanding=True)))


def _judge_failed(connection: sa.Connection, failed: Failed) -> None:
    if failed.attempt_id is not None:
        connection.execute(judged(failed.attempt_id, failed.reason))


def _plan_retry(connection: sa.Connection, held: Held, next_retry_s: float | None) -> None:
    """Say when the sweeper may ask again: the wait doubles with every failed result; :data:`MOST_RUNS` end it."""
    row = connection.execute(
        sa.select(RESULT.document_id, RESULT.input_fingerprint, RESULT.edition).where(RESULT.result_id == held.row_id)
    ).one()
    due: sa.ColumnElement[Any] = sa.null()
    if next_retry_s is not None:
        failed_runs = connection.execute(
            sa.select(sa.func.count()).where(
                RESULT.document_id == row.document_id,
                RESULT.input_fingerprint == row.input_fingerprint,
                RESULT.edition == row.edition,
                RESULT.status == literal(RowStatus.FAILED),
            )
        ).scalar_one()
        if failed_runs < MOST_RUNS:
            wait_s = min(next_retry_s * 2 ** max(failed_runs - 1, 0), LONGEST_WAIT_S)
            due = now_ms() + int(wait_s * 1000)
    connection.execute(sa.update(documents).where(documents.c.document_id == row.document_id).values(next_retry_ms=due))
