"""Document sets as Dagster partitions: one dynamic definition per collection, filled by ``scan``."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg


def document_sets(collection: str) -> dg.DynamicPartitionsDefinition:
    """Return the partitions of a collection: one key per document set."""
    return dg.DynamicPartitionsDefinition(name=f"{collection}_document_sets")


def add_document_sets(instance: dg.DagsterInstance, collection: str, keys: Sequence[str]) -> int:
    """Make document sets known to a Dagster instance. Returns how many are new."""
    name = document_sets(collection).name or ""
    new = sorted(set(keys) - set(instance.get_dynamic_partitions(name)))
    if new:
        instance.add_dynamic_partitions(name, new)
    return len(new)
