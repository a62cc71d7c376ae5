"""A collection under watch, and Dagster runs of it that exist but are never executed: any status can be had."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
import uuid
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.execution.api import create_execution_plan
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemotePartitionSetOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.snap import snapshot_from_execution_plan

from extraction_assets.assets.document_set import build_document_set_assets
from resources.configurable import ExtractionEnvironment
from resources.ledger.tables import extraction_results, workers
from resources.ledger.types import now_ms
from resources.ledger.workers import WorkerIdentity
from sensors.sweep import Sweep, SweepLimits, SweepReport
from tests.factories import LEASE_S, a_document, ask
from tests.ledger.support import execute, one_row, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from extraction_core.collection import Collection
    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet
    from resources.ledger.launches import DueSet
    from sensors.door import Launch
    from sensors.target import SensorTarget

PROJECT_ROOT = Path(__file__).resolve().parents[2]
PARTITION_TAG = "dagster/partition"
REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("document_extraction"), "__repository__")
Status = dg.DagsterRunStatus
END_EVENTS = {
    Status.SUCCESS: dg.DagsterEventType.RUN_SUCCESS,
    Status.FAILURE: dg.DagsterEventType.RUN_FAILURE,
    Status.CANCELED: dg.DagsterEventType.RUN_CANCELED,
}


class Watch:
    """What the sensors of one collection see.

    Args:
        ledger: the ledger.
        instance: Dagster's storage.
        target: the collection, as the sensors are handed it.
    """

    def __init__(self, ledger: Ledger, instance: dg.DagsterInstance, target: SensorTarget) -> None:
        self.ledger, self.instance, self.target = ledger, instance, target

    @property
    def folder(self) -> Path:
        """The folder of this test; the source is the folder ``docs`` in it."""
        return Path(self.target.collection.source).parent

    def age_files(self, seconds: int) -> None:
        """Let all files of the source have been changed so many seconds after 1970."""
        for path in Path(self.target.collection.source).rglob("*.*"):
            os.utime(path, (seconds, seconds))

    def sets(self, *folders: str, documents: int = 1) -> list[DocumentSet]:
        """Register document sets that were never asked for, each with so many documents."""
        found = [a_document(number, folder=folder) for folder in folders for number in range(documents)]
        self.ledger.documents.register(self.target.collection.name, found)
        known = {one.folder: one for one in self.ledger.documents.sets(self.target.collection.name)}
        for folder in folders:
            ask(self.ledger, known[folder], "q")
        return [known[folder] for folder in folders]

    def sweep(self, cursor: int = 0, *, dry_run: bool = False, **limits: Any) -> SweepReport:
        """Sweep once."""
        return Sweep(self.ledger, self.instance, self.target, SweepLimits(**limits), dry_run=dry_run).run(cursor)

    def due(self) -> list[DueSet]:
        """Return the due sets, by id."""
        return self.ledger.launches.due_sets(self.target.collection.name, self.target.question(), after=0, limit=1000)

    def dagster_run(
        self,
        status: Status = Status.STARTED,
        *,
        of: DocumentSet | None = None,
        tags: Mapping[str, str] | None = None,
        job: str | None = None,
        assets: Sequence[dg.AssetKey] | None = None,
        plan: str | None = None,
        started_s_ago: float | None = None,
    ) -> str:
        """Make a Dagster run that nobody executes. Returns its id.

        Args:
            status: its status.
            of: the document set whose partition it covers; otherwise what ``tags`` say.
            tags: further tags.
            job: its job; the collection's unless told otherwise.
            assets: the assets that it names instead of a job, as a run from the UI's asset page does.
            plan: the plan that Dagster keeps of it; see :func:`planned`.
            started_s_ago: when it started.
        """
        job = job or ("__ASSET_JOB" if assets else self.target.job_name)
        run = dg.DagsterRun(
            job_name=job,
            status=Status.STARTING if started_s_ago is not None else status,
            tags={**({PARTITION_TAG: of.partition_key} if of else {}), **(tags or {})},
            asset_selection=frozenset(assets) if assets else None,
            execution_plan_snapshot_id=plan,
            remote_job_origin=RemoteJobOrigin(REPOSITORY, job),  # a queued run must say who is to run it
        )
        self.instance.add_run(run)
        if started_s_ago is not None:
            self._happened(
                run.run_id, dg.DagsterEventType.RUN_START, datetime.now(UTC) - timedelta(seconds=started_s_ago)
            )
        return run.run_id

    def backfill(self, partition_keys: Sequence[str], job: str | None = None) -> None:
        """Let a backfill of a job have been asked for, whose runs the daemon has not made yet."""
        job = job or self.target.job_name
        origin = RemotePartitionSetOrigin(repository_origin=REPOSITORY, partition_set_name=f"{job}_partition_set")
        self.instance.add_backfill(
            PartitionBackfill(
                backfill_id=uuid.uuid4().hex[:8],
                status=BulkActionStatus.REQUESTED,
                backfill_timestamp=time.time(),
                tags={},
                from_failure=False,
                partition_set_origin=origin,
                partition_names=list(partition_keys),
            )
        )

    def end(self, run_id: str, status: Status) -> None:
        """Let a Dagster run have ended."""
        self._happened(run_id, END_EVENTS[status])

    def accept(self, launches: Sequence[Launch]) -> list[str]:
        """Do as the daemon does after a tick: queue a run for every launch."""
        return [self.dagster_run(Status.QUEUED, of=launch.due.document_set) for launch in launches]

    def runs(self, of: DocumentSet | None = None) -> list[dg.DagsterRun]:
        """Return all Dagster runs, or those of one document set, oldest first."""
        tags = {PARTITION_TAG: of.partition_key} if of else None
        return list(reversed(self.instance.get_runs(dg.RunsFilter(tags=tags))))

    def status_of(self, run_id: str) -> Status:
        """Return a Dagster run's status."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status

    def made_in_the_year_2000(self, run_id: str) -> None:
        """Let a Dagster run be old."""
        with closing(database(self.instance)) as connection, connection:
            then = "2000-01-01 00:00:00.000000"
            connection.execute(
                "UPDATE runs SET create_timestamp = ?, update_timestamp = ? WHERE run_id = ?", (then, then, run_id)
            )

    def work(self, document_set: DocumentSet, dagster_run_id: str | None, lease_s: float = LEASE_S) -> str:
        """Let a worker of a set sign on. Returns its id."""
        identity = WorkerIdentity(
            worker_id=str(uuid.uuid4()),
            collection=document_set.collection,
            host="here",
            pid=os.getpid(),
            dagster_run_id=dagster_run_id,
        )
        self.ledger.workers.begin(identity, document_set.set_id, lease_s)
        return identity.worker_id

    def everybody_dies(self) -> None:
        """Let all signs of life and all claims have run out."""
        for table, held in ((workers, sa.true()), (extraction_results, extraction_results.c.status == "running")):
            execute(self.ledger, sa.update(table).where(held).values(lease_expires_ms=now_ms() - 1))

    def lease_runs_out(self) -> None:
        """Let all launch leases have run out."""
        execute(self.ledger, "UPDATE document_sets SET launch_lease_expires_ms = 1 WHERE launch_lease_expires_ms > 0")

    def lease(self, document_set: DocumentSet) -> tuple[int, int | None]:
        """Return how many launches of a set were granted, and when the last grant runs out."""
        row = one_row(self.ledger, "document_sets", f"set_id = {document_set.set_id}")
        return row["launch_number"], row["launch_lease_expires_ms"]

    def active(self) -> int:
        """Return how many extraction results are active."""
        return len(rows(self.ledger, "extraction_results", "status IN ('queued', 'running')"))

    def _happened(self, run_id: str, event: dg.DagsterEventType, at: datetime | None = None) -> None:
        """Tell the storage of runs alone: an entry in the event log would make a database file for each run."""
        told = dg.DagsterEvent(event_type_value=event.value, job_name=self.target.job_name, message="as the test says")
        self.instance.handle_run_event(run_id, told, at or datetime.now(UTC))


