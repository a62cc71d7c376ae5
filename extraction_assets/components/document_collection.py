"""A collection as a Dagster component: YAML in, assets, checks, a job and three sensors out. No logic of its own."""

from __future__ import annotations

from typing import Any, Self

import dagster as dg
from pydantic import BaseModel, ConfigDict

from extraction_assets.assets.document_set import build_document_set_assets
from extraction_assets.collections import DEFS_NAME, load_collection, load_collections
from extraction_assets.jobs import build_extraction_job
from extraction_assets.sensor_targets import sensor_target
from extraction_core.collection import Collection, CollectionFile
from sensors.batch_poller import build_batch_poller
from sensors.document_inbox import build_document_inbox
from sensors.parse_poller import build_parse_poller
from sensors.retry_sweeper import build_retry_sweeper


class CollectionAttributes(BaseModel):
    """Stands for the attributes towards Dagster, which must not judge them: one reader describes every mistake."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """Return the real shape, for editors and ``dg check yaml``.

        That command checks nothing but shapes, and of several files of one component type only the last; so every
        collection is loaded here, and the first mistake raises the same error that the code location would raise.
        """
        load_collections()
        return CollectionFile.model_json_schema(by_alias=True)


class DocumentCollection(dg.Component):
    """Documents of one kind, extracted with one JSON Schema: assets, checks and a job from one YAML file."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return what Dagster reads the attributes with."""
        return CollectionAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Load the collection whose ``defs.yaml`` is being read."""
        return cls(load_collection(context.path / DEFS_NAME))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of this collection."""
        job, target = build_extraction_job(self.collection), sensor_target(self.collection)
        return dg.Definitions(
            assets=[build_document_set_assets(self.collection)],
            jobs=[job],
            sensors=[
                build_document_inbox(target, job),
                build_retry_sweeper(target, job),
                build_batch_poller(target, job),
                *([build_parse_poller(target, job)] if self.collection.settings.parses_by_jobs else []),
            ],
        )
