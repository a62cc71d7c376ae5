"""Signs of life: one row per process that works on a set, beaten on a thread of its own.

Whether somebody is at work is judged by this beat, never by an orchestrator's status: a killed worker can leave its
Dagster run started for ever, and a run that was forced to fail can go on working.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.states import RowStatus
from resources.ledger.engine import LedgerEngine
from resources.ledger.reservations import BATCH_LEASE_MS
from resources.ledger.tables import extraction_results, workers
from resources.ledger.types import literal, now_ms

WORKER = workers.c
RESULT = extraction_results.c


@dataclass(frozen=True, kw_only=True)
class WorkerIdentity:
    """Who works: an id of its own, the Dagster run it works for, the host and process it is."""

    worker_id: str
    collection: str
    host: str
    pid: int
    dagster_run_id: str | None


class Workers:
    """Registers workers and their beats."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def begin(self, identity: WorkerIdentity, set_id: int, lease_s: float) -> None:
        """Register a worker of a set; its first beat is now. Idempotent."""
        row = {
            **vars(identity),
            "set_id": set_id,
            "started_ms": now_ms(),
            "beat_ms": now_ms(),
            "lease_expires_ms": now_ms() + int(lease_s * 1000),
        }

        def transaction(connection: sa.Connection) -> None:
            known = sa.select(WORKER.worker_id).where(WORKER.worker_id == identity.worker_id)
            if connection.execute(known).first() is None:
                connection.execute(sa.insert(workers).values(row))

        self._engine.write(transaction, Failpoint.COMMIT_WORKER)

    def beat(self, worker_id: str, lease_s: float) -> None:
        """Record a sign of life."""
        statement = (
            sa.update(workers)
            .where(WORKER.worker_id == worker_id, WORKER.ended_ms.is_(None))
            .values(beat_ms=now_ms(), lease_expires_ms=now_ms() + int(lease_s * 1000))
        )
        self._engine.write(lambda connection: connection.execute(statement), Failpoint.COMMIT_HEARTBEAT)

    def end(self, worker_id: str) -> None:
        """Record that a worker left in order."""
        statement = sa.update(workers).where(WORKER.worker_id == worker_id).values(ended_ms=now_ms())
        self._engine.write(lambda connection: connection.execute(statement), Failpoint.COMMIT_WORKER)

    def others_alive(self, set_id: int, worker_id: str) -> list[str]:
        """Return the Dagster run ids (or worker ids) of other live workers of a set."""
        statement = sa.select(sa.func.coalesce(WORKER.dagster_run_id, WORKER.worker_id)).where(
            WORKER.set_id == set_id,
            WORKER.worker_id != worker_id,
            WORKER.ended_ms.is_(None),
            WORKER.lease_expires_ms >= now_ms(),
        )
        return list(self._engine.read(lambda connection: connection.execute(statement).scalars().all()))

    def holders(self, run_id: int) -> list[Mapping[str, Any]]:
        """Return who holds the running rows of an extraction run, with the age of each holder's last beat.

        Returns:
            Mappings with ``holder`` (Dagster run or worker id), ``rows``, ``beat_age_ms`` (None: no such worker) and
            ``lease_left_ms`` (the longest of its rows). A message batch is a holder like another, and always alive:
            what becomes of it is found out by looking at the provider.
        """
        statement = (
            sa.select(
                sa.func.coalesce(WORKER.dagster_run_id, RESULT.owner).label("holder"),
                sa.func.count().label("rows"),
                sa.case(
                    (sa.func.max(RESULT.lease_expires_ms) == BATCH_LEASE_MS, 0),
                    else_=now_ms() - sa.func.max(sa.case((WORKER.ended_ms.is_(None), WORKER.beat_ms))),
                ).label("beat_age_ms"),
                (sa.func.max(RESULT.lease_expires_ms) - now_ms()).label("lease_left_ms"),
            )
            .select_from(extraction_results.outerjoin(workers, WORKER.worker_id == RESULT.owner))
            .where(RESULT.run_id == run_id, RESULT.status == literal(RowStatus.RUNNING))
            .group_by(sa.func.coalesce(WORKER.dagster_run_id, RESULT.owner))
        )
        return [
            dict(row) for row in self._engine.read(lambda connection: connection.execute(statement).mappings().all())
        ]
