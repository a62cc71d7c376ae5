"""Document sets and documents: one row each for ever, whatever is listed how often and by whom."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa

from extraction_core.errors import ConfigurationError
from extraction_core.partitions import partition_key
from resources.ledger.tables import document_sets
from tests.factories import FOLDER, a_document, a_set, fingerprint
from tests.ledger.support import (
    driver_errors,
    execute,
    in_background,
    one_row,
    only_postgres,
    rows,
    together,
    wait_until_blocked,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet, FoundDocument
    from tests.conftest import MakeLedger

OTHER = "server/hpe"


def listing(count: int, folder: str = FOLDER) -> list[FoundDocument]:
    """Return a listing of one folder."""
    return [a_document(number, folder=folder) for number in range(count)]


def summary(ledger: Ledger, documents: list[FoundDocument], within: DocumentSet | None = None) -> tuple[int, int, int]:
    """Register a listing; return how many documents are new, changed and removed."""
    registration = ledger.documents.register("servers", documents, within=within)
    return registration.new, registration.changed, registration.removed


def present(ledger: Ledger) -> list[str]:
    """Return the keys of documents that are not removed."""
    return [row["document_key"] for row in rows(ledger, "documents") if row["removed_ms"] is None]


def test_registering_writes_sets_and_documents(ledger: Ledger) -> None:
    registration = ledger.documents.register("servers", [*listing(2), *listing(1, OTHER)])
    assert (registration.new, registration.changed, registration.removed) == (3, 0, 0)
    sets = {row["folder"]: row for row in rows(ledger, "document_sets")}
    assert {folder: row["partition_key"] for folder, row in sets.items()} == {
        FOLDER: partition_key(FOLDER),
        OTHER: partition_key(OTHER),
    }
    assert [(row["document_key"], row["set_id"], row["size_bytes"], row["signature"])
            for row in rows(ledger, "documents")] == [
        (f"{FOLDER}/00000.pdf", sets[FOLDER]["set_id"], 1000, "1"),
        (f"{FOLDER}/00001.pdf", sets[FOLDER]["set_id"], 1000, "1"),
        (f"{OTHER}/00000.pdf", sets[OTHER]["set_id"], 1000, "1"),
    ]  # fmt: skip


def test_registering_again_changes_nothing(ledger: Ledger) -> None:
    summary(ledger, listing(3))
    before = rows(ledger, "document_sets"), rows(ledger, "documents")
    assert summary(ledger, listing(3)) == (0, 0, 0)
    assert (rows(ledger, "document_sets"), rows(ledger, "documents")) == before


def test_a_changed_document_keeps_its_row_and_what_was_read_of_it(ledger: Ledger) -> None:
    a_set(ledger, 2)
    before = rows(ledger, "documents")
    assert summary(ledger, [a_document(0), a_document(1, signature="2")]) == (0, 1, 0)
    unchanged, changed = rows(ledger, "documents")
    assert unchanged == before[0]
    assert {name for name in changed if changed[name] != before[1][name]} - {"due_since_ms"} == {"signature"}
    assert changed["signature"] == "2"


def test_a_document_that_is_gone_is_marked_removed_once(ledger: Ledger) -> None:
    summary(ledger, listing(3))
    assert summary(ledger, listing(2)) == (0, 0, 1)
    before = rows(ledger, "documents")
    assert summary(ledger, listing(2)) == (0, 0, 0)
    assert rows(ledger, "documents") == before
    assert present(ledger) == [f"{FOLDER}/00000.pdf", f"{FOLDER}/00001.pdf"]


def test_a_document_that_is_back_has_its_old_row(ledger: Ledger) -> None:
    a_set(ledger, 2)
    before = rows(ledger, "documents")
    summary(ledger, listing(1))
    assert summary(ledger, listing(2)) == (1, 0, 0)
    back = rows(ledger, "documents")
    assert [(row["document_id"], row["removed_ms"], row["input_fingerprint"]) for row in back] == [
        (row["document_id"], None, row["input_fingerprint"]) for row in before
    ]


def test_an_empty_listing_removes_every_document_of_its_collection_and_no_other(ledger: Ledger) -> None:
    summary(ledger, listing(2))
    ledger.documents.register("invoices", listing(1))
    assert summary(ledger, []) == (0, 0, 2)
    assert [(row["collection"], row["removed_ms"] is None) for row in rows(ledger, "documents")] == [
        ("servers", False),
        ("servers", False),
        ("invoices", True),
    ]


def test_a_listing_of_one_set_removes_within_that_set_only(ledger: Ledger) -> None:
    summary(ledger, [*listing(2), *listing(2, OTHER)])
    here = ledger.documents.find_set("servers", partition_key(FOLDER))
    assert summary(ledger, listing(1), within=here) == (0, 0, 1)
    assert present(ledger) == [f"{FOLDER}/00000.pdf", f"{OTHER}/00000.pdf", f"{OTHER}/00001.pdf"]


def test_a_document_that_moved_to_another_set_is_one_document(ledger: Ledger) -> None:
    key = a_document(0).key
    summary(ledger, [a_document(0)])
    moved = a_document(0)
    object.__setattr__(moved, "folder", OTHER)
    summary(ledger, [moved])
    row = one_row(ledger, "documents")
    assert (row["document_key"], row["removed_ms"]) == (key, None)
    assert row["set_id"] == ledger.documents.find_set("servers", partition_key(OTHER)).set_id


def test_the_same_key_in_two_collections_is_two_documents(ledger: Ledger) -> None:
    summary(ledger, listing(1))
    ledger.documents.register("invoices", listing(1))
    assert [row["collection"] for row in rows(ledger, "documents")] == ["servers", "invoices"]


def test_listings_of_more_than_one_statement_s_rows_are_registered_whole(ledger: Ledger) -> None:
    assert summary(ledger, listing(1203)) == (1203, 0, 0)
    assert summary(ledger, listing(2)) == (0, 0, 1201)
    assert len(rows(ledger, "documents")) == 1203


def test_listings_registered_at_one_moment_leave_one_row_per_document(ledger: Ledger, make_ledger: MakeLedger) -> None:
    documents = [*listing(40), *listing(40, OTHER)]
    orders = [documents, documents[::-1], documents[40:] + documents[:40], documents]
    ledgers = [make_ledger() for _ in orders]
    registrations = together(4, lambda number: ledgers[number].documents.register("servers", orders[number]))
    keys = sorted(row["document_key"] for row in rows(ledger, "documents"))
    assert keys == sorted(document.key for document in documents)
    assert [registration.removed for registration in registrations] == [0, 0, 0, 0]
    assert {registration.sets for registration in registrations} == {registrations[0].sets}
    assert len(rows(ledger, "document_sets")) == 2


@only_postgres
def test_listings_in_different_order_do_not_deadlock(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    document_set, ledgers = a_set(ledger, 1), [make_ledger(), make_ledger()]
    errors = driver_errors(*ledgers)
    in_the_middle = (
        "INSERT INTO documents (set_id, collection, document_key, size_bytes, signature, registered_ms) "
        "VALUES (%s, 'servers', %s, 1, '1', 1)"
    )
    other = psycopg.connect(database_url)
    other.execute(in_the_middle, [document_set.set_id, a_document(4).key])
    with (
        in_background(lambda: ledgers[0].documents.register("servers", listing(9))) as upwards,
        in_background(lambda: ledgers[1].documents.register("servers", listing(9)[::-1])) as downwards,
        closing(other),
    ):
        wait_until_blocked(database_url, at_least=2)
        other.rollback()
        upwards.result()
        downwards.result()
    assert (errors, len(rows(ledger, "documents"))) == ([], 9)


def test_a_partition_key_that_another_folder_has_is_an_error(ledger: Ledger) -> None:
    collision = {"collection": "servers", "partition_key": partition_key(FOLDER), "folder": "other", "created_ms": 1}
    execute(ledger, sa.insert(document_sets).values(collision))
    with pytest.raises(ConfigurationError, match=rf"{FOLDER}.*{partition_key(FOLDER)}.*Rename the folder"):
        summary(ledger, listing(1))
    assert [row["folder"] for row in rows(ledger, "document_sets")] == ["other"]
    assert rows(ledger, "documents") == []


def test_a_set_is_found_by_its_partition_key_in_its_collection_only(ledger: Ledger) -> None:
    document_set = a_set(ledger, 1)
    assert ledger.documents.find_set("servers", partition_key(FOLDER)) == document_set
    assert ledger.documents.find_set("invoices", partition_key(FOLDER)) is None
    assert ledger.documents.find_set("servers", "unknown") is None


def test_sets_are_listed_by_folder(ledger: Ledger) -> None:
    summary(ledger, [*listing(1, "b"), *listing(1, "a")])
    assert [known.folder for known in ledger.documents.sets("servers")] == ["a", "b"]


def test_documents_of_a_set_are_the_present_ones_by_key(ledger: Ledger) -> None:
    document_set = a_set(ledger, 3)
    summary(ledger, [*listing(2), *listing(1, OTHER)])
    assert [row["document_key"] for row in ledger.documents.of_set(document_set.set_id)] == [
        f"{FOLDER}/00000.pdf",
        f"{FOLDER}/00001.pdf",
    ]


def test_what_was_read_of_a_document_is_kept(ledger: Ledger) -> None:
    document_set = a_set(ledger, 2)
    first, second = ledger.documents.of_set(document_set.set_id)
    read = {
        "content_hash": fingerprint("bytes"),
        "read_signature": "read",
        "input_fingerprint": fingerprint("input"),
        "parse_run_id": None,
    }
    ledger.documents.keep_contents([{"row_id": first["document_id"], **read}])
    assert ledger.documents.of_set(document_set.set_id) == [{**first, **read}, second]
