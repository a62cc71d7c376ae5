"""Processes that are measured: wall and processor time, and memory, of a process and of all that it started itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[1]
KB, MB = 1024, 1024**2


class ChildFailedError(Exception):
    """A process that should have worked did not; the text is what it printed."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a process took.

    Attributes:
        cpu_s: user and system time, children that it waited for included.
        peak_mb: most memory of the largest of them.
        begun_at: seconds since 1970.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    begun_at: float
    output: str


def run_child(command: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end, with more variables in its environment.

    Raises:
        ChildFailedError: it did not exit with 0.
    """
    with tempfile.TemporaryFile("w+") as out:
        begun_at, begun = time.time(), time.perf_counter()
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, cwd=PROJECT_ROOT, env={**os.environ, **(variables or {})}
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        output = out.read()
    if process.returncode:
        raise ChildFailedError(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{output[-4000:]}")
    return Run(
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss * KB / MB,
        begun_at=begun_at,
        output=output,
    )
