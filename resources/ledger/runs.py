"""Extraction runs: opened or joined, filled, sealed.

At most one run of a document set is open (a partial unique index), so a second opener joins. Filling is idempotent
and resumable: whoever joins a run that is not sealed yet fills it to the end and seals it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from extraction_core.failpoints import Failpoint
from extraction_core.states import RunStatus, Select
from resources.ledger.engine import LedgerEngine
from resources.ledger.row_sets import is_postgres
from resources.ledger.selection import Selection, chosen_documents, fill_statement
from resources.ledger.tables import ACTIVE, OPEN_SQL, documents, extraction_results, extraction_runs
from resources.ledger.types import AnySelect, literal, now_ms

RUN = extraction_runs.c
SLICE = 1000
"""Documents a filling transaction: short enough that other writers get through."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a run is asked to do."""

    set_id: int
    collection: str
    select: Select
    documents: Sequence[str] | None
    model: str
    max_cost_usd: Decimal | None
    dagster_run_id: str | None


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """An open run. ``joined`` tells that somebody else opened it."""

    run_id: int
    select: Select
    documents: Sequence[str] | None
    sealed: bool
    joined: bool


class Runs:
    """Opens, fills and seals extraction runs."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def open_or_join(self, request: RunRequest) -> OpenRun:
        """Open a run for a set, or join the one that is open."""
        values = {
            "set_id": request.set_id,
            "collection": request.collection,
            "selection": request.select,
            "selected_keys": list(request.documents) if request.documents is not None else None,
            "model": request.model,
            "max_cost_usd": request.max_cost_usd,
            "dagster_run_id": request.dagster_run_id,
            "opened_ms": now_ms(),
        }

        def transaction(connection: sa.Connection) -> OpenRun:
            insert = postgresql.insert(extraction_runs) if is_postgres(connection) else sqlite.insert(extraction_runs)
            row = inserted = None
            while row is None:  # again, if the run that was in the way closed between the two statements
                inserted = connection.execute(
                    insert.values(values)
                    .on_conflict_do_nothing(index_elements=["set_id"], index_where=sa.text(OPEN_SQL))
                    .returning(RUN.run_id)
                ).scalar()
                row = connection.execute(_open_of_set(request.set_id)).mappings().first()
            return OpenRun(
                run_id=row["run_id"],
                select=Select(row["selection"]),
                documents=row["selected_keys"],
                sealed=row["sealed"],
                joined=inserted is None,
            )

        return self._engine.write(transaction, Failpoint.COMMIT_RUN_OPEN)

    def open_of_set(self, set_id: int) -> int | None:
        """Return the id of a set's open run, or None."""
        statement = _open_of_set(set_id).with_only_columns(RUN.run_id)
        return self._engine.read(lambda connection: connection.execute(statement).scalar())

    def selects(self, selection: Selection) -> int:
        """Return how many documents a selection would take now."""
        statement = sa.select(sa.func.count()).select_from(documents).where(chosen_documents(selection))
        return int(self._engine.read(lambda connection: connection.execute(statement).scalar_one()))

    def fill(self, run_id: int, selection: Selection) -> int:
        """Enqueue a row for every document that is selected, slice by slice. Returns how many were inserted.

        A document that is active in another run keeps its place there and is passed over.
        """
        inserted, after = 0, 0
        while last := self._last_of_slice(selection.set_id, after):
            inserted += self._fill_slice(run_id, selection, (after, last))
            after = last
        return inserted

    def active_elsewhere(self, run_id: int, selection: Selection) -> int:
        """Return how many selected documents are active in another run, which keeps them: a set's rule has changed."""
        other = extraction_results.alias("other")
        active = sa.exists().where(
            other.c.document_id == documents.c.document_id,
            other.c.run_id != run_id,
            other.c.status.in_([literal(status) for status in ACTIVE]),
        )
        statement = sa.select(sa.func.count()).select_from(documents).where(chosen_documents(selection), active)
        return int(self._engine.read(lambda connection: connection.execute(statement).scalar_one()))

    def seal(self, run_id: int) -> int | None:
        """Seal a run: no further row is added, and its request count is what it holds.

        Returns:
            The request count; None when it was sealed before or is closed.
        """
        count = sa.select(sa.func.count()).where(extraction_results.c.run_id == run_id).scalar_subquery()
        statement = (
            sa.update(extraction_runs)
            .where(RUN.run_id == run_id, RUN.status == literal(RunStatus.OPEN), ~RUN.sealed)
            .values(sealed=sa.true(), sealed_ms=now_ms(), request_count=count)
            .returning(RUN.request_count)
        )

        def transaction(connection: sa.Connection) -> int | None:
            # the row's lock first: a filler that holds it shared must commit before we count
            connection.execute(sa.select(RUN.run_id).where(RUN.run_id == run_id).with_for_update())
            return connection.execute(statement).scalar()

        return self._engine.write(transaction, Failpoint.COMMIT_SEAL)

    def get(self, run_id: int) -> Mapping[str, Any] | None:
        """Return one run, or None."""
        statement = sa.select(extraction_runs).where(RUN.run_id == run_id)
        row = self._engine.read(lambda connection: connection.execute(statement).mappings().first())
        return None if row is None else dict(row)

    def _last_of_slice(self, set_id: int, after: int) -> int | None:
        ids = (
            sa.select(documents.c.document_id)
            .where(documents.c.set_id == set_id, documents.c.document_id > after)
            .order_by(documents.c.document_id)
            .limit(SLICE)
            .subquery()
        )
        statement = sa.select(sa.func.max(ids.c.document_id))
        return self._engine.read(lambda connection: connection.execute(statement).scalar())

    def _fill_slice(self, run_id: int, selection: Selection, bounds: tuple[int, int]) -> int:
        fillable = (
            sa.select(RUN.run_id)
            .where(RUN.run_id == run_id, RUN.status == literal(RunStatus.OPEN), ~RUN.sealed)
            .with_for_update(read=True)
        )

        def transaction(connection: sa.Connection) -> int:
            if connection.execute(fillable).first() is None:  # sealed by another filler: nothing is missing
                return 0
            statement = fill_statement(run_id, selection, bounds, postgres=is_postgres(connection))
            inserted = connection.execute(statement).scalars().all()
            connection.execute(_no_longer_due(run_id, bounds))
            return len(inserted)

        return self._engine.write(transaction, Failpoint.COMMIT_ENQUEUE)


def _no_longer_due(run_id: int, bounds: tuple[int, int]) -> sa.Update:
    """What this run holds is asked for; a document that changes after this moment is marked due anew."""
    asked = sa.select(extraction_results.c.document_id).where(
        extraction_results.c.run_id == run_id,
        extraction_results.c.document_id > bounds[0],
        extraction_results.c.document_id <= bounds[1],
    )
    return (
        sa.update(documents)
        .where(documents.c.document_id.in_(asked), documents.c.signature == documents.c.read_signature)
        .values(due_since_ms=None, next_retry_ms=None)
    )


def _open_of_set(set_id: int) -> AnySelect:
    return sa.select(extraction_runs).where(RUN.set_id == set_id, RUN.status == literal(RunStatus.OPEN))
