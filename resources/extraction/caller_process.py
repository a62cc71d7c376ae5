"""Calls made by a process of their own, so that a worker's ledger and its calls do not share one interpreter.

Preparing, opening, keeping and judging take Python about as long as the SDK's part of a call. In one process the two
take turns; in two they run at the same time. See :mod:`resources.extraction.caller` for the other end.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extraction_core.calls import CallAnswered, CallFailed
from extraction_core.causes import Cause
from resources.extraction.access import Access
from resources.extraction.caller_wire import Frames, Kind, decode_count, decode_outcome, encode_settings, frame
from resources.extraction.request_body import encode_request

START_TIMEOUT_S = 120.0
"""Loading the SDK takes seconds, and more on a machine that is busy."""
ANSWER_SLACK_S = 5.0
"""How much longer than a call may take its outcome is waited for: a caller process that stands still answers never."""

_IMPORT_ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.insert(0, sys.argv[1]); from resources.extraction.caller import main; main()"


class CallerProcess:
    """Makes calls as :class:`resources.extraction.realtime.RealtimeProvider` does, elsewhere. Used from one event loop.

    When the process ends, its calls in flight have lost their connection, and the next call starts another.

    Args:
        access: credentials and address.
        calls_in_flight: the most calls at a time.
        request_timeout_s: the longest a call may take in total.
    """

    def __init__(self, access: Access, *, calls_in_flight: int, request_timeout_s: float) -> None:
        self._settings = encode_settings(access, calls_in_flight, request_timeout_s)
        self._timeout_s = request_timeout_s + ANSWER_SLACK_S
        self._numbers = itertools.count(1)
        self._running: _Running | None = None
        self._starting: asyncio.Task[_Running] | None = None

    async def call(self, request: Mapping[str, Any]) -> CallAnswered | CallFailed:
        """Make one call. Every outcome is a value; only a defect of ours raises."""
        body = encode_request(request)
        if isinstance(body, CallFailed):
            return body
        reply = await self._ask(Kind.CALL, body)
        return reply if isinstance(reply, CallFailed) else decode_outcome(*reply)

    async def count_tokens(self, request: Mapping[str, Any]) -> int | None:
        """Ask how many tokens a request is. Free of charge; None when the server cannot say."""
        body = encode_request(request)
        reply = body if isinstance(body, CallFailed) else await self._ask(Kind.COUNT, body)
        return None if isinstance(reply, CallFailed) else decode_count(reply[1])

    async def close(self) -> None:
        """End the process, and what is in flight with it."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._running is not None:
            await self._running.end()

    async def _ask(self, kind: Kind, content: bytes) -> tuple[Kind, bytes] | CallFailed:
        try:
            running = await self._started()
            async with asyncio.timeout(self._timeout_s):
                reply = await running.ask(kind, next(self._numbers), content)
        except TimeoutError:
            return CallFailed(cause=Cause.TIMEOUT, message="no answer within the time limit")
        except OSError as error:
            message = f"the process that makes the calls cannot be started: {error.strerror}"
            return CallFailed(cause=Cause.CONNECTION_LOST, message=message)
        if reply is None:
            message = "the process that makes the calls ended before it answered"
            return CallFailed(cause=Cause.CONNECTION_LOST, message=message)
        if reply[0] is Kind.DEFECT:
            raise RuntimeError(f"in the process that makes the calls: {reply[1].decode()}")
        return reply

    async def _started(self) -> _Running:
        """Return the process, or start another if it ended. All who ask while it starts share what comes of that."""
        if self._running is not None and self._running.is_ready:
            return self._running
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> _Running:
        """Start a process; one that ended before it was ready is returned as well, and answers nothing."""
        if self._running is not None:
            await self._running.end()
        self._running = await _Running.start()
        await self._running.make_ready(self._settings)
        return self._running


class _Running:
    """A running caller process, and our end of its socket."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[int, asyncio.Future[tuple[Kind, bytes] | None]] = {}
        self._transport: asyncio.Transport
        self._is_alive, self.is_ready = True, False

    @classmethod
    async def start(cls) -> _Running:
        """Start the process; what it is sent before it reads waits in the socket."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-P", "-c", _START, str(_IMPORT_ROOT), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal is the worker's to take
            )
        running = cls(process)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: Frames(running._received, running._ended), sock=ours)
        running._transport = transport
        return running

    async def make_ready(self, settings: bytes) -> None:
        """Tell it how the provider is reached, and wait until it is ready, has ended, or takes too long."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                self.is_ready = await self.ask(Kind.SETTINGS, 0, settings) is not None
        except TimeoutError:
            await self.end()

    async def ask(self, kind: Kind, number: int, content: bytes) -> tuple[Kind, bytes] | None:
        """Send a frame and return what is answered; None when the process ended before."""
        if not self._is_alive:
            return None
        future: asyncio.Future[tuple[Kind, bytes] | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._transport.write(frame(kind, number, content))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    async def end(self) -> None:
        """Hang up, on which the process ends; wait for it, and not for one that stands still."""
        self._transport.close()
        try:
            async with asyncio.timeout(ANSWER_SLACK_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _received(self, kind: Kind, number: int, content: bytes) -> None:
        future = self._waiting.get(number)
        if future is not None and not future.done():  # nobody waits any more for a call that was cut off
            future.set_result((kind, content))

    def _ended(self) -> None:
        self._is_alive = self.is_ready = False
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)
