"""What the model is shown of a claimed row's document, or why nothing can be shown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extraction_assets.workers.lost_texts import LostTexts
from extraction_assets.workers.tools import Tools
from extraction_core.causes import Cause
from extraction_core.collection import CollectionFile
from extraction_core.joining import missing_files
from extraction_core.parsing import ParseFailure
from extraction_core.prompting import BLOCK_MEDIA_TYPES, DocumentBlock, Shown
from extraction_core.quality import flaw_problem
from extraction_core.states import RowStatus
from resources.parsing.other_ways import DOCUMENT_BLOCK

PARSE_WAIT_S = 1.0
PARSE_RETRY_S = 60.0


@dataclass(frozen=True, kw_only=True)
class NotLoaded:
    """There is nothing to ask about.

    Attributes:
        wait_s: the document is still being parsed: look again after this time; None: the row ends failed.
        next_retry_s: seconds until another run may help; None: only a person can.
    """

    reason: str
    message: str
    wait_s: float | None = None
    next_retry_s: float | None = None


def load_document(
    tools: Tools, lost_texts: LostTexts, document_key: str, parse: Mapping[str, Any] | None
) -> Shown | NotLoaded:
    """Return the Markdown of a document, or the file itself where that is shown.

    Args:
        tools: the resources.
        lost_texts: reads the source, where that is needed.
        document_key: the document.
        parse: the parse run of its row; None when it has none.

    Raises:
        OutputStoreError: a text that was gone from the home was parsed again and could not be written.
    """
    if parse is None:
        return NotLoaded(reason="source_missing", message="the document could not be read", next_retry_s=PARSE_RETRY_S)
    match RowStatus(parse["status"]):
        case RowStatus.COMPLETED:
            if refused := _refused(lost_texts.collection.settings, parse["warnings"] or []):
                return refused
            if parse["provider"] == DOCUMENT_BLOCK and parse["media_type"] in BLOCK_MEDIA_TYPES:
                return _load_block(lost_texts, parse, document_key)
            text = tools.parsed.markdown(parse["markdown_sha256"])
            text = lost_texts.restore(parse, document_key) if text is None else text
            lost = "the parsed text is gone from the home, and its document has changed; launch again"
            return NotLoaded(reason=Cause.PARSED_TEXT_LOST, message=lost) if text is None else text
        case RowStatus.FAILED | RowStatus.CANCELLED:
            return NotLoaded(
                reason=parse["reason"] or "parse_cancelled",
                message=parse["message"] or "",
                next_retry_s=PARSE_RETRY_S if parse["retryable"] else None,
            )
        case RowStatus.QUEUED | RowStatus.RUNNING:
            return NotLoaded(reason="parsing", message="the document is still being parsed", wait_s=PARSE_WAIT_S)


def _load_block(lost_texts: LostTexts, parse: Mapping[str, Any], document_key: str) -> DocumentBlock | NotLoaded:
    data = lost_texts.original(parse, document_key)
    if isinstance(data, ParseFailure):
        wait_s = PARSE_RETRY_S if data.retryable else None
        return NotLoaded(reason=data.reason, message=data.message, next_retry_s=wait_s)
    encoded = b64encode(data).decode("ascii")
    return DocumentBlock(media_type=parse["media_type"], base64=encoded, pages=parse["page_count"])


def _refused(settings: CollectionFile, warnings: Sequence[str]) -> NotLoaded | None:
    """Judge a parsed document by its collection's policies, which leave the parse run as it is."""
    if missing := missing_files(settings.on_failed_file, warnings):
        return NotLoaded(reason=Cause.FILE_NOT_READ, message=missing)
    if problem := flaw_problem(settings.quality, warnings):
        return NotLoaded(reason=Cause.POOR_QUALITY, message=problem)
    return None
