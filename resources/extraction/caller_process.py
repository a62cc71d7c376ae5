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
from contextlib import suppress
from pathlib import Path
from typing import Any

from extraction_core.calls import CallAnswered, CallFailed
from extraction_core.causes import Cause
from extraction_core.errors import ConfigurationError
from resources.extraction.access import Access
from resources.extraction.caller_wire import Frames, Kind, decode_count, decode_outcome, encode_settings, frame
from resources.extraction.request_body import encode_request

START_TIMEOUT_S = 120.0
"""Loading the SDK takes seconds, and more on a machine that is busy."""
ANSWER_SLACK_S = 5.0
"""How much longer than a call may take its outcome is waited for: a caller process that stands still answers never."""

_IMPORT_ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.insert(0, sys.argv[1]); from resources.extraction.caller import main; main()"
_READ_BYTES = 1 << 16


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

    async def start(self) -> None:
        """Start the process before anything is claimed, so that what keeps it from starting costs no row a try.

        Raises:
            ConfigurationError: it does not start, or cannot use the settings.
        """
        running = await self._started()
        if running.problem:
            remedy = "Correct what it names; or set it to never, to have the calls made by the worker itself."
            raise ConfigurationError("EXTRACTION_CALLER_PROCESS", None, f"{_NOT_STARTED}: {running.problem}.", remedy)

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
        asked_at, running = asyncio.get_running_loop().time(), None
        try:
            async with asyncio.timeout(self._timeout_s):
                running = await self._started()
                if running.problem:
                    return CallFailed(cause=Cause.CALLER_NOT_STARTED, message=f"{_NOT_STARTED}: {running.problem}")
                reply = await running.ask(kind, next(self._numbers), content)
        except TimeoutError:
            return _too_late(running, asked_at)
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
        """Start a process. One that does not become ready is returned as well, with its ``problem``."""
        if self._running is not None:
            await self._running.end()
        self._running = _Running()
        await self._running.start(self._settings)
        return self._running


_NOT_STARTED = "the process that makes the calls does not start"


def _too_late(running: _Running | None, asked_at: float) -> CallFailed:
    """A caller bounds its calls itself: one that told nothing meanwhile stands still, and must not make them later."""
    if running is None:
        return CallFailed(cause=Cause.CALLER_NOT_STARTED, message=f"{_NOT_STARTED} in time")
    if running.heard_at < asked_at:
        running.kill()
    return CallFailed(cause=Cause.TIMEOUT, message="no answer within the time limit")


class _Running:
    """A caller process, and our end of its socket.

    Attributes:
        is_ready: it has its settings, and runs.
        problem: why it does not start; empty while it does.
        heard_at: when it last sent something, by the loop's clock.
    """

    def __init__(self) -> None:
        self.is_ready, self.problem, self.heard_at = False, "", 0.0
        self._is_connected = False
        self._waiting: dict[int, asyncio.Future[tuple[Kind, bytes] | None]] = {}
        self._frames = Frames(self._received, self._ended)
        self._ours, self._theirs = socket.socketpair()
        self._process: asyncio.subprocess.Process | None = None
        self._transport: asyncio.Transport | None = None

    async def start(self, settings: bytes) -> None:
        """Start the process, tell it how the provider is reached, and wait until it is ready or has a problem."""
        try:
            self._process = await self._execute()
            loop = asyncio.get_running_loop()
            self._is_connected = True
            self._transport, _ = await loop.create_connection(lambda: self._frames, sock=self._ours)
            async with asyncio.timeout(START_TIMEOUT_S):
                reply = await self.ask(Kind.SETTINGS, 0, settings)
        except TimeoutError:
            self.problem = f"it is not ready after {START_TIMEOUT_S:g} s"
        except OSError as error:
            self.problem = error.strerror or type(error).__name__
        else:
            if reply is None:
                self.problem = f"it ended with exit code {await self._process.wait()}; the log has its last words"
            elif reply[0] is Kind.DEFECT:
                self.problem = reply[1].decode()
        self.is_ready = self._is_connected and not self.problem
        if self.problem:
            await self.end()

    async def ask(self, kind: Kind, number: int, content: bytes) -> tuple[Kind, bytes] | None:
        """Send a frame and return what is answered; None when the process ended before."""
        if not self._is_connected or self._transport is None:
            return None
        future: asyncio.Future[tuple[Kind, bytes] | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._transport.write(frame(kind, content, number=number))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def kill(self) -> None:
        """End the process where it stands."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def end(self) -> None:
        """Hang up and wait for the end of the process, but not for one that stands still. Safe to call twice."""
        (self._transport or self._ours).close()
        if self._process is None:
            return
        try:
            async with asyncio.timeout(ANSWER_SLACK_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    async def _execute(self) -> asyncio.subprocess.Process:
        with self._theirs as theirs:
            return await asyncio.create_subprocess_exec(
                *[sys.executable, "-P", "-c", _START, str(_IMPORT_ROOT), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal is the worker's to take
            )

    def _received(self, kind: Kind, number: int, content: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        future = self._waiting.get(number)
        if future is not None and not future.done():  # nobody waits any more for a call that was cut off
            future.set_result((kind, content))

    def _ended(self) -> None:
        with suppress(OSError):  # a write that failed ends the reading: what had arrived before is still there
            while data := self._ours.recv(_READ_BYTES):
                self._frames.data_received(data)
        self._is_connected = self.is_ready = False
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)
