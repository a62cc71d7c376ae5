"""Other ways than reading the text, on this machine: OCR, and showing a file to the model as it is.

Both are done by the children of the local provider that they are given; opening and closing it is its owner's affair.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from extraction_core.parsing import ParsedDocument, ParseFailure
from resources.parsing.local_provider import LocalParseProvider
from resources.parsing.ocr import OcrData

DOCUMENT_BLOCK, OCR = "document_block", "ocr"


class _OnLocal:
    """What both have in common."""

    def __init__(self, local: LocalParseProvider) -> None:
        self._local = local

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing to end."""


class DocumentBlockProvider(_OnLocal):
    """Looks at PDFs and pictures, which are then shown to the model; other formats are parsed."""

    name = DOCUMENT_BLOCK

    @property
    def version(self) -> str:
        """The local parser's, for the other formats."""
        return self._local.version

    def parse(self, data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
        """Look at one document; see :func:`resources.parsing.inspection.inspect_document`."""
        return self._local.inspect(data, document_key)


class OcrProvider(_OnLocal):
    """Parses with OCR of what has no text."""

    name = OCR

    def __init__(self, local: LocalParseProvider, data: OcrData) -> None:
        super().__init__(local)
        self._data = data

    @property
    def version(self) -> str:
        """The local parser's, and the languages that are recognised."""
        return f"{self._local.version}, {self._data.languages}"

    def parse(self, data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
        """Parse one document."""
        return self._local.recognise(data, document_key, self._data)
