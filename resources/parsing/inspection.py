"""A look at what is shown to the model as it is: what kind, how many pages, within the limits. Runs in the child.

Nothing is read of a PDF or a picture: its document has pages and no text. Every other format is parsed as usual.
"""

from __future__ import annotations

from extraction_core.parsing import Page, ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing.document_reader import read_document
from resources.parsing.draft import DocumentRefusedError
from resources.parsing.pdf import count_pages
from resources.parsing.pictures import check_picture
from resources.parsing.sniff import Format, find_pdf, image_kind
from resources.parsing.versions import OWN_RULES, PDF_ENGINE, engine_version

LONGEST_SIDE = 8_000
"""Pixels; the provider refuses a larger picture."""


def inspect_document(data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
    """Look at a PDF or a picture; parse anything else."""
    try:
        if (start := find_pdf(data)) is not None:
            _refuse_encrypted(data[start:])
            return _shown(Format.PDF.value, count_pages(data[start:]), PDF_ENGINE)
        if kind := image_kind(data, document_key):
            return _shown(check_picture(data, kind, LONGEST_SIDE), 1, OWN_RULES)
    except DocumentRefusedError as refusal:
        return ParseFailure(reason=refusal.reason, message=refusal.message)
    return read_document(data, document_key)


def _refuse_encrypted(document: bytes) -> None:
    """The provider takes no encrypted PDF, not even one that opens without a password."""
    if b"/Encrypt" in document:
        message = "an encrypted PDF, which the model cannot be shown; save it without protection"
        raise DocumentRefusedError(ParseFailureReason.UNSUPPORTED, message)


def _shown(media_type: str, pages: int, engine: str) -> ParsedDocument:
    return ParsedDocument(
        markdown="",
        pages=tuple(Page(number=number, start=0, end=0) for number in range(1, pages + 1)),
        engine=engine,
        engine_version=engine_version(engine),
        media_type=media_type,
        warnings=(),
    )
