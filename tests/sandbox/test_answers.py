"""Answers by rules: what a document states is found, and what it does not state is absent."""

import json
from typing import Any

import pytest

from tests.sandbox.conftest import Http, body_for


def _text(http: Http, properties: dict[str, Any], document: str, **more: Any) -> str:
    schema = {"type": "object", "properties": properties, **more}
    reply = http.message(body_for(document, system=json.dumps(schema)))
    assert reply.status == 200, reply.body
    return reply.json["content"][0]["text"]


def _answer(http: Http, properties: dict[str, Any], document: str, **more: Any) -> dict[str, Any]:
    return json.loads(_text(http, properties, document, **more))


STRING = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
DATE = {"type": "string", "format": "date"}


@pytest.mark.parametrize(
    "line",
    [
        "Serial number: X-1",
        "**Serial Number**: X-1",
        "**Serial number:** X-1",
        "- Serial No.: X-1",
        "| Serial number | X-1 |",
        "Serial number    X-1",
        "Serial number:\nX-1",
        "SerialNumber: X-1",
        "# Sheet\n\n## Serial number\n\nX-1",
        "Vendor: Acme Serial Number: X-1 Colour: red",
        "| Colour | red | Serial number | X-1 |\n|---|---|---|---|",
    ],
)
def test_a_labelled_value_is_found_however_it_is_written(http: Http, line: str) -> None:
    assert _answer(http, {"serial_number": STRING, "color": STRING}, line).get("serial_number") == "X-1"


def test_title_and_description_name_a_property_too(http: Http) -> None:
    properties = {"mfr_id": STRING | {"title": "Vendor code"}, "psu": STRING | {"description": "Power supply rating"}}
    assert _answer(http, properties, "Vendor code: V7\nPower supply: 800 W") == {"mfr_id": "V7", "psu": "800 W"}


def test_the_better_label_wins(http: Http) -> None:
    properties = {"invoice_date": DATE, "due_date": DATE | {"type": ["string", "null"]}, "total": NUMBER}
    document = "# Invoice\n\nDate: 2026-03-05\n\nGross total: 9\n\nTotal: 12"
    assert _answer(http, properties, document) == {"invoice_date": "2026-03-05", "due_date": None, "total": 12}


def test_a_value_is_used_once(http: Http) -> None:
    document = "# Invoice\n\nDate: 2026-03-05"
    assert _answer(http, {"date": DATE, "invoice_date": DATE}, document) == {"date": "2026-03-05"}


def test_a_label_may_leave_out_only_what_the_title_says(http: Http) -> None:
    document = "# Invoice\n\nDate: 2026-03-05"
    assert _answer(http, {"invoice_date": DATE}, document) == {"invoice_date": "2026-03-05"}
    assert _answer(http, {"due_date": DATE}, document) == {}


def test_the_first_of_two_equal_labels_wins(http: Http) -> None:
    assert _answer(http, {"total": NUMBER}, "Total: 1\nTotal: 2") == {"total": 1}


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        ("1,299.00 USD", "1299.00"),
        ("$1,299.00", "1299.00"),
        ("EUR1.299,00", "1299.00"),
        ("12,5 kg", "12.5"),
        ("-0.10", "-0.10"),
        ("(50.00)", "-50.00"),
        ("0.1000000000000000055", "0.1000000000000000055"),
        ("9007199254740993", "9007199254740993"),
        ("20 %", "20"),
        ("007", "7"),
        ("3.84TB (usable)", "3.84"),
        ("2 x 16", None),
        ("10 - 35", None),
        ("1,2,3", None),
        ("2026-03-05", None),
        ("1.2 million", None),
        ("none", None),
    ],
)
def test_numbers_keep_the_digits_of_the_document(http: Http, stated: str, written: str | None) -> None:
    expected = "{}" if written is None else f'{{"amount": {written}}}'
    assert _text(http, {"amount": NUMBER}, f"Amount: {stated}") == expected


def test_a_number_in_another_unit_is_absent(http: Http) -> None:
    properties = {"memory_gb": INTEGER, "weight_kg": NUMBER}
    assert _answer(http, properties, "Memory: 8 TB\nWeight (kg): 21.4") == {"weight_kg": 21.4}


