"""Which document sets are due, and who may launch one: the ledger's half of the one door to new runs.

What is due is read from partial indexes of marks, so its cost grows with what is due and not with what is stored. A
launch is a guarded UPDATE of the set's launch lease: of any number of evaluations at the same time exactly one wins,
and a request that led to no run is made again when the lease has run out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.states import RunStatus
from resources.ledger.documents import DocumentSet
from resources.ledger.engine import LedgerEngine
from resources.ledger.selection import GATHER_MS, waits_for_a_job
from resources.ledger.tables import document_sets, documents, extraction_results, extraction_runs, workers
from resources.ledger.types import AnySelect, literal, now_ms, zero

SET = document_sets.c
DOCUMENT = documents.c
RUN = extraction_runs.c
WORKER = workers.c
RESULT = extraction_results.c


@dataclass(frozen=True, kw_only=True)
class DueSet:
    """A document set that somebody should work on, and why."""

    document_set: DocumentSet
    open_run_id: int | None
    launch_number: int


@dataclass(frozen=True, kw_only=True)
class LastWorker:
    """The last sign of life of a Dagster run; ages in milliseconds of the database's clock."""

    alive: bool
    ended_ms_ago: int | None


class Launches:
    """Finds due sets and hands out launch leases."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def due_sets(self, collection: str, question: str | None, *, after: int, limit: int) -> list[DueSet]:
        """Return due sets of a collection with ids above ``after``, by id.

        Due are: an open extraction run; a document without a result for its current input; a document whose time for
        another try has come; a set that was last prepared for another question.

        Args:
            collection: the collection's name.
            question: digest of what the collection asks now; None leaves the last rule out.
            after: the id to go on after.
            limit: the most sets.
        """
        ids = _due_set_ids(collection, question).subquery()
        open_run = (
            sa.select(RUN.run_id)
            .where(RUN.set_id == SET.set_id, RUN.status == literal(RunStatus.OPEN))
            .correlate(document_sets)
            .scalar_subquery()
        )
        statement = (
            sa.select(
                SET.set_id, SET.collection, SET.partition_key, SET.folder, open_run.label("run"), SET.launch_number
            )
            .where(SET.set_id.in_(sa.select(ids.c.set_id)), SET.collection == collection, SET.set_id > after)
            .order_by(SET.set_id)
            .limit(limit)
        )
        rows = self._engine.read(lambda connection: connection.execute(statement).all())
        return [
            DueSet(
                document_set=DocumentSet(set_id=row[0], collection=row[1], partition_key=row[2], folder=row[3]),
                open_run_id=row[4],
                launch_number=row[5],
            )
            for row in rows
        ]

    def take_lease(self, set_id: int, launch_number: int, lease_s: float) -> int | None:
        """Take the right to launch a set once. Returns the number of the launch; None when another has the lease."""
        statement = (
            sa.update(document_sets)
            .where(
                SET.set_id == set_id,
                SET.launch_number == launch_number,
                sa.or_(SET.launch_lease_expires_ms.is_(None), SET.launch_lease_expires_ms < now_ms()),
            )
            .values(launch_number=SET.launch_number + 1, launch_lease_expires_ms=now_ms() + int(lease_s * 1000))
            .returning(SET.launch_number)
        )
        return self._engine.write(lambda connection: connection.execute(statement).scalar(), Failpoint.COMMIT_LAUNCH)

    def lease_is_free(self, set_id: int) -> bool:
        """Whether a launch of a set may be asked for now, for a dry run."""
        statement = sa.select(SET.set_id).where(
            SET.set_id == set_id,
            sa.or_(SET.launch_lease_expires_ms.is_(None), SET.launch_lease_expires_ms < now_ms()),
        )
        return self._engine.read(lambda connection: connection.execute(statement).first()) is not None

    def begun(self, set_id: int, question: str) -> None:
        """A pass over a set begins: the launch that asked for it is fulfilled, and this is what it asks.

        If that is something new, the documents are marked due in the same transaction: the pass may die, or ask only
        some of them, and the set itself is not told any more by its question.
        """
        asks_anew = sa.exists().where(SET.set_id == set_id, SET.question != question)
        mark = (
            sa.update(documents)
            .where(DOCUMENT.set_id == set_id, DOCUMENT.removed_ms.is_(None), DOCUMENT.due_since_ms.is_(None), asks_anew)
            .values(due_since_ms=now_ms())
        )
        fulfilled = (
            sa.update(document_sets)
            .where(SET.set_id == set_id)
            .values(launch_lease_expires_ms=sa.null(), question=question)
        )

        def transaction(connection: sa.Connection) -> None:
            connection.execute(mark)
            connection.execute(fulfilled)

        self._engine.write(transaction, Failpoint.COMMIT_LAUNCH)

    def hold(self, set_id: int, wait_s: float) -> None:
        """Keep the sensors from launching a set for a while."""
        statement = (
            sa.update(document_sets)
            .where(SET.set_id == set_id)
            .values(launch_lease_expires_ms=now_ms() + int(wait_s * 1000))
        )
        self._engine.write(lambda connection: connection.execute(statement), Failpoint.COMMIT_LAUNCH)

    def withdraw(self, set_id: int, cancelled_ms: int, question: str | None) -> None:
        """A person cancelled the run that was to take up a set: leave to people what was due to that run.

        What becomes due later, a document that changes or that a person asks for, is due anew.

        Args:
            set_id: the set.
            cancelled_ms: when; younger marks stay.
            question: what the run was to ask, if it never began to ask: the set counts as prepared for it.
        """
        mine = DOCUMENT.set_id == set_id
        marks = (
            sa.update(documents).where(mine, DOCUMENT.due_since_ms <= cancelled_ms).values(due_since_ms=sa.null()),
            sa.update(documents)
            .where(mine, DOCUMENT.next_retry_ms <= cancelled_ms + GATHER_MS)
            .values(next_retry_ms=sa.null()),
        )

        def transaction(connection: sa.Connection) -> None:
            for statement in marks:
                connection.execute(statement)
            if question is not None:
                asked_otherwise = sa.update(document_sets).where(SET.set_id == set_id, SET.question != question)
                connection.execute(asked_otherwise.values(question=question))

        self._engine.write(transaction, Failpoint.COMMIT_LAUNCH)

    def settle_marks(self, set_id: int) -> None:
        """Take the due marks off documents that a pass looked at and had nothing to ask of.

        They are unchanged after all, have their result, or have no attempts left. Left in place, such a mark would ask
        for a run for ever. What the pass enqueued has lost its marks already, and a document that changed after it
        was read keeps its, as does one whose text a parse service is still making.
        """
        asked = extraction_results.alias("asked")
        has_result = sa.exists().where(
            asked.c.document_id == DOCUMENT.document_id, asked.c.input_fingerprint == DOCUMENT.input_fingerprint
        )
        as_read = sa.and_(DOCUMENT.set_id == set_id, DOCUMENT.signature == DOCUMENT.read_signature, ~waits_for_a_job())
        unchanged = (
            sa.update(documents)
            .where(as_read, DOCUMENT.due_since_ms.is_not(None), has_result)
            .values(due_since_ms=sa.null())
        )
        without_attempts = (
            sa.update(documents).where(as_read, DOCUMENT.next_retry_ms <= now_ms()).values(next_retry_ms=sa.null())
        )

        def transaction(connection: sa.Connection) -> None:
            connection.execute(unchanged)
            connection.execute(without_attempts)

        self._engine.write(transaction, Failpoint.COMMIT_LAUNCH)

    def ask_again(self, set_id: int, keys: Sequence[str], *, reset: bool) -> list[str]:
        """Mark documents due because a person asks; with ``reset`` their attempts are counted anew.

        Returns:
            The keys that were found.
        """
        values: dict[str, Any] = {"due_since_ms": now_ms(), "next_retry_ms": now_ms()}
        if reset:
            newest = sa.select(sa.func.max(RESULT.edition)).where(
                RESULT.document_id == DOCUMENT.document_id, RESULT.input_fingerprint == DOCUMENT.input_fingerprint
            )
            values["lowest_edition"] = sa.func.coalesce(newest.scalar_subquery(), zero()) + 1
        statement = (
            sa.update(documents)
            .where(DOCUMENT.set_id == set_id, DOCUMENT.document_key.in_(list(keys)), DOCUMENT.removed_ms.is_(None))
            .values(**values)
            .returning(DOCUMENT.document_key)
        )
        marked = self._engine.write(
            lambda connection: connection.execute(statement).scalars().all(), Failpoint.COMMIT_LAUNCH
        )
        return list(marked)

    def live_workers(self, set_id: int) -> list[str]:
        """Return Dagster run ids (or worker ids) of live workers of a set."""
        statement = sa.select(sa.func.coalesce(WORKER.dagster_run_id, WORKER.worker_id)).where(
            WORKER.set_id == set_id, WORKER.ended_ms.is_(None), WORKER.lease_expires_ms >= now_ms()
        )
        return list(self._engine.read(lambda connection: connection.execute(statement).scalars().all()))

    def last_worker(self, dagster_run_id: str) -> LastWorker | None:
        """Return what the ledger knows of a Dagster run's worker; None when it never signed on."""
        statement: AnySelect = sa.select(
            sa.func.max(sa.case((sa.and_(WORKER.ended_ms.is_(None), WORKER.lease_expires_ms >= now_ms()), 1), else_=0)),
            now_ms() - sa.func.max(WORKER.ended_ms),
            sa.func.count(),
        ).where(WORKER.dagster_run_id == dagster_run_id)
        row = self._engine.read(lambda connection: connection.execute(statement).one())
        if not row[2]:
            return None
        return LastWorker(alive=bool(row[0]), ended_ms_ago=None if row[1] is None else int(row[1]))

    def last_activity_ms(self, set_id: int, *, besides: str) -> int | None:
        """Return when something was last done on a set, other than by the Dagster run ``besides``; None for never."""
        worked = sa.select(sa.func.coalesce(WORKER.ended_ms, WORKER.beat_ms).label("at_ms")).where(
            WORKER.set_id == set_id, WORKER.dagster_run_id.is_distinct_from(besides)
        )
        opened = sa.select(RUN.opened_ms.label("at_ms")).where(
            RUN.set_id == set_id, RUN.status == literal(RunStatus.OPEN)
        )
        moments = sa.union_all(worked, opened).subquery()
        statement = sa.select(sa.func.max(moments.c.at_ms))
        return self._engine.read(lambda connection: connection.execute(statement).scalar())

    def workers_of_run(self, run_id: int) -> list[str]:
        """Return the Dagster runs that worked on an extraction run's set since it was opened, newest first."""
        statement = (
            sa.select(WORKER.dagster_run_id)
            .join(extraction_runs, RUN.set_id == WORKER.set_id)
            .where(RUN.run_id == run_id, WORKER.dagster_run_id.is_not(None))
            .where(
                sa.or_(
                    sa.func.coalesce(WORKER.ended_ms, WORKER.lease_expires_ms) >= RUN.opened_ms,
                    WORKER.dagster_run_id == RUN.dagster_run_id,
                )
            )
            .order_by(WORKER.started_ms.desc())
        )
        return list(self._engine.read(lambda connection: connection.execute(statement).scalars().all()))


def _due_set_ids(collection: str, question: str | None) -> sa.CompoundSelect[Any]:
    never_asked = sa.select(DOCUMENT.set_id).where(
        DOCUMENT.due_since_ms.is_not(None), DOCUMENT.removed_ms.is_(None), DOCUMENT.collection == collection
    )
    try_again = sa.select(DOCUMENT.set_id).where(
        DOCUMENT.next_retry_ms <= now_ms(), DOCUMENT.removed_ms.is_(None), DOCUMENT.collection == collection
    )
    unfinished = sa.select(RUN.set_id).where(RUN.status == literal(RunStatus.OPEN), RUN.collection == collection)
    parts = [never_asked, try_again, unfinished]
    if question is not None:
        asked_otherwise = sa.select(SET.set_id).where(SET.collection == collection, SET.question != question)
        parts.append(asked_otherwise)
    return sa.union(*parts)