def planned(instance: dg.DagsterInstance, collection: Collection, job: str) -> str:
    """Let Dagster keep the plan of somebody's own job over a collection's assets, as it does for every run."""
    own = dg.define_asset_job(job, selection="*", executor_def=dg.in_process_executor)
    definitions = dg.Definitions(
        assets=[build_document_set_assets(collection)], jobs=[own], resources={"extraction": ExtractionEnvironment()}
    )
    resolved = definitions.resolve_job_def(job)
    plan = snapshot_from_execution_plan(create_execution_plan(resolved), resolved.get_job_snapshot_id())
    return instance.run_storage.add_execution_plan_snapshot(plan)


def database(instance: dg.DagsterInstance, name: str = "history/runs") -> sqlite3.Connection:
    """Open a file of an instance: its runs, its partitions (``history/runs/index``), its sensors."""
    return sqlite3.connect(Path(instance.root_directory) / f"{name}.db")


def forget_everything(instance: dg.DagsterInstance) -> None:
    """Delete all runs, backfills and partitions of an instance, and what it knows of daemons and sensors."""
    kept = {
        "history/runs": ("run_tags", "runs", "bulk_actions", "daemon_heartbeats", "kvs"),
        "history/runs/index": ("dynamic_partitions",),
        "schedules/schedules": ("jobs", "instigators", "job_ticks"),
    }
    for name, tables in kept.items():
        with closing(database(instance, name)) as connection, connection:
            for table in tables:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - from the constants above


@contextmanager
def unanswering(instance: dg.DagsterInstance) -> Iterator[None]:
    """Make every look at an instance's runs fail, by renaming their table for a while."""
    with closing(database(instance)) as connection:
        with connection:
            connection.execute("ALTER TABLE runs RENAME TO runs_elsewhere")
        try:
            yield
        finally:
            with connection:
                connection.execute("ALTER TABLE runs_elsewhere RENAME TO runs")


@contextmanager
def unreadable(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Make every look at one run fail, by spoiling what is stored of it for a while."""
    with closing(database(instance)) as connection:
        (body,) = connection.execute("SELECT run_body FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        change = "UPDATE runs SET run_body = ? WHERE run_id = ?"
        with connection:
            connection.execute(change, ("no run", run_id))
        try:
            yield
        finally:
            with connection:
                connection.execute(change, (body, run_id))


_watched: list[tuple[str, list[str]]] = []


def _note_opening(event: str, arguments: tuple[Any, ...]) -> None:
    """Hear of every file that this process opens: an audit hook cannot be removed, so it listens while asked to."""
    if event == "open" and _watched and str(arguments[0]).startswith(_watched[-1][0]):
        _watched[-1][1].append(str(arguments[0]))


@contextmanager
def opened_below(folder: Path) -> Iterator[list[str]]:
    """Collect the files below a folder that are opened meanwhile."""
    opened: list[str] = []
    sys.addaudithook(_note_opening)
    _watched.append((str(folder), opened))
    try:
        yield opened
    finally:
        _watched.pop()


def launched(report: SweepReport) -> list[str]:
    """Return the folders of the sets that are to be launched."""
    return [launch.due.document_set.folder for launch in report.launches]


def held_back(report: SweepReport) -> dict[str, str]:
    """Return folder -> reason of the sets that are not to be launched."""
    return {held.due.document_set.folder: held.reason for held in report.held_back}
