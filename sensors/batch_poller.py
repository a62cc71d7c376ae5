"""The batch poller: looks after open message batches and asks for a run of every set that has one to collect.

It costs one query while no batch is open, and it runs for collections in any mode: one that was switched to
``realtime`` may still have batches at the provider, and they are paid for.
"""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from resources.environment import read_environment
from resources.ledger import Ledger
from resources.ledger.launches import DueSet
from sensors.batch_watch import look_after_batches
from sensors.door import LAUNCH_LEASE_S, HeldBack, Launch, Unanswered, request_run
from sensors.probe import InFlight, InFlightProbe
from sensors.run_requests import poll_result
from sensors.target import SensorTarget

INTERVAL_S = 15


def poller_name(collection: str) -> str:
    """Return the name of a collection's poller."""
    return f"{collection}_batch_poller"


def request_collecting(ledger: Ledger, instance: dg.DagsterInstance, target: SensorTarget) -> list[Launch | HeldBack]:
    """Ask for a run of every set with an ended batch, through the one door."""
    collection = target.collection.name
    sets = {batch["set_id"] for batch in ledger.batches.to_collect(collection)}
    if not sets:
        return []
    due = [one for set_id in sorted(sets) if (one := due_set(ledger, collection, set_id))]
    in_flight = look_at_runs(ledger, instance, target)
    return [request_run(ledger, one, in_flight, lease_s=LAUNCH_LEASE_S, collecting=True) for one in due]


def due_set(ledger: Ledger, collection: str, set_id: int) -> DueSet | None:
    """Return a set as the door wants it, if it is due."""
    found = ledger.launches.due_sets(collection, None, after=set_id - 1, limit=1)
    return next((one for one in found if one.document_set.set_id == set_id), None)


def look_at_runs(ledger: Ledger, instance: dg.DagsterInstance, target: SensorTarget) -> InFlight | Unanswered:
    """Return what is in flight; a look that fails is no answer, so that nothing is launched on it."""
    try:
        return InFlightProbe(instance, ledger, target).look(settle=False)
    except Exception as error:  # noqa: BLE001 - fail closed: an unanswered check launches nothing, whatever was raised
        return Unanswered(reason=f"{type(error).__name__}: {error}")


def build_batch_poller(
    target: SensorTarget, job: UnresolvedAssetJobDefinition, *, interval_s: int = INTERVAL_S
) -> dg.SensorDefinition:
    """Build the poller of one collection."""

    @dg.sensor(
        name=poller_name(target.collection.name),
        job=job,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Looks at the open message batches of {target.collection.name} and has ended ones collected.",
    )
    def batch_poller(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        environment = read_environment()
        ledger = Ledger(environment.ledger_url)
        try:
            looked = look_after_batches(ledger, target.collection.name, settle_s=environment.timing.batch_settle_s)
            answers = request_collecting(ledger, context.instance, target)
        finally:
            ledger.close()
        return poll_result(context, target, looked, answers)

    return batch_poller
