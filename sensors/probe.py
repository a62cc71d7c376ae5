"""Is anything in flight? One look at Dagster per tick, and what the ledger knows of each run.

Every status but the three finished ones counts, also one that this code does not know, whatever the run's age: the
list is made by exclusion. Range runs carry no partition of their own and are expanded; what cannot be expanded keeps
everything busy. Dagster can be wrong in one direction only: a run that it calls STARTED may be dead, since the process
that should have said so died too. That is judged by the ledger's heartbeat, and such a run is reported failed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus, PartitionBackfill

from resources.ledger import Ledger
from sensors.ours import OurRuns
from sensors.target import SensorTarget

log = logging.getLogger(__name__)

FINISHED = frozenset({dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})
IN_FLIGHT = [status for status in dg.DagsterRunStatus if status not in FINISHED]
UNFINISHED_BACKFILLS = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]
START_GRACE_S = 600.0
"""How long a STARTED run may be without a sign of life: loading the code on a busy machine takes its time."""
RETRY_GRACE_S = 3600.0
"""How long Dagster's own retry of a failed run may be in coming: one that was lost would otherwise hold for ever."""
RETRYING_LIMIT = 100

PARTITION_TAG = "dagster/partition"
RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"
WILL_RETRY_TAG = "dagster/will_retry"
AUTO_RETRY_TAG = "dagster/auto_retry_run_id"


@dataclass(frozen=True, kw_only=True)
class InFlight:
    """What is in flight of one collection.

    Attributes:
        partitions: partition key -> who holds it.
        everything: who holds all partitions, because what it covers cannot be told; None when nobody does.
        dead: Dagster runs that were found dead and reported failed.
    """

    partitions: Mapping[str, str]
    everything: str | None
    dead: tuple[str, ...]

    def holder(self, partition_key: str) -> str | None:
        """Return who is in flight for a partition, or None."""
        return self.everything or self.partitions.get(partition_key)


class InFlightProbe:
    """Looks at one Dagster instance for one collection.

    Args:
        instance: Dagster's storage.
        ledger: tells the living from the dead.
        target: the collection.
        start_grace_s: see :data:`START_GRACE_S`.
    """

    def __init__(
        self,
        instance: dg.DagsterInstance,
        ledger: Ledger,
        target: SensorTarget,
        *,
        start_grace_s: float = START_GRACE_S,
    ) -> None:
        self._instance, self._ledger, self._target, self._start_grace_s = instance, ledger, target, start_grace_s
        self._ours = OurRuns(instance, target)

    def look(self, *, settle: bool) -> InFlight:
        """Look once.

        Args:
            settle: whether runs that are dead are reported failed to Dagster.

        Raises:
            Exception: whatever the storage raises; an unanswered look means that nothing may be launched.
        """
        holders: dict[str, str] = {}
        everything: str | None = None
        dead: list[str] = []
        # backfills first: one that is done asking while we look has made runs that the second look sees
        backfills = self._instance.get_backfills(filters=BulkActionsFilter(statuses=UNFINISHED_BACKFILLS))
        for run in self._runs():
            who = f"Dagster run {run.run_id} ({run.status.value})"
            if self._is_dead(run):
                dead.append(run.run_id)
                if settle:
                    self._instance.report_run_failed(
                        run, "no sign of life in the extraction ledger: its process is dead"
                    )
                continue
            keys = self._partitions_of(run)
            if keys is None:
                everything = everything or who
            holders.update(dict.fromkeys(keys or (), who))
        for backfill in backfills:
            keys = self._partitions_of_backfill(backfill)
            who = f"backfill {backfill.backfill_id} ({backfill.status.value})"
            if keys is None:
                everything = everything or who
            holders.update(dict.fromkeys(keys or (), who))
        return InFlight(partitions=holders, everything=everything, dead=tuple(dead))

    def _runs(self) -> Iterable[dg.DagsterRun]:
        """All runs that may be this collection's: those in flight, and failed ones that Dagster itself will retry."""
        runs = self._in_flight()
        failed = dg.RunsFilter(
            statuses=[dg.DagsterRunStatus.FAILURE],
            tags={WILL_RETRY_TAG: "true"},
            updated_after=datetime.now(UTC) - timedelta(seconds=RETRY_GRACE_S),
        )
        if retrying := self._instance.get_runs(filters=failed, limit=RETRYING_LIMIT):
            runs |= {run.run_id: run for run in retrying if AUTO_RETRY_TAG not in run.tags}
            runs |= self._in_flight()  # again: the retry of one of them may have come since the first look
        return [run for run in runs.values() if self._ours.contain(run) is not False]

    def _in_flight(self) -> dict[str, dg.DagsterRun]:
        return {run.run_id: run for run in self._instance.get_runs(filters=dg.RunsFilter(statuses=IN_FLIGHT))}

    def _is_dead(self, run: dg.DagsterRun) -> bool:
        if run.status is not dg.DagsterRunStatus.STARTED:
            return False
        worker = self._ledger.launches.last_worker(run.run_id)
        if worker is None:
            return self._started_s_ago(run) > self._start_grace_s
        if worker.alive:
            return False
        return worker.ended_ms_ago is None or worker.ended_ms_ago > self._start_grace_s * 1000

    def _started_s_ago(self, run: dg.DagsterRun) -> float:
        record = self._instance.get_run_record_by_id(run.run_id)
        started = record.start_time if record else None
        return 0.0 if started is None else time.time() - started

    def _partitions_of(self, run: dg.DagsterRun) -> list[str] | None:
        """Return the partitions that a run covers; None when that cannot be told."""
        start, end = run.tags.get(RANGE_START_TAG), run.tags.get(RANGE_END_TAG)
        if start is None or end is None:
            key = run.tags.get(PARTITION_TAG)
            return None if key is None else [key]
        try:
            with dg.partition_loading_context(dynamic_partitions_store=self._instance):
                keys = self._target.partitions.get_partition_keys_in_range(dg.PartitionKeyRange(start, end))
        except Exception:  # noqa: BLE001 - an end of the range was deleted: Dagster raises several kinds
            return None
        return list(keys) or None

    def _partitions_of_backfill(self, backfill: PartitionBackfill) -> list[str] | None:
        """Return the partitions of this collection that a backfill will launch; None when that cannot be told.

        What a job's backfill will execute is not known before its runs are there, so it holds the keys that it names.
        """
        if backfill.asset_backfill_data is None:
            return None if backfill.partition_names is None else list(backfill.partition_names)
        subset = backfill.asset_backfill_data.target_subset
        keys: set[str] = set()
        for asset in self._target.asset_keys & set(subset.asset_keys):
            try:
                with dg.partition_loading_context(dynamic_partitions_store=self._instance):
                    keys |= set(subset.get_partitions_subset(asset).get_partition_keys())
            except Exception:  # noqa: BLE001 - a key of it was deleted: Dagster raises several kinds
                return None
        return sorted(keys)
