"""Reducto's endpoints: uploads, jobs, their list, and the storage that links lead to, which asks for no key.

Left out are webhooks and what is not parsing: extract, split, edit, classify and pipelines.
"""

from aiohttp import web

from sandbox.access import REFUSED_KEY
from sandbox.body import JsonObject, parse_json
from sandbox.delivery import deliver, turn_away
from sandbox.errors import ApiError, refuse
from sandbox.fault_kinds import JOB, JOBS, LOOKS, REQUEST, STOP, STORED, SUBMIT, UPLOAD
from sandbox.faults import Fault
from sandbox.log import ENTRY
from sandbox.reducto.job import Job
from sandbox.state import STATE

MAX_UPLOAD = 100_000_000
DEFAULT_PAGE, MAX_PAGE = 100, 500


def add_routes(app: web.Application) -> None:
    """Mount the endpoints."""
    app.router.add_routes(
        [
            web.get("/version", _version),
            web.post("/upload", _upload),
            web.delete("/upload/{id:.+}", _delete_upload),
            web.post("/parse", _parse),
            web.post("/parse_async", _submit),
            web.get("/job/{id}", _look),
            web.delete("/job/{id}", _delete),
            web.get("/jobs", _list),
            web.post("/cancel/{id}", _cancel),
            web.put("/storage/uploads/{id}", _put),
            web.get("/storage/results/{name}", _stored),
        ]
    )


async def _version(_: web.Request) -> web.Response:
    return web.json_response("sandbox")


async def _upload(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    _check_key(request)
    data = await _uploaded(request)
    fault = _take(request, UPLOAD, (data or b"").decode(errors="replace"))
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    file_id = state.jobs.upload(data)
    address = f"{_origin(request)}/storage/uploads/{file_id.removeprefix('reducto://')}"
    return await deliver(request, {"file_id": file_id, "presigned_url": address}, fault, state.holds)


async def _uploaded(request: web.Request) -> bytes | None:
    if request.content_type != "multipart/form-data":
        return None
    field = (await request.clone(client_max_size=MAX_UPLOAD).post()).get("file")
    if not isinstance(field, web.FileField):
        refuse("file: Field required")
    return field.file.read()


async def _delete_upload(request: web.Request) -> web.Response:
    _check_key(request)
    file_id = request.match_info["id"]
    request.app[STATE].jobs.uploads.pop(file_id, None)
    return web.json_response({"file_id": file_id})


async def _put(request: web.Request) -> web.Response:
    request.app[STATE].jobs.uploads[f"reducto://{request.match_info['id']}"] = await request.read()
    return web.Response()


async def _submit(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    _check_key(request)
    raw = await request.read()
    text = raw.decode()
    fault = _take(request, SUBMIT, text)
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    by_url = state.faults.take((SUBMIT,), ("by_url",), text) is not None
    late = state.faults.take((SUBMIT,), ("listed_late",), text)
    job = state.jobs.accept(parse_json(raw), by_url=by_url, listed_late=late.options["seconds"] if late else 0.0)
    return await deliver(request, {"job_id": job.id}, fault, state.holds)


async def _parse(request: web.Request) -> web.StreamResponse:
    """Parse while the client waits."""
    jobs = request.app[STATE].jobs
    _check_key(request)
    job = jobs.accept(parse_json(await request.read()), by_url=False)
    job.seconds = 0.0
    answer = job.answer(jobs.clock.now(), _link(request, job))
    if answer["error"]:
        raise ApiError(answer["error"]["code"], answer["error"]["message"])
    return web.json_response(answer["result"])


async def _look(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    job = _found(request)
    fault = _take(request, JOB, _names(job))
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    told = state.faults.take((JOB,), LOOKS, _names(job))
    body = _told(told) if told else job.answer(state.jobs.clock.now(), _link(request, job))
    return await deliver(request, body, fault, state.holds)


def _told(fault: Fault) -> JsonObject:
    """Return what a fault makes a look show, whatever the job is."""
    nothing: JsonObject = {"result": None, "progress": None, "reason": None, "error": None}
    if fault.kind == "job_status":
        return {**nothing, "status": fault.options["status"]}
    error = {"code": 500, "name": fault.options["name"], "message": fault.options["message"]}
    return {**nothing, "status": "Failed", "reason": fault.options["message"], "error": error}


async def _list(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    _check_key(request)
    fault = _take(request, JOBS, "")
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    try:
        limit, start = int(request.query.get("limit", DEFAULT_PAGE)), int(request.query.get("cursor", "0"))
    except ValueError as error:
        refuse(f"query: {error}")
    if not 1 <= limit <= MAX_PAGE:
        refuse(f"limit: Input should be from 1 to {MAX_PAGE}")
    now, jobs = state.jobs.clock.now(), state.jobs.listed()
    with_config = request.query.get("exclude_configs") != "true"
    page = [job.listed(now, with_config=with_config) for job in jobs[start : start + limit]]
    more = str(start + limit) if len(jobs) > start + limit else None
    return await deliver(request, {"jobs": page, "next_cursor": more}, fault, state.holds)


async def _cancel(request: web.Request) -> web.StreamResponse:
    job = _found(request)
    fault = _take(request, STOP, _names(job))
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    request.app[STATE].jobs.cancel(job)
    return await deliver(request, {}, fault, request.app[STATE].holds)


async def _delete(request: web.Request) -> web.Response:
    job = _found(request)
    job.deleted = True
    return web.json_response({"job_id": job.id})


async def _stored(request: web.Request) -> web.StreamResponse:
    state = request.app[STATE]
    job = state.jobs.follow(request.match_info["name"])
    fault = _take(request, STORED, _names(job))
    if fault is not None and fault.before_processing:
        return turn_away(request, fault)
    return await deliver(request, job.full_result(), fault, state.holds)


def _check_key(request: web.Request) -> None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key or key == REFUSED_KEY:
        raise ApiError(web.HTTPUnauthorized.status_code, "Invalid API key")


def _found(request: web.Request) -> Job:
    _check_key(request)
    return request.app[STATE].jobs.find(request.match_info["id"])


def _take(request: web.Request, endpoint: str, text: str) -> Fault | None:
    fault = request.app[STATE].faults.take((endpoint,), REQUEST, text)
    request[ENTRY].fault = fault.kind if fault else None
    return fault


def _names(job: Job) -> str:
    """Return the text by which a fault can be meant for a job: its id and its configuration's metadata."""
    return f"{job.id}\n{(job.config.get('async') or {}).get('metadata')}"


def _link(request: web.Request, job: Job) -> str:
    return f"{_origin(request)}/storage/results/{request.app[STATE].jobs.link_to(job)}" if job.by_url else ""


def _origin(request: web.Request) -> str:
    return f"{request.scheme}://{request.host}"
