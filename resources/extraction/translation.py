"""From the SDK's exceptions to causes. No SDK type is known above this file.

The status and the error's own type decide, not the exception's class: the SDK has over a hundred classes, and a new
one must not become an unknown failure. Messages are the provider's own words, cut to a line, without the key that
the request carried: a server may echo it, and so does the HTTP client when a header cannot be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import anthropic

from extraction_core.calls import CallFailed
from extraction_core.causes import Cause
from resources.extraction.request_body import NOT_UTF8

LONGEST_MESSAGE = 500
HIDDEN = "***"
LONGEST_RETRY_AFTER_S = 86_400.0

TOO_MANY_REQUESTS = 429
OVERLOADED = 529
NOT_FOUND = 404
FIRST_SERVER_ERROR = 500
UNCERTAIN_STATUSES = frozenset({408, 409, 502, 504})
"""Answers of something in between, or of a server that may have done the work: what was billed is not known."""

BY_STATUS: Mapping[int, Cause] = {
    401: Cause.AUTHENTICATION,
    402: Cause.BILLING,
    403: Cause.PERMISSION,
    413: Cause.REQUEST_TOO_LARGE,
    TOO_MANY_REQUESTS: Cause.RATE_LIMITED,
    OVERLOADED: Cause.OVERLOADED,
}
BILLING_WORDS = ("credit balance", "billing")
SPEND_LIMIT_WORDS = ("usage limits", "spend limit")
SPEND_LIMIT_CODES = ("spend_limit", "spend_cap")


def translate(error: Exception) -> CallFailed:
    """Translate what a call raised. Exceptions that are not the call's are raised again."""
    match error:
        case anthropic.APIStatusError():
            return _translate_status(error)
        case anthropic.APITimeoutError() | TimeoutError():
            return CallFailed(cause=Cause.TIMEOUT, message="no answer within the time limit")
        case anthropic.APIConnectionError():
            return CallFailed(cause=Cause.CONNECTION_LOST, message=_one_line(_root(error), error))
        case UnicodeEncodeError():
            return CallFailed(cause=Cause.INVALID_REQUEST, message=NOT_UTF8)
        case _:
            raise error


def _translate_status(error: anthropic.APIStatusError) -> CallFailed:
    return CallFailed(
        cause=_cause_of(error),
        message=f"HTTP {error.status_code}: {_one_line(_provider_message(error), error)}",
        retry_after_s=retry_after_s(error.response.headers.get("retry-after")),
        request_id=error.request_id,
    )


def _cause_of(error: anthropic.APIStatusError) -> Cause:
    status, text = error.status_code, _provider_message(error).lower()
    code = str(_field(error.body, "error", "details", "error_code") or "")
    if any(word in code for word in SPEND_LIMIT_CODES) or any(word in text for word in SPEND_LIMIT_WORDS):
        return Cause.SPEND_LIMIT
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status in UNCERTAIN_STATUSES:
        return Cause.TIMEOUT
    if status == NOT_FOUND:
        return Cause.MODEL_NOT_FOUND if "model" in text else Cause.INVALID_REQUEST
    if status >= FIRST_SERVER_ERROR:
        return Cause.SERVER_ERROR
    return Cause.BILLING if any(word in text for word in BILLING_WORDS) else Cause.INVALID_REQUEST


def _provider_message(error: anthropic.APIStatusError) -> str:
    message = _field(error.body, "error", "message")
    return str(message) if message else str(error.message)


def _field(body: object, *path: str) -> object:
    for name in path:
        if not isinstance(body, Mapping):
            return None
        body = cast("Mapping[str, Any]", body).get(name)
    return body


def retry_after_s(value: str | None) -> float | None:
    """Read the header's seconds; a date or nonsense counts as not said, and a day is the most that is believed."""
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds > 0 else None


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _one_line(text: str, error: anthropic.APIError) -> str:
    headers = error.request.headers
    for secret in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")):
        text = text.replace(secret, HIDDEN) if secret else text
    return " ".join(text.split())[:LONGEST_MESSAGE]
