"""What crosses the process boundary: one JSON object per document, in both directions.

The answer comes from a process that has read hostile bytes, so it is checked field by field here.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from extraction_core.parsing import Page, ParsedDocument, ParseFailure, ParseFailureReason


def encode_result(result: ParsedDocument | ParseFailure) -> bytes:
    """The result as UTF-8 JSON; its texts hold no lone surrogates."""
    if isinstance(result, ParseFailure):
        message = result.message.encode("utf-8", "replace").decode()
        fields: dict[str, Any] = {"failure": {"reason": result.reason.value, "message": message}}
    else:
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
            failure = fields["failure"]
            return ParseFailure(reason=ParseFailureReason(failure["reason"]), message=str(failure["message"]))
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
