"""What a file is, by its content. The name only tells text formats apart, which have no mark of their own.

Another binary format than the name says is harmless: it is parsed as what it is (a PDF called ``.txt``). Text under the
name of a binary format is not: it is mostly an error page or a sign-in page that was saved in place of the document.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import PurePosixPath

from extraction_core.parsing import ParseFailureReason
from resources.parsing.archive import office_format
from resources.parsing.draft import DocumentRefusedError


class Format(StrEnum):
    """The formats that are parsed; the value is the media type."""

    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    HTML = "text/html"
    EMAIL = "message/rfc822"
    CSV = "text/csv"
    TSV = "text/tab-separated-values"
    MARKDOWN = "text/markdown"
    TEXT = "text/plain"


BY_EXTENSION = {
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".tab": Format.TSV,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".htm": Format.HTML,
    ".html": Format.HTML,
    ".xhtml": Format.HTML,
    ".eml": Format.EMAIL,
    ".txt": Format.TEXT,
    ".text": Format.TEXT,
    ".log": Format.TEXT,
}
"""What text is by the name of its file."""
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"II*\x00": "TIFF",
    b"MM\x00*": "TIFF",
    b"BM": "BMP",
    b"\x00\x00\x00\x0cjP  ": "JPEG 2000",
}
_UNSUPPORTED = {
    b"{\\rtf": "an RTF document",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"%!PS": "a PostScript file",
    b"SQLite format 3\x00": "an SQLite database",
    b"\x7fELF": "a program",
    b"MZ\x90": "a program",
}
_BINARY_EXTENSIONS = frozenset(
    {".pdf", ".docx", ".docm", ".doc", ".xlsx", ".xlsm", ".xls", ".pptx", ".pptm", ".ppt", ".rtf", ".zip"}
    | {".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp", ".heic"}
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_PDF_HEADER = re.compile(rb"%PDF-\d")
_PDF_OBJECT = re.compile(rb"\d+\s+\d+\s+obj\b")
_PDF_HEADER_WITHIN = 8192
"""Mail gateways put up to a few kilobytes before the header; PDF readers look at the first 1,024 bytes only."""
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_EMAIL_FIELD = re.compile(
    rb"^(?:From|To|Subject|Date|Message-ID|MIME-Version|Received|Return-Path|Delivered-To):",
    re.IGNORECASE | re.MULTILINE,
)
_EMAIL_FIELDS = 3
_TEXT_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_CONTROL_CHARACTERS = bytes(set(range(32)) - {0, 9, 10, 12, 13, 27})
_CONTROL_RATIO = 50
_HEAD = 65536


def sniff(data: bytes, document_key: str) -> Format:
    """Name the format of ``data``.

    Raises:
        DocumentRefusedError: UNSUPPORTED, NO_TEXT_LAYER (images), PASSWORD, CORRUPT or LIMIT (archives).
    """
    extension = PurePosixPath(document_key).suffix.lower()
    if find_pdf(data) is not None:
        return Format.PDF
    if data.startswith(b"PK"):
        return Format[office_format(data)]
    _refuse_images(data, document_key)
    _refuse_other_binaries(data)
    return _text_format(data, extension)


def find_pdf(data: bytes) -> int | None:
    """Where the PDF header is, or None. Text before it is junk only if PDF objects follow it."""
    header = _PDF_HEADER.search(data, 0, _PDF_HEADER_WITHIN)
    if header is None or (header.start() > 0 and not _PDF_OBJECT.search(data, header.end())):
        return None
    return header.start()


def image_kind(data: bytes, document_key: str) -> str | None:
    """What kind of picture the content is, e.g. ``PNG``; None for anything else."""
    kind = next((name for magic, name in _IMAGES.items() if data.startswith(magic)), None)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "WebP"
    if data[4:12] in {b"ftypheic", b"ftypheix", b"ftypavif", b"ftypmif1"}:
        kind = "HEIF"
    if kind == "BMP" and PurePosixPath(document_key).suffix.lower() in BY_EXTENSION:  # a text may well begin with BM
        return None
    return kind


def _refuse_images(data: bytes, document_key: str) -> None:
    if kind := image_kind(data, document_key):
        message = f"{_not_a(PurePosixPath(document_key).suffix.lower())}a {kind} image, which has no text layer"
        raise DocumentRefusedError(ParseFailureReason.NO_TEXT_LAYER, message)


def _refuse_other_binaries(data: bytes) -> None:
    if data.startswith(_OLE):
        if _OLE_ENCRYPTED_PACKAGE in data:
            raise DocumentRefusedError(ParseFailureReason.PASSWORD, "an Office document that needs a password")
        message = "a legacy Office file (DOC, XLS, PPT or MSG); save it as DOCX, XLSX, PPTX or PDF"
        raise DocumentRefusedError(ParseFailureReason.UNSUPPORTED, message)
    for magic, kind in _UNSUPPORTED.items():
        if data.startswith(magic):
            raise DocumentRefusedError(ParseFailureReason.UNSUPPORTED, f"{kind} is not parsed")


def _text_format(data: bytes, extension: str) -> Format:
    head = data[:_HEAD]
    looks_like = _look_of_text(head)
    if looks_like is None:
        message = f"{_not_a(extension)}unknown binary content"
        raise DocumentRefusedError(ParseFailureReason.UNSUPPORTED, message)
    if extension in _BINARY_EXTENSIONS:
        message = f"not a {extension[1:].upper()} (looks like {looks_like})"
        raise DocumentRefusedError(ParseFailureReason.UNSUPPORTED, message)
    if extension in BY_EXTENSION:
        return BY_EXTENSION[extension]
    return {"HTML": Format.HTML, "an e-mail": Format.EMAIL}.get(looks_like, Format.TEXT)


def _look_of_text(head: bytes) -> str | None:
    """What the text looks like, or None for binary content; text has hardly any control characters."""
    if (
        not head.startswith(_TEXT_BOMS)
        and len(head) - len(head.translate(None, _CONTROL_CHARACTERS)) > len(head) // _CONTROL_RATIO
    ):
        return None
    if _HTML.match(head):
        return "HTML"
    header = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    if len(_EMAIL_FIELD.findall(header)) >= _EMAIL_FIELDS:
        return "an e-mail"
    return "plain text"


def _not_a(extension: str) -> str:
    return f"not a {extension[1:].upper()}: " if extension in _BINARY_EXTENSIONS else ""
