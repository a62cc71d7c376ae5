"""``sweep`` and ``retry``: the terminal's way through the same door that the sensors use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from extraction_assets.partitions import add_document_sets
from extraction_assets.scanning import check_dagster_home
from extraction_assets.sensor_targets import sensor_target
from extraction_core.collection import Collection
from extraction_core.errors import DocumentExtractionError
from extraction_core.states import Select
from resources.environment import PROJECT_ROOT, Environment
from resources.ledger import Ledger
from resources.ledger.documents import slices
from sensors.sweep import Sweep, SweepReport
from sensors.target import SELECT_TAG, SensorTarget

LARGEST_COMMAND = 1000
"""Partitions a command line: their keys are at most 50 characters, and Linux takes 128 KB an argument."""


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What a forced sweep of one collection did."""

    collection: str
    report: SweepReport
    dry_run: bool

    def lines(self) -> list[str]:
        """Return what people read: a summary, then each set with its reason."""
        would = "would launch" if self.dry_run else "launched"
        done = " (dry run: nothing was changed)" if self.dry_run else ""
        lines = [f"{self.collection}: {self.report}{done}"]
        lines += [f"  {would} {launch.due.document_set.folder}" for launch in self.report.launches]
        lines += [f"  held back {held.due.document_set.folder}: {held.reason}" for held in self.report.held_back]
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form."""
        return {
            "collection": self.collection,
            "dry_run": self.dry_run,
            "launched": [launch.due.document_set.partition_key for launch in self.report.launches],
            "held_back": [
                {"partition_key": held.due.document_set.partition_key, "reason": held.reason}
                for held in self.report.held_back
            ],
            "reclaimed": self.report.reclaimed,
            "closed": self.report.closed,
            "cancelled": self.report.cancelled,
            "withdrawn": self.report.withdrawn,
            "dead_runs": list(self.report.dead),
        }


def sweep_collections(collections: Sequence[Collection], environment: Environment, *, dry_run: bool) -> list[Swept]:
    """Sweep collections and launch what is due; runs are queued for the daemon.

    Raises:
        ConfigurationError: DAGSTER_HOME is not set.
        DocumentExtractionError: Dagster's command could not launch a run.
    """
    check_dagster_home()
    ledger = Ledger(environment.ledger_url)
    try:
        with dg.DagsterInstance.get() as instance:
            return [_sweep(ledger, instance, sensor_target(one), dry_run=dry_run) for one in collections]
    finally:
        ledger.close()


def _sweep(ledger: Ledger, instance: dg.DagsterInstance, target: SensorTarget, *, dry_run: bool) -> Swept:
    name = target.collection.name
    report = Sweep(ledger, instance, target, dry_run=dry_run).run()
    whole = report
    while report.cursor:  # the terminal has time: go on until every due set was looked at
        report = Sweep(ledger, instance, target, dry_run=dry_run).run(report.cursor)
        whole.launches += report.launches
        whole.held_back += report.held_back
        whole.reclaimed += report.reclaimed
        whole.closed += report.closed
        whole.cancelled += report.cancelled
        whole.withdrawn += report.withdrawn
        whole.dead += report.dead
    keys = [launch.due.document_set.partition_key for launch in whole.launches]
    if keys and not dry_run:
        add_document_sets(instance, name, keys)
        launch_runs(target.job_name, keys)
    return Swept(collection=name, report=whole, dry_run=dry_run)


def launch_runs(job: str, partition_keys: Sequence[str]) -> None:
    """Queue one run per document set with Dagster's own command."""
    for command in launch_commands(job, partition_keys):
        done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DocumentExtractionError(f"the runs could not be launched:\n{done.stdout}{done.stderr}")


def launch_commands(job: str, partition_keys: Sequence[str]) -> Iterator[list[str]]:
    """Return the command lines that queue one run for each partition; without a partition there is none.

    That matters: a backfill whose list of partitions is empty launches all of them.
    """
    for part in slices(partition_keys, LARGEST_COMMAND):
        yield [
            sys.executable, "-m", "dagster", "job", "backfill", "-w", str(PROJECT_ROOT / "workspace.yaml"),
            "-j", job, "--partitions", ",".join(part), "--noprompt",
            "--tags", json.dumps({SELECT_TAG: Select.DUE}),
        ]  # fmt: skip


def ask_again(collection: Collection, environment: Environment, keys: Sequence[str], *, reset: bool) -> list[str]:
    """Mark documents due for another try. Returns the keys that were found."""
    ledger = Ledger(environment.ledger_url)
    try:
        found: list[str] = []
        for document_set in ledger.documents.sets(collection.name):
            found += ledger.launches.ask_again(document_set.set_id, keys, reset=reset)
        return found
    finally:
        ledger.close()
