"""What crosses the process boundary: one JSON object per document, in both directions; or an attachment's bytes.

The answer comes from a process that has read hostile bytes, so it is checked field by field here.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from extraction_core.parsing import Attachment, Page, ParsedDocument, ParseFailure, ParseFailureReason


class Task(StrEnum):
    """What a child is asked to do with the bytes; see :func:`resources.parsing.tasks.perform`."""

    PARSE = "parse"
    RECOGNISE = "recognise"
    INSPECT = "inspect"
    LIST_ATTACHMENTS = "list_attachments"
    READ_ATTACHMENT = "read_attachment"


class Readers(StrEnum):
    """What a fork server has imported, and so what its children can read."""

    TEXT = "text"
    ALL = "all"


NEEDS_ENGINES = b"engines\n"
"""In place of a result: the document has another format than its name says, which takes a server with the engines."""

READ, RECOGNISE = b".", b"o"
"""The byte of a request: by which limits its child works, since the server does not read its order."""

_CONTENT = b"content\n"
"""Stands before the bytes of an attachment; a JSON object begins with a brace."""


def encode_failure(failure: ParseFailure) -> bytes:
    """The failure as UTF-8 JSON."""
    message = failure.message.encode("utf-8", "replace").decode()
    return json.dumps({"failure": {"reason": failure.reason.value, "message": message}}, ensure_ascii=False).encode()


def encode_result(result: ParsedDocument | ParseFailure) -> bytes:
    """The result as UTF-8 JSON; its texts hold no lone surrogates."""
    if isinstance(result, ParseFailure):
        return encode_failure(result)
    fields = asdict(result)
    fields["pages"] = [(page.number, page.start, page.end) for page in result.pages]
    return json.dumps(fields, ensure_ascii=False).encode()


def decode_result(encoded: bytes) -> ParsedDocument | ParseFailure:
    """The inverse of :func:`encode_result`.

    Raises:
        ValueError: not a complete result (KeyError and TypeError of a wrong shape are turned into it).
    """
    try:
        fields = json.loads(encoded)
        if "failure" in fields:
            return _failure(fields)
        return ParsedDocument(
            markdown=str(fields["markdown"]),
            pages=tuple(Page(number=int(n), start=int(start), end=int(end)) for n, start, end in fields["pages"]),
            engine=str(fields["engine"]),
            engine_version=str(fields["engine_version"]),
            media_type=str(fields["media_type"]),
            warnings=tuple(str(warning) for warning in fields["warnings"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a parse result: {error}") from error


def decode_result_of_text(encoded: bytes) -> ParsedDocument | ParseFailure | None:
    """As :func:`decode_result`; None for :data:`NEEDS_ENGINES`.

    Raises:
        ValueError: as there.
    """
    return None if encoded == NEEDS_ENGINES else decode_result(encoded)


def encode_attachments(attachments: list[Attachment]) -> bytes:
    """What a mail holds, as UTF-8 JSON."""
    return json.dumps({"attachments": [asdict(one) for one in attachments]}, ensure_ascii=False).encode()


def decode_attachments(encoded: bytes) -> list[Attachment] | ParseFailure:
    """The inverse of :func:`encode_attachments`, or of :func:`encode_failure`.

    Raises:
        ValueError: neither.
    """
    try:
        fields = json.loads(encoded)
        if "failure" in fields:
            return _failure(fields)
        return [
            Attachment(
                number=int(one["number"]),
                name=str(one["name"]),
                content_hash=str(one["content_hash"]),
                size_bytes=int(one["size_bytes"]),
            )
            for one in fields["attachments"]
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a list of attachments: {error}") from error


def encode_content(content: bytes) -> bytes:
    """An attachment's bytes."""
    return _CONTENT + content


def decode_content(encoded: bytes) -> bytes | ParseFailure:
    """The inverse of :func:`encode_content`, or of :func:`encode_failure`.

    Raises:
        ValueError: neither.
    """
    if encoded.startswith(_CONTENT):
        return encoded.removeprefix(_CONTENT)
    try:
        return _failure(json.loads(encoded))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an attachment: {error}") from error


def _failure(fields: dict[str, Any]) -> ParseFailure:
    failure = fields["failure"]
    return ParseFailure(reason=ParseFailureReason(failure["reason"]), message=str(failure["message"]))
