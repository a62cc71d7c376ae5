"""Scripted faults: each kind as the SDK sees it, what it costs, and which request gets it."""

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import anthropic
import pytest

from tests.sandbox.conftest import TOTAL_SCHEMA, Http, asking_for, body_for

SCHEMA = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "name": {"type": "string"},
    },
    "required": ["total", "day", "name"],
    "additionalProperties": False,
}
DOCUMENT = "Total: 5\nDay: 2026-03-05\nName: Example Mill"
GOOD = '{"total": 5, "day": "2026-03-05", "name": "Example Mill"}'
ASKED = body_for(DOCUMENT, output_config=asking_for(SCHEMA))


def _texts(message: dict[str, Any]) -> list[str]:
    return [block["text"] for block in message["content"] if block["type"] == "text"]


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.InternalServerError, "overloaded_error"),
    ],
)
def test_a_status_fault_is_the_sdk_s_error_and_costs_nothing(
    claude: anthropic.Anthropic, http: Http, status: int, error: type[anthropic.APIStatusError], kind: str
) -> None:
    http.fault("status", status=status, headers={"retry-after": "47"})
    with pytest.raises(error) as caught:
        claude.messages.create(**ASKED)
    assert (caught.value.status_code, caught.value.type) == (status, kind)
    assert caught.value.response.headers["retry-after"] == "47"
    assert caught.value.request_id == http.requests()[0]["request_id"]
    assert (http.bill()["calls"], http.requests()[0]["fault"]) == (0, "status")


def test_a_status_fault_may_have_a_body_of_its_own(http: Http) -> None:
    http.fault("status", status=413, body="<html>too large</html>")
    http.fault("status", status=400, body={"type": "error", "error": {"type": "x", "message": "y"}})
    first, second = http.message(ASKED), http.message(ASKED)
    assert (first.status, first.headers["Content-Type"].split(";")[0]) == (413, "text/html")
    assert (second.status, second.error) == (400, ("x", "y"))


def test_raw_bytes_are_served_as_they_are(claude: anthropic.Anthropic, http: Http) -> None:
    http.fault("raw", body="<html>login</html>")
    assert claude.messages.create(**ASKED) == "<html>login</html>"
    assert http.bill()["calls"] == 0


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize(("when", "calls"), [("before", 0), ("after", 1), ("mid_body", 1)])
def test_a_dropped_connection_is_billed_once_the_message_was_processed(
    claude: anthropic.Anthropic, http: Http, when: str, calls: int, how: str
) -> None:
    http.fault("drop", when=when, how=how)
    with pytest.raises(anthropic.APIConnectionError) as caught:
        claude.messages.create(**ASKED)
    cause = type(caught.value.__cause__).__name__
    assert cause == ("ReadError" if how == "reset" else "RemoteProtocolError")
    [entry] = http.requests()
    assert (http.bill()["calls"], entry["status"], entry["fault"]) == (calls, None, "drop")
    assert claude.messages.create(**ASKED).stop_reason == "end_turn"


def test_a_slow_answer_stops_waiting_when_the_client_leaves_and_is_billed(http: Http) -> None:
    http.fault("slow", seconds=3600)
    client = anthropic.Anthropic(api_key="k", base_url=http.url, max_retries=0, timeout=0.3)
    with client, pytest.raises(anthropic.APITimeoutError):
        client.messages.create(**ASKED)
    assert http.bill()["calls"] == 1
    assert http.message(ASKED).status == 200
    assert http.requests()[-1]["concurrency"] == 1


def test_held_answers_wait_for_their_release(http: Http) -> None:
    http.fault("hold", name="gate", times=2)

    async def scenario() -> tuple[list[int], dict[str, Any], dict[str, Any]]:
        headers = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
        async with aiohttp.ClientSession(http.url, headers=headers) as session:

            async def ask() -> int:
                async with session.post("/v1/messages", json=ASKED) as reply:
                    return reply.status

            asked = [asyncio.create_task(ask()) for _ in range(2)]
            async with session.get("/_sandbox/held?name=gate&at_least=2") as reply:
                held = await reply.json()
            assert not any(task.done() for task in asked)
            async with session.post("/_sandbox/release", json={"name": "gate"}) as reply:
                released = await reply.json()
            return list(await asyncio.gather(*asked)), held, released

    statuses, held, released = asyncio.run(scenario())
    assert (statuses, held, released) == ([200, 200], {"held": {"gate": 2}, "reached": True}, {"released": 2})
    assert sorted(entry["concurrency"] for entry in http.requests()) == [1, 2]


