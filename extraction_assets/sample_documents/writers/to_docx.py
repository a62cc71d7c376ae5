"""Word documents, through python-docx and its default template."""

import io
from collections.abc import Sequence

import docx
from docx.document import Document as WordDocument
from docx.enum.style import WD_STYLE_TYPE

from extraction_assets.sample_documents.document import Document, Grid, Pairs, Value, display
from extraction_assets.sample_documents.writers.archive import MADE_AT, settled

UNUSED_PARTS = ("/stylesWithEffects", "/thumbnail", "/customXml")
USED_TABLE_STYLES = {"Normal Table", "Table Grid"}


def to_docx(document: Document) -> bytes:
    """Return `document` as a .docx file."""
    word = docx.Document()
    _drop_unused(word)
    properties = word.core_properties
    properties.title, properties.author, properties.comments = document.title, "Sample documents", document.note
    properties.created = properties.modified = MADE_AT
    word.add_heading(document.title, level=1)
    word.add_paragraph(document.note)
    for block in document.blocks:
        if block.heading:
            word.add_heading(block.heading, level=2)
        _add_body(word, block)
    out = io.BytesIO()
    word.save(out)
    return settled(out.getvalue())


def _drop_unused(word: WordDocument) -> None:
    """Drop the template's preview picture and its 99 other table styles, nine tenths of an uncompressed file."""
    for owner in filter(None, (word.part.package, word.part)):
        for key in [key for key, relation in owner.rels.items() if relation.reltype.endswith(UNUSED_PARTS)]:
            del owner.rels[key]
    for style in list(word.styles):
        if style.type is WD_STYLE_TYPE.TABLE and style.name not in USED_TABLE_STYLES:
            style.delete()


def _add_body(word: WordDocument, block: Pairs | Grid) -> None:
    if isinstance(block, Grid):
        _add_table(word, [block.header, *block.rows])
    elif block.style == "table":
        _add_table(word, block.rows)
    else:
        for label, value in block.rows:
            word.add_paragraph(f"{label}: {display(value)}")


def _add_table(word: WordDocument, rows: Sequence[Sequence[Value]]) -> None:
    table = word.add_table(rows=0, cols=len(rows[0]), style="Table Grid")
    for row in rows:
        for cell, value in zip(table.add_row().cells, row, strict=True):
            cell.text = display(value)
