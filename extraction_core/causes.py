"""Why a document failed, one name per cause, and what follows from each.

The name is what the ledger stores, the UI shows and a person greps for. :data:`POLICIES` says, per cause, whether
another try can help and whether the try counts towards ``max_attempts``. Parse failures keep the names of
:class:`extraction_core.parsing.ParseFailureReason`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why a call or an answer was not usable, or why no call was made."""

    # the provider did not serve
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    # the outcome of the call is not known
    TIMEOUT = "timeout"
    CONNECTION_LOST = "connection_lost"
    UNREADABLE_RESPONSE = "unreadable_response"
    # the provider refuses this request
    INVALID_REQUEST = "invalid_request"
    REQUEST_TOO_LARGE = "request_too_large"
    # the provider refuses this account or configuration
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    BILLING = "billing"
    SPEND_LIMIT = "spend_limit"
    MODEL_NOT_FOUND = "model_not_found"
    # this machine cannot make calls
    CALLER_NOT_STARTED = "caller_not_started"
    # the model answered, but not usably
    TRUNCATED = "truncated"
    REFUSED = "refused"
    CONTEXT_EXCEEDED = "context_exceeded"
    EMPTY_ANSWER = "empty_answer"
    UNEXPECTED_STOP = "unexpected_stop"
    UNPARSABLE = "unparsable"
    AMBIGUOUS = "ambiguous"
    SCHEMA_MISMATCH = "schema_mismatch"
    # the message batch brought no answer
    BATCH_EXPIRED = "batch_expired"
    BATCH_LOST = "batch_lost"
    BATCH_CANCELLED = "batch_cancelled"
    MISSING_FROM_RESULTS = "missing_from_results"
    UNKNOWN_RESULT = "unknown_result"
    CUSTOM_ID_MISMATCH = "custom_id_mismatch"
    # no call was made
    TOO_LONG = "too_long"
    COST_LIMIT = "cost_limit"
    EXHAUSTED = "exhausted"
    PARSED_TEXT_LOST = "parsed_text_lost"
    POOR_QUALITY = "poor_quality"
    FILE_NOT_READ = "file_not_read"
    # the answer is good, but could not be put down
    OUTPUT_NOT_WRITTEN = "output_not_written"
    # a defect of ours, recorded at the worker's edge
    WORKER_ERROR = "worker_error"


