"""A code location of test collections: every ``defs.yaml`` below the folder that the environment names.

It is built of the project's own parts; only the folder is another one. The tests launch its jobs in their own
process, and a webserver that they start loads the same module.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from extraction_assets.assets.document_set import build_document_set_assets
from extraction_assets.collections import load_collections
from extraction_assets.jobs import build_extraction_job
from resources.configurable import ExtractionEnvironment

COLLECTIONS_VARIABLE = "TEST_COLLECTIONS"


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all test collections."""
    collections = load_collections(Path(os.environ[COLLECTIONS_VARIABLE]))
    return dg.Definitions(
        assets=[build_document_set_assets(collection) for collection in collections],
        jobs=[build_extraction_job(collection) for collection in collections],
        resources={"extraction": ExtractionEnvironment()},
        executor=dg.in_process_executor,
    )
