"""Submitting: what is due of a run becomes batches, each document in one of them, and the run ends without waiting."""

from __future__ import annotations

import re
import time
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers.orders import Result
from extraction_core.errors import ConfigurationError
from extraction_core.failpoints import Failpoint
from tests.batches.support import CREATE, assert_each_document_was_billed_once, our_batches, our_requests
from tests.factories import some_files
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

STALE_LEASE_S = 1.0
BAD_REQUEST = {
    "kind": "status",
    "status": 400,
    "path": "/v1/messages/count_tokens",
    "body": {"type": "error", "error": {"type": "invalid_request_error", "message": "output_config: not good"}},
}
PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_a_set_is_submitted_and_left_to_the_provider(workplace: Workplace) -> None:
    report = workplace.run(workplace.collection(mode="batch"))
    (batch,) = our_batches(workplace.sandbox)
    (row,) = workplace.books.batches
    assert report.result is Result.SUBMITTED
    assert batch["id"] in report.reason
    assert (row["provider_id"], row["state"], row["request_count"]) == (batch["id"], "in_progress", 3)
    assert workplace.books.statuses() == {"running": 3}
    assert [attempt["status"] for attempt in workplace.books.attempts] == ["open"] * 3
    assert workplace.books.files() == {}
    assert workplace.calls() == []


def test_what_has_ended_is_collected_at_half_the_price(workplace: Workplace) -> None:
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", 3)
    assert workplace.books.known_cost == workplace.sandbox.billed_usd > Decimal(0)
    assert [batch["state"] for batch in workplace.books.batches] == ["collected"]
    assert_each_document_was_billed_once(workplace, 3)
    workplace.books.assert_settled()


def test_a_batch_costs_half_of_what_calls_cost(workplace: Workplace) -> None:
    calls = workplace.collection()
    workplace.run(calls)
    by_call = workplace.books.known_cost
    by_batch = workplace.collection(mode="batch", instructions="Extract the model and its list price!")
    workplace.run(by_batch)
    workplace.finish(by_batch)
    assert workplace.books.known_cost - by_call == by_call / 2


@ON_ONE_DATABASE
def test_the_files_are_those_that_calls_would_have_made(workplace: Workplace) -> None:
    workplace.run(workplace.collection())
    by_call = {path: content for path, (_, content) in workplace.books.files().items()}
    by_batch = workplace.collection(mode="batch", instructions="Extract the model and its list price!")
    workplace.run(by_batch)
    workplace.finish(by_batch)
    assert {path: content for path, (_, content) in workplace.books.files().items()} == by_call


def test_a_set_is_split_by_the_number_of_requests(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(10), mode="batch", max_batch_requests=4)
    workplace.run(collection)
    assert [len(batch["requests"]) for batch in our_batches(workplace.sandbox)] == [4, 4, 2]
    ids = [request["custom_id"] for request in our_requests(workplace.sandbox)]
    assert len(set(ids)) == 10
    assert workplace.finish(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 10)


@ON_ONE_DATABASE
def test_a_set_is_split_by_bytes_and_no_document_is_left_behind(workplace: Workplace) -> None:
    files = {f"dell/{key}.md": f"Model: {key}\n\nPrice USD: 7\n\n{'dull words ' * 40_000}" for key in "abc"}
    collection = workplace.collection(files, mode="batch", max_batch_mb=1)
    workplace.run(collection)
    assert [len(batch["requests"]) for batch in our_batches(workplace.sandbox)] == [2, 1]
    assert workplace.finish(collection).result is Result.CLOSED


@ON_ONE_DATABASE
def test_ids_fit_the_providers_pattern_whatever_a_document_is_called(workplace: Workplace) -> None:
    text = "Model: R1\n\nPrice USD: 7\n"
    files = dict.fromkeys([f"dell/{'long' * 50}.md", 'dell/naïve, with ... "quotes".md', "dell/日本語 😀.md"], text)
    collection = workplace.collection(files, mode="batch")
    workplace.run(collection)
    assert all(PATTERN.fullmatch(request["custom_id"]) for request in our_requests(workplace.sandbox))
    report = workplace.finish(collection)
    assert report.run is not None
    assert report.run["completed_count"] == 3


