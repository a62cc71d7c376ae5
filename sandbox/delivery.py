"""How an answer reaches the client: at once, late, on release, in half, or not at all."""

import asyncio
import json
import socket
import struct
from collections import Counter

from aiohttp import web

from sandbox.body import Json, JsonObject
from sandbox.errors import error_body
from sandbox.faults import Fault

RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close sends RST instead of FIN


class Holds:
    """Answers kept back by name until a test releases them."""

    def __init__(self) -> None:
        """Start with nothing held."""
        self.held: Counter[str] = Counter()
        self._gates: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    async def wait(self, name: str) -> None:
        """Wait until `name` is released; ends early by cancellation when the client leaves."""
        gate = self._gates.setdefault(name, asyncio.Event())
        self.held[name] += 1
        await self._notify()
        try:
            await gate.wait()
        finally:
            self.held[name] -= 1

    def release(self, name: str) -> int:
        """Let all answers go that are held under `name` now; returns how many."""
        gate = self._gates.pop(name, None)
        if gate is None:
            return 0
        gate.set()
        return self.held[name]

    async def until(self, name: str, at_least: int, seconds: float) -> bool:
        """Wait until that many answers are held; False when the time is over."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.held[name] >= at_least)
        except TimeoutError:
            return False
        return True

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def turn_away(request: web.Request, fault: Fault, request_id: str, model: str) -> web.StreamResponse:
    """Answer a request that is not processed."""
    options = fault.options
    if fault.kind == "drop":
        return cut(request, options["how"])
    if fault.kind == "raw":
        return web.Response(
            status=options["status"], body=_bytes(options["body"]), content_type=options["content_type"]
        )
    status, body = options["status"], options["body"]
    if body is None:
        body = error_body(status, f"model: {model}" if status == web.HTTPNotFound.status_code else None, request_id)
    is_text = isinstance(body, str)
    content_type = options["content_type"] or ("text/html" if is_text else "application/json")
    return web.Response(status=status, headers=options["headers"], body=_bytes(body), content_type=content_type)


async def deliver(request: web.Request, body: JsonObject, fault: Fault | None, holds: Holds) -> web.StreamResponse:
    """Send a processed answer, by way of the fault if there is one."""
    if fault is not None and fault.kind == "slow":
        await asyncio.sleep(fault.options["seconds"])
    if fault is not None and fault.kind == "hold":
        await holds.wait(fault.options["name"])
    if fault is None or fault.kind != "drop":
        return web.json_response(body)
    if fault.options["when"] == "mid_body":
        await _send_half(request, json.dumps(body).encode())
    return cut(request, fault.options["how"])


async def _send_half(request: web.Request, body: bytes) -> None:
    response = web.StreamResponse(headers={"content-type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])


def cut(request: web.Request, how: str) -> web.StreamResponse:
    """End the connection without an answer: `fin` closes it, `reset` aborts it."""
    transport = request.transport
    if transport is not None and how == "reset":
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        transport.abort()
    elif transport is not None:
        transport.close()
    return web.Response()


def _bytes(body: Json) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
