"""Reducto as a parse provider: a name and a version. Its parsing is a job, which no call of ours waits for.

What is asked of the service for every document stands here, because it is part of the version: Markdown tables, one
chunk a page. Jobs are submitted by the workers and looked after by :mod:`sensors.parse_watch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason

REDUCTO = "reducto"
MODEL = "r-1"
RULES_REVISION = "1"
"""Raise it with every change here, or in what is made of a result, that can change a document's Markdown."""
OPTIONS: Mapping[str, Any] = {
    "settings": {"model": MODEL},
    "retrieval": {"chunking": {"chunk_mode": "page"}},
    "formatting": {"table_output_format": "md"},
}


class ReductoParseProvider:
    """Stands for Reducto where a provider is named; the work is done by jobs."""

    name = REDUCTO
    version = f"{MODEL}, rules {RULES_REVISION}"

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def parse(self, data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
        """Refuse: a text of Reducto's comes of a job, which is paid for and takes minutes."""
        message = f"{document_key} is parsed by a job of Reducto's, not while somebody waits"
        return ParseFailure(reason=ParseFailureReason.SERVICE_FAILED, message=message)
