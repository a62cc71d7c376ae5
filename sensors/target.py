"""What a sensor is handed: one collection, and the Dagster things that belong to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg

from extraction_core.collection import Collection

SELECT_TAG = "extraction/select"
LAUNCH_TAG = "extraction/launch"


@dataclass(frozen=True, kw_only=True)
class SensorTarget:
    """One collection as the sensors see it.

    Attributes:
        job_name: the job whose runs extract the collection's document sets.
        asset_keys: assets that runs without that job (the UI's) name instead.
        partitions: the document sets as partitions.
        question: returns the digest of what the collection asks now.
    """

    collection: Collection
    job_name: str
    asset_keys: frozenset[dg.AssetKey]
    partitions: dg.DynamicPartitionsDefinition
    question: Callable[[], str]

    @property
    def partitions_name(self) -> str:
        """The name under which an instance keeps the partitions."""
        return self.partitions.name or ""
