"""Excel workbooks, through openpyxl: numbers and dates are cells of their own type, not text."""

import io
from decimal import Decimal

import openpyxl
from openpyxl.packaging.core import DocumentProperties
from openpyxl.styles import Font
from openpyxl.xml.constants import ARC_CORE
from openpyxl.xml.functions import tostring

from extraction_assets.sample_documents.document import Document, Grid
from extraction_assets.sample_documents.writers.archive import MADE_AT, settled

SHEET_TITLE_LENGTH = 31  # Excel refuses longer ones


def to_xlsx(document: Document) -> bytes:
    """Return `document` as a workbook with one sheet per block."""
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.worksheets[0])
    for block in document.blocks:
        sheet = workbook.create_sheet((block.heading or document.title)[:SHEET_TITLE_LENGTH])
        sheet.column_dimensions["A"].width = 32
        if len(workbook.worksheets) == 1:
            sheet.append([document.title])
            sheet["A1"].font = Font(bold=True)
            sheet.append([document.note])
            sheet.append([])
        rows = [block.header, *block.rows] if isinstance(block, Grid) else block.rows
        for row in rows:
            # Excel knows binary floats only; the sample figures survive the way there and back.
            sheet.append([float(value) if isinstance(value, Decimal) else value for value in row])
    return _saved(workbook, document.title)


def _saved(workbook: openpyxl.Workbook, title: str) -> bytes:
    out = io.BytesIO()
    workbook.save(out)
    # Saving puts the current time into the properties, so they are written a second time.
    moment = MADE_AT.replace(tzinfo=None)
    properties = DocumentProperties(title=title, creator="Sample documents", created=moment, modified=moment)
    return settled(out.getvalue(), {ARC_CORE: tostring(properties.to_tree())})
