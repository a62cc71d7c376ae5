"""The code location that the benchmarks launch: collections below the folder that the environment names.

Made of the project's own parts; only the folder is another one.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from extraction_assets.assets.document_set import build_document_set_assets
from extraction_assets.collections import load_collections
from extraction_assets.jobs import build_extraction_job
from resources.configurable import ExtractionEnvironment

COLLECTIONS_VARIABLE = "BENCHMARK_COLLECTIONS"


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all collections of the benchmark."""
    collections = load_collections(Path(os.environ[COLLECTIONS_VARIABLE]))
    return dg.Definitions(
        assets=[build_document_set_assets(collection) for collection in collections],
        jobs=[build_extraction_job(collection) for collection in collections],
        resources={"extraction": ExtractionEnvironment()},
        executor=dg.in_process_executor,
    )
