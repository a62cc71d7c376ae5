"""Extracting: one event loop keeps many calls in flight and never waits for the ledger or the disk itself.

One claimed row goes: load the parsed text, check its size, open an attempt (commit), call, keep the answer (commit),
judge it, write file and row (commit). Each step is a value or a row, so whatever dies, the next worker goes on from
what was committed. :class:`ExtractWorker` decides what is claimed and when to end; :class:`DocumentTask` is one row.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from extraction_assets.workers.claiming import LONGEST_IDLE_S, ClaimRhythm
from extraction_assets.workers.document_task import DocumentTask, LineStopped, TaskContext
from extraction_assets.workers.lost_texts import LostTexts
from extraction_assets.workers.pacer import Pacer
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.steps import Steps
from extraction_assets.workers.tools import Tools
from extraction_core.calls import Provider
from extraction_core.collection import Collection
from resources.ledger.claims import Claimed, Held

T = TypeVar("T")
log = logging.getLogger(__name__)

LEDGER_THREADS = 4
BEYOND_CALLS = 2
"""One row is being written down for so many that are called, at most. The place of a row whose answer came goes to
another call, or the disk would keep calls waiting; and this bounds how many rows a worker has."""


class Stop(StrEnum):
    """Why a worker is asked to end early."""

    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class Ending(StrEnum):
    """How a worker ended."""

    FINISHED = "finished"  # nothing of the run is unfinished
    HELD_BY_OTHERS = "held_by_others"  # what is unfinished is held by other live workers
    SUBMITTED = "submitted"  # what is unfinished is at the provider, in message batches
    LINE_STOPPED = "line_stopped"  # a fault of account or machine: the queue was left as it is
    STOPPED = "stopped"  # asked to end early


@dataclass(frozen=True, kw_only=True)
class ExtractOutcome:
    """How the work ended; ``reason`` for a stopped line or for what is at the provider, ``holders`` for the rest."""

    ending: Ending
    reason: str = ""
    holders: tuple[str, ...] = ()


class StopSignal:
    """Asks a worker on another thread to end early."""

    def __init__(self) -> None:
        self.why: Stop | None = None
        self._wake: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

    def ask(self, why: Stop) -> None:
        """Ask; the worker wakes up at once."""
        with self._lock:
            self.why = self.why or why
            self._wake()

    def connect(self, wake: Callable[[], object]) -> None:
        """Set what wakes the worker; called by the worker."""
        with self._lock:
            self._wake = wake
            if self.why:
                wake()


class ExtractWorker:
    """Works on one extraction run until nothing of it is left for this worker.

    Args:
        tools: the resources.
        session: the worker's life.
        collection: what is asked of every document.
        provider: makes the calls; closed at the end.
        run_id: the extraction run.
        stop: asks to end early.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a worker is made of
        self,
        tools: Tools,
        session: WorkerSession,
        collection: Collection,
        provider: Provider,
        run_id: int,
        stop: StopSignal,
    ) -> None:
        self._tools, self._session, self._run_id, self._stop = tools, session, run_id, stop
        self._queue = tools.ledger.results
        self._provider = provider
        self._pacer = Pacer(collection.settings.concurrency, tools.timing.retry_in_run_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unanswered: set[Held] = set()
        self._line_stopped: LineStopped | None = None
        self._threads = ThreadPoolExecutor(LEDGER_THREADS, thread_name_prefix="ledger")
        self._wake = asyncio.Event()
        self._rhythm = ClaimRhythm()
        self._lost_texts = LostTexts(tools, collection)
        self._steps = Steps(tools, collection.settings.max_attempts, self._in_thread)
        self._context = TaskContext(
            tools=tools,
            session=session,
            collection=collection,
            provider=provider,
            pacer=self._pacer,
            stop=stop,
            in_thread=self._in_thread,
            steps=self._steps,
            lost_texts=self._lost_texts,
            answered=self._answered,
        )

    async def run(self) -> ExtractOutcome:
        """Work. Every claimed row has ended or was given back when this returns."""
        loop = asyncio.get_running_loop()
        self._stop.connect(lambda: loop.call_soon_threadsafe(self._wake.set))
        try:
            return await self._work()
        finally:
            self._stop.connect(lambda: None)
            await self._end_tasks()
            await self._steps.close()
            await self._provider.close()
            self._threads.shutdown(wait=True)
            self._lost_texts.close()

    async def _work(self) -> ExtractOutcome:
        while not (self._stop.why or self._line_stopped):
            self._wake.clear()
            wait_s = self._rhythm.wait_s(self._taken, self._pacer.limit)
            if not wait_s and (claimed := await self._claim()):
                for claim in claimed:
                    self._start(claim)
            elif self._tasks:
                await self._wait_for_change(wait_s or LONGEST_IDLE_S)
            elif outcome := await self._look_at_rest():
                return outcome
        if self._line_stopped:
            return ExtractOutcome(ending=Ending.LINE_STOPPED, reason=str(self._line_stopped))
        return ExtractOutcome(ending=Ending.STOPPED, reason=str(self._stop.why))

    @property
    def _taken(self) -> int:
        """How many of the places for calls cannot be given to other rows now."""
        most = self._pacer.limit + self._pacer.limit // BEYOND_CALLS
        return max(len(self._unanswered), self._pacer.limit - (most - len(self._tasks)))

    async def _claim(self) -> list[Claimed]:
        if not self._session.is_fresh or (self._pacer.pause_s and not self._pacer.put_off):
            return []
        free, lease_s = self._pacer.limit - self._taken, self._tools.timing.lease_s
        self._rhythm.begin()
        claim = await self._in_thread(lambda: self._queue.claim(self._session.worker_id, self._run_id, free, lease_s))
        self._rhythm.end(found_rows=bool(claim))
        return claim

    def _start(self, claim: Claimed) -> None:
        self._session.hold(self._queue, claim.held)
        self._unanswered.add(claim.held)
        task = asyncio.create_task(self._one(claim))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _one(self, claim: Claimed) -> None:
        try:
            await DocumentTask(self._context, claim).run()
        except LineStopped as stopped:
            self._line_stopped = self._line_stopped or stopped
            await self._in_thread(lambda: self._queue.release([claim.held]))
        finally:
            self._unanswered.discard(claim.held)
        self._session.drop(self._queue, claim.held)

    def _answered(self, held: Held) -> None:
        """Let another row be claimed in the place of one that needs no call any more."""
        self._unanswered.discard(held)
        self._wake.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._rhythm.row_ended()
        self._wake.set()
        if not task.cancelled() and (error := task.exception()):
            log.error("a row was left to its lease: the ledger could not be written", exc_info=error)

    async def _wait_for_change(self, longest_s: float) -> None:
        """Wait until a row ends or the worker is asked to; what came since the wake was cleared is not missed."""
        try:
            async with asyncio.timeout(None if longest_s == math.inf else longest_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _look_at_rest(self) -> ExtractOutcome | None:
        """Nothing is in flight here and nothing could be claimed: end, or wait for what is due later."""
        stats = await self._in_thread(lambda: self._queue.stats(self._run_id))
        if not stats.active:
            return ExtractOutcome(ending=Ending.FINISHED)
        if stats.next_due_in_ms is not None:
            wait_s = max(stats.next_due_in_ms / 1000, self._pacer.pause_s, 0.01)
            await self._wait_for_change(min(wait_s, LONGEST_IDLE_S))
            return None
        if await self._in_thread(lambda: self._queue.reclaim(self._run_id)):
            return None
        return await self._look_at_holders()

    async def _look_at_holders(self) -> ExtractOutcome | None:
        """Everything left is held by others: leave it to those who live, wait for the leases of those who may not."""
        holders = await self._in_thread(lambda: self._tools.ledger.workers.holders(self._run_id))
        alive_ms = 2 * self._tools.timing.heartbeat_s * 1000
        if holders and all(row["beat_age_ms"] is not None and row["beat_age_ms"] <= alive_ms for row in holders):
            return ExtractOutcome(ending=Ending.HELD_BY_OTHERS, holders=tuple(row["holder"] for row in holders))
        await self._wait_for_change(LONGEST_IDLE_S)
        return None

    async def _end_tasks(self) -> None:
        """Let calls in flight end for a moment, so that what was paid for is written down; then cut them off."""
        deadline = time.monotonic() + self._tools.timing.cancel_grace_s
        while self._tasks and time.monotonic() < deadline:
            await asyncio.wait(self._tasks, timeout=max(0.0, deadline - time.monotonic()))
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
