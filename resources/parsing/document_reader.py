"""One document from bytes to :class:`ParsedDocument`: sniff, read, clean, measure, join. Runs in the child process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extraction_core.parsing import Page, ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing import (
    mail,
    office_engine,
    pdf,
    plain_text,
    presentation,
    text_quality,
    web_page,
    word,
    workbook,
)
from resources.parsing.draft import DocumentRefusedError, Draft, DraftPage
from resources.parsing.ocr import OcrData
from resources.parsing.pictures import check_picture
from resources.parsing.sniff import Format, find_pdf, image_kind, sniff
from resources.parsing.versions import engine_version

PAGE_SEPARATOR = "\n\n---\n\n"
LONGEST_SIDE = 12_000
"""Pixels of a picture that is recognised: A3 at 600 dpi has 9,921."""

_READERS: Mapping[Format, Callable[[bytes], Draft]] = {
    Format.PDF: pdf.read_pdf,
    Format.DOCX: word.read_docx,
    Format.XLSX: workbook.read_workbook,
    Format.PPTX: presentation.read_pptx,
    Format.HTML: web_page.read_html,
    Format.EMAIL: mail.read_mail,
    Format.CSV: plain_text.read_comma_separated,
    Format.TSV: plain_text.read_tab_separated,
    Format.MARKDOWN: plain_text.read_text,
    Format.TEXT: plain_text.read_text,
}


def read_document(data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
    """Read one document. What the format readers refuse comes back as a failure; they may raise anything else."""
    try:
        document_format = sniff(data, document_key)
        return _finish(_READERS[document_format](data), document_format.value)
    except DocumentRefusedError as refusal:
        return ParseFailure(reason=refusal.reason, message=refusal.message)


def recognise_document(data: bytes, document_key: str, ocr: OcrData) -> ParsedDocument | ParseFailure:
    """Read one document with OCR: pictures, and the pages of a PDF that have no text; anything else as usual."""
    try:
        if kind := image_kind(data, document_key):
            media_type = check_picture(data, kind, LONGEST_SIDE)
            return _finish(pdf.read_pdf(data, ocr), media_type)
        if find_pdf(data) is not None:
            return _finish(pdf.read_pdf(data, ocr), Format.PDF.value)
    except DocumentRefusedError as refusal:
        return ParseFailure(reason=refusal.reason, message=refusal.message)
    return read_document(data, document_key)


def _finish(draft: Draft, media_type: str) -> ParsedDocument:
    warnings = list(draft.warnings)
    replaced = 0
    for page in draft.pages:
        cleaned, count = text_quality.clean(page.text)
        page.text = "" if text_quality.is_empty(cleaned) else cleaned.strip("\n")
        replaced += count
    if replaced:
        warnings.append(f"characters_replaced:{replaced}")
    _require_text(draft.pages)
    warnings.extend(_page_warnings(draft))
    markdown, pages = _join(draft.pages)
    return ParsedDocument(
        markdown=markdown,
        pages=pages if draft.paged else (),
        engine=draft.engine,
        engine_version=engine_version(draft.engine),
        media_type=media_type,
        warnings=tuple(warnings),
    )


def _require_text(pages: list[DraftPage]) -> None:
    """A document without usable text must never pass for one that was read."""
    with_text = [page for page in pages if page.text]
    if not with_text:
        if any(page.has_images for page in pages):
            message = f"no text on any of {len(pages)} page(s), only pictures: a scan needs OCR"
            raise DocumentRefusedError(ParseFailureReason.NO_TEXT_LAYER, message)
        raise DocumentRefusedError(ParseFailureReason.EMPTY_TEXT, "the document holds no text")
    if all(text_quality.unreadable_share(page.text) > text_quality.UNREADABLE_SHARE for page in with_text):
        message = "the text is made of characters without meaning (a font without a Unicode table?)"
        raise DocumentRefusedError(ParseFailureReason.UNREADABLE_TEXT, message)


def _page_warnings(draft: Draft) -> list[str]:
    warnings: list[str] = []
    for page in draft.pages:
        if not page.text and page.has_images:
            warnings.append(f"scanned_page:{page.number}")
        elif not page.text and not page.is_blank:
            warnings.append(f"page_without_text:{page.number}")
        elif text_quality.unreadable_share(page.text) > text_quality.UNREADABLE_SHARE:
            warnings.append(f"unreadable_text:{page.number}")
        elif text_quality.is_right_to_left_visual_order(page.text):
            warnings.append(f"right_to_left_visual_order:{page.number}")
    return warnings


def _join(drafts: list[DraftPage]) -> tuple[str, tuple[Page, ...]]:
    pages: list[Page] = []
    start = 0
    for draft in drafts:
        pages.append(Page(number=draft.number, start=start, end=start + len(draft.text)))
        start += len(draft.text) + len(PAGE_SEPARATOR)
    return PAGE_SEPARATOR.join(draft.text for draft in drafts), tuple(pages)


def preload_engines() -> None:
    """Do what the first document would otherwise pay for; starts no threads."""
    office_engine.preload()
