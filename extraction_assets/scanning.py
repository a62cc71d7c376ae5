"""``scan``: register what is in the sources, and make the document sets known to Dagster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from extraction_assets.partitions import add_document_sets
from extraction_assets.workers.prepare import scan
from extraction_assets.workers.tools import Tools, build_tools
from extraction_core.collection import Collection
from extraction_core.errors import ConfigurationError
from resources.environment import Environment


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """What one collection's scan found and changed."""

    collection: str
    documents: int
    new: int
    changed: int
    removed: int
    sets: int
    new_partitions: int
    skipped: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """Return one line for people."""
        return (
            f"{self.collection}: {self.documents} documents in {self.sets} sets "
            f"({self.new} new, {self.changed} changed, {self.removed} removed, {len(self.skipped)} skipped); "
            f"{self.new_partitions} new partitions"
        )

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form."""
        return {**vars(self), "skipped": [{"file": key, "reason": reason} for key, reason in self.skipped]}


def scan_collections(collections: Sequence[Collection], environment: Environment) -> list[Scanned]:
    """Scan collections one after another.

    Raises:
        ConfigurationError: DAGSTER_HOME is not set or relative, or a source cannot be listed.
    """
    check_dagster_home()
    tools = build_tools(environment)
    try:
        with dg.DagsterInstance.get() as instance:
            return [_scan(collection, tools, instance) for collection in collections]
    finally:
        tools.close()


def _scan(collection: Collection, tools: Tools, instance: dg.DagsterInstance) -> Scanned:
    found = scan(tools, collection)
    keys = [item.partition_key for item in found.registration.sets]
    return Scanned(
        collection=collection.name,
        documents=len(found.listing.files),
        new=found.registration.new,
        changed=found.registration.changed,
        removed=found.registration.removed,
        sets=len(keys),
        new_partitions=add_document_sets(instance, collection.name, keys),
        skipped=tuple((file.key, file.reason) for file in found.listing.skipped),
    )


def check_dagster_home() -> None:
    """Refuse to touch Dagster's state in a place that depends on the shell.

    Raises:
        ConfigurationError: DAGSTER_HOME is not an absolute folder.
    """
    home = os.environ.get("DAGSTER_HOME", "")
    if Path(home).is_absolute() and Path(home).is_dir():
        return
    raise ConfigurationError(
        "DAGSTER_HOME",
        None,
        f"is {home!r}, not an absolute folder, so this would speak to another Dagster than the one that runs.",
        "Set it to the folder that holds your dagster.yaml; `make dev` and `make demo` use $EXTRACTION_HOME/dagster.",
    )
