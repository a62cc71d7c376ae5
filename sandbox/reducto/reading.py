"""From bytes to pages and blocks: text only, with a form feed between pages and a blank line between blocks."""

import re

from sandbox.body import JsonObject

HEADINGS = {"# ": "Title", "## ": "Section Header", "### ": "Section Header"}


def read_pages(data: bytes) -> list[str] | None:
    """Return the text of each page; None for what is no text: nothing but text is parsed here."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.split("\f")


def chunks_of(pages: list[str], *, by_page: bool) -> list[JsonObject]:
    """Return the chunks of a result: one a page, or one of all."""
    placed = [(text.strip("\n"), _blocks(text, number)) for number, text in enumerate(pages, start=1)]
    if not by_page:
        blocks = [block for _, found in placed for block in found]
        placed = [("\n\n".join(text for text, _ in placed), blocks)]
    return [{"content": text, "embed": text, "enriched": None, "blocks": blocks} for text, blocks in placed if blocks]


def _blocks(text: str, number: int) -> list[JsonObject]:
    parts = [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]
    return [_block(part, number, place / len(parts)) for place, part in enumerate(parts)]


def _block(text: str, number: int, top: float) -> JsonObject:
    kind = next((kind for mark, kind in HEADINGS.items() if text.startswith(mark)), None)
    kind = kind or ("Table" if text.startswith("|") else "Text")
    box = {"left": 0.1, "top": round(top, 4), "width": 0.8, "height": 0.05, "page": number, "original_page": number}
    return {"type": kind, "content": text.lstrip("# ") if kind in HEADINGS.values() else text, "bbox": box,
            "confidence": "high"}  # fmt: skip
