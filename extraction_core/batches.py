"""Message batches, the pure part: states, identifiers, and what one line of the results means.

::

    reserved ──accepted / adopted──▶ in_progress ──▶ ended ──▶ collected
       │  │                            │    ▲  │
       │  └─(provably never sent)─▶ void    │  └─▶ canceling ──▶ ended
       └──────────────▶ lost ◀──────────────┴─────────┘

A custom id is ``<nonce>-<result id>``: it fits the provider's pattern whatever the document is called, and it is the
only mark of ours that can be read back from a batch, so that a batch whose id was never stored can be told from others.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from extraction_core.causes import Cause

MOST_REQUESTS = 100_000
"""The provider's limit on requests in one batch."""
MOST_BYTES = 230_000_000
"""The provider's limit is 256 MB; a tenth is left for the envelope and for escapes that we do not see."""
NONCE_BYTES = 8
CUSTOM_ID = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,18})")
RESULTS_KEPT_DAYS = 29
"""Days after creation for which the provider keeps results."""
OVERDUE_S = 25 * 3600.0
"""A batch expires after 24 hours; one that has not ended an hour later never will."""
LONGEST_NAME = 64
LONGEST_DETAIL = 500


class BatchState(StrEnum):
    """State of one message batch."""

    RESERVED = "reserved"
    IN_PROGRESS = "in_progress"
    CANCELING = "canceling"
    ENDED = "ended"
    COLLECTED = "collected"
    LOST = "lost"
    VOID = "void"  # a reservation of which it is known that no batch came of it


BATCH_MOVES: Mapping[BatchState, frozenset[BatchState]] = {
    BatchState.RESERVED: frozenset(
        {BatchState.IN_PROGRESS, BatchState.CANCELING, BatchState.ENDED, BatchState.LOST, BatchState.VOID}
    ),
    BatchState.IN_PROGRESS: frozenset({BatchState.CANCELING, BatchState.ENDED, BatchState.LOST}),
    BatchState.CANCELING: frozenset({BatchState.ENDED, BatchState.LOST}),
    BatchState.ENDED: frozenset({BatchState.COLLECTED, BatchState.LOST}),
    BatchState.COLLECTED: frozenset(),
    BatchState.LOST: frozenset(),
    BatchState.VOID: frozenset(),
}
AT_PROVIDER = frozenset({BatchState.RESERVED, BatchState.IN_PROGRESS, BatchState.CANCELING})
"""The provider may still be at work: nothing else may be asked for these documents."""
UNSETTLED = AT_PROVIDER | {BatchState.ENDED}


@dataclass(frozen=True, kw_only=True)
class BatchSeen:
    """What a look at the provider showed.

    Attributes:
        counts: requests by outcome; ``processing`` those that are not done.
        created_at: the provider's clock, ISO 8601, as is ``expires_at``.
        results_gone: the provider has archived the batch: its results can never be read again.
        retry_after_s: how long the provider asks to wait before the next look.
    """

    provider_id: str
    state: BatchState
    counts: Mapping[str, int]
    created_at: str | None
    expires_at: str | None
    results_gone: bool = False
    retry_after_s: float | None = None

    @property
    def request_count(self) -> int:
        """All requests of the batch."""
        return sum(self.counts.values())


class Outcome(StrEnum):
    """What a line of the results says became of a request."""

    SUCCEEDED = "succeeded"
    ERRORED = "errored"
    CANCELED = "canceled"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ResultLine:
    """One line of the results.

    Attributes:
        custom_id: the request it answers.
        message: the message body of a succeeded request.
        cause: why there is no message, for every other outcome but ``canceled``.
        detail: the provider's words.
    """

    custom_id: str
    outcome: Outcome
    message: Mapping[str, Any] | None = None
    cause: Cause | None = None
    detail: str = ""


ERROR_CAUSES: Mapping[str, Cause] = {
    "api_error": Cause.SERVER_ERROR,
    "overloaded_error": Cause.OVERLOADED,
    "rate_limit_error": Cause.RATE_LIMITED,
    "timeout_error": Cause.SERVER_ERROR,
    "invalid_request_error": Cause.INVALID_REQUEST,
    "request_too_large": Cause.REQUEST_TOO_LARGE,
    "authentication_error": Cause.AUTHENTICATION,
    "permission_error": Cause.PERMISSION,
    "billing_error": Cause.BILLING,
    "not_found_error": Cause.INVALID_REQUEST,
}
"""Errored requests are not billed, so a time-out in a batch has a known cost and is a server's error like another."""


def new_nonce() -> str:
    """Return a random mark for one reservation."""
    return secrets.token_hex(NONCE_BYTES)


def custom_id(nonce: str, result_id: int) -> str:
    """Return the id of one request."""
    return f"{nonce}-{result_id}"


def nonce_of(line: bytes) -> str | None:
    """Return the reservation that a line of results belongs to; None when it was not made by us."""
    read = read_result_line(line)
    match = CUSTOM_ID.fullmatch(read.custom_id) if read else None
    return match[1] if match else None


def read_result_line(line: bytes) -> ResultLine | None:
    """Read one line; None when it is not a JSON object with a custom id: it stands for no request.

    The kind of a result is told by its own ``type`` and nothing else, and an error's by the inner one: the outer is
    always ``error``.
    """
    try:
        read: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    fields = _object(read)
    name = fields.get("custom_id")
    return _result(name, _object(fields.get("result"))) if isinstance(name, str) else None


def _result(name: str, result: Mapping[str, Any]) -> ResultLine:
    match result.get("type"):
        case "succeeded" if message := _object(result.get("message")):
            return ResultLine(custom_id=name, outcome=Outcome.SUCCEEDED, message=message)
        case "errored":
            return _errored(name, result)
        case "canceled":
            return ResultLine(custom_id=name, outcome=Outcome.CANCELED, detail="cancelled at the provider")
        case "expired":
            why = "the batch expired before this request was processed"
            return ResultLine(custom_id=name, outcome=Outcome.EXPIRED, cause=Cause.BATCH_EXPIRED, detail=why)
        case other:
            named = "without its message" if other == "succeeded" else f"of the unknown type {_word(other)!r}"
            why = f"a result {named}"
            return ResultLine(custom_id=name, outcome=Outcome.UNKNOWN, cause=Cause.UNKNOWN_RESULT, detail=why)


def _errored(name: str, result: Mapping[str, Any]) -> ResultLine:
    outer = _object(result.get("error"))
    inner = _object(outer.get("error")) or outer  # some servers leave the outer one out
    kind, text = _word(inner.get("type")), _word(inner.get("message") or "no message", longest=LONGEST_DETAIL)
    cause = ERROR_CAUSES.get(kind, Cause.SERVER_ERROR)
    if kind == "not_found_error" and "model" in text.lower():
        cause = Cause.MODEL_NOT_FOUND
    return ResultLine(custom_id=name, outcome=Outcome.ERRORED, cause=cause, detail=f"{kind}: {text}")


def _word(value: Any, longest: int = LONGEST_NAME) -> str:
    """Return a text of the provider's on one line; of anything else, which may be of any size and depth, its kind."""
    return " ".join(value.split())[:longest] if isinstance(value, str) else type(value).__name__


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
