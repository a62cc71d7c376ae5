"""Which Dagster runs are a collection's: told by what a run executes, whoever launched it under whatever job.

A run that names its assets is told by them. A run of a job names none: the collection's own job is known by its name,
any other by the plan that Dagster keeps of the run from the moment that it was asked for.
"""

from __future__ import annotations

import logging

import dagster as dg

from sensors.target import SensorTarget

log = logging.getLogger(__name__)

ANY_ASSETS_JOB = "__ASSET_JOB"
"""The job under which Dagster runs assets without a job of ours; without a selection it runs all of them."""


class OurRuns:
    """Tells a collection's runs from others. Plans are looked up once: they never change.

    Args:
        instance: Dagster's storage.
        target: the collection.
    """

    def __init__(self, instance: dg.DagsterInstance, target: SensorTarget) -> None:
        self._instance, self._target = instance, target
        self._by_plan: dict[str, bool] = {}

    def contain(self, run: dg.DagsterRun) -> bool | None:
        """Whether a run makes assets of the collection; None when that cannot be told."""
        if run.asset_selection is not None:
            return not self._target.asset_keys.isdisjoint(run.asset_selection)
        if run.job_name in (self._target.job_name, ANY_ASSETS_JOB):
            return True
        plan = run.execution_plan_snapshot_id
        if plan is None:
            return None
        if plan not in self._by_plan:
            try:
                made = self._instance.get_execution_plan_snapshot(plan).asset_selection
            except Exception as error:  # noqa: BLE001 - gone, or of a version that this one cannot read
                log.warning("the plan of Dagster run %s could not be read: %s", run.run_id, error)
                return None
            self._by_plan[plan] = not self._target.asset_keys.isdisjoint(made)
        return self._by_plan[plan]
