"""From a result of Reducto's, as its bytes were kept, to Markdown with a page map. Pure: equal bytes, equal text.

A result is the object ``{"type": "full", "chunks": [...]}``, within a job's answer or, behind a link, alone. One chunk
a page is asked for. A chunk whose blocks lie on several pages all the same is taken apart by the pages of its blocks,
so that every page's text is that page's.
"""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from extraction_core.parsing import Page, ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing.reducto import MODEL, REDUCTO

BETWEEN = "\n\n"
HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
Json = Mapping[str, Any]


def load_json(data: bytes) -> Any:
    """Decode JSON with exact numbers.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(data, parse_float=Decimal)
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise ValueError(msg) from error


def read_result(data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
    """Make Markdown of a kept result; a result without any text is a failure of its own.

    Args:
        data: the result's bytes.
        document_key: whose extension tells the media type; the result does not.
    """
    try:
        chunks = _chunks(load_json(data))
    except ValueError as error:
        message = f"Reducto's result cannot be read: {error}"
        return ParseFailure(reason=ParseFailureReason.SERVICE_FAILED, message=message)
    texts: dict[int, list[str]] = {}
    page = 1
    for chunk in chunks:
        for page, text in _parts(chunk, page):  # noqa: B020 - a chunk without a block goes on where the last one ended
            texts.setdefault(page, []).append(text)
    filled = {page: BETWEEN.join(parts) for page, parts in sorted(texts.items())}
    if not any(text.strip() for text in filled.values()):
        return ParseFailure(reason=ParseFailureReason.EMPTY_TEXT, message="Reducto found no text in the document")
    markdown, pages = _joined(filled)
    without = [f"page_without_text:{page}" for page in range(1, max(filled) + 1) if not filled.get(page, "").strip()]
    return ParsedDocument(
        markdown=markdown,
        pages=pages,
        engine=REDUCTO,
        engine_version=MODEL,
        media_type=mimetypes.guess_type(document_key)[0] or "application/octet-stream",
        warnings=(*without, *_doubted(chunks)),
    )


def _chunks(read: Any) -> Sequence[Json]:
    """Find the chunks in a job's answer, in a full result, or where a link leads to the bare list.

    Raises:
        ValueError: there are none to be found.
    """
    found = read
    for name in ("result", "result", "chunks"):
        if isinstance(found, Mapping) and name in found:
            found = cast("Json", found)[name]
    if not isinstance(found, list):
        msg = "it has no list of chunks"
        raise ValueError(msg)  # noqa: TRY004 - a value of the wire, not an argument of the wrong type
    return _objects(cast("list[Any]", found))


def _parts(chunk: Json, page_before: int) -> Iterator[tuple[int, str]]:
    """Yield page and text of a chunk, page by page in its order."""
    blocks = _objects(chunk.get("blocks"))
    placed = [(_page_of(block) or page_before, str(block.get("content") or "")) for block in blocks]
    if len({page for page, _ in placed}) > 1:
        yield from placed
    else:
        yield (placed[0][0] if placed else page_before), str(chunk.get("content") or "")


def _page_of(block: Json) -> int | None:
    box = block.get("bbox")
    if not isinstance(box, Mapping):
        return None
    place = cast("Json", box)
    number = place.get("original_page") or place.get("page")  # the page of the document, not of a part of it
    return number if isinstance(number, int) and number > 0 else None


def _joined(texts: Mapping[int, str]) -> tuple[str, tuple[Page, ...]]:
    parts: list[str] = []
    pages: list[Page] = []
    length = 0
    for number, text in texts.items():
        if parts:
            parts.append(BETWEEN)
            length += len(BETWEEN)
        clean = _without_surrogates(text)
        parts.append(clean)
        pages.append(Page(number=number, start=length, end=length + len(clean)))
        length += len(clean)
    return "".join(parts), tuple(pages)


def _without_surrogates(text: str) -> str:
    """JSON can hold halves of surrogate pairs, UTF-8 cannot: each becomes one replacement character."""
    return HALF_OF_A_PAIR.sub("\ufffd", text)


def _doubted(chunks: Sequence[Json]) -> list[str]:
    """Name the pages on which the service itself doubts a block."""
    blocks = [block for chunk in chunks for block in _objects(chunk.get("blocks"))]
    doubted = {_page_of(block) for block in blocks if block.get("confidence") == "low"}
    return [f"low_confidence:{page}" for page in sorted(page for page in doubted if page)]


def _objects(value: Any) -> list[Json]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Json", one) for one in listed if isinstance(one, Mapping)]
