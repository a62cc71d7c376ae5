"""The log file: a server that is started again goes on with the bill and the numbers of the one before."""

import json
from pathlib import Path

import sandbox
from tests.sandbox.conftest import MODEL, TOTAL_SCHEMA, Http

KEY = {"x-api-key": "k", "anthropic-version": "2026-10-21"}


def ask(url: str, text: str) -> None:
    body = {
        "model": MODEL,
        "max_tokens": 50,
        "messages": [{"role": "user", "content": text}],
        "output_config": {"format": {"type": "json_schema", "schema": TOTAL_SCHEMA}},
    }
    reply = Http(url).call("POST", "/v1/messages", json.dumps(body).encode(), KEY)
    assert reply.status == 200


def bill(url: str) -> dict:
    return json.loads(Http(url).call("GET", "/_sandbox/bill").body)


def test_a_server_that_is_started_again_goes_on_with_bill_and_numbers(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with sandbox.Background(log_file=log) as first:
        ask(first.url, "Total: 1")
        before = bill(first.url)
    with sandbox.Background(log_file=log) as second:
        assert bill(second.url) == before
        ask(second.url, "Total: 2")
        requests = json.loads(Http(second.url).call("GET", "/_sandbox/requests").body)["requests"]
        assert [row["n"] for row in requests] == [1, 2]
        assert bill(second.url)["calls"] == 2


def test_a_line_that_was_cut_by_a_crash_costs_no_other(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with sandbox.Background(log_file=log) as first:
        ask(first.url, "Total: 1")
        before = bill(first.url)
    log.write_text(log.read_text() + '{"n": 2, "at": "20')
    with sandbox.Background(log_file=log) as second:
        assert bill(second.url) == before
