"""Message Batches as the SDK and plain HTTP see them: every endpoint, the clock, and half the price."""

import json
import socket
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import anthropic
import pytest

from tests.sandbox.conftest import TOTAL_SCHEMA, Http, asking_for, batch_of, body_for

HOUR, DAY = 3600, 86_400
PATH = "/batches"


def _totals(count: int) -> list[dict[str, Any]]:
    return batch_of(*(f"Total: {n}" for n in range(count)), output_config=asking_for(TOTAL_SCHEMA))


def _lines(http: Http, batch_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in http.api("GET", f"{PATH}/{batch_id}/results").body.splitlines()]


def test_a_batch_is_accepted_in_progress_and_ended_at_the_first_look(claude: anthropic.Anthropic, http: Http) -> None:
    batch = claude.messages.batches.create(requests=_totals(3))
    assert (batch.type, batch.processing_status, batch.results_url, batch.ended_at) == (
        "message_batch", "in_progress", None, None,
    )  # fmt: skip
    assert (batch.request_counts.processing, batch.request_counts.succeeded) == (3, 0)
    assert batch.expires_at - batch.created_at == timedelta(hours=24)
    ended = claude.messages.batches.retrieve(batch.id)
    assert (ended.processing_status, ended.request_counts.processing, ended.request_counts.succeeded) == ("ended", 0, 3)
    assert ended.results_url == f"{http.url}/v1/messages/batches/{batch.id}/results"
    assert ended.ended_at == batch.created_at


def test_each_request_is_answered_by_the_rules_that_answer_messages(claude: anthropic.Anthropic) -> None:
    batch = claude.messages.batches.create(requests=_totals(3))
    found = {row.custom_id: row.result.message for row in claude.messages.batches.results(batch.id)}
    assert {name: message.content[0].text for name, message in found.items()} == {
        f"r{n}": f'{{"total": {n}}}' for n in range(3)
    }
    assert {message.usage.service_tier for message in found.values()} == {"batch"}


def test_results_are_lines_in_another_order_and_always_the_same(http: Http) -> None:
    for count in (2, 3, 50):
        batch_id = http.api("POST", PATH, {"requests": _totals(count)}).json["id"]
        first, again = (http.api("GET", f"{PATH}/{batch_id}/results") for _ in range(2))
        assert first.headers["content-type"] == "application/x-jsonl"
        assert first.body.endswith(b"\n")
        assert b"\r" not in first.body
        assert first.body == again.body
        names = [json.loads(line)["custom_id"] for line in first.body.splitlines()]
        assert names != [f"r{n}" for n in range(count)]
        assert sorted(names) == sorted(f"r{n}" for n in range(count))
    assert names != [f"r{n}" for n in reversed(range(50))]


def test_a_batch_costs_half_and_its_requests_are_in_the_bill(http: Http) -> None:
    for n in range(4):
        http.message(body_for(f"Total: {n}", output_config=asking_for(TOTAL_SCHEMA)))
    full = http.bill()
    http.api("POST", PATH, {"requests": _totals(4)})
    both = http.bill()
    assert Decimal(both["cost_usd"]) == Decimal(full["cost_usd"]) * Decimal("1.5")
    assert (full["batch_requests"], both["batch_requests"], both["calls"], both["requests"]) == (0, 4, 8, 5)
    assert both["by_model"]["claude-haiku-5-5"]["calls"] == 8


def test_the_books_show_each_request_with_its_document_and_cost(http: Http) -> None:
    http.message(body_for("Total: 1"))
    reply = http.api("POST", PATH, {"requests": batch_of("Total: 1", "", "Total: 3")})
    [batch] = http.batches()
    assert (batch["id"], batch["processing_status"]) == (reply.json["id"], "ended")
    one, bad, _ = batch["requests"]
    assert one["document_sha256"] == http.requests()[0]["document_sha256"]
    assert [(row["custom_id"], row["result_type"], row["billed_times"]) for row in batch["requests"]] == [
        ("r0", "succeeded", 1), ("r1", "errored", 0), ("r2", "succeeded", 1),
    ]  # fmt: skip
    assert Decimal(one["cost_usd"]) * 2 == Decimal(http.requests()[0]["cost_usd"])
    assert bad["cost_usd"] is None


