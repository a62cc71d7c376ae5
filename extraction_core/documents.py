"""Which files of a source are documents, by name alone: the visible list of what is skipped, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

SYSTEM_NAMES = frozenset({"thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r"})
SYSTEM_FOLDERS = frozenset({"__macosx", "$recycle.bin", "system volume information"})
UNFINISHED_SUFFIXES = (".tmp", ".part", ".partial", ".crdownload", ".download", ".filepart")


def skip_reason(document_key: str, include: Sequence[str], exclude: Sequence[str]) -> str | None:  # noqa: PLR0911 - one return per reason
    """Return why a file is not a document of the collection, or None when it is one.

    Args:
        document_key: path relative to the source, with ``/`` between folders.
        include: glob patterns of which one must match; ``**/`` matches any number of folders, none included.
        exclude: glob patterns of which none may match.
    """
    parts = document_key.split("/")
    name = parts[-1].lower()
    if ".." in parts or not parts[0]:
        return "leads outside the source"
    if any(part.lower() in SYSTEM_FOLDERS for part in parts[:-1]) or name in SYSTEM_NAMES:
        return "system file"
    if name.startswith(("~$", "._")):
        return "lock or resource file of an office program"
    if name.endswith(UNFINISHED_SUFFIXES):
        return "unfinished transfer"
    if any(part.startswith(".") for part in parts):
        return "hidden file"
    if not any(_pattern(glob).match(document_key) for glob in include):
        return "matches no include pattern"
    if any(_pattern(glob).match(document_key) for glob in exclude):
        return "matches an exclude pattern"
    return None


_WILDCARDS = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
_TOKEN = re.compile(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])")


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob in which ``*`` and ``?`` stay within a folder and ``**/`` crosses folders."""
    # split by a group: every second piece is a token, the others are plain text
    pieces = (_token(piece) if index % 2 else re.escape(piece) for index, piece in enumerate(_TOKEN.split(glob)))
    return re.compile("".join(pieces) + r"\Z", re.DOTALL)


def _token(token: str) -> str:
    """Translate a wildcard or a character class; a class that makes no sense, such as ``[z-a]``, is plain text."""
    if token in _WILDCARDS:
        return _WILDCARDS[token]
    members = re.sub(r"([\\\[&~|])", r"\\\1", token[1:-1])
    translated = f"[^{members[1:]}]" if members.startswith("!") else f"[{members}]"
    try:
        re.compile(translated)
    except re.error:
        return re.escape(token)
    return translated