def test_a_document_that_cannot_be_asked_about_is_one_failed_row_and_no_request(workplace: Workplace) -> None:
    long = "Model: R1\n\nPrice USD: 7\n\n" + "word " * 700_000
    collection = workplace.collection({**some_files(2), "dell/long.md": long, "dell/empty.md": ""}, mode="batch")
    workplace.run(collection)
    assert len(our_requests(workplace.sandbox)) == 2
    assert workplace.books.result("long.md")["reason"] == "too_long"
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["completed_count"], report.run["failed_count"]) == (2, report.run["request_count"] - 2)


@ON_ONE_DATABASE
def test_the_common_prefix_is_cached_for_an_hour(workplace: Workplace) -> None:
    collection = workplace.collection(mode="batch", instructions="Extract the model and its list price. " * 900)
    workplace.run(collection)
    workplace.finish(collection)
    written = [attempt["cache_write_1h_tokens"] for attempt in workplace.books.attempts]
    assert sum(written) > 0
    assert [attempt["cache_write_5m_tokens"] for attempt in workplace.books.attempts] == [0, 0, 0]


@ON_ONE_DATABASE
def test_an_answer_limit_that_the_client_refuses_for_calls_is_no_limit_for_a_batch(workplace: Workplace) -> None:
    collection = workplace.collection(mode="batch", max_output_tokens=64_000)
    workplace.run(collection)
    assert [request["max_tokens"] for request in our_requests(workplace.sandbox)] == [64_000] * 3
    assert workplace.finish(collection).result is Result.CLOSED


def test_an_answer_that_was_cut_is_asked_for_again_with_more_room_in_a_further_batch(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "max_tokens", "match": "R701", "path": CREATE}])
    collection = workplace.collection(mode="batch", max_output_tokens=500)
    workplace.run(collection)
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", 3)
    limits = [[request["max_tokens"] for request in batch["requests"]] for batch in our_batches(workplace.sandbox)]
    assert limits == [[500] * 3, [1000]]
    assert workplace.books.known_cost == workplace.sandbox.billed_usd


def test_a_broken_collection_is_found_by_one_request_before_a_batch_is_made(workplace: Workplace) -> None:
    workplace.sandbox.faults([{**BAD_REQUEST, "times": None}])
    report = workplace.run(workplace.collection(mode="batch"))
    assert report.result is Result.LINE_STOPPED
    assert "refuses the requests of this collection" in report.reason
    assert our_batches(workplace.sandbox) == []
    assert workplace.books.statuses() == {"queued": 3}
    assert workplace.books.attempts == []


def test_a_single_bad_request_does_not_keep_the_others_back(workplace: Workplace) -> None:
    workplace.sandbox.faults([BAD_REQUEST])
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    assert workplace.books.statuses() == {"failed": 1, "running": 2}
    report = workplace.finish(collection)
    assert report.run is not None
    assert report.run["status"] == "completed_with_errors"


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_batches_is_an_error_that_names_the_other_mode(workplace: Workplace, status: int) -> None:
    workplace.sandbox.faults([{"kind": "status", "status": status, "path": CREATE}])
    with pytest.raises(ConfigurationError, match="Set `mode: realtime`"):
        workplace.run(workplace.collection(mode="batch"))
    assert workplace.books.statuses() == {"queued": 3}
    assert [(row["status"], row["cost_usd"], row["counted"]) for row in workplace.books.attempts] == [
        ("failed", Decimal(0), False)
    ] * 3


def test_a_refused_batch_costs_nothing_and_counts_as_no_attempt(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "status", "status": 401, "path": CREATE}])
    collection = workplace.collection(mode="batch", max_attempts=1)
    report = workplace.run(collection)
    assert (report.result, workplace.books.statuses()) == (Result.LINE_STOPPED, {"queued": 3})
    assert [batch["state"] for batch in workplace.books.batches] == ["void"]
    workplace.run(collection)
    assert workplace.finish(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 3)


