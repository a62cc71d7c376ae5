"""What a child process is asked to do with the bytes it is handed, by name. Runs in the child."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extraction_core.parsing import ParseFailure
from resources.parsing.document_reader import read_document, recognise_document
from resources.parsing.draft import DocumentRefusedError
from resources.parsing.inspection import inspect_document
from resources.parsing.mail import attachment_content, list_attachments
from resources.parsing.ocr import OcrData
from resources.parsing.wire import Task, encode_attachments, encode_content, encode_failure, encode_result


def perform(order: Mapping[str, Any], data: bytes) -> bytes:
    """Do it. What the readers refuse is encoded as a failure; they may raise anything else.

    Args:
        order: ``task`` and what belongs to it: ``document_key`` to parse or inspect, with ``ocr`` to recognise;
            ``number`` to read an attachment.
        data: the document.
    """
    try:
        match Task(order["task"]):
            case Task.PARSE:
                return encode_result(read_document(data, order["document_key"]))
            case Task.RECOGNISE:
                return encode_result(recognise_document(data, order["document_key"], OcrData(**order["ocr"])))
            case Task.INSPECT:
                return encode_result(inspect_document(data, order["document_key"]))
            case Task.LIST_ATTACHMENTS:
                return encode_attachments(list_attachments(data))
            case Task.READ_ATTACHMENT:
                return encode_content(attachment_content(data, order["number"]))
    except DocumentRefusedError as refusal:
        return encode_failure(ParseFailure(reason=refusal.reason, message=refusal.message))
