"""The states and their legal moves. Stored as text with a CHECK; a test holds Python and SQL together.

::

    row (parse run, extraction result)      attempt                       extraction run

    queued ──claim──▶ running               open ──▶ answered             open ──▶ completed
      ▲  │               │ complete           │ ├──▶ failed                   ├──▶ completed_with_errors
      │  │ cancel        ├──▶ completed       │ └──▶ abandoned                ├──▶ failed
      │  ▼               ├──▶ failed          │         │ late answer         └──▶ cancelled
      │ cancelled ◀──────┤                    └─────────┴──▶ answered
      └──release/retry/reclaim

A terminal row never changes; a later try is a new row in a new extraction run. An abandoned attempt may become
answered once, because a late answer was paid for and must be accounted for.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RowStatus(StrEnum):
    """State of a claimable row: a parse run or an extraction result."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptStatus(StrEnum):
    """State of one provider call."""

    OPEN = "open"
    ANSWERED = "answered"
    FAILED = "failed"
    ABANDONED = "abandoned"


class RunStatus(StrEnum):
    """State of an extraction run. Everything but ``open`` is derived by SQL when the run closes."""

    OPEN = "open"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Select(StrEnum):
    """Which documents of a set a run takes."""

    PENDING = "pending"
    FAILED = "failed"
    ALL = "all"
    DUE = "due"  # what the sensors ask for: never answered, or due for another try; final causes are left to people


ROW_MOVES: Mapping[RowStatus, frozenset[RowStatus]] = {
    RowStatus.QUEUED: frozenset({RowStatus.RUNNING, RowStatus.CANCELLED}),
    RowStatus.RUNNING: frozenset({RowStatus.QUEUED, RowStatus.COMPLETED, RowStatus.FAILED, RowStatus.CANCELLED}),
    RowStatus.COMPLETED: frozenset(),
    RowStatus.FAILED: frozenset(),
    RowStatus.CANCELLED: frozenset(),
}

ATTEMPT_MOVES: Mapping[AttemptStatus, frozenset[AttemptStatus]] = {
    AttemptStatus.OPEN: frozenset({AttemptStatus.ANSWERED, AttemptStatus.FAILED, AttemptStatus.ABANDONED}),
    AttemptStatus.ANSWERED: frozenset(),
    AttemptStatus.FAILED: frozenset(),
    AttemptStatus.ABANDONED: frozenset({AttemptStatus.ANSWERED}),
}

ACTIVE_ROW = frozenset({RowStatus.QUEUED, RowStatus.RUNNING})
TERMINAL_ROW = frozenset(RowStatus) - ACTIVE_ROW
