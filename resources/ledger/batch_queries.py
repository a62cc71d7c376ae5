"""Read-only questions about message batches: which are due, open, ended, overdue; who asked for which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from extraction_core.batches import AT_PROVIDER, BatchState
from extraction_core.states import RowStatus
from resources.ledger.engine import LedgerEngine
from resources.ledger.tables import document_sets, message_batches
from resources.ledger.types import AnySelect, literal, now_ms

BATCH = message_batches.c
MOST_DIGITS = 18
"""A number of more digits may be none that the database can hold."""


class BatchQueries:
    """The questions; mixed into the queue of batches."""

    _engine: LedgerEngine

    def due(self, collection: str, limit: int) -> list[Mapping[str, Any]]:
        """Return batches of a collection at the provider that nobody holds and that are due, longest due first."""
        return self._rows(_due(collection, BATCH.state.in_(AT_PROVIDER)).limit(limit))

    def of_run(self, run_id: int, *states: BatchState) -> list[Mapping[str, Any]]:
        """Return a run's batches in these states, oldest first."""
        statement = sa.select(message_batches).where(BATCH.run_id == run_id, BATCH.state.in_(states))
        return self._rows(statement.order_by(BATCH.batch_id))

    def open_of_set(self, set_id: int) -> list[Mapping[str, Any]]:
        """Return a set's batches on which the provider may still be at work."""
        statement = sa.select(message_batches).where(
            BATCH.set_id == set_id,
            _is_unsettled(),
            BATCH.state.in_(AT_PROVIDER),
        )
        return self._rows(statement.order_by(BATCH.batch_id))

    def to_collect(self, collection: str) -> list[Mapping[str, Any]]:
        """Return ended batches of a collection that are due to be collected and that nobody holds."""
        return self._rows(_due(collection, BATCH.state == literal(BatchState.ENDED)))

    def listed(self, collection: str | None, *, settled: bool) -> list[Mapping[str, Any]]:
        """Return batches with ``partition_key``, ``folder``, ``age_s`` and ``overdue``, oldest first.

        Args:
            collection: only this one's.
            settled: whether those that are settled are listed too.
        """
        statement = (
            sa.select(
                *message_batches.c,
                document_sets.c.partition_key,
                document_sets.c.folder,
                ((now_ms() - BATCH.created_ms) / 1000).label("age_s"),
                sa.case((sa.and_(_is_unsettled(), BATCH.overdue_ms < now_ms()), 1), else_=0).label("overdue"),
            )
            .join(document_sets, document_sets.c.set_id == BATCH.set_id)
            .order_by(BATCH.batch_id)
        )
        if collection is not None:
            statement = statement.where(BATCH.collection == collection)
        return self._rows(statement if settled else statement.where(_is_unsettled()))

    def find(self, name: str) -> Mapping[str, Any] | None:
        """Return a batch by its number here or its id at the provider."""
        known = BATCH.provider_id == name
        if name.isdecimal() and len(name) <= MOST_DIGITS:
            known = sa.or_(known, BATCH.batch_id == int(name))
        return next(iter(self._rows(sa.select(message_batches).where(known))), None)

    def accepted_s_ago(self, batch_id: int) -> float:
        """Return the seconds since the provider's id of a batch was stored; 0 while it is not."""
        age = sa.select((now_ms() - sa.func.coalesce(BATCH.accepted_ms, now_ms())) / 1000.0)
        statement = age.where(BATCH.batch_id == batch_id)
        return float(self._engine.read(lambda connection: connection.execute(statement).scalar_one()))

    def is_overdue(self, batch_id: int) -> bool:
        """Whether a batch should have ended by now."""
        statement = sa.select(BATCH.batch_id).where(BATCH.batch_id == batch_id, BATCH.overdue_ms < now_ms())
        return self._engine.read(lambda connection: connection.execute(statement).first()) is not None

    def _rows(self, statement: AnySelect) -> list[Mapping[str, Any]]:
        return [
            dict(row) for row in self._engine.read(lambda connection: connection.execute(statement).mappings().all())
        ]


def _due(collection: str, in_state: sa.ColumnElement[bool]) -> AnySelect:
    return (
        sa.select(message_batches)
        .where(
            BATCH.collection == collection,
            BATCH.status == literal(RowStatus.QUEUED),
            BATCH.due_ms <= now_ms(),
            in_state,
        )
        .order_by(BATCH.due_ms, BATCH.batch_id)
    )


def _is_unsettled() -> sa.ColumnElement[bool]:
    return sa.or_(BATCH.status == literal(RowStatus.QUEUED), BATCH.status == literal(RowStatus.RUNNING))
