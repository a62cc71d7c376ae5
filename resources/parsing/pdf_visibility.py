"""PDF text that no reader can see: in the invisible mode, or in the colour of what lies below it.

Suspicion is cheap (the colour of the text, the operator of the invisible mode in the page contents), proof is a
rendering: the place of a suspected text shows one single colour. So the text layer of a scan is kept (its picture is at
that place), and so is white text on a dark bar. Not found: invisible text where something else is visible, text outside
the page, text behind pictures, the invisible mode inside encrypted files or unusual stream filters.
"""

from __future__ import annotations

import base64
import re
import zlib

from liteparse.parser import LiteParse
from liteparse.types import ParsedPage, ParseError, TextItem

from resources.parsing.png import Raster, decode_png

MAX_RENDERED_PAGES = 100
"""Of one document; a page takes up to 0.2 s of processor time."""

_DPI = 36
_POINTS_PER_INCH = 72
_TOLERANCE = 2
"""Levels of 255; less than the faintest print that a person could read."""
_NEARLY_WHITE = 0xF0
_STREAM = re.compile(rb"(?<!end)stream\r?\n")
_INVISIBLE_MODE = re.compile(rb"(?<![\d.])[37]\s+Tr\b")
_MAX_STREAM_BYTES = 4 * 1024**2
_MAX_SCANNED_BYTES = 64 * 1024**2


class VisibilityCheck:
    """Checks the pages of one document, at most :data:`MAX_RENDERED_PAGES` of them by rendering."""

    def __init__(self, document: bytes) -> None:
        self._document = document
        self._invisible_mode = _uses_invisible_mode(document)
        self._renderings_left = MAX_RENDERED_PAGES

    def invisible_items(self, page: ParsedPage) -> list[TextItem] | None:
        """The text items that cannot be seen; None if some are suspected but the page was not rendered."""
        suspected = self._suspected(page)
        if not suspected:
            return []
        self._renderings_left -= 1
        raster = _render(self._document, page.page_num) if self._renderings_left >= 0 else None
        return None if raster is None else [item for item in suspected if _shows_nothing(raster, item)]

    def _suspected(self, page: ParsedPage) -> list[TextItem]:
        if self._invisible_mode and not (page.complexity and page.complexity.full_page_image):
            return page.text_items
        return [item for item in page.text_items if _is_nearly_white_or_transparent(item.fill_color)]


def _uses_invisible_mode(document: bytes) -> bool:
    """Whether text rendering mode 3 or 7 (PDF 1.7, 9.3.6) is set in any stream of the file."""
    budget = _MAX_SCANNED_BYTES
    for match in _STREAM.finditer(document):
        start = match.end()
        content = _decode_stream(document[start : start + _MAX_STREAM_BYTES], min(budget, _MAX_STREAM_BYTES))
        budget -= len(content)
        if _INVISIBLE_MODE.search(content) or budget <= 0:  # what was not scanned is suspected
            return True
    return False


def _render(document: bytes, number: int) -> Raster | None:
    renderer = LiteParse(
        ocr_enabled=False,
        output_format="text",
        extract_screenshots=True,
        dpi=_DPI,
        target_pages=str(number),
        quiet=True,
    )
    try:
        screenshots = renderer.parse(document).screenshots
        return decode_png(screenshots[0].image_bytes) if screenshots else None
    except (ParseError, ValueError):
        return None


def _shows_nothing(raster: Raster, item: TextItem) -> bool:
    scale = _DPI / _POINTS_PER_INCH
    left, top = int(item.x * scale), int(item.y * scale)
    right, bottom = int((item.x + item.width) * scale) + 1, int((item.y + item.height) * scale) + 1
    return raster.is_one_colour(left, top, right, bottom, tolerance=_TOLERANCE)


def _is_nearly_white_or_transparent(argb: str | None) -> bool:
    if not argb:
        return False
    alpha, red, green, blue = bytes.fromhex(argb)
    return alpha == 0 or min(red, green, blue) >= _NEARLY_WHITE


def _decode_stream(content: bytes, limit: int) -> bytes:
    """A stream in the filters that page contents have in practice: none, Flate, ASCII 85, or ASCII 85 over Flate."""
    try:
        return zlib.decompressobj().decompress(content, limit)
    except zlib.error:
        plain = content[: max(content.find(b"endstream"), 0)].strip()
    if not plain.endswith(b"~>"):
        return plain
    try:
        return _decode_stream(base64.a85decode(plain[:-2]) + b"endstream", limit)
    except ValueError:
        return plain
