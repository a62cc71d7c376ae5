"""PDF pages, through ReportLab: ruled tables, headings and a running footer; text in the built-in Helvetica.

`invariant` replaces the time of making and the random file id by fixed ones.
"""

import io
from collections.abc import Sequence
from functools import partial
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from extraction_assets.sample_documents.document import Document, Grid, Pairs, Value, display

BODY = ParagraphStyle("Body", spaceAfter=3)
NOTE = ParagraphStyle("Note", parent=BODY, fontName="Helvetica-Oblique")
TITLE = ParagraphStyle("Title", parent=BODY, fontName="Helvetica-Bold", fontSize=18, leading=24)
HEADING = ParagraphStyle("Heading", parent=BODY, fontName="Helvetica-Bold", fontSize=13, leading=18, spaceAfter=4)
MARGIN = 18 * mm
GAP = 8 * mm  # PDF readers take ruled tables that stand closer together for one
PAIR_WIDTHS = (70 * mm, 90 * mm)
RULES = TableStyle(
    [
        ("GRID", (0, 0), (-1, -1), 0.5, colors.grey),
        ("TOPPADDING", (0, 0), (-1, -1), 1.5),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 2.5),
    ]
)
HEADER = TableStyle(
    [("FONTNAME", (0, 0), (-1, 0), "Helvetica-Bold"), ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke)],
    parent=RULES,
)


def to_pdf(document: Document) -> bytes:
    """Return `document` as a PDF of as many A4 pages as it needs; a table that breaks repeats its header."""
    out = io.BytesIO()
    template = SimpleDocTemplate(
        out,
        pagesize=A4,
        leftMargin=MARGIN,
        rightMargin=MARGIN,
        topMargin=MARGIN,
        bottomMargin=MARGIN,
        title=document.title,
        author="Sample documents",
        invariant=1,
        pageCompression=0,
    )
    story: list[Flowable] = [Paragraph(escape(document.title), TITLE), Paragraph(escape(document.note), NOTE)]
    for block in document.blocks:
        story.append(Spacer(1, GAP))
        if block.heading:
            story.append(Paragraph(escape(block.heading), HEADING))
        story += _body(block)
    footer = partial(_draw_footer, document.title)
    template.build(story, onFirstPage=footer, onLaterPages=footer)
    return out.getvalue()


def _draw_footer(title: str, canvas: Canvas, template: SimpleDocTemplate) -> None:
    canvas.setFont("Helvetica", 8)
    canvas.drawCentredString(A4[0] / 2, 12 * mm, f"{title} - page {template.page}")


def _body(block: Pairs | Grid) -> list[Flowable]:
    if isinstance(block, Grid):
        return [_table([block.header, *block.rows], HEADER, header_rows=1)]
    if block.style == "table":
        return [_table(block.rows, RULES, header_rows=0, widths=PAIR_WIDTHS)]
    # A list, because PDF readers run plain lines of text together into one paragraph.
    return [Paragraph(escape(f"\u2022 {label}: {display(value)}"), BODY) for label, value in block.rows]


def _table(
    rows: Sequence[Sequence[Value]], style: TableStyle, *, header_rows: int, widths: Sequence[float] | None = None
) -> Table:
    cells = [[display(value) for value in row] for row in rows]
    return Table(cells, colWidths=widths, style=style, repeatRows=header_rows, hAlign="LEFT")
