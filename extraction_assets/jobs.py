"""The job of a collection: both of its assets, for the launchpad, the command line and backfills."""

from __future__ import annotations

import dagster as dg
from dagster import AssetSelection

from extraction_assets.assets.keys import extractions_key, parsed_documents_key
from extraction_core.collection import Collection


def job_name(collection: str) -> str:
    """Return the name of a collection's job."""
    return f"{collection}_extraction"


def build_extraction_job(collection: Collection) -> dg.UnresolvedAssetJobDefinition:
    """Return the job that parses and extracts one document set a run."""
    return dg.define_asset_job(
        name=job_name(collection.name),
        selection=AssetSelection.assets(parsed_documents_key(collection.name), extractions_key(collection.name)),
        description=f"Parse and extract one document set of {collection.name}. What is done is not done again.",
        executor_def=dg.in_process_executor,
    )
