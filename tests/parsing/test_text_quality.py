"""The pure parts: cleaning, measures, encodings, tables, cell values."""

from __future__ import annotations

import re
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.parsing import text_quality
from resources.parsing.cell_values import NumberFormat, number_text
from resources.parsing.encodings import decode_html, decode_text
from resources.parsing.png import decode_png
from resources.parsing.tables import markdown_table


@given(st.text())
def test_cleaned_text_can_be_stored_and_counts_what_was_replaced(text: str) -> None:
    cleaned, replaced = text_quality.clean(text)
    cleaned.encode()
    assert "\0" not in cleaned
    assert replaced == sum(character == "\0" or "\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize("text", ["", "```\n\n```", " \n\t\xa0\u200b", "| | |\n|---|", "# ", "![](img_1.png)\n\n---"])
def test_markup_alone_is_empty(text: str) -> None:
    assert text_quality.is_empty(text)


@pytest.mark.parametrize("text", ["0", "`x`", "| | 1 |", "א"])
def test_a_single_character_is_a_text(text: str) -> None:
    assert not text_quality.is_empty(text)


@pytest.mark.parametrize(
    ("text", "share"),
    [("abc", 0), ("(cid:1)(cid:22)", 1), ("ab\ue001\x01", 0.5), ("a \ufffd", 0.5), ("", 0), ("\ufffe\uffff", 1)],
)
def test_the_share_of_meaningless_characters(text: str, share: float) -> None:
    assert text_quality.unreadable_share(text) == share


@pytest.mark.parametrize("logical", ["סכום לתשלום", "فاتورة رقم"])
def test_hebrew_or_arabic_that_stands_backwards_is_seen(logical: str) -> None:
    assert not text_quality.is_right_to_left_visual_order(logical)
    assert text_quality.is_right_to_left_visual_order(logical[::-1])


@pytest.mark.parametrize(
    ("data", "text", "warnings"),
    [
        ("Zoë €".encode(), "Zoë €", []),
        ("Zoë".encode("utf-8-sig"), "Zoë", []),
        ("Zoë".encode("utf-16"), "Zoë", []),
        ("Zoë".encode("utf-32"), "Zoë", []),
        ("Invoice".encode("utf-16-be"), "Invoice", ["encoding_assumed:utf-16-be"]),
        ("“Zoë” €".encode("cp1252"), "“Zoë” €", ["encoding_assumed:cp1252"]),
        (b"a" * 100_000 + "é".encode(), "a" * 100_000 + "é", []),
        (b"a\r\nb\rc", "a\nb\nc", []),
    ],
    ids=range(8),
)
def test_text_is_decoded_over_its_whole_length(data: bytes, text: str, warnings: list[str]) -> None:
    assert decode_text(data) == (text, warnings)


def test_the_encoding_that_a_page_declares_comes_before_the_fall_back() -> None:
    page = '<meta http-equiv="Content-Type" content="text/html; charset=shift_jis"><p>請求書</p>'
    assert decode_html(page.encode("shift_jis")) == (page, [])


@given(st.lists(st.lists(st.text(), min_size=1, max_size=4), min_size=1, max_size=5))
def test_every_row_of_a_table_has_the_same_columns_whatever_its_cells_hold(rows: list[list[str]]) -> None:
    width = max(len(row) for row in rows)
    lines = markdown_table(rows).split("\n")
    assert len(lines) == len(rows) + 1
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines} == {width + 1}


@pytest.mark.parametrize(
    ("stored", "code", "expected"),
    [
        ("3", "General", "3"),
        ("3.0", "General", "3"),
        ("12345678901234567", "General", "12345678901234567"),
        ("0.30000000000000004", "General", "0.3"),
        ("1.0000000000000001E-5", "General", "0.00001"),
        ("1E21", "General", "1000000000000000000000"),
        ("-0", "General", "0"),
        ("123", "00000", "00123"),
        ("0.125", "0.0%", "12.5%"),
        ("0.5", "#,##0.00", "0.5"),
        ("4.2", '"EUR" #,##0.00', "4.2 EUR"),
        ("4.2", "[$€-407] #,##0.00", "4.2 €"),
        ("4.2", "[Red]0.00;[Blue]-0.00", "4.2"),
        ("45356", "yyyy-mm-dd", "2024-03-05"),
        ("45356.604166666664", "dd/mm/yyyy hh:mm", "2024-03-05 14:30:00"),
        ("0.604166666666667", "hh:mm", "14:30:00"),
        ("1.25", "[h]:mm", "30:00:00"),
        ("45356", '0 "days"', "45356 days"),
        ("1", "yyyy-mm-dd", "1900-01-01"),
        ("60", "yyyy-mm-dd", "1900-02-29"),
        ("61", "yyyy-mm-dd", "1900-03-01"),
        ("12345678", r"000\-00\-0000", "012-34-5678"),
        ("15551234567", '"("000") "000-0000', "(1555) 123-4567"),
        ("1234567", '#,##0,"k"', "1234567"),
        ("NaN", "General", "NaN"),
        ("text", "General", "text"),
    ],
)
def test_a_stored_number_is_read_by_its_format(stored: str, code: str, expected: str) -> None:
    assert number_text(stored, NumberFormat(164, code), from_1904=False) == expected


def test_dates_of_the_1904_system_are_four_years_later() -> None:
    assert number_text("43894", NumberFormat(14, None), from_1904=True) == "2024-03-05"


@given(st.binary(min_size=48, max_size=48), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_a_png_is_decoded_whatever_filters_its_rows_have(pixels: bytes, filters: list[int]) -> None:
    rows = [pixels[start : start + 16] for start in (0, 16, 32)]
    raster = decode_png(_png(rows, filters))
    assert [bytes(row) for row in raster.rows] == rows


def _png(rows: list[bytes], filters: list[int]) -> bytes:
    """Four pixels a row; the filters are those of the PNG specification, section 9.2, forwards."""
    filtered = b""
    above = bytes(16)
    for kind, row in zip(filters, rows, strict=True):
        filtered += bytes([kind]) + bytes((row[i] - _predicted(kind, i, row, above)) % 256 for i in range(16))
        above = row
    header = struct.pack(">IIBBBBB", 4, 3, 8, 6, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(filtered)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _predicted(kind: int, i: int, row: bytes, above: bytes) -> int:
    a, b, c = (row[i - 4] if i >= 4 else 0), above[i], (above[i - 4] if i >= 4 else 0)
    nearest = min((a, b, c), key=lambda value: abs(a + b - c - value))
    return [0, a, b, (a + b) // 2, nearest][kind]
