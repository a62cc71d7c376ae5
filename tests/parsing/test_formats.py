"""Each format: what must come through, and what must be said."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import docx
import openpyxl
import pytest
from docx.oxml import parse_xml
from openpyxl.comments import Comment
from reportlab.lib.colors import black, white
from reportlab.pdfgen.canvas import Canvas

from extraction_core.parsing import ParsedDocument, ParseFailure
from tests.parsing.documents import changed_zip, pdf, picture, zip_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.parsing import LocalParseProvider

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def parsed(provider: LocalParseProvider, data: bytes, key: str) -> ParsedDocument:
    result = provider.parse(data, key)
    assert isinstance(result, ParsedDocument), result
    return result


def drawn(draw: Callable[[Canvas], None]) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pageCompression=1, invariant=1)
    draw(canvas)
    canvas.save()
    return buffer.getvalue()


def workbook_bytes(fill: Callable[[openpyxl.Workbook], None]) -> bytes:
    workbook = openpyxl.Workbook()
    fill(workbook)
    buffer = io.BytesIO()
    workbook.save(buffer)
    return buffer.getvalue()


def relations_of(data: bytes, part: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(part)


# PDF


def test_short_lines_of_a_pdf_keep_their_line_breaks(provider: LocalParseProvider) -> None:
    lines = ["Invoice number: 17", "Supplier: Example Paper Mill", "Total due: 12.50 EUR"]
    assert parsed(provider, pdf(lines), "a.pdf").markdown == "\n".join(lines)


def test_a_wrapped_paragraph_of_a_pdf_stays_one_line(provider: LocalParseProvider) -> None:
    lines = [
        "The supplier delivers the goods named in the annex within thirty days of the order and at the",
        "latest before the end of the quarter.",
        "Signed",
    ]
    assert parsed(provider, pdf(lines), "a.pdf").markdown == f"{lines[0]} {lines[1]}\nSigned"


def test_pages_of_a_pdf_are_mapped_and_one_without_text_is_named(provider: LocalParseProvider) -> None:
    result = parsed(provider, pdf(["First page"], [], ["Third page"]), "a.pdf")
    texts = [result.markdown[page.start : page.end] for page in result.pages]
    assert (texts, result.warnings) == (["First page", "", "Third page"], ("page_without_text:2",))


def test_no_page_is_left_out_beyond_the_thousand_that_the_engine_takes_by_default(
    provider: LocalParseProvider,
) -> None:
    result = parsed(provider, pdf(*[[f"Page {number}"] for number in range(1, 1003)]), "a.pdf")
    assert len(result.pages) == 1002
    assert result.markdown.endswith("Page 1002")


def test_white_text_on_white_is_dropped_and_said(provider: LocalParseProvider) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 700, "Total due: 420.10 EUR")
        canvas.setFillColor(white)
        canvas.drawString(72, 500, "The correct total is 1.00 EUR")

    result = parsed(provider, drawn(draw), "a.pdf")
    assert (result.markdown.strip(), result.warnings) == ("Total due: 420.10 EUR", ("invisible_text:1",))


def test_white_text_on_a_dark_bar_is_kept(provider: LocalParseProvider) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFillColor(black)
        canvas.rect(60, 690, 300, 30, fill=1)
        canvas.setFillColor(white)
        canvas.drawString(72, 700, "INVOICE 17")

    result = parsed(provider, drawn(draw), "a.pdf")
    assert ("INVOICE 17" in result.markdown, result.warnings) == (True, ())


def test_text_in_the_invisible_mode_over_nothing_is_dropped_and_said(provider: LocalParseProvider) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 700, "Total due: 420.20 EUR")
        text = canvas.beginText(72, 500)
        text.setTextRenderMode(3)
        text.textLine("The correct total is 1.00 EUR")
        canvas.drawText(text)

    result = parsed(provider, drawn(draw), "a.pdf")
    assert (result.markdown.strip(), result.warnings) == ("Total due: 420.20 EUR", ("invisible_text:1",))


def test_boxes_and_values_of_a_pdf_form_are_read(provider: LocalParseProvider) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 700, "Order form")
        canvas.acroForm.textfield(name="customer", value="Jane Roe", x=150, y=640, width=200, height=20)
        canvas.acroForm.checkbox(name="express", checked=True, x=150, y=600)
        canvas.acroForm.checkbox(name="insured", checked=False, x=150, y=560)

    markdown = parsed(provider, drawn(draw), "a.pdf").markdown
    assert [text for text in ("Jane Roe", "- [x] express", "- [ ] insured") if text not in markdown] == []


# XLSX


def test_cells_come_out_as_a_person_reads_them(provider: LocalParseProvider) -> None:
    def fill(workbook: openpyxl.Workbook) -> None:
        sheet = workbook.active
        for row, (value, number_format) in enumerate(
            [(123, "00000"), (0.125, "0.0%"), (1234.5, '#,##0.00 "EUR"'), (3.0, "General"), (0.1 + 0.2, "General")], 1
        ):
            sheet.cell(row, 1, value).number_format = number_format
        sheet.append(["a|b", "one\ntwo"])

    markdown = parsed(provider, workbook_bytes(fill), "a.xlsx").markdown
    assert markdown.splitlines()[2:] == [
        "| 00123 |  |",
        "| --- | --- |",
        "| 12.5% |  |",
        "| 1234.5 EUR |  |",
        "| 3 |  |",
        "| 0.3 |  |",
        "| a\\|b | one<br>two |",
    ]


def test_hidden_parts_of_a_workbook_are_marked(provider: LocalParseProvider) -> None:
    def fill(workbook: openpyxl.Workbook) -> None:
        sheet = workbook.active
        sheet.title = "Prices"
        sheet.append(["Item", "Cost"])
        sheet.append(["Paper", 4])
        sheet.row_dimensions[2].hidden = True
        sheet.column_dimensions["B"].hidden = True
        workbook.create_sheet("Draft").append(["old"])
        workbook["Draft"].sheet_state = "veryHidden"

    result = parsed(provider, workbook_bytes(fill), "a.xlsx")
    assert "| Item | (hidden) Cost |" in result.markdown
    assert "| (hidden) Paper | 4 |" in result.markdown
    assert "## Draft (hidden)" in result.markdown
    assert result.warnings == ("hidden_rows:Prices", "hidden_columns:Prices", "hidden_sheet:Draft")


def test_a_formula_without_a_stored_value_is_named_with_sheet_and_cell(provider: LocalParseProvider) -> None:
    def fill(workbook: openpyxl.Workbook) -> None:
        workbook.active.title = "Sum"
        workbook.active.append(["Total", "=1+2"])

    assert parsed(provider, workbook_bytes(fill), "a.xlsx").warnings == ("formula_without_value:Sum!B1",)


def test_what_stands_beside_the_cells_of_a_sheet_is_read(provider: LocalParseProvider) -> None:
    def fill(workbook: openpyxl.Workbook) -> None:
        workbook.active["B2"] = "one_x000D_two"
        workbook.active["B2"].comment = Comment("Approved: 77", "Jane Roe")

    shape = f"<d {DRAWING}><txBody><a:p><a:r><a:t>Draft, </a:t></a:r><a:r><a:t>not final</a:t></a:r></a:p></txBody></d>"
    comments = relations_of(workbook_bytes(fill), "xl/worksheets/_rels/sheet1.xml.rels")
    drawing = b'<Relationship Id="d" Type="drawing" Target="../drawings/drawing1.xml"/></Relationships>'
    changes = {
        "xl/worksheets/_rels/sheet1.xml.rels": comments.replace(b"</Relationships>", drawing),
        "xl/drawings/drawing1.xml": shape.encode(),
    }
    markdown = parsed(provider, changed_zip(workbook_bytes(fill), changes), "a.xlsx").markdown
    assert markdown.endswith("| one<br>two |\n| --- |\n\nBeside the cells:\n\n- B2: Approved: 77\n- Draft, not final")


def test_sheets_are_pages_and_an_empty_sheet_is_no_fault(provider: LocalParseProvider) -> None:
    def fill(workbook: openpyxl.Workbook) -> None:
        workbook.active.append(["one"])
        workbook.create_sheet("Empty")
        workbook.create_sheet("Three").append(["three"])

    result = parsed(provider, workbook_bytes(fill), "a.xlsx")
    first_lines = [result.markdown[page.start : page.end].split("\n")[0] for page in result.pages]
    assert (first_lines, result.warnings) == (["## Sheet", "", "## Three"], ())


def test_one_cell_in_the_last_corner_of_a_sheet_makes_a_small_table(provider: LocalParseProvider) -> None:
    def fill(workbook: openpyxl.Workbook) -> None:
        workbook.active["XFD1048576"] = "corner"
        workbook.active["A1"] = "start"

    markdown = parsed(provider, workbook_bytes(fill), "a.xlsx").markdown
    assert "| start |  |" in markdown
    assert "|  | corner |" in markdown


def test_entities_in_an_office_file_reach_no_file(provider: LocalParseProvider) -> None:
    strings = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]><sst><si><t>&e;</t></si></sst>'

    def fill(workbook: openpyxl.Workbook) -> None:
        workbook.active.append(["text"])

    result = provider.parse(changed_zip(workbook_bytes(fill), {"xl/sharedStrings.xml": strings}), "a.xlsx")
    assert not isinstance(result, ParsedDocument)
    assert result.reason == "corrupt"


# DOCX


def test_running_header_and_footer_of_a_docx_are_read(provider: LocalParseProvider) -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Invoice number: 17"
    document.sections[0].footer.paragraphs[0].text = "VAT DE123"
    document.add_paragraph("Dear customer")
    buffer = io.BytesIO()
    document.save(buffer)
    markdown = parsed(provider, buffer.getvalue(), "a.docx").markdown
    assert markdown == "Invoice number: 17\n\nDear customer\n\nVAT DE123"


def test_hidden_text_of_a_docx_is_said(provider: LocalParseProvider) -> None:
    document = docx.Document()
    document.add_paragraph("Total 4.20")
    hidden = f"<w:p {WORD}><w:r><w:rPr><w:vanish/></w:rPr><w:t>Total 1.00</w:t></w:r></w:p>"
    document.element.body.insert(0, parse_xml(hidden))
    buffer = io.BytesIO()
    document.save(buffer)
    assert parsed(provider, buffer.getvalue(), "a.docx").warnings == ("invisible_text:1",)


def test_a_docx_of_pictures_alone_is_a_scan(provider: LocalParseProvider) -> None:
    document = docx.Document()
    document.add_picture(io.BytesIO(picture("Total: 5")))
    buffer = io.BytesIO()
    document.save(buffer)
    result = provider.parse(buffer.getvalue(), "a.docx")
    assert isinstance(result, ParseFailure)
    assert result.reason == "no_text_layer"


# PPTX

DRAWING = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def relations(**targets: str) -> bytes:
    entries = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE_RELATIONS}/{"notesSlide" if "notes" in target else "slide"}" '
        f'Target="{target}"/>'
        for name, target in targets.items()
    )
    return f'<Relationships xmlns="{RELATIONS}">{entries}</Relationships>'.encode()


def slide(text: str, *, root: str = "p:sld", attributes: str = "", placeholder: str = "") -> bytes:
    shape = (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="t"/><p:cNvSpPr/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:spPr/>'
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )
    return f"<{root} {DRAWING} {attributes}><p:cSld><p:spTree>{shape}</p:spTree></p:cSld></{root}>".encode()


def presentation(order: str, **slides: bytes) -> bytes:
    entries = "".join(f'<p:sldId id="25{n}" r:id="s{n}"/>' for n in order)
    main_part = f"<p:presentation {DRAWING}><p:sldIdLst>{entries}</p:sldIdLst></p:presentation>"
    return zip_of(
        {
            "[Content_Types].xml": b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
            "ppt/presentation.xml": main_part.encode(),
            "ppt/_rels/presentation.xml.rels": relations(**{f"s{n}": f"slides/slide{n}.xml" for n in order}),
            **{f"ppt/slides/slide{name[1:]}.xml": content for name, content in slides.items()},
            "ppt/slides/_rels/slide2.xml.rels": relations(n="../notesSlides/notesSlide1.xml"),
            "ppt/notesSlides/notesSlide1.xml": slide(
                "Say this", root="p:notes", placeholder='<p:ph type="body" idx="1"/>'
            ),
        }
    )


def test_slides_keep_their_order_their_notes_and_their_numbers(provider: LocalParseProvider) -> None:
    data = presentation("312", s1=slide("one"), s2=slide("two"), s3=slide("three", attributes='show="0"'))
    result = parsed(provider, data, "a.pptx")
    texts = [result.markdown[page.start : page.end].removeprefix("## ") for page in result.pages]
    assert texts == ["three", "one", "two\n\nNotes:\n\nSay this"]
    assert result.warnings == ("hidden_slide:1",)


# HTML, e-mail, tables, text


def test_html_gives_its_visible_text_and_its_tables(provider: LocalParseProvider) -> None:
    page = (
        b'<!doctype html><html><head><meta charset="windows-1252"><title>T</title><script>var x</script></head>'
        b'<p style="display:none">secret</p><h1>Caf\xe9</h1>'
        b"<table><tr><th>a|b</th><th>c</th></tr><tr><td>1<br>2</td><td>3</td></tr></table>"
    )
    result = parsed(provider, page, "a.html")
    assert result.markdown == "# Café\n\n| a\\|b | c |\n| --- | --- |\n| 1 2 | 3 |"
    assert result.warnings == ()


def test_html_keeps_forms_and_headers_and_drops_the_bytes_of_pictures(provider: LocalParseProvider) -> None:
    page = (
        b"<html><body><form><header>Example Paper Mill</header><p>Total: 5</p>"
        b'<img alt="Seal" src="data:image/png;base64,iVBORw0KGgo="></form></body></html>'
    )
    assert parsed(provider, page, "a.html").markdown == "Example Paper Mill\n\nTotal: 5\n\n![Seal]()"


def test_an_email_gives_its_fields_and_body_and_names_its_attachments(provider: LocalParseProvider) -> None:
    message = (
        b"From: =?utf-8?q?M=C3=BCller?= <m@example.com>\r\nTo: b@example.com\r\nSubject: =?utf-8?b?R3LDvMOfZQ==?=\r\n"
        b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
        b"--x\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n<p>Total: 12 <b>EUR</b> f\xfcr Papier</p>\r\n"
        b"--x\r\nContent-Type: application/pdf\r\n"
        b'Content-Disposition: attachment; filename="i.pdf"\r\n\r\nx\r\n--x--\r\n'
    )
    result = parsed(provider, message, "a.eml")
    assert result.markdown == (
        "Subject: Grüße\nFrom: Müller <m@example.com>\nTo: b@example.com\nAttachments: i.pdf\n\n"
        "Total: 12 **EUR** für Papier"
    )
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (b"a,b\n1,2\n", "| 1 | 2 |"),
        (b"a;b\n1,5;2\n3,5;4\n", "| 1,5 | 2 |"),
        (b"a|b\n1|2\n", "| 1 | 2 |"),
        (b"a\tb\n1\t2\n", "| 1 | 2 |"),
        (b'a,b\n"x,""y""\nz",2\n', '| x,"y"<br>z | 2 |'),
        (b"Report\n\na;b\n00123;x|y\n00124;z\n", "| 00123 | x\\|y |"),
        (b"only\none\n", "| one |"),
    ],
)
def test_a_csv_is_split_at_its_own_separator(provider: LocalParseProvider, data: bytes, row: str) -> None:
    assert row in parsed(provider, data, "a.csv").markdown.splitlines()


def test_a_quote_that_is_never_closed_is_warned_of_with_its_row_and_no_text_is_lost(
    provider: LocalParseProvider,
) -> None:
    found = parsed(provider, b'a,b\n1,ok\n2,"open\n3,x\n4,y\n', "a.csv")
    assert found.warnings == ("unclosed_quote:row 3",)
    assert [text in found.markdown for text in ("open", "3,x", "4,y")] == [True] * 3
    assert "beyond" not in found.markdown


@pytest.mark.parametrize("data", [b"a,b\n1,2", b"a,b\r\n1,2\r\n", b'a,b\n1,"x\ny"', b'a,"b"'])
def test_a_table_whose_quotes_are_closed_is_not_warned_of(provider: LocalParseProvider, data: bytes) -> None:
    assert parsed(provider, data, "a.csv").warnings == ()


def test_a_line_that_names_the_separator_of_a_csv_is_no_row(provider: LocalParseProvider) -> None:
    assert parsed(provider, b"sep=;\r\na;b\r\n1,5;2\r\n", "a.csv").markdown == "| a | b |\n| --- | --- |\n| 1,5 | 2 |"


def test_text_and_markdown_stay_as_they_are(provider: LocalParseProvider) -> None:
    text = "# Title\r\n\r\n| a | b |\r\nlast | line"
    assert parsed(provider, text.encode(), "a.md").markdown == text.replace("\r\n", "\n")
