"""Paragraphs of short lines get their lines back.

The engine joins the lines of a paragraph with spaces. For prose that is right; for an address or for lines like
``Invoice number: 17`` it lets one value run into the next label. A line break was deliberate if the first word of the
next line would still have fitted. Only paragraphs that can be followed line by line, on a page of one column, change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from liteparse.types import ParsedPage, TextItem

_STRUCTURE = re.compile(r"\s*(?:[|#>*`!-]|\d+[.)]\s)")
"""Beginnings of Markdown lines that are not plain paragraphs."""
_HEADING = re.compile(r"#+ ")
_LABELLED = re.compile(r"[^:]{1,40}:\s*\S")
_SAME_LINE_SHARE = 0.5
"""Items belong to one line if they overlap by this share of the smaller one's height."""


def restore_lines(markdown: str, page: ParsedPage) -> str:
    """The page's Markdown with deliberate line breaks inside paragraphs, and inside headings made of labelled lines."""
    layout = page.complexity.layout if page.complexity else None
    lines = _lines(page.text_items)
    if layout is None or layout.column_count != 1 or not lines:
        return markdown
    right_margin = page.width - min(line.left for line in lines)
    texts = [line.text for line in lines]
    blocks = markdown.split("\n\n")
    return "\n\n".join(_restore(block, lines, texts, right_margin) for block in blocks)


class _Line:
    """The items of one printed line, left to right."""

    def __init__(self, items: Sequence[TextItem]) -> None:
        ordered = sorted(items, key=lambda item: item.x)
        self.text = " ".join(" ".join(item.text for item in ordered).split())
        self.left = ordered[0].x
        self.right = max(item.x + item.width for item in ordered)

    def first_word_width(self) -> float:
        return (self.right - self.left) * (len(self.text.split(" ", 1)[0]) + 1) / max(len(self.text), 1)


def _lines(items: Sequence[TextItem]) -> list[_Line]:
    groups: list[list[TextItem]] = []
    for item in items:
        if not item.text.strip():
            continue
        if groups and _on_one_line(groups[-1][-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [_Line(group) for group in groups]


def _on_one_line(first: TextItem, second: TextItem) -> bool:
    overlap = min(first.y + first.height, second.y + second.height) - max(first.y, second.y)
    return overlap >= _SAME_LINE_SHARE * min(first.height, second.height)


def _restore(block: str, lines: Sequence[_Line], texts: Sequence[str], right_margin: float) -> str:
    heading = _HEADING.match(block)
    prefix = heading.group() if heading else ""
    if "\n" in block or (not heading and _STRUCTURE.match(block)):
        return block
    found = _find(block[len(prefix) :], texts)
    if found is None:
        return block
    paragraph = lines[found[0] : found[1]]
    if heading and not all(_LABELLED.match(line.text) for line in paragraph):
        return block
    joined = paragraph[0].text
    for line, following in pairwise(paragraph):
        deliberate = line.right + following.first_word_width() <= right_margin
        joined += ("\n" if deliberate else " ") + following.text
    return prefix + joined


def _find(paragraph: str, texts: Sequence[str]) -> tuple[int, int] | None:
    """The first run of two or more lines that make up the paragraph."""
    for start, text in enumerate(texts):
        if not paragraph.startswith(text + " "):
            continue
        joined, end = text, start + 1
        while end < len(texts) and len(joined) < len(paragraph):
            joined, end = f"{joined} {texts[end]}", end + 1
        if joined == paragraph:
            return start, end
    return None
