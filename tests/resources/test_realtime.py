"""One call against the sandbox, with the real SDK over HTTP: every outcome is a value with its own name."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from extraction_core.answers import Accepted, judge
from extraction_core.calls import CallAnswered, CallFailed
from extraction_core.causes import Cause
from extraction_core.output_schema import SchemaValidator, provider_schema
from extraction_core.prompting import Question, build_request
from resources.extraction.access import access_from
from resources.extraction.realtime import RealtimeProvider
from tests.core.handed_cases import error_response, needs_cases
from tests.factories import INSTRUCTIONS, MODEL, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.sandbox_server import SandboxServer

DOCUMENT = "# R770\n\nModel: R770\n\nPrice USD: 1000\n"
QUESTION = Question(
    model=MODEL,
    instructions=INSTRUCTIONS,
    schema=SCHEMA,
    enforced_schema=provider_schema(SCHEMA).schema,
    max_output_tokens=1000,
)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One way in which a call brings no answer, and what it is translated to."""

    fault: Mapping[str, Any]
    cause: Cause
    message: str = ""


def status(code: int, message: str | None = None, **options: Any) -> Mapping[str, Any]:
    body = None if message is None else {"type": "error", "error": {"type": "an_error", "message": message}}
    return {"kind": "status", "status": code, **({"body": body} if body else {}), **options}


SPEND_CODE = {"error": {"type": "x", "message": "no", "details": {"error_code": "workspace_spend_limit"}}}

REFUSALS = {
    "400": Refusal(fault=status(400, "messages: bad"), cause=Cause.INVALID_REQUEST, message="messages: bad"),
    "400 credit": Refusal(fault=status(400, "Your credit balance is too low"), cause=Cause.BILLING),
    "400 spend": Refusal(
        fault=status(400, "You have reached your specified API usage limits"), cause=Cause.SPEND_LIMIT
    ),
    "400 code": Refusal(fault={"kind": "status", "status": 400, "body": SPEND_CODE}, cause=Cause.SPEND_LIMIT),
    "401": Refusal(fault=status(401), cause=Cause.AUTHENTICATION, message="HTTP 401: API key is invalid."),
    "402": Refusal(fault=status(402), cause=Cause.BILLING),
    "403": Refusal(fault=status(403), cause=Cause.PERMISSION),
    "404 model": Refusal(fault=status(404, "model: claude-nope"), cause=Cause.MODEL_NOT_FOUND),
    "404": Refusal(fault=status(404, "Not found"), cause=Cause.INVALID_REQUEST),
    "408": Refusal(fault=status(408), cause=Cause.TIMEOUT),
    "409": Refusal(fault=status(409), cause=Cause.TIMEOUT),
    "413": Refusal(fault=status(413), cause=Cause.REQUEST_TOO_LARGE),
    "413 html": Refusal(fault=status(413) | {"body": "<html>too large</html>"}, cause=Cause.REQUEST_TOO_LARGE),
    "422": Refusal(fault=status(422, "schema"), cause=Cause.INVALID_REQUEST),
    "429": Refusal(fault=status(429), cause=Cause.RATE_LIMITED),
    "429 spend": Refusal(fault=status(429, "reached its spend limit"), cause=Cause.SPEND_LIMIT),
    "500": Refusal(fault=status(500), cause=Cause.SERVER_ERROR),
    "502 html": Refusal(fault=status(502) | {"body": "<html>bad gateway</html>"}, cause=Cause.TIMEOUT),
    "503": Refusal(fault=status(503), cause=Cause.SERVER_ERROR),
    "504": Refusal(fault=status(504), cause=Cause.TIMEOUT),
    "529": Refusal(fault=status(529), cause=Cause.OVERLOADED),
    "200 html": Refusal(fault={"kind": "raw", "body": "<html>Sign in</html>"}, cause=Cause.UNREADABLE_RESPONSE),
    "200 json": Refusal(
        fault={"kind": "raw", "content_type": "application/json", "body": {"ok": True}}, cause=Cause.UNREADABLE_RESPONSE
    ),
    "200 empty": Refusal(
        fault={"kind": "raw", "content_type": "application/json", "body": ""}, cause=Cause.UNREADABLE_RESPONSE
    ),
    **{
        f"drop {when} {how}": Refusal(fault={"kind": "drop", "when": when, "how": how}, cause=Cause.CONNECTION_LOST)
        for when in ("before", "after", "mid_body")
        for how in ("fin", "reset")
    },
}


def ask(document: str = DOCUMENT, *, timeout_s: float = 10.0, **changes: Any) -> CallAnswered | CallFailed:
    async def call() -> CallAnswered | CallFailed:
        provider = RealtimeProvider(access_from(), calls_in_flight=2, request_timeout_s=timeout_s)
        async with contextlib.aclosing(_Closing(provider)):
            return await provider.call({**build_request(QUESTION, document), **changes})

    return asyncio.run(call())


class _Closing:
    """A provider as something that is closed at the end of a block."""

    def __init__(self, provider: RealtimeProvider) -> None:
        self.aclose = provider.close


def failed(**options: Any) -> CallFailed:
    outcome = ask(**options)
    assert isinstance(outcome, CallFailed), outcome
    return outcome


