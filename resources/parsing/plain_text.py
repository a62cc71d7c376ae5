"""Text, Markdown, CSV and TSV: decoded by our own rules; nothing is interpreted but the separators of a table."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter

from extraction_core.parsing import ParseFailureReason
from resources.parsing.draft import DocumentRefusedError, Draft
from resources.parsing.encodings import decode_text
from resources.parsing.tables import markdown_table
from resources.parsing.versions import OWN_RULES


class _Semicolon(csv.excel):
    delimiter = ";"


class _Pipe(csv.excel):
    delimiter = "|"


_DIALECTS: tuple[type[csv.Dialect], ...] = (csv.excel, _Semicolon, csv.excel_tab, _Pipe)
_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])\n")
"""What spreadsheets take as a first line: not a row, but the separator of the rows."""
_SNIFFED_CHARACTERS = 65536
_MAX_CELL_CHARACTERS = 1024 * 1024
_BEYOND_THE_END = "beyond-the-end"
"""Put after the text: where it is not a row of its own, the text ends inside a quoted cell."""


def read_text(data: bytes) -> Draft:
    """Text and Markdown as they are."""
    text, warnings = decode_text(data)
    return Draft.of_text(text, engine=OWN_RULES, warnings=warnings)


def read_comma_separated(data: bytes) -> Draft:
    """CSV as one Markdown table. The separator is found out: comma, semicolon, tab or pipe.

    Raises:
        DocumentRefusedError: CORRUPT, if it cannot be split into rows.
    """
    text, warnings = decode_text(data)
    if told := _SEPARATOR_LINE.match(text):
        dialect = next(dialect for dialect in _DIALECTS if dialect.delimiter == told[1])
        return _read_table(text[told.end() :], dialect, warnings)
    return _read_table(text, _dialect(text), warnings)


def read_tab_separated(data: bytes) -> Draft:
    """TSV as one Markdown table.

    Raises:
        DocumentRefusedError: CORRUPT, if it cannot be split into rows.
    """
    text, warnings = decode_text(data)
    return _read_table(text, csv.excel_tab, warnings)


def _read_table(text: str, dialect: type[csv.Dialect], warnings: list[str]) -> Draft:
    """Cells stay text, as a person would see them; blank rows are left out."""
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    try:
        *rows, last = csv.reader(io.StringIO(f"{text}\n{_BEYOND_THE_END}", newline=""), dialect)
    except csv.Error as error:
        raise DocumentRefusedError(ParseFailureReason.CORRUPT, f"not a readable table ({error})") from error
    if last != [_BEYOND_THE_END]:  # a quote was left open, and all that follows is one cell
        rows.append([*last[:-1], last[-1].removesuffix(f"\n{_BEYOND_THE_END}")])
        warnings = [*warnings, f"unclosed_quote:row {len(rows)}"]
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    return Draft.of_text(markdown_table(rows) if rows else "", engine=OWN_RULES, warnings=warnings)


def _dialect(text: str) -> type[csv.Dialect]:
    """The separator by which most rows have the same number of cells, at least two; a comma if there is none."""
    lines = text[:_SNIFFED_CHARACTERS].splitlines(keepends=True)

    def score(dialect: type[csv.Dialect]) -> tuple[int, int]:
        widths = Counter(len(row) for row in csv.reader(lines, dialect))
        return max(((rows, width) for width, rows in widths.items() if width > 1), default=(0, 0))

    return max(_DIALECTS, key=score)
