"""The work queue's verbs, for any table of claimable rows.

::

    queued ──claim (generation + 1, lease)──▶ running ──complete──▶ completed
      ▲                                          │ ├────fail──────▶ failed
      │                                          │ └─(cancel asked)▶ cancelled
      └──────────release / requeue / reclaim─────┘

Every write after the claim names the row, the generation it holds and ``running``; no row found means that the lease
was lost, and the caller is told so by a value: the write is *superseded* and has changed nothing. A row that was
asked to cancel is ended by its own heartbeat's answer, by fail, release or reclaim, so it cannot stay that way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.states import ACTIVE_ROW, RowStatus
from resources.ledger.claims import (
    HELD_COLUMNS,
    Claim,
    Claimed,
    Held,
    claim_arguments,
    claim_statement,
    lease_statement,
    of_several,
    shared_out,
)
from resources.ledger.engine import LedgerEngine
from resources.ledger.group_commit import GroupCommit
from resources.ledger.row_sets import is_postgres, row_set_arguments
from resources.ledger.types import literal, now_ms

RECLAIM_LIMIT = 1000


@dataclass(frozen=True, kw_only=True)
class QueueStats:
    """Rows by status within a scope; ``next_due_in_ms`` is None when nothing is queued, negative when overdue."""

    counts: Mapping[RowStatus, int]
    next_due_in_ms: int | None

    @property
    def active(self) -> int:
        """Rows that are not terminal."""
        return sum(self.counts.get(status, 0) for status in ACTIVE_ROW)


class WorkQueue:
    """The verbs on one table.

    Args:
        engine: the ledger's engine.
        table: a table with the columns of :func:`resources.ledger.tables.queue_columns`.
        row_id: its primary key.
        scope: a predicate with the bind parameter ``scope``, which limits claims and statistics to one unit of work.
        claim_at: the failpoint before the commit of a claim.

    Attributes:
        claiming: the claims that share a transaction.
    """

    def __init__(
        self,
        engine: LedgerEngine,
        table: sa.Table,
        row_id: sa.Column[int],
        scope: sa.ColumnElement[bool],
        claim_at: Failpoint,
    ) -> None:
        self._engine, self._table, self._row_id, self._scope = engine, table, row_id, scope
        self._claim_at = claim_at
        self._running = table.c.status == literal(RowStatus.RUNNING)
        self._claim = lru_cache(4)(partial(claim_statement, table, row_id, scope))
        self.claiming = GroupCommit(self._claim_together, alike=lambda claim: (claim.scope, claim.lease_s))
        self._heartbeat = lru_cache(2)(partial(lease_statement, table, row_id))

    def claim(self, worker: str, scope: int, limit: int, lease_s: float) -> list[Claimed]:
        """Claim up to ``limit`` due rows of a scope, oldest due first.

        Rows that another transaction is claiming at this moment are passed over, so any number of workers never get
        one row twice and no two processes wait for each other; threads of one process share a transaction. A claim
        whose commit went unanswered is recognised when it is run again: rows that nobody knows to be claimed would lie
        still until their lease ran out.
        """
        return self.claiming.ask(Claim(worker, scope, limit, lease_s))

    def _claim_together(self, claims: Sequence[Claim]) -> list[list[Claimed]]:
        """Claim for several callers, of one scope and lease."""
        earlier: list[Claimed] = []

        def transaction(connection: sa.Connection) -> list[list[Claimed]]:
            if kept := self._still_ours(connection, earlier, claims[0].lease_s):
                return shared_out(kept, claims)
            earlier[:] = self._take(connection, claims)
            return shared_out(earlier, claims)

        return self._engine.write(transaction, self._claim_at)

    def _still_ours(self, connection: sa.Connection, claimed: Sequence[Claimed], lease_s: float) -> list[Claimed]:
        """Return what was claimed after all, under new leases.

        What was rolled back may be a rival's now, under the same generation: the owner tells.
        """
        table = self._table
        ids = [one.held.row_id for one in claimed]
        held = sa.select(self._row_id, table.c.generation, table.c.owner).where(self._row_id.in_(ids), self._running)
        known = {tuple(row) for row in connection.execute(held)} if ids else set[Any]()
        ours = [one for one in claimed if (*one.held, one.row["owner"]) in known]
        owned = self._extend(connection, [one.held for one in ours], lease_s)
        return [one for one in ours if one.held.row_id in owned]

    def _take(self, connection: sa.Connection, claims: Sequence[Claim]) -> list[Claimed]:
        postgres = is_postgres(connection)
        statement = self._claim(several=of_several(claims), postgres=postgres)
        rows = connection.execute(statement, claim_arguments(claims, postgres=postgres)).mappings().all()
        found = self._with_more(connection, [dict(row) for row in rows])
        claimed = [Claimed(held=Held(row[self._row_id.name], row["generation"]), row=row) for row in found]
        return sorted(claimed, key=lambda item: item.held)

    def _with_more(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add what else the worker needs of other tables, in the claim's own transaction."""
        return rows

    def heartbeat(self, held: Sequence[Held], lease_s: float) -> dict[int, bool]:
        """Extend the leases of all held rows in one statement.

        Returns:
            Row id -> whether it was asked to cancel, for the rows still owned. A row that is missing was lost.
        """
        if not held:
            return {}
        return self._engine.write(
            lambda connection: self._extend(connection, held, lease_s), Failpoint.COMMIT_HEARTBEAT
        )

    def _extend(self, connection: sa.Connection, held: Sequence[Held], lease_s: float) -> dict[int, bool]:
        if not held:
            return {}
        postgres = is_postgres(connection)
        arguments = row_set_arguments(HELD_COLUMNS, sorted(held), postgres=postgres)
        rows = connection.execute(self._heartbeat(postgres=postgres), {**arguments, "lease_ms": int(lease_s * 1000)})
        return {row[0]: bool(row[1]) for row in rows}

    def complete(self, connection: sa.Connection, held: Held, values: Mapping[str, Any]) -> bool:
        """Within a transaction, end a held row completed. False: superseded, nothing was changed."""
        return self._end(connection, held, {**values, "status": literal(RowStatus.COMPLETED)})

    def fail(
        self, connection: sa.Connection, held: Held, *, reason: str, message: str, retryable: bool
    ) -> RowStatus | None:
        """Within a transaction, end a held row failed, or cancelled when that was asked.

        Returns:
            The status it ended in; None when superseded.
        """
        ended = self._ending_or_cancelled(literal(RowStatus.FAILED))
        values = {"status": ended, "reason": reason, "message": message, "retryable": retryable}
        return self._end_returning_status(connection, held, values)

    def requeue(
        self,
        connection: sa.Connection,
        held: Held,
        *,
        wait_s: float,
        reason: str | None = None,
        message: str | None = None,
    ) -> RowStatus | None:
        """Within a transaction, give a held row back, due in ``wait_s`` seconds, or end it cancelled if that was asked.

        Returns:
            ``queued`` or ``cancelled``; None when superseded.
        """
        values: dict[str, Any] = {
            "status": self._ending_or_cancelled(literal(RowStatus.QUEUED)),
            "due_ms": now_ms() + int(wait_s * 1000),
            "finished_ms": sa.case((self._table.c.cancel_requested, now_ms())),
        }
        if reason:
            values |= {"reason": reason, "message": message}
        return self._end_returning_status(connection, held, values)

    def release(self, held: Iterable[Held]) -> int:
        """Give held rows back at once, without a failed try. Returns how many were still ours."""

        def transaction(connection: sa.Connection) -> int:
            return sum(self.requeue(connection, claim, wait_s=0) is not None for claim in sorted(held))

        return self._engine.write(transaction, Failpoint.COMMIT_RELEASE)

    def reclaim(self, scope: int) -> int:
        """Return rows of a scope whose lease ran out to the queue, or end those that were asked to cancel.

        The number of reclaims is counted apart from attempts: a crash loop is bounded where attempts are opened.
        """
        table = self._table
        expired = table.c.lease_expires_ms < now_ms()
        dead = (
            sa.select(self._row_id)
            .where(self._running, expired, self._scope)
            .order_by(self._row_id)
            .limit(RECLAIM_LIMIT)
            .with_for_update(skip_locked=True, of=table)
            .cte("dead")
        )
        statement = (
            sa.update(table)
            .where(self._row_id == dead.c[self._row_id.name], self._running, expired)
            .values(
                status=self._ending_or_cancelled(literal(RowStatus.QUEUED)),
                owner=sa.null(),
                lease_expires_ms=sa.null(),
                reclaims=table.c.reclaims + 1,
                finished_ms=sa.case((table.c.cancel_requested, now_ms())),
            )
            # counted by what returns: SQLite's driver has no row count for a statement that begins with WITH
            .returning(self._row_id)
        )
        return self._engine.write(
            lambda connection: len(connection.execute(statement, {"scope": scope}).all()), Failpoint.COMMIT_RECLAIM
        )

    def request_cancel(self, scope: int) -> tuple[int, int]:
        """Cancel a scope: queued rows end at once, running ones get the flag. Returns both counts."""
        return self._engine.write(lambda connection: self._cancel(connection, scope), Failpoint.COMMIT_RELEASE)

    def _cancel(self, connection: sa.Connection, scope: int) -> tuple[int, int]:
        table = self._table
        is_queued = table.c.status == literal(RowStatus.QUEUED)
        # one statement: of two, a row that is claimed or released between them would be missed by both
        statement = (
            sa.update(table)
            .where(sa.or_(is_queued, self._running), self._scope)
            .values(
                status=sa.case((is_queued, literal(RowStatus.CANCELLED)), else_=table.c.status),
                cancel_requested=sa.true(),
                finished_ms=sa.case((is_queued, now_ms())),
            )
            .returning(table.c.status)
        )
        ended = connection.execute(statement, {"scope": scope}).scalars().all()
        return ended.count(RowStatus.CANCELLED), ended.count(RowStatus.RUNNING)

    def stats(self, scope: int) -> QueueStats:
        """Count a scope's rows by status, in SQL."""
        table = self._table
        by_status = sa.select(table.c.status, sa.func.count()).where(self._scope).group_by(table.c.status)
        next_due = sa.select(sa.func.min(table.c.due_ms) - now_ms()).where(
            table.c.status == literal(RowStatus.QUEUED), self._scope
        )

        def query(connection: sa.Connection) -> QueueStats:
            counts = {
                RowStatus(status): int(number) for status, number in connection.execute(by_status, {"scope": scope})
            }
            due = connection.execute(next_due, {"scope": scope}).scalar()
            return QueueStats(counts=counts, next_due_in_ms=None if due is None else int(due))

        return self._engine.read(query)

    def get(self, row_id: int) -> Mapping[str, Any] | None:
        """Return one row, or None."""
        statement = sa.select(self._table).where(self._row_id == row_id)
        row = self._engine.read(lambda connection: connection.execute(statement).mappings().first())
        return None if row is None else dict(row)

    def _ending_or_cancelled(self, ending: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
        return sa.case((self._table.c.cancel_requested, literal(RowStatus.CANCELLED)), else_=ending)

    def _end(self, connection: sa.Connection, held: Held, values: Mapping[str, Any]) -> bool:
        return connection.execute(self._guarded_update(held, values)).rowcount == 1

    def _end_returning_status(
        self, connection: sa.Connection, held: Held, values: Mapping[str, Any]
    ) -> RowStatus | None:
        statement = self._guarded_update(held, values).returning(self._table.c.status)
        status = connection.execute(statement).scalar()
        return None if status is None else RowStatus(status)

    def _guarded_update(self, held: Held, values: Mapping[str, Any]) -> sa.Update:
        base: dict[str, Any] = {"owner": sa.null(), "lease_expires_ms": sa.null(), "finished_ms": now_ms()}
        return (
            sa.update(self._table)
            .where(self._row_id == held.row_id, self._table.c.generation == held.generation, self._running)
            .values({**base, **values})
        )