@ON_ONE_DATABASE
def test_a_batch_that_is_too_large_for_the_server_is_made_smaller(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "status", "status": 413, "path": CREATE}])
    collection = workplace.collection(some_files(4), mode="batch")
    workplace.run(collection)
    assert [len(batch["requests"]) for batch in our_batches(workplace.sandbox)] == [2, 2]
    assert workplace.finish(collection).result is Result.CLOSED


@ON_ONE_DATABASE
def test_a_request_that_is_too_large_for_the_server_by_itself_is_one_failed_row(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "status", "status": 413, "path": CREATE, "times": 2}])
    collection = workplace.collection(some_files(2), mode="batch")
    workplace.run(collection)
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["completed_count"], report.run["failed_count"]) == (1, 1)
    (failed,) = [row for row in workplace.books.results if row["status"] == "failed"]
    assert (failed["reason"], "alone" in failed["message"]) == ("too_long", True)


class StandStill:
    """Failpoints of a process that loses touch with the ledger and stands still where a batch is reserved."""

    def __call__(self, name: Failpoint) -> None:
        """Acknowledge no heartbeat; let more than two thirds of the lease go by before the reservation's commit."""
        if name is Failpoint.COMMIT_HEARTBEAT:
            raise OSError
        if name is Failpoint.COMMIT_BATCH_RESERVE:
            time.sleep(STALE_LEASE_S)


@ON_ONE_DATABASE
def test_a_submitter_that_lost_touch_with_the_ledger_sends_nothing(workplace: Workplace) -> None:
    timing = {"lease_s": STALE_LEASE_S, "heartbeat_s": 0.1, "request_timeout_s": 0.1}
    report = workplace.run(workplace.collection(mode="batch"), failpoints=StandStill(), **timing)
    assert report.result is Result.LINE_STOPPED
    assert our_batches(workplace.sandbox) == []
    assert [batch["state"] for batch in workplace.books.batches] == ["void"]
    assert workplace.books.statuses() == {"queued": 3}


def test_the_next_look_is_due_when_the_provider_says(workplace: Workplace) -> None:
    workplace.sandbox.batch_seconds(None)
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.later(60)
    workplace.watch(collection)
    (batch,) = workplace.books.batches
    assert 10_000 <= batch["due_ms"] - batch["claimed_ms"] < 20_000


def test_the_budget_of_a_run_lets_no_request_through_that_it_cannot_pay(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(4), mode="batch", max_cost_usd="0.0015", max_output_tokens=2000)
    workplace.run(collection)
    assert len(our_requests(workplace.sandbox)) == 2  # each may cost up to $0.00058
    report = workplace.finish(collection)
    assert report.run is not None
    assert report.run["completed_count"] == 4  # what the first two did cost leaves room
    assert workplace.books.known_cost == workplace.sandbox.billed_usd <= Decimal("0.0015")


@ON_ONE_DATABASE
def test_a_document_for_which_the_budget_has_no_room_fails_with_the_sums(workplace: Workplace) -> None:
    collection = workplace.collection(mode="batch", max_cost_usd="0.0001", max_output_tokens=2000)
    report = workplace.run(collection)
    assert report.run is not None
    assert report.run["status"] == "failed"
    assert {row["reason"] for row in workplace.books.results} == {"cost_limit"}
    assert our_batches(workplace.sandbox) == []


def test_a_collection_that_is_switched_to_calls_still_collects_what_it_has_paid_for(workplace: Workplace) -> None:
    workplace.run(workplace.collection(mode="batch"))
    by_call = workplace.collection(mode="realtime")
    held = workplace.run(by_call)
    assert (held.result, workplace.calls()) == (Result.HELD_BY_OTHERS, [])
    assert "message batch" in held.reason
    assert workplace.finish(by_call).result is Result.CLOSED
    assert workplace.calls() == []
    assert_each_document_was_billed_once(workplace, 3)


def test_what_is_done_is_not_submitted_again(workplace: Workplace) -> None:
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.finish(collection)
    assert workplace.run(collection).result is Result.NOTHING_TO_DO
    assert len(our_batches(workplace.sandbox)) == 1
