"""XLSX, read from its parts (ECMA-376 part 1, chapter 18): the office engine ignores number formats and hidden cells.

Every sheet is one page: a heading with its name and one table of its used rows and columns. What a person would not see
(hidden sheets, rows and columns) is marked; a formula whose value was never stored is named, since nothing computes it.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

from extraction_core.parsing import ParseFailureReason
from resources.parsing.cell_values import NumberFormat, number_text
from resources.parsing.draft import DocumentRefusedError, Draft, DraftPage
from resources.parsing.opc import iterate_xml, local_name, read_xml, relation_id, relations
from resources.parsing.sheet_notes import notes_of
from resources.parsing.tables import markdown_table
from resources.parsing.versions import OWN_RULES

MAX_TABLE_CELLS = 5_000_000
"""Used rows times used columns of one sheet; a few far-apart cells would otherwise make a huge empty table."""

_WORKBOOK = "xl/workbook.xml"
_COLUMN = re.compile(r"[A-Z]+")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
"""How a carriage return, say, is written into the file (ST_Xstring, ECMA-376 part 1, 22.9.2.19)."""
_HIDDEN = "(hidden) "
_TRUE = frozenset({"1", "true"})


@dataclass(kw_only=True)
class _Workbook:
    strings: list[str]
    formats: list[NumberFormat]
    from_1904: bool


@dataclass(kw_only=True)
class _Sheet:
    name: str
    hidden: bool
    rows: dict[int, dict[int, str]] = field(default_factory=dict[int, dict[int, str]])
    hidden_rows: set[int] = field(default_factory=set[int])
    hidden_columns: set[int] = field(default_factory=set[int])
    valueless: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def read_workbook(data: bytes) -> Draft:
    """One page per sheet.

    Raises:
        DocumentRefusedError: CORRUPT or LIMIT.
    """
    draft = Draft(pages=[], paged=True, engine=OWN_RULES)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for number, sheet in enumerate(_sheets(archive), start=1):
                text = _markdown(sheet)
                draft.pages.append(DraftPage(number=number, text=text, is_blank=not text))
                draft.warnings.extend(_warnings(sheet))
    except (zipfile.BadZipFile, ET.ParseError, KeyError, IndexError, ValueError) as error:
        raise DocumentRefusedError(ParseFailureReason.CORRUPT, f"not a readable XLSX ({error})") from error
    return draft


def _sheets(archive: zipfile.ZipFile) -> Iterator[_Sheet]:
    root = read_xml(archive, _WORKBOOK)
    if root is None:
        raise KeyError(_WORKBOOK)
    properties = root.find("{*}workbookPr")
    workbook = _Workbook(
        strings=_shared_strings(archive),
        formats=_number_formats(archive),
        from_1904=properties is not None and properties.get("date1904") in _TRUE,
    )
    parts = relations(archive, _WORKBOOK)
    for entry in root.iterfind("{*}sheets/{*}sheet"):
        sheet = _Sheet(name=entry.get("name", ""), hidden=entry.get("state", "visible") != "visible")
        part = parts.get(relation_id(entry), "")
        if "/worksheets/" in part:  # the others are charts and macros
            _read_cells(archive, part, workbook, sheet)
            sheet.notes.extend(notes_of(archive, part))
        yield sheet


def _shared_strings(archive: zipfile.ZipFile) -> list[str]:
    part = "xl/sharedStrings.xml"
    if part not in archive.namelist():
        return []
    return [_rich_text(item) for item in iterate_xml(archive, part, "si")]


def _rich_text(element: ET.Element) -> str:
    """All text runs, without the reading aids (``rPh``) of East Asian text."""
    runs = [element.findtext("{*}t") or "", *(run.text or "" for run in element.iterfind("{*}r/{*}t"))]
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), "".join(runs))


def _number_formats(archive: zipfile.ZipFile) -> list[NumberFormat]:
    root = read_xml(archive, "xl/styles.xml")
    if root is None:
        return []
    codes = {int(f.get("numFmtId", "0")): f.get("formatCode") for f in root.iterfind("{*}numFmts/{*}numFmt")}
    ids = [int(style.get("numFmtId", "0")) for style in root.iterfind("{*}cellXfs/{*}xf")]
    return [NumberFormat(number_format_id, codes.get(number_format_id)) for number_format_id in ids]


def _read_cells(archive: zipfile.ZipFile, part: str, workbook: _Workbook, sheet: _Sheet) -> None:
    number = 0
    for element in iterate_xml(archive, part, "row", "col"):
        hidden = element.get("hidden") in _TRUE
        if local_name(element) == "col":
            first, last = int(element.get("min", "1")), int(element.get("max", "0"))
            sheet.hidden_columns.update(range(first, last + 1) if hidden else ())
            continue
        number = int(element.get("r", number + 1))
        if hidden:
            sheet.hidden_rows.add(number)
        _read_row(element, number, workbook, sheet)


def _read_row(row: ET.Element, number: int, workbook: _Workbook, sheet: _Sheet) -> None:
    column = 0
    for cell in row.iterfind("{*}c"):
        column = _column(cell.get("r")) or column + 1
        text = _cell_text(cell, workbook)
        if text.strip():
            sheet.rows.setdefault(number, {})[column] = text
        elif cell.find("{*}f") is not None:
            sheet.valueless.append(cell.get("r", f"row {number}"))


def _column(reference: str | None) -> int:
    """1 for ``A7``, 27 for ``AA7``; 0 if the file leaves it out."""
    match = _COLUMN.match(reference or "")
    number = 0
    for letter in match.group() if match else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _cell_text(cell: ET.Element, workbook: _Workbook) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        inline = cell.find("{*}is")
        return "" if inline is None else _rich_text(inline)
    stored = cell.findtext("{*}v") or ""
    if not stored or kind in {"str", "e", "d"}:  # formula text, error, ISO date
        return stored
    if kind == "s":
        return workbook.strings[int(stored)]
    if kind == "b":
        return "TRUE" if stored in _TRUE else "FALSE"
    style = int(cell.get("s", "0"))
    number_format = workbook.formats[style] if style < len(workbook.formats) else NumberFormat(0, None)
    return number_text(stored, number_format, from_1904=workbook.from_1904)


def _markdown(sheet: _Sheet) -> str:
    parts = [_table(sheet)] if sheet.rows else []
    if sheet.notes:
        parts.append("Beside the cells:\n\n" + "\n".join(f"- {note}" for note in sheet.notes))
    heading = f"## {sheet.name}{' (hidden)' if sheet.hidden else ''}"
    return "\n\n".join([heading, *parts]) if parts else ""


def _table(sheet: _Sheet) -> str:
    columns = sorted({column for cells in sheet.rows.values() for column in cells})
    if len(sheet.rows) * len(columns) > MAX_TABLE_CELLS:
        size = f"{len(sheet.rows):,} rows by {len(columns):,} columns"
        message = f"sheet {sheet.name}: {size}; the limit is {MAX_TABLE_CELLS:,} cells"
        raise DocumentRefusedError(ParseFailureReason.LIMIT, message)
    table: list[list[str]] = []
    previous = 0
    for number, cells in sorted(sheet.rows.items()):
        if table and number > previous + 1:
            table.append([])  # one empty row keeps the blocks of a sheet apart
        table.append([cells.get(column, "") for column in columns])
        if number in sheet.hidden_rows:
            table[-1][0] = _HIDDEN + table[-1][0]
        previous = number
    for position, column in enumerate(columns):
        if column in sheet.hidden_columns:
            table[0][position] = _HIDDEN + table[0][position]
    return markdown_table(table)


def _warnings(sheet: _Sheet) -> Iterator[str]:
    if sheet.hidden:
        yield f"hidden_sheet:{sheet.name}"
    if sheet.hidden_rows & sheet.rows.keys():
        yield f"hidden_rows:{sheet.name}"
    if sheet.hidden_columns & {column for cells in sheet.rows.values() for column in cells}:
        yield f"hidden_columns:{sheet.name}"
    for cell in sheet.valueless:
        yield f"formula_without_value:{sheet.name}!{cell}"