def test_an_answer_comes_back_as_it_was_sent(sandbox: SandboxServer) -> None:
    outcome = ask()
    assert isinstance(outcome, CallAnswered)
    (request,) = sandbox.requests()
    assert outcome.request_id == request["request_id"]
    judgement = judge(outcome.message, SchemaValidator(SCHEMA))
    assert judgement == Accepted(value={"model": "R770", "price_usd": 1000}, notes=())
    assert '"type": "message"' in outcome.body


@pytest.mark.parametrize("name", REFUSALS)
def test_a_call_without_an_answer_has_a_cause_of_its_own_and_is_made_once(sandbox: SandboxServer, name: str) -> None:
    refusal = REFUSALS[name]
    sandbox.faults([dict(refusal.fault)])
    outcome = failed()
    assert refusal.cause == outcome.cause
    assert refusal.message in outcome.message
    assert [request["retry_count"] for request in sandbox.requests()] == [0]


def test_a_refusal_carries_the_providers_id_of_the_request(sandbox: SandboxServer) -> None:
    sandbox.faults([dict(status(529))])
    assert failed().request_id == sandbox.requests()[0]["request_id"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("47", 47.0),
        ("0.5", 0.5),
        ("0", None),
        ("-3", None),
        ("soon", None),
        ("nan", None),
        ("999999", 86_400.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_the_wait_that_the_provider_asks_for_is_read(
    sandbox: SandboxServer, header: str, seconds: float | None
) -> None:
    sandbox.faults([dict(status(429, headers={"retry-after": header}))])
    assert seconds == failed().retry_after_s


def test_a_refusal_without_a_wait_says_none(sandbox: SandboxServer) -> None:
    sandbox.faults([dict(status(429))])
    assert failed().retry_after_s is None


def test_a_call_takes_no_longer_in_total_than_it_may(sandbox: SandboxServer) -> None:
    sandbox.hold("slow")
    assert failed(timeout_s=0.3).cause == Cause.TIMEOUT


def test_a_message_of_the_provider_is_one_line_of_bounded_length(sandbox: SandboxServer) -> None:
    sandbox.faults([dict(status(500, "line\n" * 1000))])
    message = failed().message
    assert "\n" not in message
    assert len(message) <= 510


def test_a_document_that_is_no_unicode_is_no_valid_request(sandbox: SandboxServer) -> None:
    assert failed(document="half an emoji: \ud83d").cause == Cause.INVALID_REQUEST
    assert sandbox.requests() == []


def test_a_number_that_json_does_not_have_is_a_defect_and_never_sent(sandbox: SandboxServer) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        ask(temperature=float("nan"))
    assert sandbox.requests() == []


def test_a_large_output_limit_is_not_refused_by_the_client(sandbox: SandboxServer) -> None:
    assert isinstance(ask(max_tokens=64_000), CallAnswered)
    assert sandbox.requests()[0]["max_tokens"] == 64_000


def test_a_server_that_cannot_be_reached_is_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    assert failed().cause == Cause.CONNECTION_LOST


def test_the_prefix_is_cached_from_the_first_call_on(sandbox: SandboxServer) -> None:
    schema = {**SCHEMA, "description": "long enough to be cached " * 200}
    request = build_request(
        Question(model=MODEL, instructions="x", schema=schema, enforced_schema=None, max_output_tokens=100), DOCUMENT
    )
    for document in ("a", "b"):
        ask(document, system=request["system"])
    first, second = sandbox.requests()
    assert first["cache_creation_input_tokens"] == second["cache_read_input_tokens"] > 0


def count_tokens() -> int | None:
    async def call() -> int | None:
        provider = RealtimeProvider(access_from(), calls_in_flight=1, request_timeout_s=10)
        try:
            return await provider.count_tokens(build_request(QUESTION, DOCUMENT))
        finally:
            await provider.close()

    return asyncio.run(call())


def test_tokens_are_counted_by_the_provider_and_not_billed(sandbox: SandboxServer) -> None:
    assert count_tokens() is not None
    assert sandbox.bill()["calls"] == 0


@pytest.mark.parametrize("fault", [{"kind": "status", "status": 500}, {"kind": "drop"}])
def test_tokens_that_cannot_be_counted_are_none(sandbox: SandboxServer, fault: dict[str, Any]) -> None:
    sandbox.faults([{**fault, "path": "/v1/messages/count_tokens"}])
    assert count_tokens() is None


@needs_cases
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("http-400-credit", Cause.BILLING),
        ("http-401", Cause.AUTHENTICATION),
        ("http-404-model", Cause.MODEL_NOT_FOUND),
        ("http-413", Cause.REQUEST_TOO_LARGE),
        ("http-429-retry-after", Cause.RATE_LIMITED),
        ("http-529", Cause.OVERLOADED),
    ],
)
def test_the_refusals_of_the_collection_of_cases_are_understood(
    sandbox: SandboxServer, name: str, cause: Cause
) -> None:
    sandbox.faults([{"kind": "status", **error_response(name)}])
    outcome = failed()
    assert cause == outcome.cause
    assert outcome.retry_after_s == (47.0 if name == "http-429-retry-after" else None)
