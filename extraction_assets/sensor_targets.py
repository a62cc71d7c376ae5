"""Handing the sensors what they watch: the composition of collection, job, assets and partitions."""

from __future__ import annotations

from functools import partial

from extraction_assets.assets.keys import extractions_key, parsed_documents_key
from extraction_assets.jobs import job_name
from extraction_assets.partitions import document_sets
from extraction_assets.workers.parse_plan import current_question
from extraction_assets.workers.parsers import Parsers
from extraction_core.collection import Collection
from resources.environment import read_environment
from resources.parsing import build_parse_provider
from sensors.target import SensorTarget


def sensor_target(collection: Collection) -> SensorTarget:
    """Return a collection as the sensors see it."""
    return SensorTarget(
        collection=collection,
        job_name=job_name(collection.name),
        asset_keys=frozenset({parsed_documents_key(collection.name), extractions_key(collection.name)}),
        partitions=document_sets(collection.name),
        question=partial(_question, collection),
    )


def _question(collection: Collection) -> str:
    with Parsers(collection, partial(build_parse_provider, home=read_environment().home)) as parsers:
        return current_question(collection, parsers)
