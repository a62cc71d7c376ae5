"""Test collections with a home of their own, launched through Dagster in the test's process."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import yaml

from extraction_assets.assets.keys import extractions_key, parsed_documents_key
from extraction_assets.collections import COMPONENT_TYPE, load_collections
from extraction_assets.jobs import job_name
from extraction_assets.partitions import document_sets
from extraction_assets.scanning import Scanned, scan_collections
from resources.environment import read_environment
from tests import processes
from tests.dagster.location import COLLECTIONS_VARIABLE, defs
from tests.factories import INSTRUCTIONS, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from multiprocessing.synchronize import Barrier

    import pytest

PROJECT_ROOT = Path(__file__).resolve().parents[2]
PARTITION_TAG = "dagster/partition"

Row = dict[str, Any]


def a_document(number: int, *words: str) -> str:
    """Return a document that the sandbox can read with the usual schema; extra words are for faults to match."""
    return "\n\n".join([f"Model: R{number}", f"Price USD: {number}", *words]) + "\n"


def documents(count: int, *, marked: int = 0, mark: str = "") -> dict[str, str]:
    """Return documents in one folder by key; the first ``marked`` of them hold the mark."""
    return {
        f"{number:03d}.txt": a_document(number, mark) if number < marked else a_document(number)
        for number in range(count)
    }


class Place:
    """A folder with everything of its own: collections, sources, Dagster's home, ledger and outputs.

    Args:
        root: the folder; it exists.
        like: a place to copy the empty databases of, which takes less time than to make them.
    """

    def __init__(self, root: Path, like: Place | None = None) -> None:
        self.root = root
        self.collections, self.home, self.dagster_home = root / "collections", root / "home", root / "dagster"
        self.collections.mkdir()
        if like:
            shutil.copytree(like.home, self.home)
            shutil.copytree(like.dagster_home, self.dagster_home)
        else:
            self.dagster_home.mkdir()
            shutil.copy(PROJECT_ROOT / "dagster.yaml", self.dagster_home)

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it this process's place."""
        monkeypatch.setenv("DAGSTER_HOME", str(self.dagster_home))
        monkeypatch.setenv("EXTRACTION_HOME", str(self.home))
        monkeypatch.setenv(COLLECTIONS_VARIABLE, str(self.collections))
        monkeypatch.delenv("EXTRACTION_LEDGER_URL", raising=False)

    def source(self, collection: str) -> Path:
        """Return the folder of a collection's documents."""
        return self.root / "sources" / collection

    def add(self, name: str, files: Mapping[str, str | bytes], **attributes: Any) -> None:
        """Write documents and a collection of them: one set of all unless ``partition_by`` says otherwise."""
        source, folder = self.source(name), self.collections / name
        source.mkdir(parents=True)
        for key, content in files.items():
            path = source / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        folder.mkdir()
        (folder / "schema.json").write_text(json.dumps(SCHEMA))
        (folder / "instructions.md").write_text(INSTRUCTIONS)
        settings = {"source": str(source), "partition_by": {"directory": 0}, **attributes}
        (folder / "defs.yaml").write_text(yaml.safe_dump({"type": COMPONENT_TYPE, "attributes": settings}))

    def scan(self) -> list[Scanned]:
        """Register all documents, and the sets as partitions."""
        return scan_collections(load_collections(self.collections), read_environment())

    def sql(self, statement: str, *values: Any) -> list[Row]:
        """Return rows of the ledger, read past all of the project's code."""
        with closing(sqlite3.connect(self.home / "ledger.db")) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(statement, values)]

    def states(self) -> dict[str, list[str]]:
        """Return document key -> the states of its results, oldest first."""
        found: dict[str, list[str]] = {}
        for row in self.sql("SELECT document_key, status FROM extraction_results ORDER BY result_id"):
            found.setdefault(row["document_key"], []).append(row["status"])
        return found


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One Dagster run that ended, read from the instance."""

    run_id: str
    status: dg.DagsterRunStatus
    events: Sequence[dg.DagsterEvent] = field(repr=False)
    log_lines: Sequence[str]
    entries: int

    @property
    def succeeded(self) -> bool:
        """Whether the run ended in success."""
        return self.status is dg.DagsterRunStatus.SUCCESS

    def materialized(self) -> dict[str, dict[str, Any]]:
        """Return asset -> metadata of what the run materialized."""
        found = [event for event in self.events if event.is_step_materialization]
        return _by_asset(event.step_materialization_data.materialization for event in found)

    def observed(self) -> dict[str, dict[str, Any]]:
        """Return asset -> metadata of what the run observed."""
        found = [event for event in self.events if event.is_asset_observation]
        return _by_asset(event.asset_observation_data.asset_observation for event in found)

    def checks(self) -> dict[str, bool]:
        """Return check -> whether it passed."""
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        found = [event.asset_check_evaluation_data for event in self.events if event.event_type is kind]
        return {evaluation.check_name: evaluation.passed for evaluation in found}

    def failure(self) -> str:
        """Return why the step failed, in the words of the project."""
        (failed,) = [event.step_failure_data for event in self.events if event.is_step_failure]
        assert failed.user_failure_data is not None, failed.error_display_string
        return failed.user_failure_data.description


class Orchestrator:
    """Dagster on a place: its instance and the definitions of all collections."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.definitions = defs()

    def partitions(self, collection: str) -> list[str]:
        """Return the partition keys of a collection."""
        return sorted(self.instance.get_dynamic_partitions(document_sets(collection).name))

    def launch(
        self,
        collection: str,
        *,
        partition: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        assets: Sequence[str] | None = None,
    ) -> Ran:
        """Run a collection's job here, on its only partition unless one is named, and return how it ended."""
        keys = {"parsed_documents": parsed_documents_key, "extractions": extractions_key}
        result = self.definitions.resolve_job_def(job_name(collection)).execute_in_process(
            instance=self.instance,
            partition_key=partition or self.only_partition(collection),
            run_config={"ops": {f"{collection}_document_set": {"config": dict(config)}}} if config else None,
            tags=dict(tags or {}),
            asset_selection=[keys[asset](collection) for asset in assets] if assets else None,
            raise_on_error=False,
        )
        return self.read(result.run_id)

    def only_partition(self, collection: str) -> str:
        """Return the partition of a collection that has one."""
        (key,) = self.partitions(collection)
        return key

    def runs(self) -> list[Ran]:
        """Return all runs, the oldest first."""
        return [self.read(run.run_id) for run in reversed(self.instance.get_runs())]

    def read(self, run_id: str) -> Ran:
        """Read a run back from the instance: an event of a failed step is not in the result that Dagster returns."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        entries = self.instance.all_logs(run_id)
        return Ran(
            run_id=run_id,
            status=run.status,
            events=[entry.dagster_event for entry in entries if entry.dagster_event],
            log_lines=[entry.user_message for entry in entries if not entry.dagster_event],
            entries=len(entries),
        )


@contextmanager
def elsewhere(place: Place, collection: str, barrier: Barrier | None = None) -> Iterator[None]:
    """Launch a collection's job in another process, and wait for its end when the block ends.

    Two runs in one process would be two threads, on which Dagster's set-up of its log locks itself out.

    Args:
        place: where; it must have been scanned.
        collection: the collection.
        barrier: what to wait at before the launch.
    """
    child = processes.start(_launch_here, dict(os.environ), place.root / f"{uuid.uuid4()}.log", collection, barrier)
    try:
        yield
        assert processes.end_of(child) == 0
    finally:
        child.kill()


def _launch_here(variables: dict[str, str], log: Path, collection: str, barrier: Barrier | None) -> None:
    os.environ.clear()
    os.environ.update(variables)
    with log.open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        with dg.DagsterInstance.get() as instance:
            orchestrator = Orchestrator(instance)
            if barrier:
                barrier.wait(processes.WAIT_S)
            orchestrator.launch(collection)


@contextmanager
def orchestrating(place: Place) -> Iterator[Orchestrator]:
    """Scan a place that was entered, and open Dagster on it."""
    place.scan()
    with dg.DagsterInstance.get() as instance:
        yield Orchestrator(instance)


def _by_asset(made: Iterable[dg.AssetMaterialization | dg.AssetObservation]) -> dict[str, dict[str, Any]]:
    """Return the last part of the asset's key -> metadata as plain values."""
    return {event.asset_key.path[-1]: {name: value.value for name, value in event.metadata.items()} for event in made}
