"""Results as providers really send them: in any order, twice, cut, broken, unknown, missing. Each document gets its own."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.workers import batch_collect
from extraction_assets.workers.orders import Result
from extraction_core.failpoints import Failpoint
from tests import processes
from tests.batches.support import CREATE, RESULTS, assert_each_document_was_billed_once, our_batches, our_requests
from tests.core.handed_cases import CASES, needs_cases
from tests.factories import some_files
from tests.processes import KillAt
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from extraction_core.collection import Collection
    from tests.workplace import Workplace

ANY_OBJECT = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
HANDED = CASES / "files" / "batch"
MENDED_BY_READING_AGAIN = [
    {"kind": "cut", "lines": 2, "how": "line_end"},
    {"kind": "cut", "lines": 2, "how": "mid_line"},
    {"kind": "cut", "lines": 2, "how": "reset"},
    {"kind": "cut", "lines": 2, "how": "fin"},
    {"kind": "cut", "lines": 0, "how": "line_end"},
    {"kind": "status", "status": 503},
    {"kind": "broken_line", "lines": 1},
    {"kind": "missing_ids", "count": 1},
    {"kind": "duplicate_lines", "count": 2},
]


def submitted(workplace: Workplace, documents: int = 6, **changes: Any) -> Collection:
    collection = workplace.collection(some_files(documents), mode="batch", **changes)
    workplace.run(collection)
    return collection


def state_of(workplace: Workplace, number: int) -> tuple[str, str | None]:
    row = workplace.books.result(f"r{699 + number}.md")
    return row["status"], row["reason"]


@pytest.mark.parametrize("fault", MENDED_BY_READING_AGAIN, ids=lambda fault: " ".join(map(str, fault.values())))
def test_what_one_reading_lacks_another_brings_and_nothing_is_paid_twice(
    workplace: Workplace, fault: dict[str, Any]
) -> None:
    collection = submitted(workplace)
    workplace.sandbox.faults([{**fault, "path": RESULTS}])
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", 6)
    assert_each_document_was_billed_once(workplace, 6)
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    workplace.books.assert_settled()


def test_a_request_that_all_readings_leave_out_fails_with_that_reason_and_may_be_asked_again(
    workplace: Workplace,
) -> None:
    collection = submitted(workplace)
    workplace.sandbox.faults([{"kind": "missing_ids", "count": 1, "times": None, "path": RESULTS}])
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["completed_count"], report.run["failed_count"]) == (5, 1)
    (row,) = [row for row in workplace.books.results if row["status"] == "failed"]
    assert (row["reason"], row["retryable"]) == ("missing_from_results", True)
    assert report.run["unknown_cost_count"] == 1
    assert [batch["message"] for batch in workplace.books.batches] == ["1 requests are missing from the results"]


@ON_ONE_DATABASE
def test_results_that_stay_cut_are_settled_when_patience_ends(workplace: Workplace) -> None:
    collection = submitted(workplace)
    workplace.sandbox.faults([{"kind": "cut", "lines": 4, "how": "line_end", "times": None, "path": RESULTS}])
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["completed_count"], report.run["failed_count"]) == (4, 2)
    assert {row["reason"] for row in workplace.books.results if row["status"] == "failed"} == {"missing_from_results"}


@ON_ONE_DATABASE
def test_results_that_always_break_off_are_read_again_later_and_what_was_read_is_kept(workplace: Workplace) -> None:
    collection = submitted(workplace)
    fault = {"kind": "cut", "lines": 4, "how": "mid_line", "path": RESULTS}
    workplace.sandbox.faults([{**fault, "times": 5}])
    workplace.later(1000)
    workplace.watch(collection)
    report = workplace.run(collection)
    assert (report.result, workplace.books.statuses()["completed"]) == (Result.SUBMITTED, 4)
    assert workplace.finish(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 6)


def test_a_result_that_nobody_asked_for_is_accounted_for(workplace: Workplace) -> None:
    collection = submitted(workplace, 3)
    workplace.sandbox.faults([{"kind": "unknown_ids", "count": 2, "times": None, "path": RESULTS}])
    report = workplace.finish(collection)
    assert report.run is not None
    counts = [report.run[f"{name}_count"] for name in ("request", "unexpected", "completed", "failed", "cancelled")]
    assert counts == [3, 2, 3, 2, 0]
    strays = [row for row in workplace.books.results if row["reason"] == "custom_id_mismatch"]
    assert [row["message"] for row in strays] == ["no result row at submission; custom_id mismatch"] * 2
    assert all(row["cost_usd"] > Decimal(0) for row in strays)
    assert report.run["cost_usd"] == sum(row["cost_usd"] for row in workplace.books.results)
    assert workplace.books.ledger.reports.set_counts(report.run["set_id"]) == {"completed": 3}


@pytest.mark.parametrize(
    ("error", "again"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("timeout_error", True),
        ("invalid_request_error", False),
        ("request_too_large", False),
    ],
)
@ON_ONE_DATABASE
def test_an_errored_request_is_tried_again_if_its_cause_passes(
    workplace: Workplace,
    error: str,
    again: bool,  # noqa: FBT001 - a parameter
) -> None:
    fault = {"kind": "errored", "error": error, "message": "so it is", "match": "R701", "path": CREATE}
    workplace.sandbox.faults([fault])
    collection = submitted(workplace, 3)
    report = workplace.finish(collection)
    assert report.run is not None
    assert report.run["completed_count"] == (3 if again else 2)
    assert len(our_batches(workplace.sandbox)) == (2 if again else 1)
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    if not again:
        assert f"{error}: so it is" in workplace.books.result("r701.md")["message"]


def test_a_request_that_expired_is_asked_again_and_was_not_billed(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "expired", "match": "R701", "path": CREATE}])
    collection = submitted(workplace, 3, max_attempts=1)
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["status"], report.run["unknown_cost_count"]) == ("completed", 0)
    assert_each_document_was_billed_once(workplace, 3)


@ON_ONE_DATABASE
def test_a_request_that_expires_every_time_is_given_up_in_the_end(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "expired", "match": "R701", "path": CREATE, "times": None}])
    collection = submitted(workplace, 3)
    report = workplace.finish(collection, retry_in_run_s=2.0)
    assert report.run is not None
    assert (report.run["completed_count"], workplace.books.result("r701.md")["reason"]) == (2, "batch_expired")
    assert workplace.books.result("r701.md")["retryable"]
    assert len(our_batches(workplace.sandbox)) <= 3


@ON_ONE_DATABASE
def test_a_refusal_of_the_account_in_the_results_stops_the_line_and_makes_no_batch_for_ever(
    workplace: Workplace,
) -> None:
    error = {"kind": "errored", "error": "not_found_error", "message": "model: no such model", "match": "R701"}
    workplace.sandbox.faults([{**error, "path": CREATE, "times": None}])
    collection = submitted(workplace, 2)
    stopped = 0
    while workplace.books.result("r701.md")["status"] != "failed":
        workplace.later(60)
        workplace.watch(collection)
        stopped += workplace.run(collection).result is Result.LINE_STOPPED
    assert (workplace.books.result("r701.md")["reason"], stopped) == ("model_not_found", 7)
    assert len(our_batches(workplace.sandbox)) == 8


@ON_ONE_DATABASE
def test_a_broken_line_at_the_end_of_a_slice_is_a_line_like_any_other(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_collect, "SLICE", 2)
    collection = submitted(workplace, 3)
    workplace.sandbox.faults([{"kind": "broken_line", "lines": 1, "times": None, "path": RESULTS}])
    workplace.later(60)
    workplace.watch(collection)
    report = workplace.run(collection)
    assert report.run is not None
    assert (report.run["completed_count"], report.run["failed_count"]) == (2, 1)


def test_a_path_that_cannot_be_written_costs_one_row_also_where_a_dead_collector_left_off(
    workplace: Workplace,
) -> None:
    collection = submitted(workplace, 3)
    workplace.later(60)
    workplace.watch(collection)
    child = workplace.child(collection, KillAt(Failpoint.BEGIN_COMPLETE))
    assert processes.end_of(child) == -9
    in_the_way = workplace.home / "outputs" / "servers" / "dell" / "r701.md"
    shutil.rmtree(in_the_way)
    in_the_way.write_text("a file where a folder must be")
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["completed_count"], report.run["failed_count"]) == (2, 1)
    assert workplace.books.result("r701.md")["reason"] == "output_not_written"
    assert_each_document_was_billed_once(workplace, 3)


def test_answers_that_a_dead_collector_kept_are_used_although_the_results_are_gone(workplace: Workplace) -> None:
    collection = submitted(workplace, 3)
    workplace.later(60)
    workplace.watch(collection)
    assert processes.end_of(workplace.child(collection, KillAt(Failpoint.BEGIN_COMPLETE))) == -9
    workplace.sandbox.advance(30 * 86_400)
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", 3)
    assert (report.run["cost_usd"], report.run["unknown_cost_count"]) == (workplace.sandbox.billed_usd, 0)
    assert [batch["state"] for batch in workplace.books.batches] == ["collected"]


def test_a_request_that_was_cancelled_at_the_provider_says_so_and_costs_nothing(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "canceled", "match": "R701", "path": CREATE}])
    collection = submitted(workplace, 2)
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["completed_count"], report.run["cancelled_count"]) == (1, 1)
    (attempt,) = [row for row in workplace.books.attempts if row["status"] == "failed"]
    assert (attempt["reason"], attempt["cost_usd"], attempt["counted"]) == ("batch_cancelled", Decimal(0), False)


def test_results_are_gone_after_29_days_and_that_is_said_once(workplace: Workplace) -> None:
    collection = submitted(workplace, 3)
    workplace.later(60)
    workplace.watch(collection)
    workplace.sandbox.advance(30 * 86_400)
    report = workplace.run(collection)
    assert report.run is not None
    assert (report.result, report.run["status"]) == (Result.CLOSED, "failed")
    assert {row["reason"] for row in workplace.books.results} == {"batch_lost"}
    assert "29 days" in workplace.books.batches[0]["message"]
    assert workplace.run(collection).result in (Result.NOTHING_TO_DO, Result.SUBMITTED)


@ON_ONE_DATABASE
@pytest.mark.parametrize("shape", ["refusal", "empty", "thinking_first", "fenced", "lone_surrogate", "nul"])
def test_an_answer_is_judged_as_the_same_answer_to_a_call(workplace: Workplace, shape: str) -> None:
    workplace.sandbox.faults([{"kind": shape, "match": "R701", "times": None}])
    by_call = workplace.collection(some_files(3))
    workplace.run(by_call)
    expected = [(row["status"], row["reason"], row["output_sha256"]) for row in workplace.books.results]
    by_batch = workplace.collection(some_files(3), mode="batch", instructions="Extract the model and its price.")
    workplace.run(by_batch)
    workplace.finish(by_batch)
    found = [(row["status"], row["reason"], row["output_sha256"]) for row in workplace.books.results]
    assert found[3:] == expected


def serve(workplace: Workplace, name: str) -> None:
    """Serve a handed result file with our own custom ids in place of ``doc-0001`` to ``doc-0006``."""
    text = (HANDED / name).read_text(encoding="utf-8")
    for number, request in enumerate(our_requests(workplace.sandbox), start=1):
        text = text.replace(f'"custom_id": "doc-{number:04}"', f'"custom_id": "{request["custom_id"]}"')
    workplace.sandbox.faults([{"kind": "raw", "body": text, "times": None, "path": RESULTS}])


@pytest.fixture
def handed(workplace: Workplace) -> Collection:
    return submitted(workplace, schema=ANY_OBJECT, model="claude-sonnet-4-5")


def totals(workplace: Workplace) -> list[Any]:
    """Return what each document's file says its total is, by document; None without a file."""
    files = workplace.books.files()
    found = {path: json.loads(content)["total"] for path, (_, content) in files.items()}
    return [found.get(f"servers/dell/r{700 + number}.md/extraction.json") for number in range(6)]


