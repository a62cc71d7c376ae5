"""A real daemon on the code location of this folder."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from tests.sensors.support import PROJECT_ROOT
from tests.webserver import end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOOK_EVERY_S = 0.2


class Daemon:
    """A running daemon.

    Args:
        process: it.
        log: the file with its output and that of everything it starts.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    def wait_until(self, condition: Callable[[], bool], within_s: float) -> None:
        """Look again and again until a condition holds."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(LOOK_EVERY_S)


@contextmanager
def running_daemon(log: Path) -> Iterator[Daemon]:
    """Start a daemon with this process's environment; end it with all that it started."""
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", "tests.sensors.location"]
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield Daemon(process, log)
        finally:
            started = psutil.Process(process.pid).children(recursive=True)
            end(process)
            for child in started:  # the code server, and what it runs
                if child.is_running():
                    child.kill()
