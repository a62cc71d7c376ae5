"""Faults of the provider: a lasting one costs its own document alone, a passing one costs time."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import some_files
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.workplace import Workplace

GOOD = 20


@dataclass(frozen=True, kw_only=True)
class Lasting:
    """A fault that does not pass: what the document fails with, and how many calls are made for it."""

    fault: Mapping[str, Any]
    reason: str
    calls: int = 1
    lost: bool = False
    """Whether the answers are lost on the way, so that their cost is not known."""


LASTING = {
    "BAD-400": Lasting(
        fault={"kind": "status", "status": 400, "body": {"error": {"message": "no"}}}, reason="invalid_request"
    ),
    "BAD-413": Lasting(fault={"kind": "status", "status": 413}, reason="request_too_large"),
    "BAD-500": Lasting(fault={"kind": "status", "status": 500}, reason="server_error"),
    "BAD-HTML": Lasting(fault={"kind": "raw", "body": "<html>"}, reason="unreadable_response", lost=True),
    "BAD-BEFORE": Lasting(fault={"kind": "drop", "when": "before"}, reason="connection_lost", lost=True),
    "BAD-AFTER": Lasting(fault={"kind": "drop", "when": "after"}, reason="connection_lost", lost=True),
    "BAD-RESET": Lasting(fault={"kind": "drop", "when": "after", "how": "reset"}, reason="connection_lost", lost=True),
    "BAD-HALF": Lasting(fault={"kind": "drop", "when": "mid_body"}, reason="connection_lost", lost=True),
    "BAD-SLOW": Lasting(fault={"kind": "hold", "name": "slow"}, reason="timeout", lost=True),
    "BAD-CUT": Lasting(fault={"kind": "max_tokens"}, reason="truncated", calls=2),
    "BAD-REFUSED": Lasting(fault={"kind": "refusal"}, reason="refused"),
    "BAD-TALK": Lasting(fault={"kind": "refusal", "empty": False}, reason="refused"),
    "BAD-EMPTY": Lasting(fault={"kind": "empty"}, reason="empty_answer", calls=2),
    "BAD-SCHEMA": Lasting(fault={"kind": "wrong_schema"}, reason="schema_mismatch", calls=2),
}


def text_of(model: str) -> str:
    return f"# PowerEdge {model}\n\nModel: {model}\n\nPrice USD: 10\n"


def fault(model: str, /, **options: Any) -> dict[str, Any]:
    return {"times": None, "match": f"{model}\\b", **options}


def cost_of(calls: list[dict[str, Any]]) -> Decimal:
    return sum((Decimal(call["cost_usd"]) for call in calls if call["cost_usd"]), Decimal(0))


def test_one_document_with_each_lasting_fault_costs_its_own_and_no_other(workplace: Workplace) -> None:
    bad = {f"dell/{name}.md": text_of(name) for name in LASTING}
    workplace.sandbox.faults([fault(name, **lasting.fault) for name, lasting in LASTING.items()])
    collection = workplace.collection({**some_files(GOOD), **bad}, concurrency=40)
    report = workplace.run(collection, request_timeout_s=4.0, retry_in_run_s=0.1)
    books, calls = workplace.books, workplace.calls()
    assert report.run is not None
    assert report.run["status"] == "completed_with_errors"
    assert books.statuses() == {"completed": GOOD, "failed": len(LASTING)}
    for name, lasting in LASTING.items():
        row = books.result(f"{name}.md")
        mine = [call for call in calls if f"Model: {name}\n" in call["user_text"]]
        assert (name, lasting.reason, lasting.calls) == (name, row["reason"], len(mine))
        assert (None if lasting.lost else cost_of(mine)) == row["cost_usd"]
    assert report.run["unknown_cost_count"] == sum(lasting.lost for lasting in LASTING.values())
    assert report.run["cost_usd"] == cost_of(
        [call for call in calls if call["status"] == 200 and call["fault"] != "raw"]
    )
    assert len(calls) == len(books.attempts)
    books.assert_settled()


PASSING = {
    "429": {"kind": "status", "status": 429, "headers": {"retry-after": "0.1"}},
    "529": {"kind": "status", "status": 529, "headers": {"retry-after": "0.1"}},
    "500": {"kind": "status", "status": 500},
    "reset": {"kind": "drop", "when": "before", "how": "reset"},
}


def test_faults_that_pass_cost_calls_and_no_document(workplace: Workplace) -> None:
    workplace.sandbox.faults([{**options, "match": f"R70{number}"} for number, options in enumerate(PASSING.values())])
    report = workplace.run(workplace.collection(some_files(GOOD)))
    books = workplace.books
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", GOOD)
    calls = workplace.calls()
    assert len(calls) == GOOD + len(PASSING) == len(books.attempts)
    assert [0] * len(calls) == [call["retry_count"] for call in calls]
    assert workplace.sandbox.bill()["calls"] == GOOD
    assert report.run["cost_usd"] == workplace.sandbox.billed_usd
    books.assert_settled()


def test_a_refusal_to_serve_does_not_use_up_an_attempt_and_a_failure_does(workplace: Workplace) -> None:
    workplace.sandbox.faults([{**options, "match": f"R70{number}"} for number, options in enumerate(PASSING.values())])
    workplace.run(workplace.collection(some_files(4)))
    counted = {row["reason"]: row["counted"] for row in workplace.books.attempts if row["reason"]}
    assert counted == {"rate_limited": False, "overloaded": False, "server_error": True, "connection_lost": True}


@pytest.mark.parametrize("status", [429, 529])
def test_a_document_that_is_never_served_leaves_the_others_done_and_may_be_tried_later(
    workplace: Workplace, status: int
) -> None:
    never = {"kind": "status", "status": status, "headers": {"retry-after": "0.02"}}
    workplace.sandbox.faults([fault("R700", **never)])
    workplace.run(workplace.collection(some_files(GOOD), concurrency=40))
    books = workplace.books
    assert books.statuses() == {"completed": GOOD - 1, "failed": 1}
    row = books.result("r700.md")
    assert (row["status"], row["retryable"]) == ("failed", True)
    (document,) = [document for document in books.documents if document["next_retry_ms"]]
    assert document["document_key"] == "dell/r700.md"
    assert len([call for call in workplace.calls() if call["status"] == status]) <= 8
    assert not any(attempt["counted"] for attempt in books.attempts if attempt["result_id"] == row["result_id"])


@ON_ONE_DATABASE
@pytest.mark.parametrize("kind", ["thinking_first", "fenced", "trailing_text", "prose_around"])
def test_an_answer_in_odd_clothes_is_an_answer(workplace: Workplace, kind: str) -> None:
    workplace.sandbox.faults([fault("R700", kind=kind)])
    workplace.run(workplace.collection(some_files(1)))
    assert workplace.books.result("r700.md")["status"] == "completed"
    assert len(workplace.calls()) == 1


@pytest.mark.parametrize("kind", ["nul", "lone_surrogate"])
def test_what_no_database_holds_is_replaced_and_noted(workplace: Workplace, kind: str) -> None:
    workplace.sandbox.faults([fault("R700", kind=kind)])
    workplace.run(workplace.collection(some_files(2)))
    books = workplace.books
    assert books.statuses() == {"completed": 2}
    assert books.result("r700.md")["notes"] == ["characters_replaced:1"]
    assert books.output("r700.md").read_text(encoding="utf-8").count("\ufffd") == 1
    books.assert_settled()


def test_an_unknown_price_is_unknown_and_not_zero(workplace: Workplace) -> None:
    message = {
        "type": "message",
        "model": "claude-unlisted-9",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": '{"model": "R700", "price_usd": 1}'}],
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    workplace.sandbox.faults([fault("R700", kind="reply", message=message)])
    report = workplace.run(workplace.collection(some_files(2)))
    assert report.run is not None
    assert (report.run["completed_count"], report.run["unknown_cost_count"]) == (2, 1)
    assert workplace.books.result("r700.md")["cost_usd"] is None
    assert report.run["cost_usd"] == workplace.books.result("r701.md")["cost_usd"] == workplace.sandbox.billed_usd
    workplace.books.assert_settled()


def test_an_answer_with_an_odd_usage_is_not_lost(workplace: Workplace) -> None:
    message = {
        "type": "message",
        "model": None,
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": '{"model": "R700", "price_usd": 1}'}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation": 7},
    }
    workplace.sandbox.faults([fault("R700", kind="raw", content_type="application/json", body=message)])
    workplace.run(workplace.collection(some_files(1)))
    assert workplace.books.result("r700.md")["status"] == "completed"
