"""Bytes of a text file to text: a byte-order mark, else strict UTF-8 over the whole file, else Windows-1252 and a note.

Guessing from a prefix, or from letter statistics, is what gives mojibake; a documented fall-back that is said does not.
"""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_FALL_BACK = "cp1252"
_SAMPLE = 4096
_DECLARED = re.compile(
    rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]+encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE
)
_LATIN_1 = frozenset({"iso8859-1", "ascii"})
"""What browsers read as Windows-1252 (WHATWG Encoding Standard, 4.2)."""


def decode_text(data: bytes) -> tuple[str, list[str]]:
    """The text without its byte-order mark and with line feeds as line ends, and the warnings."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _unify_line_ends(data.decode(encoding, "replace")), []
    if unmarked := _utf16_without_mark(data):
        return _unify_line_ends(data.decode(unmarked, "replace")), [f"encoding_assumed:{unmarked}"]
    try:
        return _unify_line_ends(data.decode("utf-8")), []
    except UnicodeDecodeError:
        return _unify_line_ends(data.decode(_FALL_BACK, "replace")), [f"encoding_assumed:{_FALL_BACK}"]


def decode_html(data: bytes) -> tuple[str, list[str]]:
    """As :func:`decode_text`, but an encoding that the page declares comes before the fall-back."""
    text, warnings = decode_text(data)
    declared = _DECLARED.search(data[:_SAMPLE]) if warnings else None
    try:
        codec = codecs.lookup((declared[1] or declared[2]).decode("ascii")) if declared else None
        if codec is not None:
            encoding = _FALL_BACK if codec.name in _LATIN_1 else codec.name
            return _unify_line_ends(data.decode(encoding)), []
    except (LookupError, UnicodeDecodeError):
        pass  # an unknown name or a wrong one: the fall-back stands
    return text, warnings


def _utf16_without_mark(data: bytes) -> str | None:
    """UTF-16 of mostly Latin text has NUL in every second byte."""
    sample = data[:_SAMPLE]
    half = len(sample) // 2
    if half and sample[1::2].count(0) > 0.8 * half and sample[0::2].count(0) == 0:
        return "utf-16-le"
    if half and sample[0::2].count(0) > 0.8 * half and sample[1::2].count(0) == 0:
        return "utf-16-be"
    return None


def _unify_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
