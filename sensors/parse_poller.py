"""The parse poller: looks after open parse jobs and asks for a run of every set whose jobs have all ended.

It costs one query while no job is open. A set that is due for any other reason is the sweeper's.
"""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from resources.environment import read_environment
from resources.ledger import Ledger
from resources.output import ParsedStore
from sensors.batch_poller import due_set, look_at_runs
from sensors.door import LAUNCH_LEASE_S, HeldBack, Launch, request_run
from sensors.parse_watch import look_after_parse_jobs
from sensors.run_requests import poll_result
from sensors.target import SensorTarget

INTERVAL_S = 15


def parse_poller_name(collection: str) -> str:
    """Return the name of a collection's parse poller."""
    return f"{collection}_parse_poller"


def request_extracting(ledger: Ledger, instance: dg.DagsterInstance, target: SensorTarget) -> list[Launch | HeldBack]:
    """Ask for a run of every due set whose parse jobs have ended, through the one door."""
    collection = target.collection.name
    sets = ledger.parse_jobs.sets_to_extract(collection)
    if not sets:
        return []
    due = [one for set_id in sets if (one := due_set(ledger, collection, set_id))]
    in_flight = look_at_runs(ledger, instance, target)
    return [request_run(ledger, one, in_flight, lease_s=LAUNCH_LEASE_S) for one in due]


def build_parse_poller(
    target: SensorTarget, job: UnresolvedAssetJobDefinition, *, interval_s: int = INTERVAL_S
) -> dg.SensorDefinition:
    """Build the parse poller of one collection."""

    @dg.sensor(
        name=parse_poller_name(target.collection.name),
        job=job,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Looks at the open parse jobs of {target.collection.name} and has parsed sets extracted.",
    )
    def parse_poller(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        environment = read_environment()
        ledger = Ledger(environment.ledger_url)
        try:
            parsed, settle_s = ParsedStore(environment.parsed), environment.timing.batch_settle_s
            looked = look_after_parse_jobs(ledger, parsed, settle_s=settle_s)
            answers = request_extracting(ledger, context.instance, target)
        finally:
            ledger.close()
        return poll_result(context, target, looked, answers)

    return parse_poller
