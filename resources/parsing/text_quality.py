"""How much of a text is text: cleaning, and the measures behind the warnings and the failures.

Pure functions on strings. The limits are ours: real pages stay far below, pages in a font without a Unicode table far
above.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

UNREADABLE_SHARE = 0.3
"""A page is unreadable if more than this share of its characters has no meaning."""

_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")
_GLYPH_NUMBER = re.compile(r"\(cid:\d+\)")
_MEANINGLESS_CATEGORIES = frozenset({"Cc", "Co", "Cn", "Cs"})
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_FENCE = re.compile(r"\A\s*```[a-z]*\n(?P<body>.*?)\n?```\s*\Z", re.DOTALL)
_NOTHING = re.compile(r"(?:!\[[^\]]*\]\([^)]*\)|[\s|#*_>`~\-\u00ad\u200b-\u200f\u2060\ufeff])*")
"""Picture references, white space, what Markdown is made of, and characters without width."""
_ONLY_AT_THE_END = "ךםןףץ" + "ةى"
"""Hebrew final letters; Arabic teh marbuta and alef maksura."""
_RIGHT_TO_LEFT_WORD = re.compile(r"[א-ת]{2,}|[\u0621-\u064a]{2,}")


def clean(text: str) -> tuple[str, int]:
    """Text that every database and every JSON writer takes, and how many characters were replaced by U+FFFD for it."""
    return _NOT_STORABLE.subn(_REPLACEMENT, text)


def strip_fence(markdown: str) -> str:
    """The engine fences pages without structure, empty ones too; a fence around the whole page says nothing."""
    fenced = _FENCE.match(markdown)
    return fenced["body"] if fenced and "```" not in fenced["body"] else markdown


def is_empty(markdown: str) -> bool:
    """Whether there is nothing but markup and picture references."""
    return _NOTHING.fullmatch(markdown) is not None


def unreadable_share(text: str) -> float:
    """Share of glyph numbers, control, private-use, unassigned and replacement characters among all but white space."""
    glyph_numbers = len(_GLYPH_NUMBER.findall(text))
    counts = Counter(_GLYPH_NUMBER.sub("", text))
    visible = {character: count for character, count in counts.items() if not character.isspace()}
    meaningless = sum(count for character, count in visible.items() if _is_meaningless(character))
    total = glyph_numbers + sum(visible.values())
    return (glyph_numbers + meaningless) / total if total else 0.0


def _is_meaningless(character: str) -> bool:
    return character == _REPLACEMENT or unicodedata.category(character) in _MEANINGLESS_CATEGORIES


def is_right_to_left_visual_order(text: str) -> bool:
    """Whether Hebrew or Arabic words stand backwards: letters that only end words then begin them."""
    words: list[str] = _RIGHT_TO_LEFT_WORD.findall(text)
    begin = sum(word[0] in _ONLY_AT_THE_END for word in words)
    end = sum(word[-1] in _ONLY_AT_THE_END for word in words)
    return begin > end
