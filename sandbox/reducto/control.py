"""`/_sandbox/reducto`: how a test sets how long jobs take and reads the books of uploads, jobs and credits."""

from decimal import Decimal

from aiohttp import web

from sandbox.body import parse_json
from sandbox.clock import MAX_SECONDS
from sandbox.errors import refuse
from sandbox.state import STATE

DURATION = "parse_seconds"


def add_routes(app: web.Application) -> None:
    """Mount the control endpoints."""
    app.router.add_routes(
        [
            web.get("/_sandbox/reducto", _books),
            web.post("/_sandbox/reducto", _set_duration),
            web.delete("/_sandbox/reducto", _forget),
        ]
    )


async def _books(request: web.Request) -> web.Response:
    """Show every job that was accepted, oldest first, gone ones too, and what they cost together."""
    jobs = request.app[STATE].jobs
    shown = [job.shown(jobs.clock.now()) for job in jobs.jobs.values()]
    credits_used = sum((Decimal(str(job["credits"])) for job in shown), Decimal(0))
    pages = sum(job["num_pages"] for job in shown)
    return web.json_response(
        {"jobs": shown, "uploads": len(jobs.uploads), "pages": pages, "credits": str(credits_used)}
    )


async def _set_duration(request: web.Request) -> web.Response:
    """Set how long jobs take from now on, by the sandbox's clock; null is for ever."""
    body = parse_json(await request.read())
    seconds = body.get(DURATION, "missing")
    if set(body) != {DURATION} or not (seconds is None or _is_duration(seconds)):
        refuse(f"{DURATION}: Input should be null or a number from 0 to {MAX_SECONDS:.0f}")
    request.app[STATE].jobs.parse_seconds = seconds
    return web.json_response({DURATION: seconds})


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS


async def _forget(request: web.Request) -> web.Response:
    request.app[STATE].jobs.forget()
    return web.json_response({"jobs": []})
