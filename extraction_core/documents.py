"""Which files of a source are documents, by name alone: what is skipped and why, and which files are one document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

SYSTEM_NAMES = frozenset({"thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r"})
SYSTEM_FOLDERS = frozenset({"__macosx", "$recycle.bin", "system volume information"})
UNFINISHED_SUFFIXES = (".tmp", ".part", ".partial", ".crdownload", ".download", ".filepart")

MAIL_SUFFIX = ".eml"
ATTACHED = "attachment-sha256:"
"""Begins the signature of an attachment; the hash of its bytes follows."""
LONGEST_ATTACHMENT_NAME = 100
"""Bytes of UTF-8: a file system takes 255 for one name, and the key names a folder of the results."""
_ATTACHMENT_KEY = re.compile(r"(?P<mail>.+\.eml)/attachment-(?P<number>[1-9]\d{0,5})-[^/]+", re.DOTALL | re.IGNORECASE)
_UNSAFE_IN_NAME = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|\ud800-\udfff]+')


class AttachmentPlace(NamedTuple):
    """Where an attachment is: the key of its mail, and its 1-based place among the mail's attachments."""

    mail_key: str
    number: int


def is_mail(document_key: str) -> bool:
    """Tell by the name whether a document is a mail, whose attachments are documents of their own."""
    return document_key.lower().endswith(MAIL_SUFFIX)


def attachment_key(mail_key: str, number: int, name: str) -> str:
    """Return the document key of an attachment: below its mail's, with its place and a safe form of its name."""
    safe = _UNSAFE_IN_NAME.sub("_", PurePosixPath(name.replace("\\", "/")).name).strip(". ") or "unnamed"
    suffix = PurePosixPath(safe).suffix[:10]
    stem = safe.removesuffix(suffix).encode()[: LONGEST_ATTACHMENT_NAME - len(suffix.encode())]
    return f"{mail_key}/attachment-{number}-{stem.decode(errors='ignore')}{suffix}"


def attachment_place(document_key: str) -> AttachmentPlace | None:
    """Return where an attachment is by its key, as :func:`attachment_key` made it; None for any other key."""
    found = _ATTACHMENT_KEY.fullmatch(document_key)
    return AttachmentPlace(found["mail"], int(found["number"])) if found else None


def outermost_mail(document_key: str) -> str:
    """Return the key of the file that an attachment is in, through mails in mails; any other key as it is."""
    while place := attachment_place(document_key):
        document_key = place.mail_key
    return document_key


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What one document is: a file, or a folder with its files.

    Attributes:
        is_folder: whether the files of a folder are one document; its key is the folder's path.
        depth: folders from the source to the one that is the document, with all that lies below it; None: the folder
            that holds the file.
    """

    is_folder: bool = False
    depth: int | None = None

    def document_key(self, file_key: str) -> str | None:
        """Return the key of the document that a file belongs to; None for a file in no such folder."""
        if not self.is_folder:
            return file_key
        folders = file_key.split("/")[:-1]
        if len(folders) < (self.depth or 1):
            return None
        return "/".join(folders[: self.depth])


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
