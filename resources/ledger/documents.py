"""Document sets and documents: registered once, idempotently, from a listing of the source.

A document keeps its row for ever. One that is no longer found is marked removed: it leaves what is pending and keeps
its results; when it comes back, the mark goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from extraction_core.documents import ATTACHED, attachment_place, outermost_mail
from extraction_core.errors import ConfigurationError
from extraction_core.failpoints import Failpoint
from extraction_core.partitions import partition_key
from resources.ledger.engine import LedgerEngine
from resources.ledger.row_sets import is_postgres
from resources.ledger.tables import document_sets, documents
from resources.ledger.types import AnySelect, now_ms

T = TypeVar("T")
SLICE = 500
"""Rows a statement: well below SQLite's limit on bind parameters."""


@dataclass(frozen=True, kw_only=True)
class FoundDocument:
    """One document of a listing.

    Attributes:
        key: the document key.
        folder: the real name of its document set.
        signature: changes whenever the content may have changed (size, times, inode, or an object store's tag).
    """

    key: str
    folder: str
    size_bytes: int
    signature: str


@dataclass(frozen=True, kw_only=True)
class DocumentSet:
    """A document set as registered."""

    set_id: int
    collection: str
    partition_key: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class Registration:
    """What registering a listing changed."""

    sets: tuple[DocumentSet, ...]
    new: int
    changed: int
    removed: int


class _Known(NamedTuple):
    signature: str
    set_id: int


