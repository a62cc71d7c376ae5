"""The document inbox: finds new, changed and removed documents and asks for runs, grouped by document set.

Only names and stat data are looked at: 100,000 unchanged files cost one listing and no reading. A file that changed a
moment ago may still be being written and waits for a later tick; should half of one get through all the same, its next
change makes it due again. A source that cannot be listed is an error that removes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from extraction_core.partitions import folder_of
from resources.environment import read_environment
from resources.ledger import Ledger
from resources.ledger.documents import FoundDocument, Registration
from resources.source import DocumentSource
from sensors.daemons import note_who_ticks
from sensors.run_requests import missing_partitions, run_requests
from sensors.sweep import Sweep, SweepLimits
from sensors.target import SensorTarget

INTERVAL_S = 60
SETTLE_S = 30.0
"""A file whose modification time is younger may still be being written."""


def inbox_name(collection: str) -> str:
    """Return the name of a collection's inbox."""
    return f"{collection}_document_inbox"


def look_at_source(
    ledger: Ledger, target: SensorTarget, *, settle_s: float = SETTLE_S, now: Callable[[], float] = time.time
) -> Registration:
    """List a collection's source and register what has settled.

    Raises:
        ConfigurationError: the source cannot be listed; nothing was registered or removed.
    """
    collection = target.collection
    source = DocumentSource(collection.source, collection.settings.include, collection.settings.exclude)
    rule, moment = collection.settings.partition_rule(), now()
    found: list[FoundDocument] = []
    listing = source.list().grouped(collection.settings.unit_rule())
    left_alone = set(listing.unreadable)
    for file in listing.files:
        if file.modified_s is not None and 0 <= moment - file.modified_s < settle_s:
            left_alone.add(file.key)
            continue
        folder = folder_of(file.key, rule)
        found.append(FoundDocument(key=file.key, folder=folder, size_bytes=file.size_bytes, signature=file.signature))
    return ledger.documents.register(collection.name, found, keep=left_alone)


def build_document_inbox(
    target: SensorTarget,
    job: UnresolvedAssetJobDefinition,
    limits: SweepLimits | None = None,
    *,
    interval_s: int = INTERVAL_S,
) -> dg.SensorDefinition:
    """Build the inbox of one collection."""

    @dg.sensor(
        name=inbox_name(target.collection.name),
        job=job,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Registers new, changed and removed documents of {target.collection.source} and extracts them.",
    )
    def document_inbox(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        note_who_ticks(context.instance)
        ledger = Ledger(read_environment().ledger_url)
        try:
            registration = look_at_source(ledger, target)
            report = Sweep(ledger, context.instance, target, limits).run(int(context.cursor or 0))
        finally:
            ledger.close()
        told = f"{registration.new} new, {registration.changed} changed, {registration.removed} removed; {report}"
        context.log.info(told)
        keys = [item.partition_key for item in registration.sets]
        keys += [launch.due.document_set.partition_key for launch in report.launches]
        return dg.SensorResult(
            run_requests=run_requests(target, report.launches),
            dynamic_partitions_requests=missing_partitions(context.instance, target, keys),
            cursor=str(report.cursor),
            skip_reason=None if report.launches else dg.SkipReason(told),
        )

    return document_inbox
