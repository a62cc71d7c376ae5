"""Parsing as the rest of the project sees it: bytes and a name in, Markdown with a page map or a reason out.

A document that cannot be parsed is a normal outcome, so it is a value (:class:`ParseFailure`), never an exception.
The page map counts code points of ``ParsedDocument.markdown``: ``markdown[page.start:page.end]`` is that page's text.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page, sheet or slide: its 1-based number and its half-open range of code points in the Markdown.

    ``file`` names the file that the page is of, where a document has several; the numbers then count within the file,
    and a file without pages is one page.
    """

    number: int
    start: int
    end: int
    file: str | None = None


@dataclass(frozen=True, kw_only=True)
class ParsedDocument:
    """The Markdown of one document.

    ``pages`` is empty for formats without pages (text, HTML, CSV, e-mail, DOCX). ``warnings`` are short codes with a
    detail. By page, sheet or slide number (1 for formats without pages): ``page_without_text``, ``scanned_page``
    (pictures alone), ``little_text_on_scan``, ``page_not_read``, ``unreadable_text``, ``characters_guessed`` (a font
    without a Unicode table, read by the shape of its letters), ``recognised`` (by OCR), ``invisible_text``,
    ``visibility_not_checked``, ``right_to_left_visual_order``, ``hidden_slide``. By name: ``hidden_sheet``,
    ``hidden_rows`` and ``hidden_columns`` (sheet), ``formula_without_value`` (sheet and cell), ``attachment_not_read``
    (file name), ``encoding_assumed`` (encoding), ``engine_warning`` (the engine's words). By count:
    ``characters_replaced``. ``unclosed_quote`` names the row of a CSV from which on all is one cell. In a document of
    several files the file's name stands before the detail; ``file_not_read`` (file name, reason and message) says which
    one is missing.
    """

    markdown: str
    pages: tuple[Page, ...]
    engine: str
    engine_version: str
    media_type: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """One attachment of a mail: its 1-based place among them, its name as the mail gives it, its content."""

    number: int
    name: str
    content_hash: str
    size_bytes: int


class ParseFailureReason(StrEnum):
    """Why a document could not be parsed."""

    EMPTY_FILE = "empty_file"
    """No bytes at all."""
    EMPTY_TEXT = "empty_text"
    """A readable file with nothing in it: blank pages, only white space."""
    NO_TEXT_LAYER = "no_text_layer"
    """Pictures of text: a scan or an image file."""
    UNREADABLE_TEXT = "unreadable_text"
    """Text whose characters have no meaning, e.g. a font without a Unicode table."""
    UNSUPPORTED = "unsupported"
    """A kind of file that is not parsed, or a content that contradicts the name."""
    CORRUPT = "corrupt"
    """Damaged beyond what readers recover."""
    PASSWORD = "password"  # noqa: S105 - the name of a reason
    """Needs a password to be opened."""
    LIMIT = "limit"
    """Larger than a limit (size, archive expansion, CPU seconds, memory)."""
    TIMEOUT = "timeout"
    """Not done within the wall-clock limit."""
    WORKER_DIED = "worker_died"
    """The process that parsed it died; the message names the signal."""
    SOURCE_CHANGED = "source_changed"
    """The file changed while it was read."""
    SOURCE_MISSING = "source_missing"
    """The file is not there any more."""
    SERVICE_FAILED = "service_failed"
    """The parse service failed, or refuses the document; its own words are in the message."""
    SERVICE_BUSY = "service_busy"
    """The parse service took no job now; its own words are in the message."""
    JOB_EXPIRED = "job_expired"
    """The parse service did not end the job in time, or does not know it any more."""


_WORTH_ANOTHER_TRY = frozenset(
    {
        ParseFailureReason.WORKER_DIED,
        ParseFailureReason.TIMEOUT,
        ParseFailureReason.SOURCE_CHANGED,
        ParseFailureReason.SOURCE_MISSING,
        ParseFailureReason.SERVICE_BUSY,
    }
)


SCAN_REASONS = frozenset({ParseFailureReason.NO_TEXT_LAYER, ParseFailureReason.UNREADABLE_TEXT})
"""Of documents that a person can read, but not by their text: what a collection's ``scans`` is about."""
SCAN_WARNINGS = frozenset({"scanned_page", "little_text_on_scan", "unreadable_text"})
"""Codes of pages of that kind in a document that has others too."""


@dataclass(frozen=True, kw_only=True)
class ParseFailure:
    """Why one document gave no text. The message is for a person: what was found, and the limit or type concerned."""

    reason: ParseFailureReason
    message: str

    @property
    def retryable(self) -> bool:
        """Whether the same bytes may parse at another time; what lies in the document itself is final."""
        return self.reason in _WORTH_ANOTHER_TRY


class ParseProvider(AbstractContextManager["ParseProvider"], Protocol):
    """Whoever turns documents into Markdown; closed at the end of its ``with`` block."""

    @property
    def name(self) -> str:
        """One word, e.g. ``local``."""
        ...

    @property
    def version(self) -> str:
        """Everything that decides the Markdown besides the bytes; it is part of the input fingerprint."""
        ...

    def parse(self, data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
        """Parse ``data``; the key's extension only tells plain-text formats apart. Never raises for a bad document."""
        ...