@needs_cases
@ON_ONE_DATABASE
def test_results_in_another_order_land_on_their_own_documents(workplace: Workplace, handed: Collection) -> None:
    serve(workplace, "out-of-order.jsonl")
    workplace.finish(handed)
    assert totals(workplace) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@needs_cases
@ON_ONE_DATABASE
def test_of_two_results_under_one_id_the_first_counts_and_the_conflict_is_noted(
    workplace: Workplace, handed: Collection
) -> None:
    serve(workplace, "same-id-twice.jsonl")
    workplace.finish(handed)
    assert totals(workplace)[0] == 1.0
    assert "two different results" in workplace.books.batches[0]["message"]
    first = our_requests(workplace.sandbox)[0]["custom_id"]
    assert len([row for row in workplace.books.attempts if row["token"] == first]) == 1


@needs_cases
@ON_ONE_DATABASE
def test_every_outcome_of_a_mixed_batch_has_its_rule(workplace: Workplace, handed: Collection) -> None:
    serve(workplace, "mixed-outcomes.jsonl")
    workplace.later(1000)
    workplace.watch(handed)
    workplace.run(handed)
    assert state_of(workplace, 1) == ("completed", None)
    assert state_of(workplace, 2) == ("failed", "invalid_request")
    assert "messages.0: input is too long" in workplace.books.result("r701.md")["message"]
    assert state_of(workplace, 3)[0] in ("queued", "running")
    assert state_of(workplace, 4) == ("cancelled", None)
    assert state_of(workplace, 5)[0] in ("queued", "running")
    assert state_of(workplace, 6) == ("failed", "unknown_result")
    assert "'postponed'" in workplace.books.result("r705.md")["message"]
    first = workplace.books.attempts[:6]
    assert [row["cost_usd"] is None for row in first] == [False] * 5 + [True]


