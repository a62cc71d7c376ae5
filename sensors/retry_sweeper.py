"""The retry sweeper: takes up what was left behind and what is due for another try, one run per document set.

It looks for anything in flight before it launches anything. It is on by default: a safety device that has to be
switched on is off when it is needed.
"""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from resources.environment import read_environment
from resources.ledger import Ledger
from sensors.daemons import note_who_ticks
from sensors.run_requests import missing_partitions, run_requests
from sensors.sweep import Sweep, SweepLimits
from sensors.target import SensorTarget

INTERVAL_S = 30


def sweeper_name(collection: str) -> str:
    """Return the name of a collection's sweeper."""
    return f"{collection}_retry_sweeper"


def build_retry_sweeper(
    target: SensorTarget,
    job: UnresolvedAssetJobDefinition,
    limits: SweepLimits | None = None,
    *,
    interval_s: int = INTERVAL_S,
) -> dg.SensorDefinition:
    """Build the sweeper of one collection."""

    @dg.sensor(
        name=sweeper_name(target.collection.name),
        job=job,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            f"Resumes document sets of {target.collection.name} that nobody works on and retries what is due. "
            "Launches nothing while anything is in flight."
        ),
    )
    def retry_sweeper(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        note_who_ticks(context.instance)
        ledger = Ledger(read_environment().ledger_url)
        try:
            report = Sweep(ledger, context.instance, target, limits).run(int(context.cursor or 0))
        finally:
            ledger.close()
        context.log.info(str(report))
        for held in report.held_back:
            context.log.info(f"{held.due.document_set.folder}: {held.reason}")
        keys = [launch.due.document_set.partition_key for launch in report.launches]
        return dg.SensorResult(
            run_requests=run_requests(target, report.launches),
            dynamic_partitions_requests=missing_partitions(context.instance, target, keys),
            cursor=str(report.cursor),
            skip_reason=None if report.launches else dg.SkipReason(str(report)),
        )

    return retry_sweeper
