"""The committed sample documents: as their makers make them, as many as promised, and right in themselves."""

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema_rs
import pytest

from extraction_assets.sample_documents.catalogue import expected_values
from extraction_assets.sample_documents.make import rendered

ASSETS = Path(__file__).resolve().parents[2] / "extraction_assets"
SAMPLES = ASSETS / "sample_documents"
COLLECTIONS = ("servers", "invoices")
EXPECTED = expected_values()
INVOICES = EXPECTED["invoices"]


def committed(collection: str) -> dict[str, bytes]:
    """Document key -> bytes of every file below the collection's folder."""
    folder = SAMPLES / collection
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def formats(collection: str) -> Counter[str]:
    """File extension -> number of documents."""
    return Counter(PurePosixPath(key).suffix for key in committed(collection))


def schema(collection: str) -> dict[str, Any]:
    """The collection's JSON Schema."""
    return json.loads((ASSETS / "defs" / collection / "schema.json").read_bytes())


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_committed_documents_equal_freshly_made_ones_to_the_byte(collection: str) -> None:
    made = {path.relative_to(collection).as_posix(): data for path, data in rendered() if path.parts[0] == collection}
    stored = committed(collection)
    assert set(made) == set(stored)
    assert [key for key in made if made[key] != stored[key]] == []


def test_servers_has_five_formats_with_three_documents_each_and_pdf_in_the_majority() -> None:
    count = formats("servers")
    assert count == {".pdf": 14, ".docx": 3, ".xlsx": 3, ".html": 3, ".md": 3}


def test_invoices_has_fourteen_documents_in_five_formats() -> None:
    assert formats("invoices") == {".pdf": 6, ".docx": 3, ".html": 2, ".md": 2, ".xlsx": 1}


def test_folders_divide_the_collections_into_a_handful_of_document_sets() -> None:
    sets = {collection: {PurePosixPath(key).parent for key in committed(collection)} for collection in COLLECTIONS}
    assert {collection: len(folders) for collection, folders in sets.items()} == {"servers": 8, "invoices": 4}


def test_two_documents_of_one_folder_differ_only_in_their_extension() -> None:
    stems = Counter(PurePosixPath(key).with_suffix("") for key in committed("servers"))
    assert [str(stem) for stem, count in stems.items() if count == 2] == ["server/hpe/proliant/dl380"]


def test_every_committed_document_says_that_its_figures_are_invented() -> None:
    # Nothing is compressed, so the note can be read in the bytes of every format.
    silent = [
        key for collection in COLLECTIONS for key, data in committed(collection).items() if b"invented" not in data
    ]
    assert silent == []


@pytest.mark.parametrize("key", INVOICES)
def test_invoice_amounts_add_up_to_the_last_digit(key: str) -> None:
    invoice = INVOICES[key]
    lines = invoice["line_items"]
    assert [line["quantity"] * line["unit_price"] for line in lines] == [line["amount"] for line in lines]
    assert sum(line["amount"] for line in lines) == invoice["subtotal"]
    assert invoice["subtotal"] + invoice["tax_amount"] == invoice["total"]
    exact_tax = invoice["subtotal"] * invoice["tax_rate_percent"] / 100
    assert abs(exact_tax - invoice["tax_amount"]) <= Decimal("0.5" if invoice["currency"] == "JPY" else "0.005")


def test_invoices_have_three_to_forty_lines() -> None:
    lengths = [len(invoice["line_items"]) for invoice in INVOICES.values()]
    assert (min(lengths), max(lengths)) == (3, 40)


def test_the_longest_invoice_takes_two_pages_and_repeats_its_table_header() -> None:
    longest = max(INVOICES, key=lambda key: len(INVOICES[key]["line_items"]))
    content = committed("invoices")[longest]
    assert content.count(b"/Type /Page\n") == 2
    assert content.count(b"(Article number)") == 2


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_schema_is_valid_json_schema_2020_12(collection: str) -> None:
    assert schema(collection)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schema(collection))


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_expected_values_fit_the_schema(collection: str) -> None:
    validator = jsonschema_rs.validator_for(schema(collection), validate_formats=True, offline=True)
    errors = {
        key: [error.message for error in validator.iter_errors(value)] for key, value in EXPECTED[collection].items()
    }
    assert {key: found for key, found in errors.items() if found} == {}


def test_every_property_of_both_schemas_is_described() -> None:
    missing = [
        name for collection in COLLECTIONS for name, node in properties(schema(collection)) if "description" not in node
    ]
    assert missing == []


def test_servers_schema_keeps_within_the_limits_of_structured_outputs() -> None:
    found = list(properties(schema("servers")))
    refused = {"minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "uniqueItems"}
    assert [name for name, node in found if refused & node.keys()] == []
    assert sum(isinstance(node["type"], list) for _, node in found) <= 16


def properties(node: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """All properties of a schema and of the objects below it."""
    own = list(node.get("properties", {}).items())
    below = [found for _, child in own for found in properties(child.get("items", child))]
    return own + below
