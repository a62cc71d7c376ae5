"""The endpoints below `/v1/messages/batches`."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from sandbox.access import check_access
from sandbox.batches.batch import Batch
from sandbox.batches.body import read_requests
from sandbox.batches.book import not_found
from sandbox.batches.results import lines_of, read_script, send_lines
from sandbox.body import JsonObject, parse_json
from sandbox.delivery import deliver, turn_away, wait, withhold
from sandbox.errors import ApiError, refuse
from sandbox.fault_kinds import (
    BATCHES,
    CANCEL,
    CANCELING,
    CREATE,
    DELETE,
    LATE,
    LIST,
    REQUEST,
    RESULTS,
    RETRIEVE,
)
from sandbox.faults import Fault
from sandbox.log import ENTRY
from sandbox.state import STATE

MAX_BODY = 256 * 1024 * 1024
DEFAULT_LIMIT, MAX_LIMIT = 20, 1_000
LOOK_SECONDS = 10.0  # a batch that takes longer to process is still shown as in progress
WHILE_RUNNING = {"retry-after": "10"}


def add_routes(app: web.Application) -> None:
    """Mount the endpoints."""
    one = f"{BATCHES}/{{id}}"
    app.router.add_routes(
        [
            web.post(BATCHES, _create),
            web.get(BATCHES, _list),
            web.get(one, _retrieve),
            web.delete(one, _delete),
            web.post(f"{one}/cancel", _cancel),
            web.get(f"{one}/results", _results),
        ]
    )


async def _create(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    version = check_access(request)
    if (request.content_length or 0) > MAX_BODY:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY)
    raw = await request.clone(client_max_size=MAX_BODY).read()
    sent = await asyncio.to_thread(lambda: read_requests(parse_json(raw)))
    text = raw.decode()
    fault = _take(request, CREATE, text)
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    late = {kind: state.faults.take((CREATE,), (kind,), text) for kind in LATE}
    seconds = {kind: one.options["seconds"] for kind, one in late.items() if one is not None}
    batch = await state.batches.accept(version, sent, **seconds)
    request[ENTRY].batch_id = batch.id
    return await deliver(request, _body(request, batch), fault, state.holds)


async def _list(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    check_access(request)
    limit, after_id, before_id = _cursor(request)
    await state.batches.settle(LOOK_SECONDS)
    page, has_more = state.batches.page(limit, after_id, before_id)
    fault = _take(request, LIST, "")
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    body = {
        "data": [_body(request, batch) for batch in page],
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }
    return await deliver(request, body, fault, state.holds)


def _cursor(request: web.Request) -> tuple[int, str | None, str | None]:
    text, after_id, before_id = (request.query.get(name) for name in ("limit", "after_id", "before_id"))
    if after_id and before_id:
        refuse("Only one of after_id and before_id can be given")
    try:
        limit = DEFAULT_LIMIT if text is None else int(text)
    except ValueError:
        refuse("limit: Input should be a valid integer, unable to parse string as an integer")
    if limit < 1:
        refuse("limit: Input should be greater than or equal to 1")
    if limit > MAX_LIMIT:
        refuse(f"limit: Input should be less than or equal to {MAX_LIMIT}")
    return limit, after_id, before_id


async def _retrieve(request: web.Request) -> web.StreamResponse:
    return await _one(request, RETRIEVE, lambda batch: _body(request, batch))


async def _cancel(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]

    def cancel(batch: Batch) -> JsonObject:
        for_ever = state.faults.take((CANCEL,), CANCELING, batch.names) is not None
        state.batches.cancel(batch, for_ever=for_ever)
        return _body(request, batch)

    return await _one(request, CANCEL, cancel)


async def _delete(request: web.Request) -> web.StreamResponse:
    def delete(batch: Batch) -> JsonObject:
        request.app[STATE].batches.delete(batch)
        return {"id": batch.id, "type": "message_batch_deleted"}

    return await _one(request, DELETE, delete)


async def _results(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    batch = await _find(request)
    fault = _take(request, RESULTS, batch.names)
    if fault is not None and fault.before_processing:
        return turn_away(request, fault, not_found(batch.id))
    if batch.ended_at is None or batch.archived_at(state.batches.clock.now()):
        raise ApiError(web.HTTPNotFound.status_code, f"Message Batch {batch.id} has no available results.")
    script = read_script(state.faults, batch)
    lines = lines_of(batch, script)
    await wait(fault, state.holds)
    if fault is not None and fault.withholds:
        return await withhold(request, b"".join(lines), fault)
    return await send_lines(request, lines, script, state.holds)


async def _one(request: web.Request, endpoint: str, act: Callable[[Batch], JsonObject]) -> web.StreamResponse:
    """Answer a request about one batch with what `act` returns."""
    batch = await _find(request)
    fault = _take(request, endpoint, batch.names)
    if fault is not None and fault.before_processing:
        return turn_away(request, fault, not_found(batch.id))
    body = act(batch)
    headers = WHILE_RUNNING if endpoint == RETRIEVE and batch.ended_at is None else None
    return await deliver(request, body, fault, request.app[STATE].holds, headers)


async def _find(request: web.Request) -> Batch:
    """Return the batch of the address, once it was seen whether it has ended."""
    check_access(request)
    books = request.app[STATE].batches
    await books.settle(LOOK_SECONDS)
    batch = books.find(request.match_info["id"])
    request[ENTRY].batch_id = batch.id
    return batch


def _take(request: web.Request, endpoint: str, text: str) -> Fault | None:
    fault = request.app[STATE].faults.take((endpoint,), REQUEST, text)
    request[ENTRY].fault = fault.kind if fault else None
    return fault


def _body(request: web.Request, batch: Batch) -> JsonObject:
    return batch.body(request.app[STATE].batches.clock.now(), f"{request.scheme}://{request.host}")
