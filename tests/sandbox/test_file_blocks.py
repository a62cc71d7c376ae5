"""Files in blocks of their own: checked as the API checks them, read as far as it goes, known by their hash."""

import base64
import hashlib
import io
import json

import pytest
from reportlab.pdfgen.canvas import Canvas

from sandbox.pdf_text import read_pdf
from tests.sandbox.conftest import MODEL, TOTAL_SCHEMA, Http

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
SMALL_CONTEXT = "claude-haiku-4-5"


def a_pdf(*pages: str) -> bytes:
    """Print a PDF with a line a page."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, invariant=1)
    for text in pages:
        canvas.drawString(72, 700, text)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def asking(kind: str, media_type: str, data: bytes | str, model: str = MODEL) -> dict[str, object]:
    """Return a request that shows a file and asks for its total."""
    encoded = data if isinstance(data, str) else base64.b64encode(data).decode()
    block = {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": encoded}}
    return {
        "model": model,
        "max_tokens": 100,
        "system": "Extract.",
        "messages": [{"role": "user", "content": [block]}],
        "output_config": {"format": {"type": "json_schema", "schema": TOTAL_SCHEMA}},
    }


def test_a_pdf_is_answered_from_what_it_says(http: Http) -> None:
    reply = http.message(asking("document", "application/pdf", a_pdf("Total: 5")))
    assert json.loads(reply.json["content"][0]["text"]) == {"total": 5}


def test_of_a_picture_nothing_is_read_and_nothing_is_invented(http: Http) -> None:
    reply = http.message(asking("image", "image/png", PNG))
    assert json.loads(reply.json["content"][0]["text"]) == {}


def test_the_log_knows_a_file_by_its_hash_and_every_page_costs(http: Http) -> None:
    one, three = a_pdf("Total: 5"), a_pdf("Total: 5", "b", "c")
    tokens = [
        http.message(asking("document", "application/pdf", data)).json["usage"]["input_tokens"] for data in (one, three)
    ]
    logged = http.call("GET", "/_sandbox/requests").json["requests"]
    assert [row["document_sha256"] for row in logged] == [hashlib.sha256(data).hexdigest() for data in (one, three)]
    assert 3200 <= tokens[1] - tokens[0] < 3300


@pytest.mark.parametrize(
    ("kind", "media_type", "data", "words"),
    [
        ("document", "application/pdf", b"no pdf", "The PDF specified was not valid."),
        ("document", "application/pdf", b"%PDF-1.7 /Encrypt", "password protected"),
        ("document", "application/pdf", "###", "invalid base64 data"),
        ("document", "text/html", b"%PDF-1.7", "media_type"),
        ("image", "image/png", b"GIF89a", "Could not process image"),
        ("image", "image/tiff", b"II*\0", "media_type"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(http: Http, kind: str, media_type: str, data: bytes | str, words: str) -> None:
    reply = http.message(asking(kind, media_type, data))
    assert reply.status == 400
    assert words in reply.json["error"]["message"]


def test_a_small_context_takes_fewer_pages(http: Http) -> None:
    request = asking("document", "application/pdf", a_pdf(*["x"] * 101), SMALL_CONTEXT)
    reply = http.message(request)
    assert (reply.status, "100 PDF pages" in reply.json["error"]["message"]) == (400, True)
    assert http.message({**request, "model": MODEL}).status == 200


def test_strings_are_read_with_their_escapes() -> None:
    assert read_pdf(b"stream\nBT (a \\(b\\) \\101 \\9) Tj T* [(c) 20 (d)] TJ ET endstream") == (1, "a (b) A 9\ncd")
