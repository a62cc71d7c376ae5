"""Doing for many what each of them asks for alone: what is asked while a slice is at work makes up the next one.

It turns one commit per row and step into one per slice, which is most of what a document costs. Slices begin at most
every :data:`INTERVAL_S`: whoever asks alone is served at once, and under load a slice has company at the price of a
wait that is nothing beside a call.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST = 100
"""Requests of one slice: other writers of the ledger get through between two."""
INTERVAL_S = 0.05
"""From the beginning of one slice to that of the next, unless the next is full already."""


class InThread(Protocol):
    """Runs blocking work beside the event loop."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run it."""
        ...


class Slices(Generic[Asked, Answer]):
    """Gathers the requests of one event loop.

    Args:
        work: does a slice, on a thread; returns the answers in the order of the requests. An exception among them is
            raised where that one was asked for. When it raises, each request is tried once more by itself, so that one
            of them never costs a neighbour; so it must bear to be repeated.
        in_thread: runs it.
        most: requests of one slice.
        may_be_dropped: whether what nobody waits for any more, and was not begun, need not be done.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Sequence[Answer | Exception]],
        in_thread: InThread,
        most: int = MOST,
        *,
        may_be_dropped: bool = False,
    ) -> None:
        self._work, self._in_thread, self._most, self._may_be_dropped = work, in_thread, most, may_be_dropped
        self._waiting: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._begun_s = -math.inf

    async def ask(self, request: Asked) -> Answer:
        """Have a request done with the next slice; as a rule even when who asked does not wait for it any more."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._empty())
        return await future

    async def drain(self) -> None:
        """Wait until everything that was asked for is done."""
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def _empty(self) -> None:
        while self._waiting:
            await self._keep_time()
            if self._may_be_dropped:
                self._waiting = [one for one in self._waiting if not one[1].done()]
            part, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            if not part:
                return
            try:
                answers = await self._do([request for request, _ in part])
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                answers = [error] * len(part)
            for (_, future), answer in zip(part, answers, strict=True):
                if future.done():  # whoever asked was cut off
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _keep_time(self) -> None:
        """Let the interval pass, so that a busy step is done for several at a time."""
        loop = asyncio.get_running_loop()
        wait_s = self._begun_s + INTERVAL_S - loop.time()
        if wait_s > 0 and len(self._waiting) < self._most:
            await asyncio.sleep(wait_s)
        self._begun_s = loop.time()

    async def _do(self, requests: Sequence[Asked]) -> Sequence[Answer | BaseException]:
        try:
            return await self._in_thread(lambda: self._work(requests))
        except Exception:
            if len(requests) == 1:
                raise
        return [await self._do_alone(request) for request in requests]

    async def _do_alone(self, request: Asked) -> Answer | BaseException:
        try:
            (answer,) = await self._in_thread(lambda: self._work([request]))
        except Exception as error:  # noqa: BLE001 - as above
            return error
        return answer
