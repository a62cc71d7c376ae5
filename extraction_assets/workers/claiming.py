"""When a worker claims: rows are claimed several at a time, and no claim is tried for nothing time and again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

LONGEST_IDLE_S = 2.0
SHARE = 8
INTERVAL_S = 0.1
"""A claim waits until an eighth of the places is free, so that rows are claimed several at a time; but not longer than
this, and so long after one that found nothing."""


class ClaimRhythm:
    """Tells how long the next claim is put off.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._claimed_at, self._pause_s, self._found_rows = -math.inf, INTERVAL_S, True

    def wait_s(self, in_flight: int, places: int) -> float:
        """Return how long the next claim is put off; infinite while every place is taken.

        Args:
            in_flight: rows that the worker has.
            places: rows that it may have.
        """
        free = places - in_flight
        if not in_flight:
            return 0.0
        if free < 1:
            return math.inf
        if self._found_rows and free >= places // SHARE:
            return 0.0
        return max(0.0, self._claimed_at + self._pause_s - self._clock())

    def begin(self) -> None:
        """Note that a claim begins: unless a row ends meanwhile, one that finds nothing is not repeated soon."""
        self._pause_s = LONGEST_IDLE_S

    def end(self, *, found_rows: bool) -> None:
        """Note what a claim found."""
        self._claimed_at, self._found_rows = self._clock(), found_rows
        if found_rows:
            self._pause_s = INTERVAL_S

    def row_ended(self) -> None:
        """Note that a row ended: it may be in the queue again."""
        self._pause_s = INTERVAL_S