def test_the_prompt_cache_is_charged_as_for_messages(http: Http) -> None:
    system = [{"type": "text", "text": "p" * 4000, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    batch_id = http.api("POST", PATH, {"requests": batch_of("a", "b", system=system)}).json["id"]
    usages = [row["result"]["message"]["usage"] for row in _lines(http, batch_id)]
    found = Counter((u["cache_creation_input_tokens"], u["cache_read_input_tokens"]) for u in usages)
    assert found == {(1004, 0): 1, (0, 1004): 1}
    assert {u["cache_creation"]["ephemeral_1h_input_tokens"] for u in usages} == {0, 1004}


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"model": "claude-haiku-5-5", "max_tokens": 5}, ("invalid_request_error", "messages: Field required")),
        (body_for("x", model="claude-nope-9"), ("not_found_error", "model: claude-nope-9")),
        (
            body_for("x", stream=True),
            ("invalid_request_error", '"stream=True" is not supported in the Message Batches API'),
        ),
        (body_for("x", max_tokens=0), ("invalid_request_error", "max_tokens: must be greater than or equal to 1")),
        (body_for("x", temperature=0), ("invalid_request_error", "temperature: Extra inputs are not permitted")),
    ],
)
def test_wrong_params_are_an_errored_row_with_the_error_nested_twice(
    http: Http, params: dict[str, Any], error: tuple[str, str]
) -> None:
    reply = http.api("POST", PATH, {"requests": [{"custom_id": "bad", "params": params}, *batch_of("good")]})
    assert reply.status == 200
    results = {row["custom_id"]: row["result"] for row in _lines(http, reply.json["id"])}
    nested = results["bad"]["error"]
    assert (results["bad"]["type"], nested["type"], nested["request_id"]) == ("errored", "error", None)
    assert (nested["error"]["type"], nested["error"]["message"]) == error
    counts = http.api("GET", f"{PATH}/{reply.json['id']}").json["request_counts"]
    assert counts == {"processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 0}
    assert http.bill()["calls"] == 1


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "requests: List should have at least 1 item after validation, not 0"),
        (None, "requests: Input should be a valid list"),
        ([{"params": {}}], "requests.0.custom_id: Field required"),
        ([{"custom_id": "a"}], "requests.0.params: Field required"),
        ([{"custom_id": "a" * 65, "params": {}}], "requests.0.custom_id: String should have at most 64 characters"),
        *(
            (
                [{"custom_id": "fine", "params": {}}, {"custom_id": name, "params": {}}],
                "requests.1.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
            )
            for name in ("", "a.pdf", "a b", "a\n", "é")
        ),
        (
            [{"custom_id": name, "params": {}} for name in ("a", "dup", "b", "dup")],
            "requests: custom_id's must be unique within a batch. Duplicate custom_id found: dup",
        ),
        (
            [{"custom_id": f"r{n}", "params": {}} for n in range(100_001)],
            "requests: List should have at most 100000 items after validation, not 100001",
        ),
    ],
    ids=range(12),
)
def test_a_wrong_list_of_requests_is_refused_at_once(http: Http, requests: object, message: str) -> None:
    reply = http.api("POST", PATH, {"requests": requests})
    assert (reply.status, reply.error) == (400, ("invalid_request_error", message))
    assert http.batches() == []


def test_a_body_that_is_no_batch_is_refused_at_once(http: Http) -> None:
    assert http.api("POST", PATH, {}).error[1] == "requests: Field required"
    assert http.api("POST", PATH, b'{"requests": [').error[1].startswith("The request body is not valid JSON: ")
    assert http.call("POST", "/v1/messages/batches", {"requests": _totals(1)}).status == 401
    assert http.call("GET", "/v1/messages/batches", headers={"x-api-key": "k"}).status == 400


