"""Local parsing keeps what the sample documents say: every label beside its value, every table row in one piece."""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path

import pytest

from extraction_assets.sample_documents.catalogue import documents
from extraction_assets.sample_documents.document import Document, Grid, display
from extraction_core.parsing import ParsedDocument
from resources.parsing import LocalParseProvider

SAMPLES = Path(__file__).resolve().parents[2] / "extraction_assets" / "sample_documents"
DOCUMENTS = {f"{collection}/{key}": said for collection, by_key in documents().items() for key, said in by_key.items()}

Cell = str | Decimal
Row = tuple[Cell, ...]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalParseProvider]:
    with LocalParseProvider(scratch_folder=tmp_path_factory.mktemp("scratch")) as local:
        yield local


@pytest.mark.parametrize("path", DOCUMENTS)
def test_parsed_markdown_holds_every_row_of_a_sample_document(provider: LocalParseProvider, path: str) -> None:
    parsed = provider.parse((SAMPLES / path).read_bytes(), path)
    assert isinstance(parsed, ParsedDocument), parsed
    found = set(rows_in(parsed.markdown))
    assert [row for row in rows_of(DOCUMENTS[path]) if row not in found] == []


def rows_of(document: Document) -> Iterator[Row]:
    """Yield every row that the document shows: label and value, or the cells of a table with its header."""
    for block in document.blocks:
        if isinstance(block, Grid):
            yield tuple(map(cell, block.header))
        for row in block.rows:
            yield tuple(cell(display(value)) for value in row)


def rows_in(markdown: str) -> Iterator[Row]:
    """Yield the rows of pipe tables, and `Label: value` lines as rows of two."""
    for line in markdown.splitlines():
        if line.startswith("|"):
            yield tuple(map(cell, line.strip("| ").split("|")))
        elif ": " in line:
            yield tuple(map(cell, line.removeprefix("- ").split(": ", 1)))


def cell(text: str) -> Cell:
    """Numbers count, not their spelling: a workbook holds `17240` where a page shows `17,240.00`."""
    text = re.sub(r"\s+", " ", text).strip()
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return text
