"""What a person cancelled: the last Dagster run on a document set, with nothing done or begun since.

A worker that runs settles its own cancellation. What is found here had nobody to settle it: the run was cancelled
while it was still queued, before its pass had asked for anything, or after its process had died.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import dagster as dg
from dagster._core.storage.dagster_run import RunRecord

from resources.ledger import Ledger
from resources.ledger.launches import DueSet
from sensors.ours import OurRuns
from sensors.probe import PARTITION_TAG
from sensors.target import SensorTarget

SETTLED_TAG = "extraction/cancellation"
SETTLED = "settled"
"""Set on a cancelled Dagster run when its document set was left to people: what is due later is due anew."""
NEWEST = 50
"""Runs of a partition looked at: a folder of the same name in another collection has the same key."""
QUESTION_S = 600.0
"""A set that became due because its collection asks something new bears no time. Due sets are looked at every few
seconds, so a cancellation that is first seen later than this is older than the question."""


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    """A person cancelled the last Dagster run on a set.

    Attributes:
        dagster_run_id: the run.
        at_ms: when.
        of_question: whether the run was to ask what the collection asks now: it never began, and that was just now.
    """

    dagster_run_id: str
    at_ms: int
    of_question: bool


class Cancellations:
    """Finds what a person cancelled and nobody settled.

    Args:
        instance: Dagster's storage.
        ledger: knows who worked when.
        target: the collection.
    """

    def __init__(self, instance: dg.DagsterInstance, ledger: Ledger, target: SensorTarget) -> None:
        self._instance, self._ledger = instance, ledger
        self._ours = OurRuns(instance, target)

    def find(self, due: DueSet) -> Cancellation | None:
        """Look for the cancellation of a due set's last run. Nothing may be in flight for the set in Dagster."""
        found = self._of_open_run(due) or self._of_newest(due)
        return None if found and self._ledger.launches.live_workers(due.document_set.set_id) else found

    def settle(self, cancellation: Cancellation) -> None:
        """Mark a cancelled run as settled, once the ledger is."""
        self._instance.add_run_tags(cancellation.dagster_run_id, {SETTLED_TAG: SETTLED})

    def _of_open_run(self, due: DueSet) -> Cancellation | None:
        """The last Dagster run on the open extraction run was cancelled, and its process did not settle that."""
        if due.open_run_id is None:
            return None
        last = next(iter(self._ledger.launches.workers_of_run(due.open_run_id)), None)
        record = self._instance.get_run_record_by_id(last) if last else None  # None: deleted, which cancels nothing
        return _cancellation(record, began=True) if record else None

    def _of_newest(self, due: DueSet) -> Cancellation | None:
        """The newest Dagster run of the set was cancelled after whatever else was done on it."""
        record = self._newest(due.document_set.partition_key)
        if record is None or SETTLED_TAG in record.dagster_run.tags:
            return None
        run_id = record.dagster_run.run_id
        found = _cancellation(record, began=self._ledger.launches.last_worker(run_id) is not None)
        since = self._ledger.launches.last_activity_ms(due.document_set.set_id, besides=run_id)
        return found if found and (since is None or since <= found.at_ms) else None

    def _newest(self, partition_key: str) -> RunRecord | None:
        records = self._instance.get_run_records(dg.RunsFilter(tags={PARTITION_TAG: partition_key}), limit=NEWEST)
        return next((record for record in records if self._ours.contain(record.dagster_run)), None)


def _cancellation(record: RunRecord, *, began: bool) -> Cancellation | None:
    if record.dagster_run.status is not dg.DagsterRunStatus.CANCELED:
        return None
    at = record.end_time or record.update_timestamp.timestamp()
    return Cancellation(
        dagster_run_id=record.dagster_run.run_id,
        at_ms=int(at * 1000),
        of_question=not began and time.time() - at < QUESTION_S,
    )
