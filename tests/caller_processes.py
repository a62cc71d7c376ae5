"""Caller processes as the system's list of processes shows them, and their ends."""

from __future__ import annotations

from contextlib import suppress

import psutil

from extraction_assets.chaos.crew import is_caller

WAIT_S = 100.0


def callers_of(parent: int) -> list[int]:
    """Return the caller processes that a process started and that still run."""
    return [one.pid for one in psutil.Process(parent).children() if is_caller(one)]


def wait_for_end(pid: int) -> None:
    """Block until a process has ended, whosever it is."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(WAIT_S)
