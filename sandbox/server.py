"""Start and stop a server: inside an event loop, or on a thread of its own."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from sandbox.app import make_app

START_SECONDS = 10.0
GRACE_SECONDS = 0.1  # for open requests at the end; 0 would mean to wait for them without a limit


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; `url` is the base URL for a client, without a trailing slash."""

    url: str
    port: int


@asynccontextmanager
async def running(
    port: int = 0, host: str = "127.0.0.1", log_file: Path | None = None, batch_seconds: float | None = 0
) -> AsyncIterator[Server]:
    """Serve while the block runs; port 0 takes a free one, and a batch takes `batch_seconds`.

    Handlers are cancelled when their client leaves, and open requests are dropped at the end.
    """
    runner = web.AppRunner(
        make_app(log_file, batch_seconds), access_log=None, handler_cancellation=True, shutdown_timeout=GRACE_SECONDS
    )
    await runner.setup()
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
        await web.SockSite(runner, listener).start()
        bound = listener.getsockname()[1]
        yield Server(f"http://{f'[{host}]' if ':' in host else host}:{bound}", bound)
    finally:
        await runner.cleanup()


class Background:
    """A server on a thread of its own, for code that has no event loop: `with Background() as server: ...`."""

    def __init__(
        self, port: int = 0, host: str = "127.0.0.1", log_file: Path | None = None, batch_seconds: float | None = 0
    ) -> None:
        """Keep the settings; the server starts on entering the block."""
        self._settings = (port, host, log_file, batch_seconds)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="sandbox", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._server: Server | None = None
        self._error: OSError | None = None

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with running(*self._settings) as self._server:
                self._ready.set()
                await self._stop.wait()
        except OSError as error:
            self._error = error
            self._ready.set()

    def __enter__(self) -> Self:
        """Start, and return once requests are accepted."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            message = "the sandbox did not start"
            raise TimeoutError(message)
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop and wait for the thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)

    @property
    def url(self) -> str:
        """The base URL for a client."""
        if self._server is None:
            message = "the sandbox is not running"
            raise RuntimeError(message)
        return self._server.url
