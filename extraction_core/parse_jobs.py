"""Parse jobs, the pure part: the states of a parsing that a service does for us, and what a look at one showed.

::

    queued ──▶ submitting ──accepted / adopted──▶ submitted ──▶ fetched ──▶ completed
      ▲            │ │                              │  │           │
      └(provably   │ └──────▶ failed ◀──────────────┘──│───────────┘
        not made)──┘                                   ▼
                   └─────────────────────────────▶ expired

The states are kept beside the status of the parse run, which is ``running`` as long as its job is open: the row is held
by the job, so neither a claim nor a reclaim touches it. The nonce of a submission stands in the metadata of its job, so
that a job whose id was never stored can be found in the service's list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from extraction_core.parsing import ParseFailureReason

JOB_DEADLINE_S = 2 * 3600.0
"""A job that has not ended so long after its submission is given up; the service takes minutes."""
SUBMIT_S = 90.0
"""The longest a submission is on its way: its call times out after 60 s."""
MOST_RETURNS = 5
"""How often a document may come back to the queue because its submission made no job, before it fails."""
MOST_TRIES = 3
"""Submissions of the same bytes without a person asking: each may have been billed."""


class ParseJobState(StrEnum):
    """How far the job of a parse run is."""

    SUBMITTING = "submitting"  # committed before the call: from now on there may be a job
    SUBMITTED = "submitted"
    FETCHED = "fetched"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"  # not done in time, or gone from the service, or never found again


PARSE_JOB_MOVES: Mapping[ParseJobState, frozenset[ParseJobState]] = {
    ParseJobState.SUBMITTING: frozenset({ParseJobState.SUBMITTED, ParseJobState.FAILED, ParseJobState.EXPIRED}),
    ParseJobState.SUBMITTED: frozenset({ParseJobState.FETCHED, ParseJobState.FAILED, ParseJobState.EXPIRED}),
    ParseJobState.FETCHED: frozenset({ParseJobState.COMPLETED, ParseJobState.FAILED, ParseJobState.EXPIRED}),
    ParseJobState.COMPLETED: frozenset(),
    ParseJobState.FAILED: frozenset(),
    ParseJobState.EXPIRED: frozenset(),
}
OPEN_JOB = frozenset(state for state, after in PARSE_JOB_MOVES.items() if after)


@dataclass(frozen=True, kw_only=True)
class JobAccepted:
    """The service has made a job."""

    job_id: str


@dataclass(frozen=True, kw_only=True)
class JobRefused:
    """No job was made.

    Attributes:
        message: the service's words.
        stop: it is the account or the configuration: no document would be taken.
        wait_s: the service is busy: the same again after this many seconds; None: this document is refused for good.
    """

    message: str
    stop: bool = False
    wait_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobUnclear:
    """Whether a job was made is not known."""

    message: str


@dataclass(frozen=True, kw_only=True)
class JobRunning:
    """Not ended, as far as we understand: every status that is not known to be an end."""

    status: str


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """Done.

    Attributes:
        data: the result's bytes as they were served.
        pages: pages that were billed; None: not told.
        credits_used: what the job cost in the service's own unit, exact; None: not told.
    """

    data: bytes
    pages: int | None
    credits_used: Decimal | None


@dataclass(frozen=True, kw_only=True)
class JobFailed:
    """The service has given up. ``retryable``: a new job for the same bytes may succeed; the rest as in a result."""

    reason: ParseFailureReason
    message: str
    retryable: bool
    pages: int | None = None
    credits_used: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class JobGone:
    """The service does not know the job: not yet, if it is young; ``for_good``: it says that it deleted it."""

    message: str
    for_good: bool


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """The look itself failed and is made again. ``retry_after_s``: when the service asks for it."""

    message: str
    retry_after_s: float | None = None


JobSeen = JobRunning | JobResult | JobFailed | JobGone | NoAnswer
