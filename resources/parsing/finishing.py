"""From a reader's draft to :class:`ParsedDocument`: clean, measure, join. Runs in the child process."""

from __future__ import annotations

from extraction_core.parsing import Page, ParsedDocument, ParseFailureReason
from resources.parsing import text_quality
from resources.parsing.draft import DocumentRefusedError, Draft, DraftPage
from resources.parsing.versions import engine_version

PAGE_SEPARATOR = "\n\n---\n\n"


def finish(draft: Draft, media_type: str) -> ParsedDocument:
    """Make the document.

    Raises:
        DocumentRefusedError: NO_TEXT_LAYER, EMPTY_TEXT or UNREADABLE_TEXT.
    """
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
