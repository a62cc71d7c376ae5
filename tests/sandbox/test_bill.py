"""Tokens, cache and money: the log and the bill say exactly what was processed."""

import asyncio
import hashlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import pytest

import sandbox
from tests.sandbox.conftest import MODEL, Http, body_for


def _cached(prefix: str, ttl: str = "5m", document: str = "short") -> dict[str, Any]:
    control = {"type": "ephemeral", "ttl": ttl}
    return body_for(document, system=[{"type": "text", "text": prefix, "cache_control": control}])


def test_a_prefix_is_written_once_and_then_read(http: Http) -> None:
    first, second = (http.message(_cached("p" * 4000)).json["usage"] for _ in range(2))
    assert (first["cache_creation_input_tokens"], first["cache_read_input_tokens"]) == (1004, 0)
    assert (second["cache_creation_input_tokens"], second["cache_read_input_tokens"]) == (0, 1004)
    assert first["input_tokens"] == second["input_tokens"] == 6
    assert first["cache_creation"] == {"ephemeral_5m_input_tokens": 1004, "ephemeral_1h_input_tokens": 0}


@pytest.mark.parametrize(
    "other",
    [_cached("p" * 3999 + "q"), _cached("p" * 4000, ttl="1h"), _cached("p" * 4000) | {"model": "claude-sonnet-5-5"}],
    ids=["text", "ttl", "model"],
)
def test_another_prefix_ttl_or_model_is_another_entry(http: Http, other: dict[str, Any]) -> None:
    http.message(_cached("p" * 4000))
    assert http.message(other).json["usage"]["cache_read_input_tokens"] == 0


def test_a_prefix_below_the_minimum_is_not_cached(http: Http) -> None:
    below, at = (http.message(_cached("p" * 4 * (n - 4))).json["usage"] for n in (511, 512))
    assert (below["cache_creation_input_tokens"], below["input_tokens"]) == (0, 517)
    assert at["cache_creation_input_tokens"] == 512


