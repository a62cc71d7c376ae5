"""Small documents made on the spot, good ones and hostile ones."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEFT, TOP, LINE = 72, 760, 18


def pdf(*pages: Sequence[str]) -> bytes:
    """One page for each list of lines."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pageCompression=1, invariant=1)
    for lines in pages:
        for number, line in enumerate(lines):
            canvas.drawString(LEFT, TOP - LINE * number, line)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def picture(text: str = "", kind: str = "PNG", size: tuple[int, int] = (600, 200)) -> bytes:
    """A white picture with a line of text."""
    image = Image.new("L", size, 255)
    if text:
        ImageDraw.Draw(image).text((20, 60), text, fill=0, font=ImageFont.load_default(48))
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def scan(*pages: str) -> bytes:
    """A PDF of pictures of text, without any text."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pageCompression=1, invariant=1)
    for text in pages:
        canvas.drawImage(ImageReader(io.BytesIO(picture(text))), LEFT, TOP - 200, 450, 150)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def fax(header: str, *texts: str) -> bytes:
    """A PDF whose first page has a line of text over a picture that fills it; the further pages are text alone."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, pageCompression=1, invariant=1)
    canvas.drawImage(ImageReader(io.BytesIO(picture(texts[0], size=(1240, 1754)))), 0, 0, *A4)
    for text in (header, *texts[1:]):
        canvas.drawString(LEFT, TOP, text)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def pdf_that_expands(levels: int) -> bytes:
    """A page that draws a form that draws a form twice, and so on: two to the power of ``levels`` pieces of text."""
    forms = [
        _stream(f"/F{n + 1} Do /F{n + 1} Do".encode(), f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] {_uses(n + 1)}")
        for n in range(levels)
    ]
    last = _stream(b"BT /T 9 Tf (x) Tj ET", f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] {_FONT}")
    return _pdf_of([_stream(b"/F0 Do", ""), *forms, last], f"/Resources << /XObject << /F0 {_FIRST + 1} 0 R >> >>")


def zip_of(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def changed_zip(data: bytes, changes: Mapping[str, bytes]) -> bytes:
    """The archive with some members replaced or added."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return zip_of({**members, **changes})


_FIRST = 4
_FONT = "/Resources << /Font << /T << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"


def _uses(form: int) -> str:
    return f"/Resources << /XObject << /F{form} {_FIRST + 1 + form} 0 R >> >>"


def _stream(content: bytes, entries: str) -> bytes:
    return f"<< /Length {len(content)} {entries} >>\nstream\n".encode() + content + b"\nendstream"


def _pdf_of(streams: Sequence[bytes], page_entries: str) -> bytes:
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents {_FIRST} 0 R {page_entries} >>".encode(),
        *streams,
    ]
    body = b"%PDF-1.7\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % (n, o) for n, o in enumerate(objects, start=1))
    return body + b"trailer << /Root 1 0 R /Size %d >>\nstartxref\n0\n%%%%EOF\n" % (len(objects) + 1)
