"""A code location of test collections with both of their sensors, which look often and whose leases are short.

It is built of the project's own parts; a daemon that a test starts loads it.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from extraction_assets.assets.document_set import build_document_set_assets
from extraction_assets.collections import load_collections
from extraction_assets.jobs import build_extraction_job
from extraction_assets.sensor_targets import sensor_target
from extraction_core.collection import Collection
from resources.configurable import ExtractionEnvironment
from sensors.document_inbox import build_document_inbox
from sensors.retry_sweeper import build_retry_sweeper
from sensors.sweep import SweepLimits
from tests.dagster.location import COLLECTIONS_VARIABLE

LAUNCH_LEASE_S = 2.0
INTERVAL_S = 1


def of_collection(collection: Collection) -> dg.Definitions:
    """Return what one collection consists of."""
    job, target = build_extraction_job(collection), sensor_target(collection)
    limits = SweepLimits(lease_s=LAUNCH_LEASE_S)
    return dg.Definitions(
        assets=[build_document_set_assets(collection)],
        jobs=[job],
        sensors=[
            build_document_inbox(target, job, limits, interval_s=INTERVAL_S),
            build_retry_sweeper(target, job, limits, interval_s=INTERVAL_S),
        ],
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all test collections."""
    collections = load_collections(Path(os.environ[COLLECTIONS_VARIABLE]))
    return dg.Definitions.merge(
        *(of_collection(collection) for collection in collections),
        dg.Definitions(resources={"extraction": ExtractionEnvironment()}, executor=dg.in_process_executor),
    )