@needs_cases
@ON_ONE_DATABASE
def test_one_line_that_is_no_json_costs_its_own_document_alone(workplace: Workplace, handed: Collection) -> None:
    serve(workplace, "one-bad-line.jsonl")
    workplace.finish(handed)
    assert [total is None for total in totals(workplace)] == [False, False, True, False, False, False]
    assert state_of(workplace, 3) == ("failed", "missing_from_results")
    assert "a line of the results could not be read" in workplace.books.batches[0]["message"]


@needs_cases
@ON_ONE_DATABASE
def test_lines_before_a_cut_are_kept_and_the_rest_is_fetched(workplace: Workplace, handed: Collection) -> None:
    serve(workplace, "cut-tail.jsonl")
    workplace.later(1000)
    workplace.watch(handed)
    report = workplace.run(handed)
    assert totals(workplace)[:4] == [1.0, 2.0, 3.0, 4.0]
    assert report.result is Result.SUBMITTED
    assert [state_of(workplace, number)[0] for number in (5, 6)] == ["running", "running"]


@needs_cases
@ON_ONE_DATABASE
def test_an_unknown_and_a_missing_id_are_both_accounted_for(workplace: Workplace, handed: Collection) -> None:
    serve(workplace, "unknown-and-missing.jsonl")
    report = workplace.finish(handed)
    assert report.run is not None
    assert state_of(workplace, 2) == ("failed", "missing_from_results")
    assert (report.run["request_count"], report.run["unexpected_count"]) == (6, 1)
    assert report.run["completed_count"] + report.run["failed_count"] == 7


@needs_cases
@ON_ONE_DATABASE
def test_a_result_of_three_megabytes_is_collected(workplace: Workplace, handed: Collection) -> None:
    serve(workplace, "one-3mb-line.jsonl")
    report = workplace.finish(handed)
    assert report.run is not None
    assert report.run["completed_count"] == 6
    assert max(row["output_bytes"] for row in workplace.books.results) > 2_000_000
