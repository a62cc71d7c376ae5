"""The two assets of a collection, made by one step: a run of one partition is one pass over one document set.

One step and not two, because a document that could not be parsed must not keep the others from being extracted, and
because a step whose asset is left out (skipped) would skip the step after it. Annotations are evaluated here, not
postponed: Dagster finds config and resources by the types of the parameters.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from extraction_assets.assets import outcome
from extraction_assets.assets.keys import ALL_EXTRACTED, ALL_PARSED, FILES_MATCH, extractions_key, parsed_documents_key
from extraction_assets.assets.outcome import SetState
from extraction_assets.assets.run_config import ExtractionConfig, selection
from extraction_assets.partitions import document_sets
from extraction_assets.workers.orders import Order, Report, Result
from extraction_assets.workers.set_run import SetRun
from extraction_assets.workers.tools import Tools, build_tools
from extraction_core.collection import Collection
from extraction_core.errors import ConfigurationError
from extraction_core.output_schema import provider_schema
from resources.configurable import ExtractionEnvironment
from resources.ledger.documents import DocumentSet

CANCELLED_BY_A_PERSON = (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED)


def build_document_set_assets(collection: Collection) -> dg.AssetsDefinition:
    """Return ``<collection>/parsed_documents`` and ``<collection>/extractions``, partitioned by document set."""
    partitions = document_sets(collection.name)
    parsed, extracted = parsed_documents_key(collection.name), extractions_key(collection.name)

    @dg.multi_asset(
        name=f"{collection.name}_document_set",
        specs=_specs(collection),
        check_specs=[
            dg.AssetCheckSpec(ALL_PARSED, asset=parsed, partitions_def=partitions),
            dg.AssetCheckSpec(ALL_EXTRACTED, asset=extracted, partitions_def=partitions),
            dg.AssetCheckSpec(FILES_MATCH, asset=extracted, partitions_def=partitions),
        ],
        partitions_def=partitions,
        can_subset=True,
    )
    def document_set(
        context: dg.AssetExecutionContext, config: ExtractionConfig, extraction: ExtractionEnvironment
    ) -> Iterator[Any]:
        tools = build_tools(extraction.read())
        try:
            yield from _DocumentSetStep(context, config, collection, tools).run()
        except ConfigurationError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        finally:
            tools.close()

    return document_set


def _specs(collection: Collection) -> list[dg.AssetSpec]:
    settings, name = collection.settings, collection.name
    parsed, extracted = parsed_documents_key(name), extractions_key(name)
    obstacles = provider_schema(collection.schema).obstacles
    enforced = "by the provider and here" if not obstacles else f"here; the provider cannot ({'; '.join(obstacles)})"
    version = collection.question_digest(settings.parse)[:16]
    return [
        dg.AssetSpec(
            parsed,
            description=f"Documents of {collection.source} as Markdown with a page map; equal bytes are parsed once.",
            kinds={"python", "markdown"},
            group_name=name,
            owners=settings.owners,
            code_version=settings.parse,
            skippable=True,
        ),
        dg.AssetSpec(
            extracted,
            deps=[parsed],
            description=(
                f"One extraction.json per document, by {settings.model}. The schema is enforced {enforced}. "
                "Each document is paid for once per input."
            ),
            kinds={"anthropic", "json"},
            group_name=name,
            owners=settings.owners,
            code_version=version,
            metadata={"model": settings.model, "schema": dg.MetadataValue.json(dict(collection.schema))},
            skippable=True,
        ),
    ]


class _DocumentSetStep:
    """One run of the step: read the partition, call the worker, show what the ledger says."""

    def __init__(
        self, context: dg.AssetExecutionContext, config: ExtractionConfig, collection: Collection, tools: Tools
    ) -> None:
        self._context, self._config, self._collection, self._tools = context, config, collection, tools
        self._parsed_key = parsed_documents_key(collection.name)
        self._extracted_key = extractions_key(collection.name)
        self._partition = context.partition_key
        self._wanted = context.op_execution_context.selected_asset_keys

    def run(self) -> Iterator[Any]:
        if self._context.instance.is_ephemeral:
            self._context.log.warning("DAGSTER_HOME is not set: this run's history is lost when the process ends")
        document_set = self._document_set()
        report = self._pass_over(document_set)
        if report.unknown_documents:
            self._context.log.warning(f"not in this set: {outcome.first_names(report.unknown_documents)}")
        failed: list[str] = []
        if self._parsed_key in self._wanted:
            yield from self._show_parsed(document_set, report, failed)
        if self._extracted_key in self._wanted:
            yield from self._show_extracted(document_set, report, failed)
        if failed:
            raise dg.Failure(failed[-1], allow_retries=False)

    def _document_set(self) -> DocumentSet:
        found = self._tools.ledger.documents.find_set(self._collection.name, self._partition)
        if found is None:
            raise dg.Failure(
                f"{self._collection.name} has no document set {self._partition!r} in the ledger "
                f"{self._tools.ledger.engine.url}. Partitions are made by "
                f"`extraction-assets scan --collection {self._collection.name}`, not by hand.",
                allow_retries=False,
            )
        return found

    def _pass_over(self, document_set: DocumentSet) -> Report:
        select, documents = selection(self._config, self._context.run.tags)
        order = Order(
            select=select,
            documents=documents,
            extract=self._extracted_key in self._wanted,
            dagster_run_id=self._context.run.run_id,
            is_cancelled=self._is_cancelled,
        )
        return SetRun(self._tools, self._collection, document_set, order, self._context.log.info).run()

    def _is_cancelled(self) -> bool:
        run = self._context.instance.get_run_by_id(self._context.run.run_id)
        return run is not None and run.status in CANCELLED_BY_A_PERSON

    def _show_parsed(self, document_set: DocumentSet, report: Report, failed: list[str]) -> Iterator[Any]:
        metadata = outcome.parse_metadata(self._tools, document_set)
        stopped = report.result is Result.LINE_STOPPED and report.run is None
        if stopped or metadata.get("parse_jobs_open"):  # not everything is parsed: nothing is materialized yet
            failed += [f"stopped, documents left as they were: {report.reason}"] if stopped else []
            yield dg.AssetObservation(self._parsed_key, partition=self._partition, metadata=metadata)
            return
        bad, total = metadata["failed"], metadata["documents"]
        if total and bad / total > self._collection.settings.fail_above:
            yield dg.AssetObservation(self._parsed_key, partition=self._partition, metadata=metadata)
            failed.append(
                f"{bad} of {total} documents of {document_set.folder} could not be parsed; see the table of failures."
            )
        else:
            yield dg.MaterializeResult(asset_key=self._parsed_key, metadata=metadata)
        yield self._check(ALL_PARSED, self._parsed_key, passed=not bad, metadata={"failed": bad})

    def _show_extracted(self, document_set: DocumentSet, report: Report, failed: list[str]) -> Iterator[Any]:
        state = outcome.set_state(self._tools, self._collection, document_set)
        metadata = outcome.extraction_metadata(self._tools, self._collection, document_set, report, state)
        self._context.log.info(f"{document_set.folder}: {state}, ${metadata['cost_usd_exact']}")
        if report.result in (Result.HELD_BY_OTHERS, Result.SUBMITTED):
            metadata |= outcome.held_metadata(self._tools, report)
            yield dg.AssetObservation(self._extracted_key, partition=self._partition, metadata=metadata)
            self._context.log.info(f"the rest of the set is held by {report.reason}")
            return
        if problem := self._problem(document_set, report, state):
            failed.append(problem)
            yield dg.AssetObservation(self._extracted_key, partition=self._partition, metadata=metadata)
        else:
            yield dg.MaterializeResult(asset_key=self._extracted_key, metadata=metadata)
        # checks come last: Dagster holds one that was evaluated before the newest materialization to be outdated
        yield from self._checks(document_set, state)

    def _problem(self, document_set: DocumentSet, report: Report, state: SetState) -> str | None:
        """Return why the set must not be materialized, or None."""
        if report.result is Result.LINE_STOPPED:
            return f"stopped, documents left as they were: {report.reason}"
        if state.bad_share > self._collection.settings.fail_above:
            return (
                f"{state.bad} of {state.total} documents of {document_set.folder} have no result; "
                "see the table of failures."
            )
        return None

    def _checks(self, document_set: DocumentSet, state: SetState) -> Iterator[dg.AssetCheckResult]:
        all_done = state.completed == state.total
        yield self._check(ALL_EXTRACTED, self._extracted_key, passed=all_done, metadata=state.as_metadata())
        compared, wrong = outcome.mismatched_files(self._tools, document_set)
        yield self._check(
            FILES_MATCH,
            self._extracted_key,
            passed=not wrong,
            metadata={"compared": compared, "differ": len(wrong), "first": outcome.first_names(wrong)},
        )

    def _check(self, name: str, asset: dg.AssetKey, *, passed: bool, metadata: dict[str, Any]) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(
            check_name=name, asset_key=asset, passed=passed, severity=dg.AssetCheckSeverity.WARN, metadata=metadata
        )