def test_a_longer_conversation_reads_what_an_earlier_one_wrote(http: Http) -> None:
    http.message(_cached("p" * 4000))
    control = {"type": "ephemeral"}
    messages = [{"role": "user", "content": [{"type": "text", "text": "d" * 4000, "cache_control": control}]}]
    usage = http.message(_cached("p" * 4000) | {"messages": messages}).json["usage"]
    assert (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (1004, 1004)


def test_a_fifth_breakpoint_is_refused(http: Http) -> None:
    block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    reply = http.message(body_for("hello", system=[block] * 5))
    assert reply.error[1] == "A maximum of 4 blocks with cache_control may be provided. Found 5."


def test_the_bill_is_exact(http: Http) -> None:
    http.message(_cached("p" * 4000))
    http.message(_cached("p" * 4000))
    output = http.requests()[0]["output_tokens"]
    million = Decimal(1_000_000)
    first = (6 * Decimal("0.10") + 1004 * Decimal("0.125") + output * Decimal("0.50")) / million
    second = (6 * Decimal("0.10") + 1004 * Decimal("0.01") + output * Decimal("0.50")) / million
    assert [Decimal(entry["cost_usd"]) for entry in http.requests()] == [first, second]
    bill = http.bill()
    assert (Decimal(bill["cost_usd"]), bill["calls"], bill["requests"]) == (first + second, 2, 2)
    assert bill["by_model"][MODEL]["cost_usd"] == bill["cost_usd"]


def _billed(http: Http, usage: dict[str, Any], model: str = MODEL) -> str | None:
    http.fault("reply", message={"id": "m", "model": model, "content": [], "usage": usage})
    http.message(body_for("hello"))
    return http.requests()[-1]["cost_usd"]


def test_a_prompt_over_100_000_tokens_prices_the_whole_request_higher(http: Http) -> None:
    assert _billed(http, {"input_tokens": 100_000, "output_tokens": 0}) == "0.01"
    assert _billed(http, {"input_tokens": 100_001, "output_tokens": 0}) == "0.0500005"
    cached = {"input_tokens": 1, "cache_read_input_tokens": 100_000, "output_tokens": 1000}
    assert _billed(http, cached) == "0.0075005"


def test_the_five_kinds_of_tokens_have_their_own_prices(http: Http) -> None:
    usage = {
        "input_tokens": 1000,
        "cache_creation_input_tokens": 3000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
        "cache_read_input_tokens": 20_000,
        "output_tokens": 500,
    }
    assert _billed(http, usage) == "0.001075"
    assert _billed(http, usage | {"service_tier": "batch"}) == "0.0005375"


def test_an_unknown_model_has_no_price_and_the_bill_says_so(http: Http) -> None:
    assert _billed(http, {"input_tokens": 10, "output_tokens": 1}, model="claude-unlisted-9") is None
    assert (http.bill()["cost_usd"], http.bill()["unpriced"], http.bill()["calls"]) == ("0", 1, 1)


def test_a_refused_request_is_logged_and_not_billed(http: Http) -> None:
    http.message(body_for("hello", model="claude-nope"))
    [entry] = http.requests()
    assert (entry["status"], entry["billed"], entry["cost_usd"]) == (404, False, None)
    assert (http.bill()["calls"], http.bill()["requests"]) == (0, 1)


def test_the_log_tells_what_was_asked_and_never_the_key(claude: anthropic.Anthropic, http: Http) -> None:
    claude.messages.create(**body_for("the document", system="the rules"))
    [entry] = http.requests(bodies=True)
    assert entry["document_sha256"] == hashlib.sha256(b"the document").hexdigest()
    assert (entry["system_text"], entry["user_text"]) == ("the rules", "the document")
    assert (entry["n"], entry["method"], entry["path"], entry["status"]) == (1, "POST", "/v1/messages", 200)
    assert (entry["retry_count"], entry["max_tokens"], entry["stop_reason"]) == (0, 1000, "end_turn")
    assert "test-key" not in json.dumps(entry)
    assert entry["api_key_fingerprint"] == hashlib.sha256(b"test-key").hexdigest()[:12]
    assert "user_text" not in http.requests()[0]


def test_a_retry_of_the_sdk_is_seen_in_the_log(http: Http) -> None:
    http.fault("status", status=500)
    with anthropic.Anthropic(api_key="k", base_url=http.url, max_retries=1) as client:
        client.messages.create(**body_for("hello"))
    assert [(entry["retry_count"], entry["status"]) for entry in http.requests()] == [(0, 500), (1, 200)]


def test_counting_tokens_is_free(claude: anthropic.Anthropic, http: Http) -> None:
    claude.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "hello"}])
    assert (http.bill()["calls"], http.bill()["requests"]) == (0, 1)


def test_it_serves_inside_an_event_loop() -> None:
    async def ask() -> dict[str, Any]:
        async with sandbox.running() as server, aiohttp.ClientSession(server.url) as session:
            reply = await session.get("/_sandbox/health")
            return await reply.json()

    assert asyncio.run(ask()) == {"status": "ok"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_prints_its_address_and_ends_on_a_signal_even_with_an_answer_held(
    tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        http = Http(line.removeprefix("sandbox listening on ").strip())
        http.message(body_for("hello"))
        http.fault("hold", name="a")
        with _held_request(http):
            process.send_signal(number)
            assert process.wait(timeout=10) == 0
        assert process.stdout.read() == ""
    assert [json.loads(row)["n"] for row in log.read_text().splitlines()] == [1, 2]


@contextmanager
def _held_request(http: Http) -> Iterator[None]:
    """Send a request without waiting for its answer; enter the block when the sandbox holds it."""
    host, port = http.url.removeprefix("http://").split(":")
    body = json.dumps(body_for("hello"))
    head = ("POST /v1/messages HTTP/1.1", "Host: x", "x-api-key: k", "anthropic-version: 2026-10-21")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall("\r\n".join([*head, f"Content-Length: {len(body)}", "", body]).encode())
        held = http.call("GET", "/_sandbox/held?name=a&at_least=1").json
        assert held == {"held": {"a": 1}, "reached": True}
        yield
