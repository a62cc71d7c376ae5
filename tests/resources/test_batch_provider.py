"""The Message Batches API as our client uses it: whom it gives the key, how far it lists, how often it sends."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.request import Request

import pytest

from extraction_core.batches import BatchSeen, BatchState
from extraction_core.causes import Cause
from resources.extraction import batches
from resources.extraction.access import access_from
from resources.extraction.batches import BatchNotFound, BatchProvider, CreateRefused, CreateUnclear, ResultsUnreadable
from tests.sandbox_server import DIRECT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox_server import SandboxServer

CREATE = "POST /v1/messages/batches"
RETRIEVE = "GET /v1/messages/batches/{id}"
PARAMS = {"model": "claude-haiku-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def provider(sandbox: SandboxServer) -> Iterator[BatchProvider]:  # noqa: ARG001 - leads the client to itself
    with closing(BatchProvider(access_from())) as provider:
        yield provider


def create(provider: BatchProvider, name: str = "one") -> BatchSeen:
    made = provider.create([{"custom_id": name, "params": PARAMS}])
    assert isinstance(made, BatchSeen)
    return made


def as_the_sandbox_tells_it(sandbox: SandboxServer, provider_id: str) -> dict[str, Any]:
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    url = f"{sandbox.url}/v1/messages/batches/{provider_id}"
    with DIRECT.open(Request(url, headers=headers), timeout=10) as answer:
        return json.load(answer)


def test_the_key_is_not_sent_to_another_host_that_holds_the_results(
    sandbox: SandboxServer, provider: BatchProvider
) -> None:
    made = create(provider)
    elsewhere = {**as_the_sandbox_tells_it(sandbox, made.provider_id), "results_url": "http://localhost:9/results"}
    sandbox.faults([{"kind": "raw", "body": elsewhere, "content_type": "application/json", "path": RETRIEVE}])
    told = "are at localhost:9: the key is sent to"
    with pytest.raises(ResultsUnreadable, match=told) as refused, provider.result_lines(made.provider_id):
        pass
    assert not refused.value.gone


def test_the_list_is_read_over_all_pages_back_to_the_moment(
    sandbox: SandboxServer, provider: BatchProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "PAGE", 2)
    create(provider, "too-old")
    sandbox.advance(3600)
    moment = datetime.now(UTC) + timedelta(seconds=1800)
    made = [create(provider, f"number-{number}").provider_id for number in range(5)]
    assert [seen.provider_id for seen in provider.created_since(moment)] == made[::-1]


def test_what_is_no_unicode_is_refused_before_it_is_sent(sandbox: SandboxServer, provider: BatchProvider) -> None:
    params = {**PARAMS, "messages": [{"role": "user", "content": "half an emoji: \ud83d"}]}
    refused = provider.create([{"custom_id": "one", "params": params}])
    assert isinstance(refused, CreateRefused)
    checked = provider.validate(params)
    assert checked is not None
    assert (refused.failed.cause, checked.cause) == (Cause.INVALID_REQUEST, Cause.INVALID_REQUEST)
    assert sandbox.requests() == []


def test_a_create_is_sent_once_whatever_comes_back(sandbox: SandboxServer, provider: BatchProvider) -> None:
    sandbox.faults([{"kind": "status", "status": 500, "when": "after", "path": CREATE, "times": None}])
    assert isinstance(provider.create([{"custom_id": "one", "params": PARAMS}]), CreateUnclear)
    assert len(sandbox.batches()) == 1


def test_a_running_batch_is_seen_with_the_wait_that_the_provider_asks_for(
    sandbox: SandboxServer, provider: BatchProvider
) -> None:
    sandbox.batch_seconds(None)
    seen = provider.retrieve(create(provider).provider_id)
    assert isinstance(seen, BatchSeen)
    assert (seen.state, seen.retry_after_s, seen.request_count) == (BatchState.IN_PROGRESS, 10.0, 1)


def test_a_batch_that_is_not_there_is_told_from_a_look_that_failed(provider: BatchProvider) -> None:
    assert isinstance(provider.retrieve("msgbatch_none"), BatchNotFound)
    with pytest.raises(ResultsUnreadable) as refused, provider.result_lines("msgbatch_none"):
        pass
    assert refused.value.gone
