"""Before a set is worked on: look at the source, read what changed, say what must be parsed.

The listing is fresh for every run. A document is read and hashed when its signature differs from the one it had when
it was last read, so a set in which nothing changed costs no reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from extraction_assets.workers.attachments import register_attachments
from extraction_assets.workers.originals import Originals
from extraction_assets.workers.parse_plan import ParsePlan
from extraction_assets.workers.parsers import Parsers
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.documents import ATTACHED, is_mail
from extraction_core.failpoints import Failpoint
from extraction_core.partitions import folder_of
from resources.ledger.documents import DocumentSet, FoundDocument, Registration
from resources.source import DocumentSource, Listing

READERS = 8


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a look at a source found."""

    registration: Registration
    listing: Listing


def source_of(collection: Collection) -> DocumentSource:
    """Return a collection's source."""
    return DocumentSource(collection.source, collection.settings.include, collection.settings.exclude)


def scan(tools: Tools, collection: Collection, within: DocumentSet | None = None) -> Scan:
    """List a collection's source and register its document sets and documents, or those of one set.

    Raises:
        ConfigurationError: the source cannot be listed; nothing is marked removed.
    """
    listing = source_of(collection).list().grouped(collection.settings.unit_rule())
    rule = collection.settings.partition_rule()
    found = [
        FoundDocument(
            key=file.key, folder=folder_of(file.key, rule), size_bytes=file.size_bytes, signature=file.signature
        )
        for file in listing.files
    ]
    if within:
        found = [document for document in found if document.folder == within.folder]
    registration = tools.ledger.documents.register(collection.name, found, within=within, keep=listing.unreadable)
    return Scan(registration=registration, listing=listing)


def prepare_set(
    tools: Tools, collection: Collection, document_set: DocumentSet, parsers: Parsers, *, again: bool
) -> None:
    """Bring the ledger up to date on a set: documents, their content, their fingerprint, their parse runs.

    Args:
        tools: the resources.
        collection: the collection.
        document_set: the set.
        parsers: the parse providers; the main one's version is part of what is asked.
        again: whether a person asks to read everything anew and to parse again what failed for good.
    """
    scan(tools, collection, document_set)
    rows, contents = _look(tools, collection, document_set, parsers, again=again)
    ParsePlan(tools, collection, parsers).assign(rows, contents, again=again)


def _look(
    tools: Tools, collection: Collection, document_set: DocumentSet, parsers: Parsers, *, again: bool
) -> tuple[list[Mapping[str, Any]], dict[int, str | None]]:
    """Read what changed. Returns the documents, attachments included, and their content hashes by document id."""
    originals, documents = Originals(collection, parsers), tools.ledger.documents
    rows = documents.of_set(document_set.set_id)
    files = [row for row in rows if not row["signature"].startswith(ATTACHED) and (again or not _is_read(row))]
    mails = [row["document_key"] for row in files if is_mail(row["document_key"])]
    unopened = frozenset[str]()
    if mails and not collection.settings.unit_rule().is_folder:
        unopened = register_attachments(tools, collection, document_set, originals, mails)
        rows = documents.of_set(document_set.set_id)
    return rows, _read_changed(tools, originals, rows, unopened, again=again)


def _is_read(row: Mapping[str, Any]) -> bool:
    """Whether the document is as it was when it was read last."""
    return bool(row["content_hash"]) and row["read_signature"] == row["signature"]


def _read_changed(
    tools: Tools,
    originals: Originals,
    rows: Sequence[Mapping[str, Any]],
    unopened: AbstractSet[str],
    *,
    again: bool,
) -> dict[int, str | None]:
    """Return document id -> content hash; None for a document that cannot be read now, or a mail not opened."""

    def content_hash(row: Mapping[str, Any]) -> str | None:
        if row["signature"].startswith(ATTACHED):
            return row["signature"].removeprefix(ATTACHED)
        if _is_read(row) and not again:
            return row["content_hash"]
        tools.failpoints(Failpoint.READ_SOURCE)
        try:
            return None if row["document_key"] in unopened else originals.content_hash(row["document_key"])
        except OSError:
            return None

    with ThreadPoolExecutor(READERS, thread_name_prefix="read") as pool:
        hashes = pool.map(content_hash, rows)
        return {row["document_id"]: found for row, found in zip(rows, hashes, strict=True)}
