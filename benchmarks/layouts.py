"""PDFs whose rows, headings, pages and reading order are known, because they are made here."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)

STYLES = getSampleStyleSheet()
RULED = TableStyle([("GRID", (0, 0), (-1, -1), 0.5, colors.grey)])
MARGIN, GUTTER = 20 * mm, 8 * mm
WORDS = "The supplier keeps the goods in stock and delivers them within ten working days of the order. " * 4
LINES_A_PAGE = 30


@dataclass(kw_only=True)
class Layout:
    """One PDF and what a reader finds in it.

    Attributes:
        rows: cells of its table rows.
        headings: their texts.
        markers: words in the order in which a person meets them.
        page_marks: a word of each page that stands on no other.
    """

    name: str
    data: bytes = b""
    rows: list[tuple[str, ...]] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)
    page_marks: list[str] = field(default_factory=list)


def layouts() -> list[Layout]:
    """Make all layouts: a ruled and a borderless list of labels, a long table, a contract, two columns."""
    return [_spec(), _borderless(), _invoice(), _contract(), _two_columns()]


def long_document(pages: int) -> Layout:
    """Make a plain document of so many pages, each with a heading of its own."""
    layout = Layout(name=f"{pages:,} pages")
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4, invariant=1, pageCompression=1)
    for page in range(1, pages + 1):
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(MARGIN, A4[1] - MARGIN, f"Section {page}")
        canvas.setFont("Helvetica", 10)
        for line in range(1, LINES_A_PAGE + 1):
            canvas.drawString(MARGIN, A4[1] - MARGIN - 20 * line, f"Entry {line} of section {page}: {line * 37}.00 EUR")
        canvas.showPage()
        layout.page_marks.append(f"Entry 1 of section {page}:")
    canvas.save()
    layout.data = out.getvalue()
    return layout


def _spec() -> Layout:
    layout = Layout(name="data sheet, ruled labels", rows=[(f"Property {n}", f"{n * 7} units") for n in range(1, 18)])
    story = _heading(layout, "PowerRack 4400", level="Title")
    for name in ("Overview", "Mechanics", "Environment"):
        story += [*_heading(layout, name), *_paragraph(layout)]
    return _made(
        layout, [*story, *_heading(layout, "Technical data"), Table(layout.rows, [60 * mm, 60 * mm], style=RULED)]
    )


def _borderless() -> Layout:
    layout = Layout(
        name="data sheet, labels without rules", rows=[(f"Label {n}", f"Value {n * 3}") for n in range(1, 9)]
    )
    table = Table(layout.rows, [60 * mm, 60 * mm], hAlign="LEFT")
    story = _heading(layout, "Compact switch", level="Title") + _heading(layout, "At a glance")
    return _made(layout, [*story, table, Spacer(1, 10 * mm), *_paragraph(layout)])


def _invoice() -> Layout:
    rows = [(str(n), f"Part {n:03d}", str(n % 9 + 1), f"{n * 11}.50") for n in range(1, 63)]
    table = Table([("Pos", "Item", "Qty", "Amount"), *rows], style=RULED, repeatRows=1)
    layout = Layout(name="invoice, 62 lines over pages", rows=rows)
    return _made(layout, [*_heading(layout, "Invoice 2026-118", level="Title"), *_paragraph(layout), table])


def _contract() -> Layout:
    layout = Layout(
        name="contract, 20 pages", rows=[(f"Fee {n}", f"{n * 1000} EUR", f"{n} years") for n in range(1, 4)]
    )
    story: list[Flowable] = []
    for number in range(1, 21):
        story += _heading(layout, f"{number}. Clause of the contract")
        story += _paragraph(layout) + _paragraph(layout)
        story += [Table(layout.rows, style=RULED)] if number == 7 else []  # noqa: PLR2004 - some page within
        story.append(PageBreak())
    return _made(layout, story[:-1])


def _two_columns() -> Layout:
    layout = Layout(name="article, two columns")
    story: list[Flowable] = []
    for number in range(1, 25):
        story += [*_heading(layout, f"Finding {number}"), *_paragraph(layout)]
    return _made(layout, story, columns=2)


def _heading(layout: Layout, text: str, level: str = "Heading2") -> list[Flowable]:
    layout.headings.append(text)
    return [Paragraph(text, STYLES[level])]


def _paragraph(layout: Layout) -> list[Flowable]:
    """Write a paragraph that begins with a marker of its own."""
    marker = f"Mark{len(layout.markers) + 1:03d}x"
    layout.markers.append(marker)
    return [Paragraph(f"{marker} {WORDS}", STYLES["BodyText"])]


def _made(layout: Layout, story: Sequence[Flowable], columns: int = 1) -> Layout:
    """Print a layout; every page carries a mark of its own at its foot."""

    def mark(canvas: Canvas, template: BaseDocTemplate) -> None:
        layout.page_marks.append(f"Foot{template.page:03d}x")
        canvas.setFont("Helvetica", 8)
        canvas.drawCentredString(A4[0] / 2, 10 * mm, layout.page_marks[-1])

    out = io.BytesIO()
    width = (A4[0] - 2 * MARGIN - (columns - 1) * GUTTER) / columns
    height = A4[1] - 2 * MARGIN
    frames = [Frame(MARGIN + place * (width + GUTTER), MARGIN, width, height) for place in range(columns)]
    template = BaseDocTemplate(out, pagesize=A4, invariant=1)
    template.addPageTemplates([PageTemplate(frames=frames, onPage=mark)])
    template.build(list(story))
    layout.data = out.getvalue()
    return layout
