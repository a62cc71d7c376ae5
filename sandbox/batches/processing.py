"""From the requests of a batch to their results, by the rules that also answer `/v1/messages`."""

import asyncio
import json
import time

from sandbox.batches.batch import Batch, Result
from sandbox.body import JsonObject
from sandbox.charge import BatchedRequest
from sandbox.errors import ApiError, error_type, refuse
from sandbox.fault_kinds import CREATE, MESSAGES, ROWS, SHAPES
from sandbox.faults import Fault, FaultBook
from sandbox.messages import build_message
from sandbox.prompt import Prompt, read_prompt
from sandbox.usage import PromptCache

BREATH_SECONDS = 0.02  # how long other requests to the server wait for their turn


async def process(batch: Batch, faults: FaultBook, cache: PromptCache) -> list[Result]:
    """Return the results in the order of the requests; other requests are served in between."""
    processed = batch.processed
    stopped = {"type": "expired" if batch.cancel_initiated_at is None else "canceled"}
    results: list[Result] = []
    resumed = time.monotonic()
    for position, (custom_id, params) in enumerate(batch.sent):
        request = BatchedRequest(batch_id=batch.id, custom_id=custom_id)
        try:
            prompt = _read(params, batch.version, request)
            result = _answer(prompt, request, faults, cache) if position < processed else stopped
        except ApiError as error:
            refusal = _errored(error_type(error.status), error.message)
            result = refusal if position < processed else stopped
        request.result_type = str(result.get("type"))
        results.append(Result(request, result_line(custom_id, result)))
        if time.monotonic() - resumed > BREATH_SECONDS:
            await asyncio.sleep(0)
            resumed = time.monotonic()
    return results


def result_line(custom_id: str, result: JsonObject) -> bytes:
    """Return one line of the results."""
    return json.dumps({"custom_id": custom_id, "result": result}).encode() + b"\n"


def _read(params: JsonObject, version: str, request: BatchedRequest) -> Prompt:
    """Read the params as a body of `/v1/messages`, less what batches do not take."""
    if params.get("stream"):
        refuse('"stream=True" is not supported in the Message Batches API')
    prompt = read_prompt(params, version)
    request.read(prompt)
    request.texts = None
    return prompt


def _answer(prompt: Prompt, request: BatchedRequest, faults: FaultBook, cache: PromptCache) -> JsonObject:
    fault = faults.take((MESSAGES, CREATE), (*SHAPES, *ROWS), prompt.user_text)
    if fault is not None and fault.kind in ROWS:
        result = _scripted(fault)
    else:
        result = {"type": "succeeded", "message": build_message(prompt, cache, fault, service_tier="batch")}
    message = result.get("message")
    if result.get("type") == "succeeded" and isinstance(message, dict):
        # A reply that a test scripted may call itself standard: it came in a batch, and is priced as one.
        request.bill({**message, "usage": {**(message.get("usage") or {}), "service_tier": "batch"}})
    return result


def _scripted(fault: Fault) -> JsonObject:
    if fault.kind == "result":
        return fault.options["result"]
    if fault.kind == "errored":
        return _errored(fault.options["error"], fault.options["message"])
    return {"type": fault.kind}


def _errored(kind: str, message: str) -> JsonObject:
    """Return an errored result; the error is nested twice, as the API does."""
    error = {"details": {"error_visibility": "user_facing"}, "type": kind, "message": message}
    return {"type": "errored", "error": {"type": "error", "error": error, "request_id": None}}
