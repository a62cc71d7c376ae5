"""What the tests of message batches share: how documents are told apart at the provider, and the paths of faults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.request import Request

from tests.sandbox_server import DIRECT

if TYPE_CHECKING:
    from tests.sandbox_server import SandboxServer
    from tests.workplace import Workplace

CREATE = "POST /v1/messages/batches"
RESULTS = "GET /v1/messages/batches/{id}/results"
HEADERS = {"x-api-key": "test-key", "anthropic-version": "2023-06-01", "content-type": "application/json"}


def add_decoys(sandbox: SandboxServer, requests: int, *, number: int = 3) -> None:
    """Put batches of somebody else's into the same account, each with so many requests."""
    params = {"model": "claude-haiku-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
    for _ in range(number):
        body = {"requests": [{"custom_id": f"decoy-{place}", "params": params} for place in range(requests)]}
        url = f"{sandbox.url}/v1/messages/batches"
        with DIRECT.open(Request(url, json.dumps(body).encode(), HEADERS, method="POST"), timeout=10) as answer:
            assert answer.status == 200


def our_requests(sandbox: SandboxServer) -> list[dict[str, Any]]:
    """Return every request that we sent in a batch, in the order of sending; decoys are left out."""
    sent = [request for batch in sandbox.batches() for request in batch["requests"]]
    return [request for request in sent if not request["custom_id"].startswith("decoy-")]


def our_batches(sandbox: SandboxServer) -> list[dict[str, Any]]:
    """Return the batches that we made."""
    return [batch for batch in sandbox.batches() if not batch["requests"][0]["custom_id"].startswith("decoy-")]


def assert_each_document_was_billed_once(workplace: Workplace, documents: int) -> None:
    """Every document was processed by the provider once, and its row holds what that cost."""
    requests = our_requests(workplace.sandbox)
    assert sum(request["billed_times"] for request in requests) == documents
    assert len({request["document_sha256"] for request in requests if request["billed_times"]}) == documents
    answered = [attempt for attempt in workplace.books.attempts if attempt["status"] == "answered"]
    assert len({attempt["result_id"] for attempt in answered}) == len(answered) == documents
