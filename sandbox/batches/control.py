"""`/_sandbox/clock` and `/_sandbox/batches`: how a test moves the time, sets durations and reads the books."""

from aiohttp import web

from sandbox.batches.batch import Batch
from sandbox.body import JsonObject, parse_json
from sandbox.charge import BatchedRequest
from sandbox.clock import MAX_SECONDS, timestamp
from sandbox.errors import refuse
from sandbox.state import STATE

DURATIONS = ("batch_seconds", "cancel_seconds")


def add_routes(app: web.Application) -> None:
    """Mount the control endpoints of the batches."""
    app.router.add_routes(
        [
            web.get("/_sandbox/clock", _clock),
            web.post("/_sandbox/clock", _advance),
            web.get("/_sandbox/batches", _batches),
            web.post("/_sandbox/batches", _set_durations),
            web.delete("/_sandbox/batches", _forget),
        ]
    )


async def _clock(request: web.Request) -> web.Response:
    clock = request.app[STATE].batches.clock
    return web.json_response({"now": timestamp(clock.now()), "offset_s": clock.offset_s})


async def _advance(request: web.Request) -> web.Response:
    request.app[STATE].batches.advance(_seconds(await _json(request, {"advance_s"}), "advance_s"))
    return await _clock(request)


async def _batches(request: web.Request) -> web.Response:
    """Show every batch that was accepted, oldest first, deleted ones too, and each of its requests."""
    books = request.app[STATE].batches
    await books.settle()
    shown = [_shown(batch) for batch in books.batches.values()]
    return web.json_response({"batches": shown, **{name: getattr(books, name) for name in DURATIONS}})


async def _set_durations(request: web.Request) -> web.Response:
    """Set how long batches, or cancels, take from now on; null is for ever."""
    books = request.app[STATE].batches
    body = await _json(request, set(DURATIONS))
    durations = {name: None if body[name] is None else _seconds(body, name) for name in body}
    for name, seconds in durations.items():
        setattr(books, name, seconds)
    return web.json_response({name: getattr(books, name) for name in DURATIONS})


async def _forget(request: web.Request) -> web.Response:
    request.app[STATE].batches.forget()
    return web.json_response({"batches": []})


def _shown(batch: Batch) -> JsonObject:
    moments = {name: timestamp(getattr(batch, name)) for name in ("created_at", "ended_at", "cancel_initiated_at")}
    return {
        "id": batch.id,
        **moments,
        "processing_status": batch.status,
        "request_counts": batch.counts(),
        "deleted": batch.deleted,
        "requests": [_shown_request(request) for request in _requests(batch)],
    }


def _requests(batch: Batch) -> list[BatchedRequest]:
    """Return the requests as they were sent; one that is not processed yet has no result type."""
    if batch.ended_at is not None:
        return [result.request for result in batch.results]
    return [BatchedRequest(batch_id=batch.id, custom_id=custom_id) for custom_id in batch.custom_ids]


def _shown_request(request: BatchedRequest) -> JsonObject:
    return {**request.as_json(), "billed_times": int(request.billed)}


async def _json(request: web.Request, known: set[str]) -> JsonObject:
    body = parse_json(await request.read())
    for name in body:
        if name not in known:
            refuse(f"{name}: unknown setting")
    return body


def _seconds(body: JsonObject, name: str) -> float:
    value = body.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        refuse(f"{name}: Input should be a number of seconds")
    if not 0 <= value <= MAX_SECONDS:
        refuse(f"{name}: Input should be from 0 to {MAX_SECONDS:.0f}")
    return value
