"""`/_sandbox/`: how a test scripts faults, holds answers back, and reads the request log and the bill."""

from aiohttp import web

from sandbox.body import JsonObject, parse_json
from sandbox.errors import refuse
from sandbox.state import STATE

DEFAULT_WAIT_SECONDS = 10.0


def add_routes(app: web.Application) -> None:
    """Mount the control endpoints."""
    app.router.add_routes(
        [
            web.get("/_sandbox/health", _health),
            web.get("/_sandbox/requests", _requests),
            web.delete("/_sandbox/requests", _clear_requests),
            web.get("/_sandbox/bill", _bill),
            web.get("/_sandbox/faults", _faults),
            web.post("/_sandbox/faults", _add_faults),
            web.delete("/_sandbox/faults", _clear_faults),
            web.get("/_sandbox/held", _held),
            web.post("/_sandbox/release", _release),
            web.delete("/_sandbox/cache", _clear_cache),
        ]
    )


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _requests(request: web.Request) -> web.Response:
    bodies = request.query.get("bodies") == "1"
    entries = request.app[STATE].log.entries
    return web.json_response({"requests": [entry.as_json(bodies=bodies) for entry in entries]})


async def _clear_requests(request: web.Request) -> web.Response:
    request.app[STATE].log.clear()
    return web.json_response({"requests": []})


async def _bill(request: web.Request) -> web.Response:
    state = request.app[STATE]
    await state.batches.settle()
    return web.json_response(state.log.bill())


async def _faults(request: web.Request) -> web.Response:
    return web.json_response({"faults": [fault.as_json() for fault in request.app[STATE].faults.faults]})


async def _add_faults(request: web.Request) -> web.Response:
    specs = (await _json(request)).get("faults")
    if not isinstance(specs, list):
        refuse("faults: Input should be a valid list")
    request.app[STATE].faults.add(specs)
    return await _faults(request)


async def _clear_faults(request: web.Request) -> web.Response:
    request.app[STATE].faults.faults.clear()
    return await _faults(request)


async def _held(request: web.Request) -> web.Response:
    """Show what is held; with `name` and `at_least`, first wait (`timeout` seconds at most) until so many are."""
    holds = request.app[STATE].holds
    reached = True
    if "name" in request.query:
        try:
            at_least = int(request.query.get("at_least", "1"))
            seconds = float(request.query.get("timeout", DEFAULT_WAIT_SECONDS))
        except ValueError as error:
            refuse(f"held: {error}")
        reached = await holds.until(request.query["name"], at_least, seconds)
    return web.json_response({"held": {name: n for name, n in holds.held.items() if n}, "reached": reached})


async def _release(request: web.Request) -> web.Response:
    name = (await _json(request)).get("name")
    if not isinstance(name, str):
        refuse("name: Field required")
    return web.json_response({"released": request.app[STATE].holds.release(name)})


async def _clear_cache(request: web.Request) -> web.Response:
    request.app[STATE].cache.entries.clear()
    return web.json_response({"entries": 0})


async def _json(request: web.Request) -> JsonObject:
    return parse_json(await request.read())