def test_an_integer_has_no_fraction(http: Http) -> None:
    assert _text(http, {"a": INTEGER, "b": INTEGER}, "A: 5.00\nB: 5.50") == '{"a": 5}'


@pytest.mark.parametrize(
    ("stated", "date"),
    [
        ("2026-03-05", "2026-03-05"),
        ("2026/3/5", "2026-03-05"),
        ("5 March 2026", "2026-03-05"),
        ("5th of Mar. 2026", "2026-03-05"),
        ("March 5, 2026", "2026-03-05"),
        ("25/12/2026", "2026-12-25"),
        ("03/05/2026", None),
        ("31 February 2026", None),
        ("soon", None),
    ],
)
def test_dates_are_read_only_when_they_can_be_read_one_way(http: Http, stated: str, date: str | None) -> None:
    assert _answer(http, {"issued": DATE}, f"Issued: {stated}") == ({} if date is None else {"issued": date})


@pytest.mark.parametrize(("stated", "value"), [("Yes", True), ("no", False), ("✓", True), ("false", False)])
def test_booleans(http: Http, stated: str, *, value: bool) -> None:
    assert _answer(http, {"redundant": {"type": "boolean"}}, f"Redundant: {stated}") == {"redundant": value}


def test_an_enum_takes_the_spelling_of_the_schema(http: Http) -> None:
    properties = {"kind": {"enum": ["rack", "tower", "blade"]}, "size": {"type": "integer", "enum": [1, 2, 4]}}
    assert _answer(http, properties, "Kind: 2U RACK server\nSize: 2") == {"kind": "rack", "size": 2}
    assert _answer(http, properties, "Kind: cloud") == {}


def test_lists_are_split_at_commas_semicolons_and_bullets(http: Http) -> None:
    properties = {name: {"type": "array", "items": STRING} for name in ("ports", "tags", "features")}
    document = "# Sheet\n\nPorts: USB-C, VGA\nTags: a, b; c\n\n## Features\n\n- Hot swap\n- 1,5 kW"
    assert _answer(http, properties, document) == {
        "ports": ["USB-C", "VGA"],
        "tags": ["a, b", "c"],
        "features": ["Hot swap", "1,5 kW"],
    }


ITEMS = {
    "type": "array",
    "items": {"type": "object", "properties": {"item": STRING, "quantity": INTEGER, "price": NUMBER}},
}


def test_table_rows_are_items_without_separators_and_totals(http: Http) -> None:
    document = """
| Item | Qty | Unit price |
|---|---:|---:|
| Paper, white | 10 | 4.20 |
| Total switch | | 7.00 |
| Pens | 2 | 1.50 |
| Total | | 12.70 |
"""
    text = _text(http, {"lines": ITEMS, "total": NUMBER}, document)
    assert '{"item": "Paper, white", "quantity": 10, "price": 4.20}' in text
    assert [line["item"] for line in json.loads(text)["lines"]] == ["Paper, white", "Pens"]
    assert json.loads(text)["total"] == 12.7


def test_a_table_that_goes_on_after_a_page_break_is_one(http: Http) -> None:
    page = "| Item | Qty |\n|---|---|\n| {} | 1 |\n\n---\n\n"
    answer = _answer(http, {"lines": ITEMS}, page.format("a") + page.format("b"))
    assert [line["item"] for line in answer["lines"]] == ["a", "b"]


def test_a_table_goes_to_the_array_its_heading_names(http: Http) -> None:
    shape = {"type": "array", "items": {"type": "object", "properties": {"type": STRING, "speed": STRING}}}
    ports = "## Ports\n\n| Type | Speed |\n|---|---|\n| USB | 5 |"
    slots = "## Slots\n\n| Type | Speed | Note |\n|---|---|---|\n| x16 | 8 | - |"
    document = f"# X\n\n{ports}\n\n{slots}"
    answer = _answer(http, {"slots": shape, "ports": shape}, document)
    assert answer == {"slots": [{"type": "x16", "speed": "8"}], "ports": [{"type": "USB", "speed": "5"}]}


