"""Child processes of the tests: forked from a server that has everything imported, so that one starts in milliseconds.

A child is a process of its own in every way that matters here: it can be killed, can drop its privileges, and shares
no lock, connection or thread with the test.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any

from extraction_assets.chaos.children import PRELOADED as CHILDREN_OF_TRIALS
from extraction_core.failpoints import Failpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import ForkServerProcess

WAIT_S = 100.0

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "extraction_assets.workers.set_run",
        "sensors.batch_poller",  # brings dagster, which the children's module imports and which takes seconds
        "resources.output",
        "resources.parsing.reducto_service",
        *CHILDREN_OF_TRIALS,
        "anthropic",
        "psycopg",
        "pytest",
    ]
)


def start(work: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Run a function of a module in a child; its arguments are pickled."""
    child = _CONTEXT.Process(target=work, args=arguments, daemon=True)
    child.start()
    return child


def run(work: Callable[..., None], *arguments: Any) -> int:
    """Run a function in a child to its end. Returns the exit code: 0, or minus the number of the signal."""
    return end_of(start(work, *arguments))


def end_of(child: ForkServerProcess) -> int:
    """Wait for a child's end. Returns its exit code."""
    child.join(WAIT_S)
    if child.exitcode is None:
        child.kill()
        child.join()
        message = f"a child did not end within {WAIT_S:g} s"
        raise TimeoutError(message)
    return child.exitcode


def kill_self() -> None:
    """End this process as the kernel does when memory runs out: at once, without any clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


def pipe() -> tuple[Any, Any]:
    """Return a pipe for a child: the end that receives and the end that sends."""
    return _CONTEXT.Pipe(duplex=False)


class KillAt:
    """Failpoints that kill their process when the named one is passed for the n-th time."""

    def __init__(self, name: Failpoint, on_pass: int = 1) -> None:
        self._name, self._left = name, on_pass

    def __call__(self, name: Failpoint) -> None:
        """Count the passes of the named failpoint."""
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                kill_self()


class Meeting:
    """Failpoints at which several processes wait for each other once, before they read their first document."""

    def __init__(self, parties: int) -> None:
        self._barrier = _CONTEXT.Barrier(parties)
        self._passes = itertools.count()

    def __call__(self, name: Failpoint) -> None:
        """Wait at the first reading; no transaction is open there, so nobody is kept from coming."""
        if name == Failpoint.READ_SOURCE and next(self._passes) == 0:
            self._barrier.wait(WAIT_S)
