"""What a reader of one format hands over before cleaning and measuring, and how it refuses a document."""

from __future__ import annotations

from dataclasses import dataclass, field

from extraction_core.parsing import ParseFailureReason


class DocumentRefusedError(Exception):
    """A reader's way out; it ends as a ``ParseFailure`` and never leaves the child process."""

    def __init__(self, reason: ParseFailureReason, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


@dataclass(kw_only=True)
class DraftPage:
    """One page as the engine gave it.

    ``has_images`` tells a scan from a page without anything; ``is_blank`` says that it is known to hold nothing.
    """

    number: int
    text: str
    has_images: bool = False
    is_blank: bool = False


@dataclass(kw_only=True)
class Draft:
    """One document as the engine gave it; ``paged`` is false where the format has no pages (then there is one)."""

    pages: list[DraftPage]
    paged: bool
    engine: str
    warnings: list[str] = field(default_factory=list[str])

    @classmethod
    def of_text(cls, text: str, *, engine: str, warnings: list[str] | None = None) -> Draft:
        """A draft of a format without pages."""
        return cls(pages=[DraftPage(number=1, text=text)], paged=False, engine=engine, warnings=warnings or [])
