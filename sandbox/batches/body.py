"""The body of a create: what the API refuses at once. What is wrong inside `params` only shows in the results."""

import re
from collections.abc import Iterator

from sandbox.batches.batch import Sent
from sandbox.body import Json, JsonObject
from sandbox.errors import refuse

MAX_REQUESTS = 100_000
MAX_ID = 64
CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def read_requests(body: JsonObject) -> list[Sent]:
    """Check a body and return custom id and params of each request.

    Raises:
        ApiError: 400, with the words of the API.

    """
    if "requests" not in body:
        refuse("requests: Field required")
    for name in body:
        if name != "requests":
            refuse(f"{name}: Extra inputs are not permitted")
    requests = body["requests"]
    if not isinstance(requests, list):
        refuse("requests: Input should be a valid list")
    if not requests:
        refuse("requests: List should have at least 1 item after validation, not 0")
    if len(requests) > MAX_REQUESTS:
        refuse(f"requests: List should have at most {MAX_REQUESTS} items after validation, not {len(requests)}")
    sent = list(_read(requests))
    seen: set[str] = set()
    for custom_id, _ in sent:
        if custom_id in seen:
            refuse(f"requests: custom_id's must be unique within a batch. Duplicate custom_id found: {custom_id}")
        seen.add(custom_id)
    return sent


def _read(requests: list[Json]) -> Iterator[Sent]:
    for position, request in enumerate(requests):
        where = f"requests.{position}"
        if not isinstance(request, dict):
            refuse(f"{where}: Input should be a valid dictionary")
        for name in ("custom_id", "params"):
            if name not in request:
                refuse(f"{where}.{name}: Field required")
        _check_id(f"{where}.custom_id", request["custom_id"])
        if not isinstance(request["params"], dict):
            refuse(f"{where}.params: Input should be a valid dictionary")
        for name in request:
            if name not in {"custom_id", "params"}:
                refuse(f"{where}.{name}: Extra inputs are not permitted")
        yield request["custom_id"], request["params"]


def _check_id(where: str, custom_id: Json) -> None:
    if not isinstance(custom_id, str):
        refuse(f"{where}: Input should be a valid string")
    if len(custom_id) > MAX_ID:
        refuse(f"{where}: String should have at most {MAX_ID} characters")
    if not CUSTOM_ID.fullmatch(custom_id):
        refuse(f"{where}: String should match pattern '^{CUSTOM_ID.pattern}$'")
