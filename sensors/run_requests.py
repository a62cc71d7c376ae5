"""From launches to what Dagster takes: run requests with a key of their own, and partitions it may not know yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import dagster as dg

from extraction_core.states import Select
from sensors.door import HeldBack, Launch
from sensors.target import LAUNCH_TAG, SELECT_TAG, SensorTarget


def run_requests(
    target: SensorTarget, launches: Sequence[Launch], *, now: Callable[[], float] = time.time
) -> list[dg.RunRequest]:
    """Return one request per launch.

    The key holds the number of the launch: Dagster deduplicates run keys for ever, so a request that came to nothing
    could otherwise never be repeated. It holds the time as well: a ledger that is begun anew counts from one again.
    """
    moment = int(now())
    return [
        dg.RunRequest(
            run_key=f"{target.collection.name}:{launch.due.document_set.set_id}:{launch.number}:{moment}",
            partition_key=launch.due.document_set.partition_key,
            tags={SELECT_TAG: Select.DUE.value, LAUNCH_TAG: str(launch.number)},  # plain: enums do not serialize
        )
        for launch in launches
    ]


def missing_partitions(
    instance: dg.DagsterInstance, target: SensorTarget, keys: Sequence[str]
) -> list[dg.AddDynamicPartitionsRequest]:
    """Return the request that makes partitions known: one unknown key would fail a whole tick."""
    known = set(instance.get_dynamic_partitions(target.partitions_name))
    new = sorted(set(keys) - known)
    return [target.partitions.build_add_request(new)] if new else []


def poll_result(
    context: dg.SensorEvaluationContext,
    target: SensorTarget,
    looked: Sequence[object],
    answers: Sequence[Launch | HeldBack],
) -> dg.SensorResult:
    """Return what a poller's tick comes to: a line for each look and each set held back, a run for each launch."""
    held_back = [one for one in answers if isinstance(one, HeldBack)]
    for line in [*map(str, looked), *(f"{one.due.document_set.folder}: {one.reason}" for one in held_back)]:
        context.log.info(line)
    launches = [one for one in answers if isinstance(one, Launch)]
    keys = [launch.due.document_set.partition_key for launch in launches]
    return dg.SensorResult(
        run_requests=run_requests(target, launches),
        dynamic_partitions_requests=missing_partitions(context.instance, target, keys),
        skip_reason=None if launches else dg.SkipReason(f"{len(looked)} looked at, no run asked for"),
    )
