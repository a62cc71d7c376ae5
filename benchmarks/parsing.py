"""How well and how fast documents become Markdown: rows, headings, reading order, page map; pages a second, memory.

Quality is counted on documents that are made here and on the sample documents, so what they say is known. Speed and
memory are those of a child process per document, limited as the parser limits it.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from benchmarks.layouts import Layout, layouts, long_document
from benchmarks.report import show
from extraction_assets.sample_documents.catalogue import documents
from extraction_assets.sample_documents.document import Document, Grid, display
from extraction_assets.sample_documents.make import rendered
from extraction_core.parsing import ParsedDocument
from resources.parsing.document_reader import preload_engines, read_document
from resources.parsing.limits import ParseLimits
from resources.parsing.versions import provider_version
from resources.parsing.wire import decode_result, encode_result

MB = 1024**2
KB = 1024
LENGTHS = (1, 100, 5_000)
Row = tuple[str | Decimal, ...]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One document, parsed in a process of its own."""

    parsed: ParsedDocument
    cpu_s: float
    peak_mb: float


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help="Pages of the long documents.")
    arguments.add_argument("--json", action="store_true", help="End with one line of JSON.")
    options = arguments.parse_args()
    preload_engines()
    quality = {layout.name: _quality(layout, measure(layout.data, "x.pdf")) for layout in layouts()}
    quality["sample documents, all formats"] = _quality_of_samples()
    speed: dict[str, dict[str, Any]] = {}
    for pages in options.lengths:
        layout = long_document(pages)
        measured = measure(layout.data, "x.pdf")
        quality[layout.name] = _quality(layout, measured)
        speed[f"speed, {layout.name}"] = {
            "pages_per_cpu_s": round(pages / measured.cpu_s, 1),
            "cpu_s": round(measured.cpu_s, 2),
            "peak_mb": round(measured.peak_mb),
        }
    names = list(dict.fromkeys(name for counts in quality.values() for name in counts))
    figures = {name: sum(counts.get(name, 0) for counts in quality.values()) for name in names}
    rows = {name: _as_shares(counts) for name, counts in quality.items()} | speed
    show(f"Parsing with {provider_version()}", rows, figures | {"speed": speed}, as_json=options.json)


def measure(data: bytes, key: str) -> Measured:
    """Parse a document in a child with the usual limits.

    Raises:
        ValueError: it gave no text; the benchmark's documents all have some.
    """
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            _parse_in_child(data, key, file.fileno())
        _, status, usage = os.wait4(child, 0)
        file.seek(0)
        result = decode_result(file.read())
    if status or not isinstance(result, ParsedDocument):
        msg = f"{key} was not parsed: {result if not status else f'status {status}'}"
        raise ValueError(msg)
    return Measured(parsed=result, cpu_s=usage.ru_utime + usage.ru_stime, peak_mb=usage.ru_maxrss * KB / MB)


def _parse_in_child(data: bytes, key: str, result_fd: int) -> None:
    """Parse, write, and leave without clean-up, as the parser's children do."""
    try:
        ParseLimits().apply_to_this_process()
        with os.fdopen(result_fd, "wb", closefd=False) as out:
            out.write(encode_result(read_document(data, key)))
        os._exit(0)
    finally:
        os._exit(1)


def _quality(layout: Layout, measured: Measured) -> dict[str, int]:
    """Count what was found of a layout."""
    text, pages = measured.parsed.markdown, measured.parsed.pages
    found_rows = set(_rows_in(text))
    headings = [line.lstrip("# ").strip("*") for line in text.splitlines() if line.startswith("#")]
    places = [text.find(marker) for marker in layout.markers]
    marks = [(text[page.start : page.end], mark) for page, mark in zip(pages, layout.page_marks, strict=False)]
    return {
        "table_rows": len(layout.rows),
        "table_rows_found": sum(tuple(map(_cell, row)) in found_rows for row in layout.rows),
        "headings": len(layout.headings),
        "headings_found": sum(heading in headings for heading in layout.headings),
        "order": max(len(places) - 1, 0),
        "order_right": sum(0 <= first < second for first, second in pairwise(places)),
        "pages": len(layout.page_marks),
        "pages_right": sum(mark in page for page, mark in marks) if len(pages) == len(layout.page_marks) else 0,
    }


def _quality_of_samples() -> dict[str, int]:
    """Count the table rows and labels of the project's sample documents, in whatever format they are."""
    said = {f"{name}/{key}": document for name, by_key in documents().items() for key, document in by_key.items()}
    wanted = found = 0
    for path, data in rendered():
        parsed = measure(data, path.name).parsed
        rows, there = list(_rows_of(said[path.as_posix()])), set(_rows_in(parsed.markdown))
        wanted += len(rows)
        found += sum(row in there for row in rows)
    return {"table_rows": wanted, "table_rows_found": found}


def _rows_of(document: Document) -> Iterator[Row]:
    for block in document.blocks:
        if isinstance(block, Grid):
            yield tuple(map(_cell, block.header))
        for row in block.rows:
            yield tuple(_cell(display(value)) for value in row)


def _rows_in(markdown: str) -> Iterator[Row]:
    """Yield the rows of pipe tables, and `Label: value` lines as rows of two."""
    for line in markdown.splitlines():
        if line.startswith("|"):
            yield tuple(map(_cell, line.strip("| ").split("|")))
        elif ": " in line:
            yield tuple(map(_cell, line.removeprefix("- ").split(": ", 1)))


def _cell(text: str) -> str | Decimal:
    """Return a cell without its spelling: a workbook holds `17240` where a page shows `17,240.00`."""
    text = re.sub(r"\s+", " ", text).strip()
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return text


def _as_shares(counts: Mapping[str, int]) -> dict[str, str]:
    """Return `found/wanted` by what was counted."""
    pairs: Sequence[tuple[str, str]] = (
        ("table_rows", "table_rows_found"),
        ("headings", "headings_found"),
        ("order", "order_right"),
        ("pages", "pages_right"),
    )
    return {name: f"{counts[found]}/{counts[name]}" for name, found in pairs if counts.get(name)}


if __name__ == "__main__":
    main()