def test_columns_set_apart_by_spaces_are_a_table(http: Http) -> None:
    document = "Item          Qty    Price\nPaper         10     4.20\nPens          2      1.50\n\nTotal         5.70"
    answer = _answer(http, {"lines": ITEMS, "total": NUMBER}, document)
    assert [line["quantity"] for line in answer["lines"]] == [10, 2]
    assert answer["total"] == 5.7


PARTY_FIELDS = {"name": STRING, "city": STRING}
PARTY = {"type": "object", "properties": PARTY_FIELDS, "required": ["name"]}


def test_nested_objects_take_their_values_from_their_own_section(http: Http) -> None:
    document = "# Invoice\n\n## Buyer\n\nName: B\nCity: Bonn\n\n## Seller\n\nName: S\nCity: Siegen"
    answer = _answer(http, {"seller": PARTY, "buyer": PARTY}, document)
    assert answer == {"seller": {"name": "S", "city": "Siegen"}, "buyer": {"name": "B", "city": "Bonn"}}


def test_nested_objects_take_their_values_from_full_labels(http: Http) -> None:
    answer = _answer(http, {"seller": PARTY, "buyer": PARTY}, "Seller name: S\nBuyer: B\nName: nobody")
    assert answer == {"seller": {"name": "S"}, "buyer": {"name": "B"}}


def test_absent_is_null_where_allowed_and_left_out_elsewhere(http: Http) -> None:
    properties = {
        "a": STRING,
        "b": {"type": ["string", "null"]},
        "c": {"anyOf": [NUMBER, {"type": "null"}]},
        "d": PARTY,
        "e": PARTY,
        "f": ITEMS,
    }
    assert _answer(http, properties, "Nothing of use.", required=["a", "b", "d"]) == {"b": None, "d": {}, "c": None}


def test_a_property_without_a_word_in_its_name_matches_nothing(http: Http) -> None:
    assert _answer(http, {"$": STRING, "größe": STRING}, "Total: 1\nGröße: 2U") == {"größe": "2U"}


def test_required_properties_come_first(http: Http) -> None:
    assert list(_answer(http, {"a": STRING, "b": STRING}, "A: 1\nB: 2", required=["b"])) == ["b", "a"]


def test_title_and_currency_need_no_label(http: Http) -> None:
    document = "# PowerEdge R770\n\nPrice: 1,299.00 €"
    answer = _answer(http, {"title": STRING, "price": NUMBER, "currency": STRING}, document)
    assert answer == {"title": "PowerEdge R770", "price": 1299.0, "currency": "EUR"}


def test_references_unions_and_parts_of_a_schema_are_followed(http: Http) -> None:
    properties = {"seller": {"$ref": "#/$defs/party"}, "both": {"allOf": [{"type": "string"}, True]}}
    recursive = PARTY | {"properties": PARTY_FIELDS | {"parent": {"$ref": "#/$defs/party"}}}
    answer = _answer(http, properties, "Seller name: S\nBoth: x", **{"$defs": {"party": recursive}})
    assert answer == {"seller": {"name": "S"}, "both": "x"}


def test_an_array_schema_is_answered_with_rows(http: Http) -> None:
    system = json.dumps({"$schema": "x", **ITEMS})
    document = "| Item | Qty |\n|---|---|\n| a | 1 |"
    reply = http.message(body_for(document, system=system)).json
    assert json.loads(reply["content"][0]["text"]) == [{"item": "a", "quantity": 1}]


def test_a_sheet_with_several_tables_is_read_table_by_table(http: Http) -> None:
    rows = ("Acme R1 | |", "---|---|---", " | | ", "Vendor | Acme | ", " | | ", "Item | Qty | Price", "a | 1 | 2.00")
    document = "\n".join(f"| {row} |" for row in rows)
    answer = _answer(http, {"vendor": STRING, "title": STRING, "lines": ITEMS}, document)
    assert answer == {"vendor": "Acme", "title": "Acme R1", "lines": [{"item": "a", "quantity": 1, "price": 2.0}]}


def test_the_fence_around_a_document_is_not_read(http: Http) -> None:
    assert _answer(http, {"total": NUMBER}, "<document-1a2b>\nTotal: 1\n</document-1a2b>") == {"total": 1}
