"""The caller process: makes the calls of one worker, which starts it by :mod:`resources.extraction.caller_process`.

It lives as long as the other end of its socket. When that is gone, however its worker died, it ends at once: nobody
would write down what the calls in flight bring.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, cast

from resources.extraction.caller_wire import Frames, Kind, decode_settings, encode_count, encode_outcome, frame
from resources.extraction.sdk import load_sdk

if TYPE_CHECKING:
    from resources.extraction.realtime import RealtimeProvider

Reply = tuple[Kind, bytes]
"""The kind of a frame and its content."""


def main() -> None:
    """Serve the socket whose descriptor is the second argument, until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever interrupts the worker lets it end its calls
        signal.signal(number, signal.SIG_IGN)
    load_sdk()
    asyncio.run(_serve(socket.socket(fileno=int(sys.argv[2]))))


async def _serve(connection: socket.socket) -> None:
    await asyncio.get_running_loop().create_connection(Caller, sock=connection)
    await asyncio.Event().wait()  # the process ends with its connection


class Caller(Frames):
    """Answers frames."""

    def __init__(self) -> None:
        super().__init__(self._asked, lambda: os._exit(0))
        self._provider: RealtimeProvider
        self._transport: asyncio.WriteTransport
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def _asked(self, kind: Kind, number: int, content: bytes) -> None:
        if kind is Kind.SETTINGS:
            self._transport.write(frame(*self._take(content), number=number))
            return
        task = asyncio.create_task(self._answer(kind, number, content))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self, settings: bytes) -> Reply:
        from resources.extraction.realtime import RealtimeProvider  # noqa: PLC0415 - after the SDK was loaded

        try:
            self._provider = RealtimeProvider(**decode_settings(settings))
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            return _told(error)
        return Kind.READY, b""

    async def _answer(self, kind: Kind, number: int, content: bytes) -> None:
        try:
            if kind is Kind.CALL:
                reply = encode_outcome(await self._provider.call_encoded(content))
            else:
                reply = encode_count(await self._provider.count_tokens_encoded(content))
        except Exception as error:  # noqa: BLE001 - as above
            reply = _told(error)
        self._transport.write(frame(*reply, number=number))


def _told(error: Exception) -> Reply:
    """Return what the worker is told of an exception; where it came from stands in the log, which is the worker's."""
    traceback.print_exception(error)
    return Kind.DEFECT, f"{type(error).__name__}: {error}".encode("utf-8", "replace")