def test_a_body_above_256_mb_is_too_large(http: Http) -> None:
    host, port = http.url.removeprefix("http://").split(":")
    head = (
        "POST /v1/messages/batches HTTP/1.1", "Host: x", "x-api-key: k", "anthropic-version: 2026-10-21",
        f"Content-Length: {256 * 1024 * 1024 + 1}", "", "",
    )  # fmt: skip
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall("\r\n".join(head).encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_body_above_the_limit_of_messages_is_accepted(http: Http) -> None:
    assert http.api("POST", PATH, {"requests": batch_of("x" * 33 * 1024 * 1024)}).status == 200


def test_what_does_not_exist_or_has_no_results_yet_is_not_found(claude: anthropic.Anthropic, http: Http) -> None:
    http.durations(batch_seconds=HOUR)
    for method, path in (("GET", ""), ("POST", "/cancel"), ("DELETE", ""), ("GET", "/results")):
        reply = http.api(method, f"{PATH}/msgbatch_none{path}")
        assert (reply.status, reply.error) == (404, ("not_found_error", "Message Batch msgbatch_none not found."))
    batch = claude.messages.batches.create(requests=_totals(1))
    reply = http.api("GET", f"{PATH}/{batch.id}/results")
    assert (reply.status, reply.error[1]) == (404, f"Message Batch {batch.id} has no available results.")
    with pytest.raises(anthropic.AnthropicError, match="results_url"):
        claude.messages.batches.results(batch.id)


def test_a_batch_ends_when_the_clock_says_so(http: Http) -> None:
    http.durations(batch_seconds=HOUR)
    batch_id = http.api("POST", PATH, {"requests": _totals(2)}).json["id"]
    http.advance(HOUR - 60)
    running = http.api("GET", f"{PATH}/{batch_id}")
    assert (running.json["processing_status"], running.headers["retry-after"]) == ("in_progress", "10")
    assert http.bill()["calls"] == 0
    http.advance(60)
    assert http.bill()["calls"] == 2
    ended = http.api("GET", f"{PATH}/{batch_id}")
    assert (ended.json["processing_status"], ended.headers.get("retry-after")) == ("ended", None)
    times = [datetime.fromisoformat(ended.json[name]) for name in ("created_at", "ended_at")]
    assert times[1] - times[0] == timedelta(hours=1)


def test_a_cancel_keeps_what_was_processed_and_bills_just_that(claude: anthropic.Anthropic, http: Http) -> None:
    http.durations(batch_seconds=HOUR, cancel_seconds=30)
    batch = claude.messages.batches.create(requests=_totals(10))
    http.advance(HOUR * 0.45)
    assert claude.messages.batches.cancel(batch.id).processing_status == "canceling"
    http.advance(20)
    canceling = claude.messages.batches.retrieve(batch.id)
    assert (canceling.processing_status, canceling.request_counts.processing) == ("canceling", 10)
    assert canceling.cancel_initiated_at is not None
    http.advance(10)
    ended = claude.messages.batches.retrieve(batch.id)
    assert (ended.processing_status, ended.request_counts.succeeded, ended.request_counts.canceled) == ("ended", 4, 6)
    types = Counter(row.result.type for row in claude.messages.batches.results(batch.id))
    assert types == {"succeeded": 4, "canceled": 6}
    assert http.bill()["calls"] == 4


def test_a_second_cancel_or_one_after_the_end_changes_nothing(claude: anthropic.Anthropic, http: Http) -> None:
    http.durations(batch_seconds=HOUR, cancel_seconds=30)
    batch = claude.messages.batches.create(requests=_totals(1))
    first = claude.messages.batches.cancel(batch.id)
    http.advance(20)
    assert claude.messages.batches.cancel(batch.id).cancel_initiated_at == first.cancel_initiated_at
    http.advance(10)
    assert claude.messages.batches.cancel(batch.id).processing_status == "ended"


def test_after_24_hours_the_rest_expires_unbilled(claude: anthropic.Anthropic, http: Http) -> None:
    http.durations(batch_seconds=4 * DAY)
    batch = claude.messages.batches.create(requests=_totals(8))
    http.durations(batch_seconds=None)
    never = claude.messages.batches.create(requests=_totals(1))
    http.advance(DAY)
    ended = claude.messages.batches.retrieve(batch.id)
    assert (ended.request_counts.succeeded, ended.request_counts.expired) == (2, 6)
    assert ended.ended_at == ended.expires_at
    assert claude.messages.batches.retrieve(never.id).request_counts.expired == 1
    assert http.bill()["calls"] == 2


def test_after_29_days_the_results_are_gone_and_the_batch_is_not(claude: anthropic.Anthropic, http: Http) -> None:
    batch = claude.messages.batches.create(requests=_totals(1))
    http.advance(29 * DAY - 60)
    assert claude.messages.batches.retrieve(batch.id).results_url
    http.advance(60)
    archived = claude.messages.batches.retrieve(batch.id)
    assert (archived.archived_at, archived.results_url) == (batch.created_at + timedelta(days=29), None)
    assert (archived.processing_status, archived.request_counts.succeeded) == ("ended", 1)
    assert http.api("GET", f"{PATH}/{batch.id}/results").status == 404


def test_the_list_is_newest_first_and_pages_both_ways(claude: anthropic.Anthropic, http: Http) -> None:
    made = [claude.messages.batches.create(requests=_totals(1)).id for _ in range(5)][::-1]
    assert [batch.id for batch in claude.messages.batches.list(limit=2)] == made
    page = http.api("GET", f"{PATH}?limit=2").json
    assert (page["first_id"], page["last_id"], page["has_more"]) == (made[0], made[1], True)
    page = http.api("GET", f"{PATH}?limit=2&after_id={made[2]}").json
    assert ([batch["id"] for batch in page["data"]], page["has_more"]) == (made[3:], False)
    page = http.api("GET", f"{PATH}?limit=2&before_id={made[3]}").json
    assert ([batch["id"] for batch in page["data"]], page["has_more"]) == (made[1:3], True)
    assert http.api("GET", f"{PATH}?after_id={made[4]}").json == {
        "data": [], "has_more": False, "first_id": None, "last_id": None,
    }  # fmt: skip


def test_a_page_has_20_batches_unless_it_is_told_otherwise(http: Http) -> None:
    for _ in range(21):
        http.api("POST", PATH, {"requests": _totals(1)})
    page = http.api("GET", PATH).json
    assert (len(page["data"]), page["has_more"]) == (20, True)


@pytest.mark.parametrize(
    ("query", "status"),
    [("limit=0", 400), ("limit=1001", 400), ("limit=x", 400), ("after_id=a&before_id=b", 400), ("after_id=a", 404)],
)
def test_a_wrong_page_is_refused(http: Http, query: str, status: int) -> None:
    assert http.api("GET", f"{PATH}?{query}").status == status


def test_a_batch_can_be_deleted_once_it_has_ended(claude: anthropic.Anthropic, http: Http) -> None:
    http.durations(batch_seconds=HOUR)
    batch = claude.messages.batches.create(requests=_totals(1))
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.batches.delete(batch.id)
    assert caught.value.api_message == ("In progress batches cannot be deleted. Consider canceling the batch instead.")
    http.advance(HOUR)
    deleted = claude.messages.batches.delete(batch.id)
    assert (deleted.id, deleted.type) == (batch.id, "message_batch_deleted")
    assert http.api("GET", f"{PATH}/{batch.id}").status == 404
    assert claude.messages.batches.list().data == []
    assert (http.bill()["calls"], http.batches()[0]["deleted"]) == (1, True)


def test_every_request_to_a_batch_is_in_the_log(claude: anthropic.Anthropic, http: Http) -> None:
    batch = claude.messages.batches.create(requests=_totals(1))
    list(claude.messages.batches.results(batch.id))
    assert [(row["method"], row["path"], row["status"], row["batch_id"]) for row in http.requests()] == [
        ("POST", "/v1/messages/batches", 200, batch.id),
        ("GET", f"/v1/messages/batches/{batch.id}", 200, batch.id),
        ("GET", f"/v1/messages/batches/{batch.id}/results", 200, batch.id),
    ]
    assert not any(row["billed"] for row in http.requests())


def test_a_reset_forgets_batches_and_returns_to_real_time(http: Http) -> None:
    http.durations(batch_seconds=HOUR, cancel_seconds=None)
    http.api("POST", PATH, {"requests": _totals(1)})
    http.advance(HOUR)
    http.call("DELETE", "/_sandbox/batches")
    assert http.call("GET", "/_sandbox/batches").json == {"batches": [], "batch_seconds": 0, "cancel_seconds": 0}
    assert http.call("GET", "/_sandbox/clock").json["offset_s"] == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("clock", {"advance_s": -1}),
        ("clock", {}),
        ("clock", {"advance": 1}),
        ("batches", {"batch_seconds": "1"}),
        ("batches", {"batch_seconds": 1e10}),
    ],
)
def test_a_time_that_cannot_be_meant_is_refused(http: Http, path: str, body: dict[str, Any]) -> None:
    assert http.call("POST", f"/_sandbox/{path}", body).status == 400
