"""One pace for all calls of a process: when the provider does not serve, everybody waits, and fewer call afterwards.

A refusal to serve (429, 529) pauses all calls for as long as the provider asked, and halves the number of calls in
flight; every answer adds one again. Refusals of calls that were in flight when a pause began belong to that pause:
they may lengthen it, but count as no further one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from extraction_core.causes import Cause

REFUSALS_IN_A_ROW = 6
"""Pauses without a single answer in between after which the rest of a run is put off."""


@dataclass(frozen=True, kw_only=True)
class PutOff:
    """The provider does not serve for now: documents not called yet should be tried again after ``wait_s``."""

    cause: Cause
    wait_s: float


class Pacer:
    """Paces the calls of one event loop; not thread-safe.

    Args:
        most: the most calls in flight.
        longest_pause_s: a longer pause puts the rest off instead of keeping the run waiting.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, longest_pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._longest_pause_s, self._clock = most, longest_pause_s, clock
        self.limit = most
        self._epoch = 0
        self._pauses_in_a_row = 0
        self._resume_at = 0.0
        self._cause = Cause.RATE_LIMITED

    @property
    def pause_s(self) -> float:
        """Seconds until calls may be made again; 0 when they may now."""
        return max(0.0, self._resume_at - self._clock())

    @property
    def put_off(self) -> PutOff | None:
        """Whether documents that were not called yet should be put off, and until when."""
        if self.pause_s > self._longest_pause_s or self._pauses_in_a_row >= REFUSALS_IN_A_ROW:
            return PutOff(cause=self._cause, wait_s=max(self.pause_s, self._longest_pause_s))
        return None

    def begin_call(self) -> int:
        """Return the ticket of a call that begins now."""
        return self._epoch

    def served(self) -> None:
        """An answer came."""
        self._pauses_in_a_row = 0
        self.limit = min(self._most, self.limit + 1)

    def refused(self, ticket: int, cause: Cause, wait_s: float) -> None:
        """The provider did not serve a call."""
        if ticket != self._epoch:  # it began before the pause that others have already asked for
            self._resume_at = max(self._resume_at, self._clock() + wait_s)
            return
        self._epoch += 1
        self._pauses_in_a_row += 1
        self._cause = cause
        self.limit = max(1, self.limit // 2)
        self._resume_at = max(self._resume_at, self._clock() + wait_s)
