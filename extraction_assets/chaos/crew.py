"""The processes of a trial: started from a server that has everything imported, watched, killed, buried.

Dagster runs are records alone: a process that dies leaves its run STARTED, as a lost machine does, and it is for the
sweeper to find out.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from typing import Any, Protocol

import dagster as dg
import psutil

from extraction_assets.chaos.children import PRELOADED, tick, work
from extraction_assets.chaos.place import NAME, Place
from extraction_assets.chaos.plan import Fate
from extraction_assets.jobs import job_name

PARTITION_TAG = "dagster/partition"
LONGEST_LIFE_S = 120.0
"""No process of a trial has work for so long: one that is older hangs."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(PRELOADED)


class Receiver(Protocol):
    """The end of a pipe that receives: its class has another name on every platform."""

    def poll(self) -> bool:
        """Tell whether something came."""
        ...

    def recv(self) -> Any:
        """Return it."""
        ...

    def close(self) -> None:
        """Close this end."""
        ...


@dataclass(kw_only=True)
class Child:
    """A process and what is to become of it. ``launches`` is where a tick tells what it asks for."""

    process: ForkServerProcess
    fate: Fate
    partition_key: str | None = None
    begun: float = field(default_factory=time.monotonic)
    dagster_run_id: str | None = None
    launches: Receiver | None = None

    @property
    def age_s(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.begun

    def kill(self) -> None:
        """End it as the kernel does, if it is still there; a frozen one too."""
        self._send(signal.SIGKILL)

    def wake(self) -> None:
        """Let it go on, if it is frozen."""
        self._send(signal.SIGCONT)

    def kill_caller(self) -> int:
        """End the process that makes its calls, if it has one. Returns how many were killed."""
        with suppress(psutil.NoSuchProcess):
            callers = [one for one in psutil.Process(self.process.pid).children() if is_caller(one)]
            for caller in callers:
                caller.kill()
            return len(callers)
        return 0

    def _send(self, number: signal.Signals) -> None:
        if self.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


class Crew:
    """Starts and ends the processes of one trial.

    Args:
        place: what they are told.
        instance: where their Dagster runs are written down.
    """

    def __init__(self, place: Place, instance: dg.DagsterInstance) -> None:
        self._place, self._instance = place, instance
        self.children: list[Child] = []
        self.kills = 0
        self.faulty_exits = 0

    @property
    def workers(self) -> int:
        """How many workers are alive but for those who freeze, who must not keep others from taking over."""
        return sum(child.launches is None and not child.fate.freezes for child in self.children)

    @property
    def is_ticking(self) -> bool:
        """Whether a tick is under way."""
        return any(child.launches for child in self.children)

    def start_worker(self, partition_key: str, fate: Fate, *, as_dagster_run: bool) -> None:
        """Start a pass over a document set; one that no Dagster run stands for is somebody else's."""
        run_id = self._begin_run(partition_key) if as_dagster_run else None
        process = self._start(work, self._place, fate, partition_key, run_id)
        self.children.append(Child(process=process, fate=fate, partition_key=partition_key, dagster_run_id=run_id))

    def sleepers(self, partition_key: str) -> list[Child]:
        """Return who is frozen in a set, or will be."""
        return [child for child in self.children if child.partition_key == partition_key and child.fate.freezes]

    def start_tick(self, fate: Fate) -> None:
        """Start a tick of sweeper and poller."""
        receiver, sender = connection.Pipe(duplex=False)
        process = self._start(tick, self._place, fate, sender)
        sender.close()
        self.children.append(Child(process=process, fate=fate, launches=receiver))

    def strike(self) -> None:
        """Kill whose time has come."""
        for child in self.children:
            kill_after_s = LONGEST_LIFE_S if child.fate.kill_after_s is None else child.fate.kill_after_s
            if child.age_s > kill_after_s:
                child.kill()

    def kill_callers(self) -> int:
        """End every caller process; their workers live on. Returns how many there were."""
        return sum(child.kill_caller() for child in self.children)

    def wait(self, seconds: float) -> None:
        """Wait until a process ends, but not longer."""
        connection.wait([child.process.sentinel for child in self.children], seconds)

    def bury(self) -> list[str] | None:
        """Take leave of those that ended.

        Returns:
            The partition keys that a tick asked runs for; None when no tick came to its end.
        """
        asked: list[str] | None = None
        for child in [one for one in self.children if one.process.exitcode is not None]:
            self.children.remove(child)
            code = child.process.exitcode
            self.kills += code == -signal.SIGKILL
            self.faulty_exits += code not in (0, -signal.SIGKILL)
            if child.launches:
                asked = [*(asked or []), *_received(child.launches)] if code == 0 else asked
            elif child.dagster_run_id and code != -signal.SIGKILL:
                self._end_run(child.dagster_run_id, succeeded=code == 0)
                self._wake_before(child)
            child.process.close()
        return asked

    def end(self) -> None:
        """Kill everybody who is left."""
        for child in self.children:
            child.kill()
        for child in self.children:
            child.process.join()

    def _wake_before(self, successor: Child) -> None:
        """Who was launched after a sleeper has done its work: now it may find out."""
        for sleeper in self.sleepers(successor.partition_key or ""):
            if sleeper.begun < successor.begun:
                sleeper.wake()

    def _start(self, target: Callable[..., None], *arguments: Any) -> ForkServerProcess:
        process = _CONTEXT.Process(target=target, args=arguments, daemon=True)
        process.start()
        return process

    def _begin_run(self, partition_key: str) -> str:
        run = dg.DagsterRun(
            job_name=job_name(NAME), status=dg.DagsterRunStatus.STARTING, tags={PARTITION_TAG: partition_key}
        )
        self._instance.add_run(run)
        self._tell(run.run_id, dg.DagsterEventType.RUN_START)
        return run.run_id

    def _end_run(self, run_id: str, *, succeeded: bool) -> None:
        self._tell(run_id, dg.DagsterEventType.RUN_SUCCESS if succeeded else dg.DagsterEventType.RUN_FAILURE)

    def _tell(self, run_id: str, event: dg.DagsterEventType) -> None:
        told = dg.DagsterEvent(event_type_value=event.value, job_name=job_name(NAME))
        self._instance.handle_run_event(run_id, told, datetime.now(UTC))


def is_caller(process: psutil.Process) -> bool:
    """Whether a process is a caller process; see :mod:`resources.extraction.caller`."""
    with suppress(psutil.Error):
        return any("resources.extraction.caller" in word for word in process.cmdline())
    return False


def _received(launches: Receiver) -> Sequence[str]:
    try:
        return launches.recv() if launches.poll() else []
    except EOFError:
        return []
    finally:
        launches.close()
