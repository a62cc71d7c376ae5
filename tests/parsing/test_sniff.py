"""What a file is taken for, by its content."""

from __future__ import annotations

import pytest

from extraction_core.parsing import ParseFailureReason
from resources.parsing import archive
from resources.parsing.draft import DocumentRefusedError
from resources.parsing.sniff import Format, find_pdf, sniff
from tests.parsing.documents import pdf, zip_of

PDF = pdf(["Invoice 1"])
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
HTML = b"<!DOCTYPE html>\n<html><body><h1>Sign in</h1></body></html>"
EMAIL = b"From: a@example.com\r\nTo: b@example.com\r\nSubject: Invoice\r\n\r\nHello"


def office(part: str) -> bytes:
    return zip_of({"[Content_Types].xml": b"<Types/>", part: b"<x/>"})


@pytest.mark.parametrize(
    ("data", "key", "expected"),
    [
        (PDF, "a/r770.pdf", Format.PDF),
        (PDF, "a/INVOICE.PDF", Format.PDF),
        (PDF, "invoice.txt", Format.PDF),
        (b"Received: by gateway\r\n" * 150 + PDF, "invoice.pdf", Format.PDF),
        (office("word/document.xml"), "a.docx", Format.DOCX),
        (office("xl/workbook.xml"), "a.pdf", Format.XLSX),
        (office("ppt/presentation.xml"), "a", Format.PPTX),
        (HTML, "page.html", Format.HTML),
        (HTML, "page", Format.HTML),
        (HTML, "example.md", Format.MARKDOWN),
        (EMAIL, "mail.eml", Format.EMAIL),
        (EMAIL, "mail", Format.EMAIL),
        (b"a,b\n1,2\n", "t.CSV", Format.CSV),
        (b"a\tb\n1\t2\n", "t.tsv", Format.TSV),
        (b"# Title", "readme.md", Format.MARKDOWN),
        (b"%PDF-1.7 is a version of the format, says this note.", "note.txt", Format.PDF),
        (b"The mark %PDF-1.7 begins a file.", "note.txt", Format.TEXT),
        ("Grüße".encode("utf-16"), "note.txt", Format.TEXT),
        (b"BMW, 4 wheels", "cars.txt", Format.TEXT),
        (b'{"a": 1}', "data.json", Format.TEXT),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_content_decides_and_the_name_only_tells_text_formats_apart(data: bytes, key: str, expected: Format) -> None:
    assert sniff(data, key) == expected


@pytest.mark.parametrize(
    ("data", "key", "reason", "words"),
    [
        (HTML, "invoice.pdf", ParseFailureReason.UNSUPPORTED, "not a PDF (looks like HTML)"),
        (
            b"Your link has expired.",
            "invoice.docx",
            ParseFailureReason.UNSUPPORTED,
            "not a DOCX (looks like plain text)",
        ),
        (EMAIL, "invoice.pdf", ParseFailureReason.UNSUPPORTED, "not a PDF (looks like an e-mail)"),
        (b"\x89PNG\r\n\x1a\n....", "scan.png", ParseFailureReason.NO_TEXT_LAYER, "a PNG image"),
        (b"\x89PNG\r\n\x1a\n....", "scan.pdf", ParseFailureReason.NO_TEXT_LAYER, "not a PDF: a PNG image"),
        (b"\xff\xd8\xff\xe0....", "scan.jpg", ParseFailureReason.NO_TEXT_LAYER, "a JPEG image"),
        (b"GIF89a....", "scan.gif", ParseFailureReason.NO_TEXT_LAYER, "a GIF image"),
        (b"II*\x00....", "scan.tiff", ParseFailureReason.NO_TEXT_LAYER, "a TIFF image"),
        (OLE, "old.doc", ParseFailureReason.UNSUPPORTED, "legacy Office"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "a.xlsx", ParseFailureReason.PASSWORD, "password"),
        (b"{\\rtf1 hello}", "a.rtf", ParseFailureReason.UNSUPPORTED, "RTF"),
        (bytes(range(256)) * 8, "a.bin", ParseFailureReason.UNSUPPORTED, "binary"),
        (bytes(range(1, 256)) * 8, "a.txt", ParseFailureReason.UNSUPPORTED, "binary"),
        (zip_of({"a.txt": b"x"}), "a.zip", ParseFailureReason.UNSUPPORTED, "not a DOCX, XLSX or PPTX"),
        (office("word/document.xml")[:60], "a.docx", ParseFailureReason.CORRUPT, "damaged"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_is_not_parsed_is_refused_with_its_true_type(
    data: bytes, key: str, reason: ParseFailureReason, words: str
) -> None:
    with pytest.raises(DocumentRefusedError) as refusal:
        sniff(data, key)
    assert refusal.value.reason == reason
    assert words in refusal.value.message


def test_a_pdf_header_after_junk_is_found_where_it_is() -> None:
    assert find_pdf(b"junk\n" + PDF) == 5


def test_an_archive_with_too_many_members_is_refused() -> None:
    many = zip_of({f"word/{n}": b"" for n in range(archive.MAX_MEMBERS + 1)})
    assert "members" in refusal_of(many)


def test_an_archive_that_expands_too_far_is_refused_without_expanding_it() -> None:
    bomb = zip_of({"[Content_Types].xml": b"", "word/document.xml": bytes(archive.RATIO_FROM_BYTES + 1)})
    assert f"limit is {archive.MAX_RATIO} times" in refusal_of(bomb)


def test_an_archive_that_declares_too_much_is_refused() -> None:
    data = bytearray(office("word/document.xml"))
    declared_size = data.index(b"PK\x01\x02") + 24  # APPNOTE.TXT 4.3.12: the directory's first entry
    data[declared_size : declared_size + 4] = (archive.MAX_EXPANDED_BYTES + 1).to_bytes(4, "little")
    assert f"limit is {archive.MAX_EXPANDED_BYTES:,}" in refusal_of(bytes(data))


def test_an_encrypted_archive_needs_a_password() -> None:
    data = bytearray(office("word/document.xml"))
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the encryption bit of the directory's first entry
    with pytest.raises(DocumentRefusedError) as refusal:
        sniff(bytes(data), "a.docx")
    assert refusal.value.reason == ParseFailureReason.PASSWORD


def refusal_of(data: bytes) -> str:
    with pytest.raises(DocumentRefusedError) as refusal:
        sniff(data, "a.docx")
    assert refusal.value.reason == ParseFailureReason.LIMIT
    return refusal.value.message
