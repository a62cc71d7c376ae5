"""The web application: the Messages API with its batches, Reducto's parse jobs, and `/_sandbox/` to inspect them."""

import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from sandbox import control
from sandbox.access import api_key, check_access
from sandbox.batches import control as batch_control
from sandbox.batches import endpoints
from sandbox.body import parse_json
from sandbox.delivery import deliver, turn_away
from sandbox.errors import ApiError, error_body
from sandbox.fault_kinds import COUNT_TOKENS, MESSAGES, REQUEST, SHAPES
from sandbox.log import ENTRY
from sandbox.messages import build_message
from sandbox.prompt import Prompt, read_prompt
from sandbox.reducto import control as job_control
from sandbox.reducto import endpoints as job_endpoints
from sandbox.state import STATE, State

MAX_BODY = 32 * 1024 * 1024
OF_REDUCTO = ("/upload", "/parse", "/job", "/cancel/", "/storage/")  # it has a shape of its own for errors
SAYS_WHAT_IT_IS = {"x-sandbox": "rules-not-a-model"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(log_file: Path | None = None, batch_seconds: float | None = 0) -> web.Application:
    """Build the application with a log, a bill and a fault book of its own; a batch takes `batch_seconds`."""
    app = web.Application(middlewares=[_edge], client_max_size=MAX_BODY)
    app[STATE] = State(log_file, batch_seconds)
    app.router.add_post(MESSAGES, _create_message)
    app.router.add_post(COUNT_TOKENS, _count_tokens)
    endpoints.add_routes(app)
    control.add_routes(app)
    batch_control.add_routes(app)
    job_endpoints.add_routes(app)
    job_control.add_routes(app)
    app.on_response_prepare.append(_add_headers)
    app.on_cleanup.append(_end)
    return app


@web.middleware
async def _edge(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Log what the API endpoints are asked, and turn every error into the API's own shape."""
    if request.path.startswith("/_sandbox"):
        return await _answer(request, handler, "")
    log = request.app[STATE].log
    entry = log.open(request.method, request.path, _request_id(), api_key(request), _retry_count(request))
    request[ENTRY] = entry
    try:
        response = await _answer(request, handler, entry.request_id)
        if request.transport is not None and not request.transport.is_closing():
            entry.status = response.status
        return response
    finally:
        log.close(entry)


async def _answer(request: web.Request, handler: Handler, request_id: str) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        status, message = error.status, error.message
    except web.HTTPRequestEntityTooLarge:
        status, message = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None
    except web.HTTPException as error:
        status, message = error.status, error.reason
    body = {"detail": message} if request.path.startswith(OF_REDUCTO) else error_body(status, message, request_id)
    return web.json_response(body, status=status)


async def _create_message(request: web.Request) -> web.StreamResponse:
    state, entry = request.app[STATE], request[ENTRY]
    prompt = await _prompt(request)
    fault = state.faults.take((MESSAGES,), (*REQUEST, *SHAPES), prompt.user_text)
    entry.fault = fault.kind if fault else None
    if fault is not None and fault.before_processing:
        return turn_away(request, fault, f"model: {prompt.model.id}")
    message = build_message(prompt, state.cache, fault)
    entry.bill(message)
    return await deliver(request, message, fault, state.holds)


async def _count_tokens(request: web.Request) -> web.StreamResponse:
    state, entry = request.app[STATE], request[ENTRY]
    prompt = await _prompt(request, counting=True)
    fault = state.faults.take((COUNT_TOKENS,), REQUEST, prompt.user_text)
    entry.fault = fault.kind if fault else None
    if fault is not None and fault.before_processing:
        return turn_away(request, fault, f"model: {prompt.model.id}")
    return await deliver(request, {"input_tokens": prompt.tokens}, fault, state.holds)


async def _prompt(request: web.Request, *, counting: bool = False) -> Prompt:
    """Read a request as far as it can be refused."""
    version = check_access(request)
    prompt = read_prompt(parse_json(await request.read()), version, counting=counting)
    request[ENTRY].read(prompt)
    return prompt


def _retry_count(request: web.Request) -> int:
    value = request.headers.get("x-stainless-retry-count", "0")
    return int(value) if value.isdecimal() else 0


def _request_id() -> str:
    return f"req_011{secrets.token_hex(11)}"


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SAYS_WHAT_IT_IS)
    if ENTRY in request:
        response.headers["request-id"] = request[ENTRY].request_id


async def _end(app: web.Application) -> None:
    app[STATE].batches.stop()
    app[STATE].log.end()
