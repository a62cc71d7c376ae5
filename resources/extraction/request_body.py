"""A request as the bytes that are sent: made once, by whoever knows the request, and handed on as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from extraction_core.calls import CallFailed
from extraction_core.causes import Cause

NOT_UTF8 = "the document's text cannot be encoded as UTF-8"


def encode_request(request: Mapping[str, Any]) -> bytes | CallFailed:
    """Return the request as UTF-8 JSON, or why no call can be made.

    Raises:
        ValueError: a number that JSON does not have, which is a defect of ours.
    """
    try:
        return json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return CallFailed(cause=Cause.INVALID_REQUEST, message=NOT_UTF8)
