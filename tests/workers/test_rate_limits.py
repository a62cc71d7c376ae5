"""A provider that does not serve: waits as told, by all workers, bounded in number."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import some_files
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 24
AT_ONCE = 8
CLOCK_S = 0.005
"""Both clocks are read in whole milliseconds."""


def not_served(retry_after: str | None, status: int = 429, **options: Any) -> dict[str, Any]:
    headers = {"retry-after": retry_after} if retry_after else {}
    return {"kind": "status", "status": status, "headers": headers, **options}


def arrivals(calls: list[dict[str, Any]]) -> list[float]:
    return [datetime.fromisoformat(call["at"]).timestamp() for call in calls]


def gaps(calls: list[dict[str, Any]]) -> list[float]:
    times = arrivals(calls)
    return [later - earlier for earlier, later in pairwise(times)]


def test_a_wait_too_long_for_a_run_puts_its_documents_off_until_then(workplace: Workplace) -> None:
    workplace.sandbox.faults([not_served("47", times=None)])
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE)
    report = workplace.run(collection, retry_in_run_s=1.0)
    books = workplace.books
    assert report.run is not None
    assert report.run["status"] == "failed"
    assert len(workplace.calls()) <= AT_ONCE
    assert {("failed", "rate_limited", True)} == {
        (row["status"], row["reason"], row["retryable"]) for row in books.results
    }
    called = {attempt["result_id"] for attempt in books.attempts}
    finished = {row["document_id"]: row for row in books.results}
    for document in books.documents:
        row = finished[document["document_id"]]
        if row["result_id"] in called:
            assert document["next_retry_ms"] - row["finished_ms"] >= 47_000
        else:
            assert document["next_retry_ms"] > row["finished_ms"]
    assert not any(attempt["counted"] for attempt in books.attempts)
    books.assert_settled()


def test_what_was_put_off_is_done_by_a_later_run(workplace: Workplace) -> None:
    workplace.sandbox.faults([not_served("47", times=None)])
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE, max_attempts=1)
    workplace.run(collection, retry_in_run_s=1.0)
    workplace.sandbox.reset()
    report = workplace.run(collection)
    assert report.run is not None
    assert report.run["completed_count"] == DOCUMENTS == len(workplace.calls())
    assert [None] * DOCUMENTS == [document["next_retry_ms"] for document in workplace.books.documents]


def test_the_number_of_calls_to_a_provider_that_never_serves_is_bounded(workplace: Workplace) -> None:
    workplace.sandbox.faults([not_served("0.2", times=None)])
    workplace.run(workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE))
    assert workplace.books.statuses() == {"failed": DOCUMENTS}
    # a burst of eight, then four, two, one, one, one: parallelism halves, and six pauses in a row are the end
    assert AT_ONCE <= len(workplace.calls()) <= 2 * AT_ONCE + 6
    workplace.books.assert_settled()


def test_a_document_is_not_called_again_before_the_time_it_was_told(workplace: Workplace) -> None:
    workplace.sandbox.faults([not_served("0.4", times=4)])
    workplace.run(workplace.collection(some_files(2), concurrency=2))
    assert workplace.books.statuses() == {"completed": 2}
    calls = workplace.calls()
    assert len(calls) == 6
    for document in {call["document_sha256"] for call in calls}:
        again = gaps([call for call in calls if call["document_sha256"] == document])
        assert min(again, default=1.0) >= 0.4 - CLOCK_S


def test_a_wait_is_kept_by_all_documents(workplace: Workplace) -> None:
    workplace.sandbox.faults([not_served("0.6", skip=2)])
    report = workplace.run(workplace.collection(some_files(6), concurrency=1))
    assert report.run is not None
    assert report.run["completed_count"] == 6
    calls = workplace.calls()
    (refused,) = [number for number, call in enumerate(calls) if call["status"] == 429]
    assert refused == 2
    assert gaps(calls)[refused] >= 0.6 - CLOCK_S


@ON_ONE_DATABASE
def test_a_refusal_lowers_the_number_of_calls_in_flight(workplace: Workplace) -> None:
    workplace.sandbox.faults([not_served("0.3", times=AT_ONCE)])
    workplace.sandbox.hold("answers", times=None)
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE)
    child = workplace.child(collection)
    workplace.sandbox.wait_until_held("answers", at_least=1)
    held = [call for call in workplace.calls() if call["fault"] == "hold"]
    assert len(held) <= AT_ONCE // 2
    child.kill()
    child.join()


@ON_ONE_DATABASE
@pytest.mark.parametrize("header", [None, "soon"])
def test_without_a_time_told_the_wait_is_our_own(workplace: Workplace, header: str | None) -> None:
    workplace.sandbox.faults([not_served(header, status=529)])
    workplace.run(workplace.collection(some_files(2), concurrency=1))
    assert workplace.books.statuses() == {"completed": 2}
    assert gaps(workplace.calls())[0] >= 1.0 - CLOCK_S
