"""One document from bytes to :class:`ParsedDocument`: sniff, read, finish. Runs in the child process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extraction_core.parsing import ParsedDocument, ParseFailure
from resources.parsing import mail, office_engine, pdf, presentation, web_page, word, workbook
from resources.parsing.draft import DocumentRefusedError, Draft
from resources.parsing.finishing import finish
from resources.parsing.ocr import OcrData
from resources.parsing.pictures import check_picture
from resources.parsing.sniff import Format, find_pdf, image_kind, sniff
from resources.parsing.text_reader import TEXT_READERS
from resources.parsing.versions import provider_version

LONGEST_SIDE = 12_000
"""Pixels of a picture that is recognised: A3 at 600 dpi has 9,921."""

_READERS: Mapping[Format, Callable[[bytes], Draft]] = {
    Format.PDF: pdf.read_pdf,
    Format.DOCX: word.read_docx,
    Format.XLSX: workbook.read_workbook,
    Format.PPTX: presentation.read_pptx,
    Format.HTML: web_page.read_html,
    Format.EMAIL: mail.read_mail,
    **TEXT_READERS,
}


def read_document(data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
    """Read one document. What the format readers refuse comes back as a failure; they may raise anything else."""
    try:
        document_format = sniff(data, document_key)
        return finish(_READERS[document_format](data), document_format.value)
    except DocumentRefusedError as refusal:
        return ParseFailure(reason=refusal.reason, message=refusal.message)


def recognise_document(data: bytes, document_key: str, ocr: OcrData) -> ParsedDocument | ParseFailure:
    """Read one document with OCR: pictures, and the pages of a PDF that have no text; anything else as usual."""
    try:
        if kind := image_kind(data, document_key):
            media_type = check_picture(data, kind, LONGEST_SIDE)
            return finish(pdf.read_pdf(data, ocr), media_type)
        if find_pdf(data) is not None:
            return finish(pdf.read_pdf(data, ocr), Format.PDF.value)
    except DocumentRefusedError as refusal:
        return ParseFailure(reason=refusal.reason, message=refusal.message)
    return read_document(data, document_key)


def preload_engines() -> None:
    """Do what the first document would otherwise pay for; starts no threads."""
    office_engine.preload()
    provider_version()