class Documents:
    """Registers document sets and documents, and keeps what was read of them."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def register(
        self,
        collection: str,
        found: Sequence[FoundDocument],
        *,
        within: DocumentSet | None = None,
        keep: AbstractSet[str] = frozenset(),
    ) -> Registration:
        """Register a complete listing of a collection, or of one set of it (``within``).

        A document that is new, changed or back is marked due. One that did not change costs no write.

        Documents in the ledger that the listing lacks are marked removed, so the listing must be complete: a source
        that cannot be read must raise before it gets here. Keys in ``keep`` are there but not to be looked at yet: they
        stay as they are. Attachments, which no listing knows, come and go with :meth:`attach` and with their mail.
        """
        before = self._known(collection, within)
        sets = {item.folder: item for item in self._register_sets(collection, sorted({doc.folder for doc in found}))}
        moved = [doc for doc in found if before.get(doc.key) != (doc.signature, sets[doc.folder].set_id)]
        for part in slices(moved, SLICE):
            self._upsert(collection, part, sets)
        self._follow_mails(collection, before, {doc.key: sets[doc.folder].set_id for doc in moved})
        removed = self._mark_removed(collection, sorted(_gone(before, {doc.key for doc in found} | keep)))
        changed = sum(doc.key in before and before[doc.key][0] != doc.signature for doc in moved)
        new = sum(doc.key not in before for doc in found)
        return Registration(sets=tuple(sets.values()), new=new, changed=changed, removed=removed)

    def attach(self, document_set: DocumentSet, found: Mapping[str, Sequence[FoundDocument]]) -> None:
        """Register what is attached to mails of a set: all of it, so what a mail has lost is marked removed.

        Args:
            document_set: the set that the mails are in.
            found: attachments by the key of their mail.
        """
        before = self._known(document_set.collection, document_set)
        attached = [doc for docs in found.values() for doc in docs]
        moved = [doc for doc in attached if before.get(doc.key) != (doc.signature, document_set.set_id)]
        for part in slices(moved, SLICE):
            self._upsert(document_set.collection, part, {document_set.folder: document_set})
        present = {doc.key for doc in attached}
        mine = {key for key in before if (place := attachment_place(key)) and place.mail_key in found}
        lost = {key for key in mine if before[key][0].startswith(ATTACHED)} - present
        lost |= {key for key in before if any(key.startswith(f"{mail}/") for mail in lost)}
        self._mark_removed(document_set.collection, sorted(lost))

    def find_set(self, collection: str, key: str) -> DocumentSet | None:
        """Look a document set up by its partition key."""
        statement = _sets_query(collection).where(document_sets.c.partition_key == key)
        row = self._engine.read(lambda connection: connection.execute(statement).mappings().first())
        return DocumentSet(**row) if row else None

    def sets(self, collection: str) -> list[DocumentSet]:
        """Return all document sets of a collection, by folder."""
        statement = _sets_query(collection).order_by(document_sets.c.folder)
        rows = self._engine.read(lambda connection: connection.execute(statement).mappings().all())
        return [DocumentSet(**row) for row in rows]

    def of_set(self, set_id: int) -> list[Mapping[str, Any]]:
        """Return the present documents of a set, by key."""
        statement = (
            sa.select(documents)
            .where(documents.c.set_id == set_id, documents.c.removed_ms.is_(None))
            .order_by(documents.c.document_key)
        )
        rows = self._engine.read(lambda connection: connection.execute(statement).mappings().all())
        return [dict(row) for row in rows]

    def keep_contents(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store what was read: ``content_hash``, ``read_signature``, ``input_fingerprint``, ``parse_run_id``.

        Args:
            rows: mappings with ``row_id`` and those four columns.
        """
        statement = (
            sa.update(documents)
            .where(documents.c.document_id == sa.bindparam("row_id"))
            .values(
                content_hash=sa.bindparam("content_hash"),
                read_signature=sa.bindparam("read_signature"),
                input_fingerprint=sa.bindparam("input_fingerprint"),
                parse_run_id=sa.bindparam("parse_run_id"),
            )
        )
        ordered = sorted(rows, key=lambda row: row["row_id"])
        for part in slices(ordered, SLICE):
            self._engine.write(
                lambda connection, part=part: connection.execute(statement, part), Failpoint.COMMIT_DOCUMENTS
            )

    def _register_sets(self, collection: str, folders: Sequence[str]) -> list[DocumentSet]:
        known = {item.folder: item for item in self.sets(collection)}
        if all(folder in known for folder in folders):  # every tick of the inbox, nearly always: no write lock for that
            return [known[folder] for folder in folders]

        def transaction(connection: sa.Connection) -> list[DocumentSet]:
            for part in slices([folder for folder in folders if folder not in known], SLICE):
                rows = [
                    {
                        "collection": collection,
                        "partition_key": partition_key(folder),
                        "folder": folder,
                        "created_ms": now_ms(),
                    }
                    for folder in part
                ]
                connection.execute(_insert(connection, document_sets).values(rows).on_conflict_do_nothing())
            rows_now = connection.execute(_sets_query(collection)).mappings().all()
            by_folder = {row["folder"]: DocumentSet(**row) for row in rows_now}
            for folder in folders:
                if folder not in by_folder:
                    raise _collision(collection, folder)
            return [by_folder[folder] for folder in folders]

        return self._engine.write(transaction, Failpoint.COMMIT_DOCUMENTS)

    def _known(self, collection: str, within: DocumentSet | None) -> dict[str, _Known]:
        columns = (documents.c.document_key, documents.c.signature, documents.c.set_id)
        statement = sa.select(*columns).where(documents.c.collection == collection, documents.c.removed_ms.is_(None))
        if within:
            statement = statement.where(documents.c.set_id == within.set_id)
        rows = self._engine.read(lambda connection: connection.execute(statement).all())
        return {row.document_key: _Known(row.signature, row.set_id) for row in rows}

    def _upsert(self, collection: str, part: Sequence[FoundDocument], sets: Mapping[str, DocumentSet]) -> None:
        rows = [
            {
                "set_id": sets[doc.folder].set_id,
                "collection": collection,
                "document_key": doc.key,
                "size_bytes": doc.size_bytes,
                "signature": doc.signature,
                "registered_ms": now_ms(),
                "due_since_ms": now_ms(),
            }
            for doc in sorted(part, key=lambda doc: doc.key)  # one order, or two listings at once deadlock
        ]

        def transaction(connection: sa.Connection) -> None:
            insert = _insert(connection, documents).values(rows)
            fresh = {name: insert.excluded[name] for name in ("set_id", "size_bytes", "signature", "due_since_ms")}
            differs = sa.or_(
                documents.c.signature != insert.excluded.signature,
                documents.c.set_id != insert.excluded.set_id,
                documents.c.removed_ms.is_not(None),
            )
            connection.execute(
                insert.on_conflict_do_update(
                    index_elements=["collection", "document_key"], set_={**fresh, "removed_ms": None}, where=differs
                )
            )

        self._engine.write(transaction, Failpoint.COMMIT_DOCUMENTS)

    def _follow_mails(self, collection: str, before: Mapping[str, _Known], moved: Mapping[str, int]) -> None:
        """Put attachments into the set that their mail is in now; ``moved`` are keys of files with their sets."""
        for key, known in before.items():
            new_id = moved.get(outermost_mail(key)) if known.signature.startswith(ATTACHED) else None
            if new_id not in (None, known.set_id):
                mine = sa.and_(documents.c.collection == collection, documents.c.document_key == key)
                statement = sa.update(documents).where(mine).values(set_id=new_id)
                self._engine.write(lambda connection, s=statement: connection.execute(s), Failpoint.COMMIT_DOCUMENTS)

    def _mark_removed(self, collection: str, keys: Sequence[str]) -> int:
        count = 0
        for part in slices(keys, SLICE):
            statement = (
                sa.update(documents)
                .where(
                    documents.c.collection == collection,
                    documents.c.document_key.in_(part),
                    documents.c.removed_ms.is_(None),
                )
                .values(removed_ms=now_ms())
            )
            count += self._engine.write(
                lambda connection, s=statement: connection.execute(s).rowcount, Failpoint.COMMIT_DOCUMENTS
            )
        return count


def _gone(before: Mapping[str, _Known], present: AbstractSet[str]) -> Iterator[str]:
    """Keys of documents that are not there any more; an attachment is there as long as the file that it is in."""
    for key, known in before.items():
        if key not in present and not (known.signature.startswith(ATTACHED) and outermost_mail(key) in present):
            yield key


def _sets_query(collection: str) -> AnySelect:
    columns = document_sets.c
    return sa.select(columns.set_id, columns.collection, columns.partition_key, columns.folder).where(
        columns.collection == collection
    )


def _insert(connection: sa.Connection, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(table) if is_postgres(connection) else sqlite.insert(table)


def _collision(collection: str, folder: str) -> ConfigurationError:
    return ConfigurationError(
        f"collection {collection}",
        "partition_by",
        f"the document set {folder!r} has the partition key {partition_key(folder)!r}, which another set already has.",
        "Rename the folder.",
    )


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut a sequence into lists of at most ``size``."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
