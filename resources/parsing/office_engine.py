"""The one place that calls xberg, for DOCX, PPTX and HTML. Its page offsets are not used: they do not fit its text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import xberg

from extraction_core.parsing import ParseFailureReason
from resources.parsing.draft import DocumentRefusedError

_MAX_WARNING_CHARACTERS = 200


def extract(data: bytes, media_type: str) -> xberg.ExtractedDocument:
    """Run the engine on one document.

    Raises:
        DocumentRefusedError: PASSWORD, LIMIT (the engine's guards against bombs) or CORRUPT.
    """
    source = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=media_type)
    try:
        result = asyncio.run(xberg.extract(source, _config()))
    except (xberg.XbergError, RuntimeError, ValueError) as error:
        raise _refusal(str(error)) from error
    if not result.results:
        raise _refusal("; ".join(str(error.message) for error in result.errors))
    return result.results[0]


def preload() -> None:
    """Build a configuration once; importing this module did the rest."""
    _config()


def engine_warnings(document: xberg.ExtractedDocument) -> Iterator[str]:
    """What the engine itself wants to be known about its result."""
    for warning in document.processing_warnings:
        yield f"engine_warning:{warning.message[:_MAX_WARNING_CHARACTERS]}"


def _config() -> xberg.ExtractionConfig:
    """No cache and no OCR: the engine's defaults would write files and download data."""
    return xberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        output_format="markdown",
        pages=xberg.PageConfig(extract_pages=True),
        html_options=xberg.ConversionOptions(
            extract_metadata=False,
            compact_tables=True,
            # its default drops forms, which whole pages are wrapped in, and headers, where letterheads stand
            preprocessing=xberg.PreprocessingOptions(enabled=True, remove_navigation=False, remove_forms=False),
        ),
        concurrency=xberg.ConcurrencyConfig(max_threads=1),
    )


def _refusal(message: str) -> DocumentRefusedError:
    lowered = message.lower()
    if "password" in lowered or "encrypted" in lowered:
        return DocumentRefusedError(ParseFailureReason.PASSWORD, "an Office document that needs a password")
    if "limit" in lowered or "security" in lowered:
        return DocumentRefusedError(ParseFailureReason.LIMIT, f"refused by the engine's limits ({message})")
    return DocumentRefusedError(ParseFailureReason.CORRUPT, f"not readable ({message})")
