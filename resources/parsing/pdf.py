"""PDF through liteparse, page by page; OCR only with data that is given, since its default would download some."""

from __future__ import annotations

from collections.abc import Iterator

from liteparse.parser import LiteParse
from liteparse.types import FormField, ParsedPage, ParseError, ParseResult, TextItem

from extraction_core.parsing import ParseFailureReason
from resources.parsing.draft import DocumentRefusedError, Draft, DraftPage
from resources.parsing.ocr import OcrData
from resources.parsing.pdf_lines import restore_lines
from resources.parsing.pdf_visibility import VisibilityCheck
from resources.parsing.sniff import find_pdf
from resources.parsing.text_quality import strip_fence
from resources.parsing.versions import PDF_ENGINE

_PAGES_PER_BATCH = 50
"""Keeps memory flat: 5,000 pages take 95 MB in batches and 1.5 GB in one piece."""

_MAX_PAGES = 100_000
"""The engine's default is 1,000, beyond which it leaves pages out without a word. More is refused."""
_LITTLE_TEXT = 100
"""Characters: a fax header or a stamp on a page that is one picture has fewer, a letter on letterhead has more."""
_OCR_FONT = "OCR"
"""What the engine calls the font of text that it recognised."""
_GUESSED_SHARE = 0.01
"""Fewer characters in a font without a Unicode table are bullets and ornaments."""


def read_pdf(data: bytes, ocr: OcrData | None = None) -> Draft:
    """One draft page per PDF page.

    Args:
        data: the file; with OCR it may be a picture too, which is a page.
        ocr: what pages without text are recognised with.

    Raises:
        DocumentRefusedError: PASSWORD or CORRUPT.
    """
    document = data[find_pdf(data) or 0 :]
    draft = Draft(pages=[], paged=True, engine=PDF_ENGINE)
    visibility = VisibilityCheck(document)
    expected = 0
    try:
        for batch in _parser(ocr).parse_batches(document, _PAGES_PER_BATCH):
            _add_batch(draft, batch.result, visibility)
            expected = batch.total_pages
    except ParseError as error:
        raise _refusal(str(error)) from error
    if not draft.pages:
        raise DocumentRefusedError(ParseFailureReason.EMPTY_TEXT, "a PDF without pages")
    if len(draft.pages) != expected:
        raise DocumentRefusedError(
            ParseFailureReason.LIMIT, f"only {len(draft.pages):,} of {expected:,} pages were read"
        )
    return draft


def count_pages(document: bytes) -> int:
    """How many pages a PDF has, at least one.

    Raises:
        DocumentRefusedError: PASSWORD, CORRUPT, or EMPTY_TEXT for a PDF without pages.
    """
    try:
        for batch in _parser(None).parse_batches(document, 1):
            return batch.total_pages
    except ParseError as error:
        raise _refusal(str(error)) from error
    raise DocumentRefusedError(ParseFailureReason.EMPTY_TEXT, "a PDF without pages")


def _parser(ocr: OcrData | None) -> LiteParse:
    return LiteParse(
        ocr_enabled=ocr is not None,
        tessdata_path=ocr.folder if ocr else None,
        ocr_language=ocr.languages if ocr else None,
        output_format="markdown",
        image_mode="off",
        max_pages=_MAX_PAGES,
        keep_headers_footers=True,  # invoice numbers live in running headers
        continue_on_page_error=True,
        include_complexity=True,
        extract_text_metadata=True,
        extract_form_fields=True,
        num_workers=1,
        quiet=True,
    )


def _add_batch(draft: Draft, batch: ParseResult, visibility: VisibilityCheck) -> None:
    for page in batch.pages:
        invisible = visibility.invisible_items(page)
        draft.pages.append(_draft_page(page, invisible or []))
        draft.warnings.extend(_page_warnings(page, invisible))
    for error in batch.page_errors:
        draft.pages.append(DraftPage(number=error.page_num, text=""))
        draft.warnings.append(f"page_not_read:{error.page_num}")
    draft.pages.sort(key=lambda page: page.number)


def _draft_page(page: ParsedPage, invisible: list[TextItem]) -> DraftPage:
    signals = page.complexity
    has_images = signals is not None and (signals.full_page_image or signals.image_block_count > 0)
    text = restore_lines(strip_fence(page.markdown), page)
    for item in invisible:
        text = _without(text, item.text.strip())
    fields = "\n".join(_unprinted_fields(page.form_fields or [], text))
    return DraftPage(number=page.page_num, text=f"{text}\n\n{fields}" if fields else text, has_images=has_images)


def _page_warnings(page: ParsedPage, invisible: list[TextItem] | None) -> Iterator[str]:
    if invisible is None:
        yield f"visibility_not_checked:{page.page_num}"
    elif invisible:
        yield f"invisible_text:{page.page_num}"
    if any(item.font_name == _OCR_FONT for item in page.text_items):
        yield f"recognised:{page.page_num}"
    elif page.complexity is not None and page.complexity.full_page_image and _has_little_text(page):
        yield f"little_text_on_scan:{page.page_num}"
    guessed = sum(len(item.text) for item in page.text_items if item.font_is_buggy)
    if guessed > _GUESSED_SHARE * sum(len(item.text) for item in page.text_items):
        yield f"characters_guessed:{page.page_num}"


def _has_little_text(page: ParsedPage) -> bool:
    return 0 < sum(len(item.text) for item in page.text_items) < _LITTLE_TEXT


def _without(text: str, invisible: str) -> str:
    """Drop a piece of text, unless it stands there more than once: the visible one might be hit."""
    return text.replace(invisible, "") if text.count(invisible) == 1 else text


def _unprinted_fields(fields: list[FormField], text: str) -> Iterator[str]:
    """Form fields whose state the page's text does not show: boxes, and values without an appearance of their own."""
    for field in fields:
        name = field.alternate_name or field.name or field.id
        if field.type in {"checkbox", "radiobutton"}:
            yield f"- [{'x' if field.checked else ' '}] {name}"
        elif field.value and field.value.strip() and field.value.strip() not in text:
            yield f"- {name}: {field.value.strip()}"


def _refusal(message: str) -> DocumentRefusedError:
    if "password" in message.lower():
        return DocumentRefusedError(ParseFailureReason.PASSWORD, "a PDF that needs a password")
    return DocumentRefusedError(ParseFailureReason.CORRUPT, f"not a readable PDF ({message})")
