"""The state of a document set as the UI shows it: counts, money, tokens, a table of failures, red or green.

Everything is read from the ledger after the pass. A set whose failed share is above ``fail_above`` gets an
observation, a failing check and a failed run, and no materialization: a partition that is materialized in a failed
run would show green.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from extraction_assets.workers.orders import Report
from extraction_assets.workers.tools import Tools
from extraction_core.batches import UNSETTLED
from extraction_core.causes import REMEDIES_FOR_A_PERSON, Cause
from extraction_core.collection import Collection
from extraction_core.states import RowStatus
from resources.ledger.documents import DocumentSet

LARGEST_TABLE = 4_000
"""Characters of a table in the metadata: the event log is no place for bulk data, the ledger has all rows."""
LONGEST_CELL = 300
MOST_NAMES = 10
RUN_COUNTS = ("request_count", "unexpected_count", "completed_count", "failed_count", "cancelled_count")


@dataclass(frozen=True, kw_only=True)
class SetState:
    """Documents of a set by state, from the ledger. Of the failed ones, ``exhausted`` have no attempts left."""

    counts: Mapping[str, int]
    exhausted: int

    @property
    def total(self) -> int:
        """Present documents."""
        return sum(self.counts.values())

    @property
    def completed(self) -> int:
        """Documents whose newest result is completed."""
        return self.counts.get(RowStatus.COMPLETED, 0)

    @property
    def bad(self) -> int:
        """Documents that ended without a result: failed or cancelled."""
        return self.counts.get(RowStatus.FAILED, 0) + self.counts.get(RowStatus.CANCELLED, 0)

    @property
    def bad_share(self) -> float:
        """Share of documents that ended without a result."""
        return self.bad / self.total if self.total else 0.0

    def __str__(self) -> str:
        """Return one phrase for people."""
        listed = ", ".join(f"{number} {state}" for state, number in sorted(self.counts.items()))
        spent = f", {self.exhausted} of them exhausted" if self.exhausted else ""
        return f"{self.total} documents ({listed}{spent})" if listed else "no documents"

    def as_metadata(self) -> dict[str, int]:
        """Return the counts by the names that metadata and checks give them."""
        counts = {f"documents_{state}": number for state, number in sorted(self.counts.items())}
        return {"documents": self.total, **counts, "documents_exhausted": self.exhausted}


def set_state(tools: Tools, collection: Collection, document_set: DocumentSet) -> SetState:
    """Read a set's state."""
    reports, set_id = tools.ledger.reports, document_set.set_id
    exhausted = reports.exhausted(collection.name, collection.settings.max_attempts, set_id)
    return SetState(counts=reports.set_counts(set_id), exhausted=exhausted.get(set_id, 0))


