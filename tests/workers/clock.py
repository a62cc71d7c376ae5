"""A clock of the test's own."""

from __future__ import annotations


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now
