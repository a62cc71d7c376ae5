"""What Reducto says of a job: its bytes read into a value.

Only ``Completed``, ``Failed`` and ``Cancelled`` are ends. The service has more names than it documents, so every other
one means that the job goes on, until our own deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from extraction_core.parse_jobs import JobFailed, JobResult, JobRunning, JobSeen, NoAnswer
from extraction_core.parsing import ParseFailureReason
from resources.parsing.reducto_download import LinkFailed, Links
from resources.parsing.reducto_result import load_json

LONGEST_MESSAGE = 300
DECIMALS = 12
"""Kept of a number of credits."""
REASONS: Mapping[str, ParseFailureReason] = {
    "DOCUMENT_CORRUPT": ParseFailureReason.CORRUPT,
    "DOCUMENT_EMPTY": ParseFailureReason.EMPTY_TEXT,
    "DOCUMENT_PASSWORD_PROTECTED": ParseFailureReason.PASSWORD,
    "DOCUMENT_UNSUPPORTED": ParseFailureReason.UNSUPPORTED,
    "IMAGE_TOO_SMALL": ParseFailureReason.UNSUPPORTED,
    "IMAGE_INVALID_ASPECT_RATIO": ParseFailureReason.UNSUPPORTED,
    "DOCUMENT_TOO_LARGE": ParseFailureReason.LIMIT,
    "OFFICE_CONVERSION_TOO_LARGE": ParseFailureReason.LIMIT,
    "IMAGE_TOO_LARGE": ParseFailureReason.LIMIT,
    "CELL_COUNT_EXCEEDED": ParseFailureReason.LIMIT,
    "OUTPUT_LIMIT_EXCEEDED": ParseFailureReason.LIMIT,
    "OVERSIZED_RESULT": ParseFailureReason.LIMIT,
}
"""What lies in the document; every other error is the service's."""
PASSING = frozenset(
    {
        "TIMEOUT", "CAPACITY_TIMEOUT", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE", "GPU_ALLOCATION_ERROR",
        "GPU_POOL_SATURATED", "GPU_UNAVAILABLE", "BATCH_QUEUE_FULL", "QUEUE_FULL", "RATE_LIMIT", "SUBPROCESS_CRASHED",
        "LLM_PROVIDER_ERROR", "LLM_OUTPUT_PARSE_FAILED", "BATCH_ORPHANED", "REGION_UNAVAILABLE",
    }
)  # fmt: skip
"""Errors after which the same bytes may be parsed at another time. The split is ours; the service documents none."""

Json = Mapping[str, Any]


def read_answer(data: bytes, links: Links) -> JobSeen:
    """Read the answer to a look, and fetch the result if it is behind a link."""
    try:
        answer = _object(load_json(data))
    except ValueError as error:
        return NoAnswer(message=f"HTTP 200, but not JSON: {error}"[:LONGEST_MESSAGE])
    match answer.get("status"):
        case "Completed":
            return _completed(data, _object(answer.get("result")), links)
        case "Failed" | "Cancelled" as status:
            return _failed(str(status), answer)
        case str(status):
            return JobRunning(status=status[:LONGEST_MESSAGE])
        case _:
            return NoAnswer(message="HTTP 200, but the body tells no status")


def _completed(data: bytes, response: Json, links: Links) -> JobSeen:
    result, usage = _object(response.get("result")), _object(response.get("usage"))
    pages, credits_used = _whole(usage.get("num_pages")), _exact(usage.get("credits"))
    if not result:
        return NoAnswer(message="the job is completed, but its answer holds no result")
    if result.get("type") != "url":
        return JobResult(data=data, pages=pages, credits_used=credits_used)
    try:
        fetched = links.get(str(result.get("url")))
    except LinkFailed as error:
        if not error.too_large:
            return NoAnswer(message=str(error))
        reason = ParseFailureReason.LIMIT
        return JobFailed(reason=reason, message=str(error), retryable=False, pages=pages, credits_used=credits_used)
    return JobResult(data=fetched, pages=pages, credits_used=credits_used)


def _failed(status: str, answer: Json) -> JobFailed:
    error = _object(answer.get("error"))
    name = str(error.get("name") or "")
    said = error.get("message") or answer.get("reason") or "no reason given"
    return JobFailed(
        reason=REASONS.get(name, ParseFailureReason.SERVICE_FAILED),
        message=f"{name or status}: {said}"[:LONGEST_MESSAGE],
        retryable=name in PASSING,
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _exact(value: Any) -> Decimal | None:
    """Return a number of credits; None for what is no number, or has more digits than are kept."""
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return None
    number = Decimal(value)
    if not number.is_finite() or number < 0 or number.adjusted() > DECIMALS:
        return None
    shifted = number.scaleb(DECIMALS)
    return number if shifted == shifted.to_integral_value() else None


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, Mapping) else {}