class Remedy(StrEnum):
    """What a failed try leads to."""

    WAIT = "wait"  # the provider did not serve: the same request again, later; has a bound of its own
    RETRY = "retry"  # the same request again, while attempts remain
    LARGER = "larger"  # once more, with a larger output limit
    ASK_AGAIN = "ask_again"  # once more, with the error told
    FINAL = "final"  # another try would fail the same way
    STOP = "stop"  # a fault of the account or the machine: stop the line, leave the queue as it is


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What follows from a cause."""

    remedy: Remedy
    counted: bool = True
    """Whether the try counts towards ``max_attempts``."""
    cost_known: bool = True
    """False: the provider may have billed an answer that never arrived; the attempt is abandoned, cost unknown."""


_REFUSED_ACCOUNT = Policy(remedy=Remedy.STOP, counted=False)

POLICIES: Mapping[Cause, Policy] = {
    Cause.RATE_LIMITED: Policy(remedy=Remedy.WAIT, counted=False),
    Cause.OVERLOADED: Policy(remedy=Remedy.WAIT, counted=False),
    Cause.SERVER_ERROR: Policy(remedy=Remedy.RETRY),
    Cause.TIMEOUT: Policy(remedy=Remedy.RETRY, cost_known=False),
    Cause.CONNECTION_LOST: Policy(remedy=Remedy.RETRY, cost_known=False),
    Cause.UNREADABLE_RESPONSE: Policy(remedy=Remedy.RETRY, cost_known=False),
    Cause.INVALID_REQUEST: Policy(remedy=Remedy.FINAL),
    Cause.REQUEST_TOO_LARGE: Policy(remedy=Remedy.FINAL),
    Cause.AUTHENTICATION: _REFUSED_ACCOUNT,
    Cause.PERMISSION: _REFUSED_ACCOUNT,
    Cause.BILLING: _REFUSED_ACCOUNT,
    Cause.SPEND_LIMIT: _REFUSED_ACCOUNT,
    Cause.MODEL_NOT_FOUND: _REFUSED_ACCOUNT,
    Cause.CALLER_NOT_STARTED: Policy(remedy=Remedy.STOP, counted=False),
    Cause.TRUNCATED: Policy(remedy=Remedy.LARGER),
    Cause.REFUSED: Policy(remedy=Remedy.FINAL),
    Cause.CONTEXT_EXCEEDED: Policy(remedy=Remedy.FINAL),
    Cause.EMPTY_ANSWER: Policy(remedy=Remedy.ASK_AGAIN),
    Cause.UNEXPECTED_STOP: Policy(remedy=Remedy.ASK_AGAIN),
    Cause.UNPARSABLE: Policy(remedy=Remedy.ASK_AGAIN),
    Cause.AMBIGUOUS: Policy(remedy=Remedy.ASK_AGAIN),
    Cause.SCHEMA_MISMATCH: Policy(remedy=Remedy.ASK_AGAIN),
    Cause.BATCH_EXPIRED: Policy(remedy=Remedy.WAIT, counted=False),
    Cause.BATCH_LOST: Policy(remedy=Remedy.FINAL, cost_known=False),
    Cause.BATCH_CANCELLED: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.MISSING_FROM_RESULTS: Policy(remedy=Remedy.RETRY, cost_known=False),
    Cause.UNKNOWN_RESULT: Policy(remedy=Remedy.FINAL, cost_known=False),
    Cause.CUSTOM_ID_MISMATCH: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.TOO_LONG: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.COST_LIMIT: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.EXHAUSTED: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.PARSED_TEXT_LOST: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.POOR_QUALITY: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.FILE_NOT_READ: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.OUTPUT_NOT_WRITTEN: Policy(remedy=Remedy.FINAL, counted=False),
    Cause.WORKER_ERROR: Policy(remedy=Remedy.RETRY),
}

REMEDIES_FOR_A_PERSON: Mapping[str, str] = {
    Cause.RATE_LIMITED: "The provider limits the rate; launch again later or lower `concurrency`.",
    Cause.OVERLOADED: "The provider was overloaded; launch again later.",
    Cause.SERVER_ERROR: "The provider failed; launch again later.",
    Cause.TIMEOUT: "No answer in time; launch again, or lower `max_output_tokens`.",
    Cause.CONNECTION_LOST: "The connection broke, so what was billed is unknown; launch again.",
    Cause.UNREADABLE_RESPONSE: "Something between us and the provider answered; check ANTHROPIC_BASE_URL and proxies.",
    Cause.INVALID_REQUEST: "The provider refuses the request; the message says which parameter.",
    Cause.REQUEST_TOO_LARGE: "Split the document.",
    Cause.TRUNCATED: "Raise `max_output_tokens`, or ask for less in the schema.",
    Cause.REFUSED: "The model declines this document; extract it by hand or with another model.",
    Cause.CONTEXT_EXCEEDED: "Split the document, or use a model with a larger context.",
    Cause.BATCH_EXPIRED: "The provider did not get to it within a day; launch again, or use `mode: realtime`.",
    Cause.BATCH_LOST: (
        "What became of its message batch cannot be known; ask again with `extraction-assets batches resubmit ID`."
    ),
    Cause.MISSING_FROM_RESULTS: "The provider's results leave it out; launch again.",
    Cause.UNKNOWN_RESULT: "The provider answered in a way that is not known here; the message names it.",
    Cause.CUSTOM_ID_MISMATCH: "The batch held a result that was never asked for; compare with the provider's console.",
    Cause.TOO_LONG: "Split the document, or use a model with a larger context.",
    Cause.COST_LIMIT: "Raise `max_cost_usd`, then launch again.",
    Cause.EXHAUSTED: (
        "All attempts are used; change the document, schema or instructions, or ask again with "
        "`extraction-assets retry --reset-attempts` or `select: all`."
    ),
    Cause.SCHEMA_MISMATCH: "See which field does not fit; make the schema or the instructions clearer.",
    Cause.OUTPUT_NOT_WRITTEN: (
        "Make the path writable, then launch again; the answer is kept and is not paid for again."
    ),
    Cause.POOR_QUALITY: "Get a better file; or accept the flaw with `quality: warn`, then launch again.",
    Cause.FILE_NOT_READ: "Replace or remove the named file; or do without it with `on_failed_file: leave_out`.",
    "no_text_layer": "The document is a scan or a picture; run OCR on it, or set `scans: document_block` (or `ocr`).",
    "unreadable_text": "Its letters mean nothing without their font; set `scans: document_block` (or `ocr`).",
    "limit": "Split the file or make it smaller; the message names the limit.",
    "source_changed": "The file changed while it was read; launch again.",
    "source_missing": "The file is gone or cannot be read; put it back, or let the next scan remove it.",
    "password": "Remove the password.",
    "corrupt": "The file is damaged; get it again.",
    "unsupported": "Convert the file to a supported format.",
    "empty_file": "The file is empty; get it again.",
    "empty_text": "The document holds no text.",
    "service_failed": "The parse service gives no text for this document; the message has its words.",
    "service_busy": "The parse service took no job; it is asked again with the next try.",
    "job_expired": "Whether its job was billed is not known; ask for a new one with `select: failed`.",
}
"""Advice per cause for the terminal and the UI; a cause without a line needs a look at its message."""
