"""The parse providers of one collection: built when first asked for, closed together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self, cast

from extraction_core.collection import Collection
from extraction_core.parsing import ParseProvider
from resources.parsing import LocalParseProvider, other_ways
from resources.parsing.ocr import ocr_data_from
from resources.parsing.other_ways import DocumentBlockProvider, OcrProvider


class Parsers:
    """Hands out parse providers by name. Thread-safe. Use as a context manager, or close it.

    Args:
        collection: the collection, whose ``parse`` names the main one.
        build: makes a provider by its name; what starts with the first document is started then.
    """

    def __init__(self, collection: Collection, build: Callable[[str], ParseProvider]) -> None:
        self._settings, self._build = collection.settings, build
        self._lock = threading.RLock()
        self._open = ExitStack()
        self._built: dict[str, ParseProvider] = {}

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    @property
    def main(self) -> ParseProvider:
        """What parses the collection's documents."""
        return self.named(self._settings.parse)

    @property
    def for_scans(self) -> ParseProvider | None:
        """What takes documents that are scans or have scanned pages, if the collection has another way for them."""
        return None if self._settings.scans == "fail" else self.named(self._settings.scans)

    @property
    def local(self) -> LocalParseProvider:
        """The parser on this machine, which also opens mails."""
        return cast("LocalParseProvider", self.named(LocalParseProvider.name))

    def named(self, name: str) -> ParseProvider:
        """Return a provider by its name, as parse runs keep it.

        Raises:
            ConfigurationError: there is none, or what it needs is not installed.
        """
        with self._lock:
            if name not in self._built:
                self._built[name] = self._open.enter_context(self._new(name))
            return self._built[name]

    def _new(self, name: str) -> ParseProvider:
        match name:
            case other_ways.DOCUMENT_BLOCK:
                return DocumentBlockProvider(self.local)
            case other_ways.OCR:
                return OcrProvider(self.local, ocr_data_from())
            case _:
                return self._build(name)

    def close(self) -> None:
        """Close what was built."""
        self._open.close()
