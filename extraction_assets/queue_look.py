"""Why Dagster's queued runs wait, and for whom: by the same limits that its daemon goes by."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import dagster as dg
from dagster._core.run_coordinator.queued_run_coordinator import RunQueueConfig
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES
from dagster._utils.tags import TagConcurrencyLimitsCounter

from extraction_assets.oversight import QueueState

LOOKED_AT = 100
"""Queued runs whose tags are compared with the limits, the oldest first."""
QUEUED = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
NO_LIMIT = -1


def look_at_queue(instance: dg.DagsterInstance, *, daemon_alive: bool) -> QueueState:
    """Say how many runs are queued, and why.

    A run that waits for another one is no fault; one that no end of another run can help is ``stuck``.

    Args:
        instance: Dagster's storage.
        daemon_alive: whether somebody takes runs from the queue.
    """
    first = instance.get_run_records(QUEUED, limit=LOOKED_AT, ascending=True)
    if not first:
        return QueueState(queued=0, oldest_s=None, waits_for=(), stuck=())
    runs = [record.dagster_run for record in first]
    waits_for: list[str] = []
    stuck = [] if daemon_alive else ["no daemon is alive that would take them up"]
    config = instance.get_concurrency_config().run_queue_config
    if config is None:
        stuck.append(
            f"the instance launches by {type(instance.run_coordinator).__name__}, which leaves the queue alone"
        )
    else:
        in_progress = instance.get_runs(dg.RunsFilter(statuses=IN_PROGRESS_RUN_STATUSES))
        waits_for += _waits(config, runs, in_progress)
        stuck += _stuck(config, runs)
    return QueueState(
        queued=instance.get_runs_count(QUEUED),
        oldest_s=time.time() - first[0].create_timestamp.timestamp(),
        waits_for=waits_for,
        stuck=stuck,
    )


def _waits(
    config: RunQueueConfig, queued: Sequence[dg.DagsterRun], in_progress: Sequence[dg.DagsterRun]
) -> Iterator[str]:
    most = config.max_concurrent_runs
    if most > 0 and len(in_progress) >= most:
        taken_by = ", ".join(run.run_id for run in in_progress[:most])
        yield f"all {most} places (max_concurrent_runs) are taken by {taken_by}"
    blocked = _blocked(config, queued, in_progress) - _blocked(config, queued, ())
    if blocked:
        yield f"{len(blocked)} of them wait for a run in progress that has the same tag (tag_concurrency_limits)"


def _stuck(config: RunQueueConfig, queued: Sequence[dg.DagsterRun]) -> Iterator[str]:
    if config.max_concurrent_runs != NO_LIMIT and config.max_concurrent_runs <= 0:
        yield f"max_concurrent_runs is {config.max_concurrent_runs}"
    if never := _blocked(config, queued, ()):
        yield f"{len(never)} of them have a tag that tag_concurrency_limits never lets through (limit 0)"


def _blocked(config: RunQueueConfig, queued: Sequence[dg.DagsterRun], in_progress: Sequence[dg.DagsterRun]) -> set[str]:
    counter = TagConcurrencyLimitsCounter(list(config.tag_concurrency_limits), list(in_progress))
    return {run.run_id for run in queued if counter.is_blocked(run)}
