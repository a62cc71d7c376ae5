"""The batch poller: looks after open message batches and asks for a run of every set that has one to collect.

It costs one query while no batch is open, and it runs for collections in any mode: one that was switched to
``realtime`` may still have batches at the provider, and they are paid for.
"""

from __future__ import annotations

import os
import socket

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from extraction_core.batches import AT_PROVIDER
from resources.environment import read_environment
from resources.extraction.access import access_from
from resources.ledger import Ledger
from resources.ledger.launches import DueSet
from sensors.batch_watch import BatchWatch, Looked
from sensors.door import LAUNCH_LEASE_S, HeldBack, Launch, Unanswered, request_run
from sensors.probe import InFlight, InFlightProbe
from sensors.run_requests import missing_partitions, run_requests
from sensors.target import SensorTarget

INTERVAL_S = 15
MOST_LOOKS = 50
LOOK_SECONDS = 20.0
"""Well under Dagster's 60 s for a tick."""


def poller_name(collection: str) -> str:
    """Return the name of a collection's poller."""
    return f"{collection}_batch_poller"


def look_after_batches(
    ledger: Ledger, collection: str, *, settle_s: float, seconds: float = LOOK_SECONDS
) -> list[Looked]:
    """Look at the open batches of a collection that are due.

    Raises:
        ConfigurationError: there are some, but neither a key nor an address to reach the provider.
    """
    ledger.batches.reclaim_abandoned(collection, settle_s)
    if not any(batch["state"] in AT_PROVIDER for batch in ledger.batches.due(collection, MOST_LOOKS)):
        return []
    from resources.extraction.batches import BatchProvider  # noqa: PLC0415 - loads the SDK, which takes seconds

    provider = BatchProvider(access_from())
    try:
        watcher = f"poller {socket.gethostname()} {os.getpid()}"
        watch = BatchWatch(ledger, collection, provider, watcher, settle_s=settle_s)
        return watch.look(most=MOST_LOOKS, seconds=seconds)
    finally:
        provider.close()


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
        held_back = [one for one in answers if isinstance(one, HeldBack)]
        for line in [*map(str, looked), *(f"{one.due.document_set.folder}: {one.reason}" for one in held_back)]:
            context.log.info(line)
        launches = [one for one in answers if isinstance(one, Launch)]
        keys = [launch.due.document_set.partition_key for launch in launches]
        told = f"{len(looked)} batches looked at, {len(launches)} collecting runs asked for"
        return dg.SensorResult(
            run_requests=run_requests(target, launches),
            dynamic_partitions_requests=missing_partitions(context.instance, target, keys),
            skip_reason=None if launches else dg.SkipReason(told),
        )

    return batch_poller
