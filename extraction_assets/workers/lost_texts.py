"""What is read from the source when a document is asked about: parsed text that is gone from the home, and originals.

The ledger may outlive the home, for instance when it is a server and the home is a container's disk. A completed parse
run is not done again, and need not be: its text is addressed by its content, so the same bytes give it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extraction_assets.workers.originals import Originals
from extraction_assets.workers.parsers import Parsers
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.parsing import ParsedDocument, ParseFailure


class LostTexts:
    """Restores parsed text of one collection. Thread-safe; the parser starts with the first text that is missing.

    Args:
        tools: the resources.
        collection: the collection, whose source is read.
    """

    def __init__(self, tools: Tools, collection: Collection) -> None:
        self._tools, self.collection = tools, collection
        self._parsers = Parsers(collection, tools.parse_provider)
        self._originals = Originals(collection, self._parsers)

    def restore(self, parse_run: Mapping[str, Any], document_key: str) -> str | None:
        """Parse a document again and store its text.

        Args:
            parse_run: the completed parse run whose text is missing.
            document_key: a document with the bytes that it stands for.

        Returns:
            The Markdown; None when the document's bytes or the parser are not those of the parse run any more.

        Raises:
            OutputStoreError: the text could not be written.
        """
        provider = self._parsers.named(parse_run["provider"])
        if provider.version != parse_run["provider_version"]:
            return None
        parsed = self._originals.parse(document_key, parse_run["content_hash"], provider)
        if not isinstance(parsed, ParsedDocument):
            return None
        self._tools.parsed.put(parse_run["parse_key"], parsed)
        return self._tools.parsed.markdown(parse_run["markdown_sha256"])

    def original(self, parse_run: Mapping[str, Any], document_key: str) -> bytes | ParseFailure:
        """Return the bytes that a parse run is of.

        Args:
            parse_run: the parse run.
            document_key: a document with the bytes that it stands for.
        """
        return self._originals.read(document_key, parse_run["content_hash"])

    def close(self) -> None:
        """End the parser, if it was started."""
        self._parsers.close()
