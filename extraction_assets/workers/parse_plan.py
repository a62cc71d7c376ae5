"""Which parse run each document of a set gets, and with it the fingerprint of its input.

A document is first for the collection's main provider. One that turns out to be a scan, or to have a scanned page, is
for its other way, if it has one, and is then asked about under a fingerprint of its own: how scans are read is no part
of any other document's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from extraction_assets.workers.parsers import Parsers
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.fingerprints import input_fingerprint, parse_key
from extraction_core.parsing import SCAN_REASONS, SCAN_WARNINGS, ParseProvider
from resources.ledger.documents import DocumentSet, slices
from resources.ledger.parses import ParseRequest

SLICE = 200

Contents = Mapping[int, str | None]
"""Content hash by document id; None for a document that cannot be read now."""


def current_question(collection: Collection, parsers: Parsers) -> str:
    """Return the digest of what a collection asks of every document now, versions of its parsers included."""
    for_scans = parsers.for_scans
    also = f", scans {for_scans.name} {for_scans.version}" if for_scans else ""
    return collection.question_digest(f"{parsers.main.name} {parsers.main.version}{also}")


class ParsePlan:
    """Enqueues parse runs and keeps which document needs which.

    Args:
        tools: the resources.
        collection: the collection.
        parsers: its parse providers, whose versions are part of what is asked.
    """

    def __init__(self, tools: Tools, collection: Collection, parsers: Parsers) -> None:
        self._ledger, self._collection, self._parsers = tools.ledger, collection, parsers

    def assign(self, rows: Sequence[Mapping[str, Any]], contents: Contents, *, again: bool) -> bool:
        """Give every document its parse run and its fingerprint.

        Args:
            rows: the documents.
            contents: their content hashes.
            again: whether a person asks to parse again what failed for good.

        Returns:
            Whether any document has got another than it had.
        """
        changed = False
        for part in slices(rows, SLICE):
            assigned = self._enqueue(part, contents, self._parsers.main, again=again)
            if for_scans := self._parsers.for_scans:
                runs = {one.parse_run_id for one in assigned.values() if one.parse_run_id}
                parses = self._ledger.parses
                scans = parses.failed_for(runs, SCAN_REASONS) | parses.warned_of(runs, SCAN_WARNINGS)
                others = [row for row in part if assigned[row["document_id"]].parse_run_id in scans]
                assigned |= self._enqueue(others, contents, for_scans, again=again)
            kept = [_kept(row, contents[row["document_id"]], assigned[row["document_id"]]) for row in part]
            differing = [new for row, new in zip(part, kept, strict=True) if _differs(row, new)]
            self._ledger.documents.keep_contents(differing)
            changed = changed or bool(differing)
        return changed

    def fall_back(self, document_set: DocumentSet) -> bool:
        """Give documents that were found to be scans to the other way. Returns whether there is more to parse now."""
        if self._parsers.for_scans is None:
            return False
        rows = self._ledger.documents.of_set(document_set.set_id)
        return self.assign(rows, {row["document_id"]: row["content_hash"] for row in rows}, again=False)

    def _enqueue(
        self, rows: Sequence[Mapping[str, Any]], contents: Contents, provider: ParseProvider, *, again: bool
    ) -> dict[int, _Assigned]:
        """Enqueue parse runs by one provider, by document id."""
        requests = [self._request(row, contents[row["document_id"]], provider) for row in rows]
        runs = self._ledger.parses.enqueue([request for request in requests if request], again=again)
        question = self._collection.question_digest(f"{provider.name} {provider.version}")
        return {
            row["document_id"]: _Assigned(
                runs[request.parse_key] if request else None,
                input_fingerprint(contents[row["document_id"]], question),
            )
            for row, request in zip(rows, requests, strict=True)
        }

    def _request(self, row: Mapping[str, Any], content: str | None, provider: ParseProvider) -> ParseRequest | None:
        if content is None:
            return None
        return ParseRequest(
            parse_key=parse_key(content, provider.name, provider.version),
            content_hash=content,
            provider=provider.name,
            provider_version=provider.version,
            source=self._collection.source,
            document_key=row["document_key"],
        )


class _Assigned(NamedTuple):
    parse_run_id: int | None
    fingerprint: str


def _kept(row: Mapping[str, Any], content: str | None, assigned: _Assigned) -> dict[str, Any]:
    """Return what is kept of a document that was looked at."""
    return {
        "row_id": row["document_id"],
        "content_hash": content,
        "read_signature": row["signature"],
        "input_fingerprint": assigned.fingerprint,
        "parse_run_id": assigned.parse_run_id,
    }


def _differs(row: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return any(row[name] != new[name] for name in new if name != "row_id")