def test_waiting_for_more_than_is_held_ends_with_the_time(http: Http) -> None:
    reply = http.call("GET", "/_sandbox/held?name=none&at_least=1&timeout=0.01")
    assert reply.json == {"held": {}, "reached": False}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("fenced", f"```json\n{GOOD}\n```"),
        ("nul", GOOD.replace("Mill", "Mill\\u0000")),
        ("lone_surrogate", GOOD.replace("Mill", "Mill\\ud83d")),
        ("wrong_schema", GOOD.replace("5,", "[0],")),
        ("max_tokens", GOOD[: len(GOOD) // 2]),
    ],
)
def test_a_fault_of_the_text_changes_just_that(http: Http, kind: str, text: str) -> None:
    http.fault(kind)
    message = http.message(ASKED).json
    assert _texts(message) == [text]
    assert message["stop_reason"] == ("max_tokens" if kind == "max_tokens" else "end_turn")
    assert message["usage"]["output_tokens"] == -(-len(text) // 4)


@pytest.mark.parametrize("kind", ["trailing_text", "prose_around"])
def test_text_around_the_answer_leaves_the_answer_whole(http: Http, kind: str) -> None:
    http.fault(kind)
    [text] = _texts(http.message(ASKED).json)
    assert GOOD in text
    assert not text.endswith(GOOD)


def test_thinking_comes_first_and_is_billed(http: Http) -> None:
    http.fault("thinking_first")
    message = http.message(ASKED).json
    assert [block["type"] for block in message["content"]] == ["thinking", "text"]
    assert _texts(message) == [GOOD]
    thinking = message["usage"]["output_tokens_details"]["thinking_tokens"]
    assert message["usage"]["output_tokens"] - thinking == -(-len(GOOD) // 4)
    assert thinking > 0


@pytest.mark.parametrize(("empty", "blocks"), [(True, 0), (False, 1)])
def test_a_refusal_is_a_billed_message_with_details(http: Http, *, empty: bool, blocks: int) -> None:
    http.fault("refusal", empty=empty)
    message = http.message(ASKED).json
    assert (message["stop_reason"], len(message["content"])) == ("refusal", blocks)
    assert message["stop_details"]["type"] == "refusal"
    assert http.bill()["calls"] == 1


def test_an_empty_answer_ends_its_turn(http: Http) -> None:
    http.fault("empty")
    message = http.message(ASKED).json
    assert (message["stop_reason"], message["content"]) == ("end_turn", [])


def test_a_reply_is_served_as_it_is(http: Http) -> None:
    message = {"id": "msg_case", "model": "claude-haiku-5-5", "content": [], "usage": {"input_tokens": 5}}
    http.fault("reply", message=message)
    assert http.message(ASKED).json == message
    assert http.bill()["cost_usd"] == "0.0000005"


def test_faults_apply_in_order_to_the_documents_they_match(http: Http) -> None:
    specs = [
        {"kind": "status", "status": 500, "match": "bad"},
        {"kind": "status", "status": 529, "skip": 1, "times": 2},
        {"kind": "status", "status": 429, "match": "lasting", "times": None},
    ]
    http.call("POST", "/_sandbox/faults", {"faults": specs})
    texts = ["good", "bad", "good", "good", "bad", "lasting", "lasting", "good"]
    assert [http.message(body_for(text)).status for text in texts] == [200, 500, 529, 529, 200, 429, 429, 200]
    left = http.call("GET", "/_sandbox/faults").json["faults"]
    assert [(fault["times"], fault["applied"]) for fault in left] == [(0, 1), (0, 2), (None, 2)]


def test_concurrent_requests_never_share_a_fault(http: Http) -> None:
    http.fault("status", status=529, times=7)

    async def scenario() -> list[int]:
        headers = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
        async with aiohttp.ClientSession(http.url, headers=headers) as session:

            async def ask() -> int:
                async with session.post("/v1/messages", json=ASKED) as reply:
                    return reply.status

            return list(await asyncio.gather(*(ask() for _ in range(50))))

    assert Counter(asyncio.run(scenario())) == {529: 7, 200: 43}


def test_a_fault_of_counting_leaves_messages_alone(claude: anthropic.Anthropic, http: Http) -> None:
    http.fault("status", status=429, path="/v1/messages/count_tokens")
    assert http.message(ASKED).status == 200
    with pytest.raises(anthropic.RateLimitError):
        claude.messages.count_tokens(model=ASKED["model"], messages=ASKED["messages"])


def test_a_refused_request_uses_no_fault_up(http: Http) -> None:
    http.fault("fenced")
    http.message(body_for("hello", model="claude-nope"))
    assert _texts(http.message(ASKED).json)[0].startswith("```")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "nope"}, "faults.0.kind: unknown fault"),
        ({"kind": "slow"}, "faults.0.seconds: Field required"),
        ({"kind": "slow", "second": 1}, "faults.0.second: unknown option of 'slow'"),
        ({"kind": "drop", "how": "softly"}, "faults.0.how: Input should be one of fin, reset"),
        ({"kind": "empty", "times": 0}, "faults.0.times: Input should be a positive integer, or null for ever"),
        ({"kind": "empty", "match": "("}, "faults.0.match: "),
        ({"kind": "status", "status": "429"}, "faults.0.status: Input has the wrong type"),
    ],
)
def test_a_fault_that_cannot_be_meant_is_refused(http: Http, spec: dict[str, Any], message: str) -> None:
    reply = http.call("POST", "/_sandbox/faults", {"faults": [{"kind": "empty"}, spec][1:]})
    assert reply.status == 400
    assert reply.error[1].startswith(message)
    assert http.call("GET", "/_sandbox/faults").json == {"faults": []}


def test_a_number_only_answer_still_gets_its_nul(http: Http) -> None:
    http.fault("nul")
    [text] = _texts(http.message(body_for("Total: 5", output_config=asking_for(TOTAL_SCHEMA))).json)
    assert json.loads(text) == {"total": "\0"}
