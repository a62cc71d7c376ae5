"""Reading text, Markdown, CSV and TSV: all that is done by a child of the server that has no engine imported.

What a file is shows in its content alone, so such a child may find that its document is another format: it then says so
in place of a result, and the document is parsed by a child of the server with the engines. It sees the names alone
that :func:`is_named_as_text` lets through. Nothing is imported here that the children do not need: every page of memory
that the server has is paid for with each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from extraction_core.parsing import ParseFailure
from resources.parsing import plain_text
from resources.parsing.draft import DocumentRefusedError, Draft
from resources.parsing.finishing import finish
from resources.parsing.sniff import BY_EXTENSION, Format, sniff
from resources.parsing.wire import NEEDS_ENGINES, encode_failure, encode_result

TEXT_READERS: Mapping[Format, Callable[[bytes], Draft]] = {
    Format.CSV: plain_text.read_comma_separated,
    Format.TSV: plain_text.read_tab_separated,
    Format.MARKDOWN: plain_text.read_text,
    Format.TEXT: plain_text.read_text,
}


def is_named_as_text(document_key: str) -> bool:
    """Whether a document is read by one of :data:`TEXT_READERS`, if its content is what its name says."""
    return BY_EXTENSION.get(PurePosixPath(document_key).suffix.lower()) in TEXT_READERS


def perform_text(order: Mapping[str, Any], data: bytes) -> bytes:
    """Parse one document, as :func:`resources.parsing.tasks.perform` would.

    Returns:
        The encoded result, or :data:`~resources.parsing.wire.NEEDS_ENGINES`.
    """
    try:
        found = sniff(data, order["document_key"])
        reader = TEXT_READERS.get(found)
        return NEEDS_ENGINES if reader is None else encode_result(finish(reader(data), found.value))
    except DocumentRefusedError as refusal:
        return encode_failure(ParseFailure(reason=refusal.reason, message=refusal.message))
