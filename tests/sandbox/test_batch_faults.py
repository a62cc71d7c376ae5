"""Scripted faults of batches: each as a client sees it, and what it leaves behind."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import anthropic
import httpx2
import pytest

from tests.sandbox.conftest import TOTAL_SCHEMA, Http, asking_for, batch_of

HOUR, DAY = 3600, 86_400
CREATE = "POST /v1/messages/batches"
LIST = "GET /v1/messages/batches"
RETRIEVE = "GET /v1/messages/batches/{id}"
RESULTS = f"{RETRIEVE}/results"
AT_ONCE = {"retry-after-ms": "1"}  # the SDK would wait half a second and more


def _totals(count: int) -> list[dict[str, Any]]:
    return batch_of(*(f"Total: {n}" for n in range(count)), output_config=asking_for(TOTAL_SCHEMA))


def _made(http: Http, count: int) -> str:
    """Create a batch; returns its id."""
    return http.api("POST", "/batches", {"requests": _totals(count)}).json["id"]


def _ids(claude: anthropic.Anthropic, batch_id: str) -> list[str]:
    return [row.custom_id for row in claude.messages.batches.results(batch_id)]


def _outcomes(http: Http, batch_id: str) -> dict[str, Any]:
    lines = http.api("GET", f"/batches/{batch_id}/results").body.splitlines()
    return {row["custom_id"]: row["result"] for row in map(json.loads, lines)}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": "drop", "when": "after", "how": "reset"}, anthropic.APIConnectionError),
        ({"kind": "drop", "when": "mid_body"}, anthropic.APIConnectionError),
        ({"kind": "status", "status": 500, "when": "after"}, anthropic.InternalServerError),
        ({"kind": "status", "status": 409, "when": "after"}, anthropic.ConflictError),
    ],
)
def test_a_create_may_be_accepted_without_an_answer_that_says_so(
    claude: anthropic.Anthropic, http: Http, fault: dict[str, Any], error: type[Exception]
) -> None:
    http.fault(**fault, path=CREATE)
    with pytest.raises(error):
        claude.messages.batches.create(requests=_totals(2))
    [batch] = claude.messages.batches.list().data
    assert batch.request_counts.succeeded == 2
    assert http.bill()["batch_requests"] == 2


def test_a_create_may_be_accepted_and_stall(http: Http) -> None:
    http.fault("hold", name="stalled", path=CREATE)
    with (
        anthropic.Anthropic(api_key="k", base_url=http.url, max_retries=0, timeout=0.3) as client,
        pytest.raises(anthropic.APITimeoutError),
    ):
        client.messages.batches.create(requests=_totals(1))
    assert len(http.batches()) == 1
    assert http.requests()[0]["status"] is None


def test_the_sdk_s_own_retries_make_more_than_one_batch(http: Http) -> None:
    http.fault("status", status=500, when="after", path=CREATE, times=2, headers=AT_ONCE)
    with anthropic.Anthropic(api_key="k", base_url=http.url, max_retries=2) as client:
        client.messages.batches.create(requests=_totals(1))
    assert len(http.batches()) == 3


@pytest.mark.parametrize("status", [400, 413, 429, 529])
def test_a_create_may_be_refused(claude: anthropic.Anthropic, http: Http, status: int) -> None:
    http.fault("status", status=status, path=CREATE, match="Total: 1")
    with pytest.raises(anthropic.APIStatusError) as caught:
        claude.messages.batches.create(requests=_totals(2))
    assert (caught.value.status_code, http.batches()) == (status, [])


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/{id}"), ("POST", "/{id}/cancel"), ("DELETE", "/{id}"), ("GET", "/{id}/results")],
)
def test_a_status_fault_works_at_every_endpoint_of_a_batch(http: Http, method: str, path: str) -> None:
    batch_id = _made(http, 1)
    http.fault("status", status=503, path=f"{method} /v1/messages/batches{path}", match=batch_id if path else None)
    statuses = [http.api(method, f"/batches{path.format(id=batch_id)}").status for _ in range(2)]
    assert statuses == [503, 200]


def test_a_batch_may_be_found_only_after_a_while(claude: anthropic.Anthropic, http: Http) -> None:
    http.fault("found_late", seconds=60)
    batch_id = _made(http, 1)
    for _ in range(2):
        with pytest.raises(anthropic.NotFoundError, match=f"Message Batch {batch_id} not found."):
            claude.messages.batches.retrieve(batch_id)
    assert [batch.id for batch in claude.messages.batches.list()] == [batch_id]
    http.advance(60)
    assert claude.messages.batches.retrieve(batch_id).processing_status == "ended"


def test_a_batch_may_be_listed_only_after_a_while(claude: anthropic.Anthropic, http: Http) -> None:
    http.fault("listed_late", seconds=60)
    http.fault("drop", when="after", path=CREATE)
    with pytest.raises(anthropic.APIConnectionError):
        claude.messages.batches.create(requests=_totals(1))
    other = _made(http, 1)
    assert [batch.id for batch in claude.messages.batches.list()] == [other]
    http.advance(60)
    assert len(claude.messages.batches.list().data) == 2


def test_a_cut_at_a_line_end_tells_nothing_and_happens_once(claude: anthropic.Anthropic, http: Http) -> None:
    batch_id = _made(http, 10)
    http.fault("cut", lines=4)
    assert len(_ids(claude, batch_id)) == 4
    assert len(_ids(claude, batch_id)) == 10


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("mid_line", json.JSONDecodeError),
        ("fin", httpx2.RemoteProtocolError),
        ("reset", httpx2.ReadError),
    ],
)
def test_a_download_may_be_cut_as_the_sdk_sees_it(
    claude: anthropic.Anthropic, http: Http, how: str, error: type[Exception]
) -> None:
    batch_id = _made(http, 10)
    http.fault("cut", lines=4, how=how)
    rows = claude.messages.batches.results(batch_id)
    with pytest.raises(error):
        list(rows)
    rows.close()
    assert len(_ids(claude, batch_id)) == 10


@pytest.mark.parametrize("how", ["line_end", "mid_line", "fin", "reset"])
def test_the_lines_before_a_cut_arrive_whole(claude: anthropic.Anthropic, http: Http, how: str) -> None:
    batch_id = _made(http, 10)
    whole = http.api("GET", f"/batches/{batch_id}/results").body.splitlines(keepends=True)
    http.fault("cut", lines=4, how=how)
    received = b""
    with (
        claude.messages.batches.with_streaming_response.results(batch_id) as reply,
        suppress(httpx2.TransportError),
    ):
        for chunk in reply.iter_bytes():
            received += chunk
    half = whole[4][: len(whole[4]) // 2] if how == "mid_line" else b""
    assert received == b"".join(whole[:4]) + half


def test_a_download_may_fail_with_503_and_come_again(http: Http) -> None:
    batch_id = _made(http, 3)
    http.fault("status", status=503, path=RESULTS, headers=AT_ONCE)
    with anthropic.Anthropic(api_key="k", base_url=http.url, max_retries=1) as client:
        assert len(_ids(client, batch_id)) == 3


def test_lines_may_come_twice_be_missing_and_be_unknown_in_one_download(
    claude: anthropic.Anthropic, http: Http
) -> None:
    batch_id = _made(http, 5)
    http.fault("duplicate_lines", count=2)
    assert Counter(_ids(claude, batch_id)) == {"r0": 2, "r1": 2, "r2": 1, "r3": 1, "r4": 1}
    http.fault("missing_ids", count=1)
    http.fault("unknown_ids", count=2)
    assert sorted(_ids(claude, batch_id)) == ["never-sent-0", "never-sent-1", "r1", "r2", "r3", "r4"]
    assert sorted(_ids(claude, batch_id)) == ["r0", "r1", "r2", "r3", "r4"]


def test_a_line_may_be_broken_among_good_ones(http: Http) -> None:
    batch_id = _made(http, 5)
    http.fault("broken_line", lines=2)
    lines = http.api("GET", f"/batches/{batch_id}/results").body.splitlines()
    assert len(lines) == 5
    for position, line in enumerate(lines):
        if position == 2:
            with pytest.raises(json.JSONDecodeError):
                json.loads(line)
        else:
            assert json.loads(line)["result"]["type"] == "succeeded"


def test_a_download_may_pause_until_its_release(claude: anthropic.Anthropic, http: Http) -> None:
    batch_id = _made(http, 5)
    http.fault("pause", lines=3, name="half")
    with (
        claude.messages.batches.with_streaming_response.results(batch_id) as reply,
        ThreadPoolExecutor(1) as pool,
    ):
        chunks = reply.iter_bytes()
        seen = b""
        while seen.count(b"\n") < 3:
            seen += next(chunks)
        assert http.call("GET", "/_sandbox/held?name=half").json["reached"]
        assert seen.count(b"\n") == 3
        rest = pool.submit(lambda: b"".join(chunks))
        assert http.call("POST", "/_sandbox/release", {"name": "half"}).json == {"released": 1}
        assert (seen + rest.result()).count(b"\n") == 5


def test_a_request_of_a_batch_gets_the_fault_of_its_text(http: Http) -> None:
    http.fault("max_tokens", match="Total: 0")
    http.fault("refusal", match="Total: 1", path=CREATE)
    http.fault("fenced", match="Total: 2")
    batch_id = _made(http, 4)
    messages = {name: result["message"] for name, result in _outcomes(http, batch_id).items()}
    assert [messages[f"r{n}"]["stop_reason"] for n in range(4)] == ["max_tokens", "refusal", "end_turn", "end_turn"]
    assert messages["r2"]["content"][0]["text"].startswith("```json")
    assert http.bill()["calls"] == 4


def test_a_fault_for_requests_of_batches_leaves_messages_alone(http: Http) -> None:
    http.fault("fenced", path=CREATE)
    http.fault("expired")
    texts = [block["text"] for block in http.message(_totals(1)[0]["params"]).json["content"]]
    assert texts == ['{"total": 0}']


def test_a_scripted_reply_in_a_batch_is_billed_at_half_price_whatever_it_says(http: Http) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 0, "service_tier": "standard"}
    http.fault("reply", message={"id": "m", "model": "claude-haiku-5-5", "content": [], "usage": usage})
    batch_id = _made(http, 1)
    assert _outcomes(http, batch_id)["r0"]["message"]["usage"] == usage
    assert http.bill()["cost_usd"] == "0.00005"


def test_rows_may_be_errored_expired_canceled_or_of_an_unknown_type_and_cost_nothing(http: Http) -> None:
    http.fault("errored", error="overloaded_error", message="Overloaded", match="Total: 0")
    http.fault("expired", match="Total: 1")
    http.fault("canceled", match="Total: 2")
    http.fault("result", result={"type": "postponed", "until": "later"}, match="Total: 3")
    batch_id = _made(http, 5)
    outcomes = _outcomes(http, batch_id)
    assert outcomes["r0"]["error"]["error"]["type"] == "overloaded_error"
    assert [outcomes[f"r{n}"] for n in (1, 2, 3)] == [
        {"type": "expired"}, {"type": "canceled"}, {"type": "postponed", "until": "later"},
    ]  # fmt: skip
    counts = http.api("GET", f"/batches/{batch_id}").json["request_counts"]
    assert counts == {"processing": 0, "succeeded": 1, "errored": 2, "canceled": 1, "expired": 1}
    assert http.bill()["calls"] == 1


def test_a_batch_may_be_canceling_for_ever(claude: anthropic.Anthropic, http: Http) -> None:
    http.durations(batch_seconds=HOUR)
    http.fault("canceling_for_ever")
    batch_id = _made(http, 2)
    claude.messages.batches.cancel(batch_id)
    http.advance(2 * DAY)
    assert claude.messages.batches.retrieve(batch_id).processing_status == "canceling"
    assert http.bill()["calls"] == 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "cut"}, "faults.0.lines: Field required"),
        ({"kind": "cut", "lines": -1}, "faults.0.lines: Input should be 0 or more"),
        ({"kind": "cut", "lines": True}, "faults.0.lines: Input has the wrong type"),
        ({"kind": "cut", "lines": 1, "path": LIST}, f"faults.0.path: 'cut' does not apply to {LIST}"),
        ({"kind": "fenced", "path": RESULTS}, f"faults.0.path: 'fenced' does not apply to {RESULTS}"),
        ({"kind": "status", "status": 500, "path": "/v1/messages/batches"}, "faults.0.path: no such endpoint"),
        ({"kind": "status", "status": 500, "when": "mid_body"}, "faults.0.when: Input should be one of before, after"),
    ],
)
def test_a_fault_of_batches_that_cannot_be_meant_is_refused(http: Http, spec: dict[str, Any], message: str) -> None:
    reply = http.call("POST", "/_sandbox/faults", {"faults": [spec]})
    assert (reply.status, reply.error[1]) == (400, message)
