"""One sandbox for the tests of this folder, on a free loopback port, emptied before each test."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import pytest

import sandbox

MODEL = "claude-haiku-5-5"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of the machine is not for loopback
TOTAL_SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number"}},
    "required": ["total"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Http:
    """Plain HTTP against the sandbox."""

    url: str

    def call(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> "Reply":
        """Send JSON, or bytes as they are, and return the answer whatever its status."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers or {})
        try:
            with DIRECT.open(request, timeout=10) as answer:
                return Reply(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return Reply(error.code, dict(error.headers), error.read())

    def message(self, body: object, **headers: str) -> "Reply":
        """Send a Messages request with a key and a version, unless `headers` say otherwise."""
        usual = {"x-api-key": "k", "anthropic-version": "2026-10-21", "content-type": "application/json"}
        return self.call("POST", "/v1/messages", body, usual | {k.replace("_", "-"): v for k, v in headers.items()})

    def api(self, method: str, path: str, body: object = None) -> "Reply":
        """Send a request with a key and a version to a path below `/v1/messages`."""
        return self.call(method, f"/v1/messages{path}", body, {"x-api-key": "k", "anthropic-version": "2026-10-21"})

    def batches(self) -> list[dict[str, Any]]:
        """Return the sandbox's books of its batches, oldest first."""
        return self.call("GET", "/_sandbox/batches").json["batches"]

    def durations(self, **seconds: float | None) -> None:
        """Set how long batches and cancels take."""
        reply = self.call("POST", "/_sandbox/batches", seconds)
        assert reply.status == 200, reply.body

    def advance(self, seconds: float) -> None:
        """Move the clock of the batches."""
        self.call("POST", "/_sandbox/clock", {"advance_s": seconds})

    def fault(self, kind: str, **options: Any) -> None:
        """Script one fault."""
        reply = self.call("POST", "/_sandbox/faults", {"faults": [{"kind": kind, **options}]})
        assert reply.status == 200, reply.body

    def bill(self) -> dict[str, Any]:
        """Return the bill."""
        return self.call("GET", "/_sandbox/bill").json

    def requests(self, *, bodies: bool = False) -> list[dict[str, Any]]:
        """Return the request log."""
        return self.call("GET", "/_sandbox/requests?bodies=1" if bodies else "/_sandbox/requests").json["requests"]


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[str, str]:
        """Type and message of an error body."""
        error = self.json["error"]
        return error["type"], error["message"]


def body_for(text: str, **changes: Any) -> dict[str, Any]:
    """Return the smallest useful request body."""
    messages = [{"role": "user", "content": text}]
    body = {"model": MODEL, "max_tokens": 1000, "messages": messages, **changes}
    return {name: value for name, value in body.items() if value is not None}


def asking_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the `output_config` for a schema."""
    return {"format": {"type": "json_schema", "schema": schema}}


def batch_of(*texts: str, **changes: Any) -> list[dict[str, Any]]:
    """Return the requests of a batch, `r0` and on, one for each text."""
    return [{"custom_id": f"r{n}", "params": body_for(text, **changes)} for n, text in enumerate(texts)]


@pytest.fixture(scope="session")
def _server() -> Iterator[sandbox.Background]:
    with sandbox.Background() as server:
        yield server


@pytest.fixture
def http(_server: sandbox.Background) -> Http:
    """The sandbox without batches, requests, faults or cache entries."""
    client = Http(_server.url)
    for path in ("batches", "requests", "faults", "cache"):
        client.call("DELETE", f"/_sandbox/{path}")
    return client


@pytest.fixture
def claude(http: Http) -> Iterator[anthropic.Anthropic]:
    """The real SDK as it is, without retries of its own."""
    with anthropic.Anthropic(api_key="test-key", base_url=http.url, max_retries=0) as client:
        yield client
