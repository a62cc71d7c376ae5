"""How an answer reaches the client: at once, late, on release, in half, or not at all."""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping

from aiohttp import web

from sandbox.body import Json, JsonObject
from sandbox.errors import error_body
from sandbox.faults import Fault
from sandbox.holds import Holds
from sandbox.log import ENTRY

RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close sends RST instead of FIN


def turn_away(request: web.Request, fault: Fault, not_found: str | None = None) -> web.StreamResponse:
    """Answer as the fault says instead of with what was asked for; `not_found` is what a 404 without a body says."""
    options = fault.options
    if fault.kind == "drop":
        return cut(request, options["how"])
    if fault.kind == "raw":
        return web.Response(
            status=options["status"], body=_bytes(options["body"]), content_type=options["content_type"]
        )
    status, body = options["status"], options["body"]
    if body is None:
        message = not_found if status == web.HTTPNotFound.status_code else None
        body = error_body(status, message, request[ENTRY].request_id)
    is_text = isinstance(body, str)
    content_type = options["content_type"] or ("text/html" if is_text else "application/json")
    return web.Response(status=status, headers=options["headers"], body=_bytes(body), content_type=content_type)


async def deliver(
    request: web.Request, body: JsonObject, fault: Fault | None, holds: Holds, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Send a processed answer, by way of the fault if there is one."""
    await wait(fault, holds)
    if fault is not None and fault.withholds:
        return await withhold(request, json.dumps(body).encode(), fault)
    return web.json_response(body, headers=headers)


async def wait(fault: Fault | None, holds: Holds) -> None:
    """Wait as long as the fault says; ends early by cancellation when the client leaves."""
    if fault is not None and fault.kind == "slow":
        await asyncio.sleep(fault.options["seconds"])
    if fault is not None and fault.kind == "hold":
        await holds.wait(fault.options["name"])


async def withhold(request: web.Request, body: bytes, fault: Fault) -> web.StreamResponse:
    """End a request that was processed without its answer, or with half of it."""
    if fault.options["when"] == "mid_body":
        response = web.StreamResponse(headers={"content-type": "application/json"})
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
    return turn_away(request, fault)


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