def extraction_metadata(
    tools: Tools, collection: Collection, document_set: DocumentSet, report: Report, state: SetState
) -> dict[str, Any]:
    """Return the metadata of a pass: counts that add up to the request count, cost, tokens, failures, paths."""
    reports = tools.ledger.reports
    run = report.run
    usage = reports.run_usage(run["run_id"]) if run else reports.set_usage(document_set.set_id)
    prompt = sum(
        int(usage[kind])
        for kind in ("input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
    )
    metadata: dict[str, Any] = {
        "result": str(report.result),
        **state.as_metadata(),
        "calls": int(usage["calls"]),
        "cost_usd": float(usage["cost_usd"]),
        "cost_usd_exact": f"{usage['cost_usd']:f}",
        "calls_of_unknown_cost": int(usage["unknown_cost_calls"]),
        "input_tokens": int(usage["input_tokens"]),
        "cache_write_tokens": int(usage["cache_write_5m_tokens"]) + int(usage["cache_write_1h_tokens"]),
        "cache_read_tokens": int(usage["cache_read_tokens"]),
        "output_tokens": int(usage["output_tokens"]),
        "cache_hit_ratio": int(usage["cache_read_tokens"]) / prompt if prompt else 0.0,
        "seconds": round(report.seconds, 3),
        "folder": document_set.folder,
        "outputs": dg.MetadataValue.path(str(tools.outputs.root / collection.name)),
        "ledger": tools.ledger.engine.url,
    }
    if run:
        metadata |= {name: int(run[name]) for name in RUN_COUNTS if run[name] is not None}
        metadata |= {"extraction_run": int(run["run_id"]), "extraction_run_status": run["status"]}
    if state.bad:
        metadata["failures"] = failure_table(tools, collection, document_set)
    return metadata


def held_metadata(tools: Tools, report: Report) -> dict[str, Any]:
    """Return the metadata of a set whose rest is held by another run or by message batches: by whom, until when."""
    run_id = report.run["run_id"] if report.run else 0
    batches = tools.ledger.batches.of_run(run_id, *UNSETTLED)
    held: dict[str, Any] = {"held_by": report.reason}
    if batches:
        held["message_batches"] = _table(
            {
                "batch": batch["provider_id"] or f"reservation {batch['batch_id']}",
                "state": batch["state"],
                "requests": batch["request_count"],
                "expires": batch["expires_at"] or "",
            }
            for batch in batches
        )
        held["message_batch_requests"] = sum(batch["request_count"] for batch in batches)
    return held


def failure_table(tools: Tools, collection: Collection, document_set: DocumentSet) -> dg.MetadataValue:
    """Return documents that ended without a result, with cause and remedy; the first :data:`LARGEST_TABLE` holds."""
    rows = [
        row
        for row in tools.ledger.reports.documents(collection.name, document_set.set_id)
        if row["state"] in (RowStatus.FAILED, RowStatus.CANCELLED)
    ]
    return _table(
        {
            "document": row["document_key"],
            "cause": row["reason"] or row["state"],
            "message": row["message"] or "",
            "remedy": _remedy(row, collection.settings.max_attempts),
        }
        for row in rows
    )


def parse_metadata(tools: Tools, document_set: DocumentSet) -> dict[str, Any]:
    """Return the metadata of a set's parsing."""
    reports = tools.ledger.reports
    counts = reports.parse_counts(document_set.set_id)
    failures, warnings = reports.parse_failures(document_set.set_id), reports.parse_warnings(document_set.set_id)
    metadata: dict[str, Any] = {
        "documents": int(counts["documents"]),
        "parsed": int(counts["parsed"]),
        "failed": int(counts["failed"]),
        "characters": int(counts["characters"]),
        "with_warnings": len(warnings),
        "folder": document_set.folder,
        "parsed_text": dg.MetadataValue.path(str(tools.parsed.root)),
        **_parse_job_metadata(tools, document_set),
    }
    if failures:
        metadata["failures"] = _table(
            {
                "document": row["document_key"],
                "cause": row["reason"],
                "message": row["message"] or "",
                "remedy": REMEDIES_FOR_A_PERSON.get(row["reason"] or "", ""),
            }
            for row in failures
        )
    if warnings:
        metadata["warnings"] = _table(
            {"document": row["document_key"], "warnings": ", ".join(row["warnings"])} for row in warnings
        )
    return metadata


def _parse_job_metadata(tools: Tools, document_set: DocumentSet) -> dict[str, Any]:
    """Return what the jobs of a parse service used, in its own units; nothing where there were none."""
    usage = tools.ledger.parse_jobs.usage(document_set.set_id)
    if not usage.jobs:
        return {}
    return {
        "parse_jobs": usage.jobs,
        "parse_jobs_open": usage.open,
        "parse_jobs_of_unknown_cost": usage.unknown,
        "parse_pages_billed": usage.pages,
        "parse_credits": f"{usage.credits_used:f}",
        "parse_cost_usd": "unknown: the service tells pages and credits, not dollars",
    }


def mismatched_files(tools: Tools, document_set: DocumentSet) -> tuple[int, list[str]]:
    """Compare every output file of a set with the ledger's hash. Returns how many were compared and which differ."""
    outputs = tools.ledger.reports.set_outputs(document_set.set_id)
    wrong = [row["document_key"] for row in outputs if tools.outputs.sha256(row["output_path"]) != row["output_sha256"]]
    return len(outputs), wrong


def first_names(names: Sequence[str]) -> str:
    """Return some names for one line, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(name[:LONGEST_CELL] for name in names[:MOST_NAMES]) + more


def _remedy(row: Mapping[str, Any], max_attempts: int) -> str:
    """Return what a person can do; for an exhausted document that is the same whatever its last try ended in."""
    exhausted = row["state"] == RowStatus.FAILED and row["attempts"] >= max_attempts
    return REMEDIES_FOR_A_PERSON.get(Cause.EXHAUSTED if exhausted else row["reason"] or "", "")


def _table(rows: Iterable[Mapping[str, Any]]) -> dg.MetadataValue:
    """Return the first rows, at least one, as many as :data:`LARGEST_TABLE` holds."""
    records: list[dg.TableRecord] = []
    size = 0
    for row in rows:
        cells = {name: str(cell)[:LONGEST_CELL] for name, cell in row.items()}
        size += sum(len(name) + len(cell) for name, cell in cells.items())
        if records and size > LARGEST_TABLE:
            break
        records.append(dg.TableRecord(cells))
    return dg.MetadataValue.table(records)
