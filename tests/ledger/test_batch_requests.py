"""The requests of a batch: answers kept once, rows ended once, and results that nobody asked for accounted for."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from extraction_core.batches import BatchState, custom_id
from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from resources.ledger.batch_requests import SentRequest
from tests.factories import (
    Crash,
    CrashAt,
    a_failure,
    a_run,
    a_set,
    an_answer,
    an_output,
    claim,
    reserve,
)
from tests.ledger.support import (
    HoldAt,
    StagedBatch,
    a_batch,
    contents,
    execute,
    in_background,
    one_row,
    only_postgres,
    only_sqlite,
    rows,
    wait_until_blocked,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.claims import Held
    from tests.conftest import MakeLedger

MILL = Decimal("0.001")


@pytest.fixture
def batch(ledger: Ledger) -> StagedBatch:
    """An ended batch that covers two rows."""
    return a_batch(ledger, state=BatchState.ENDED)


def keep(batch: StagedBatch, *responses: str) -> None:
    """Keep an answer for the first requests of a batch, for a tenth of a cent each."""
    names = [attempt["token"] for attempt in batch.attempts]
    answers = {name: an_answer(response=text) for name, text in zip(names, responses, strict=False)}
    batch.ledger.attempts.answered_all(answers)


def record(batch: StagedBatch, held: Held, attempt_id: int, published: list[str]) -> bool:
    """Record a kept answer."""
    return batch.ledger.results.record_completed(held, an_output(), attempt_id, lambda: published.append("file"))


def collect(batch: StagedBatch) -> None:
    """Settle a batch whose rows have ended."""
    assert batch.ledger.batches.collected(batch.take(), None)


def counts(run: Any) -> tuple[int, ...]:
    """Return requests, unexpected, completed, failed and cancelled."""
    return tuple(run[f"{name}_count"] for name in ("request", "unexpected", "completed", "failed", "cancelled"))


# What was sent


def test_the_requests_of_a_batch_are_known_by_custom_id_with_what_is_closed(ledger: Ledger, batch: StagedBatch) -> None:
    other = a_run(ledger, a_set(ledger, 1, folder="elsewhere"))
    reserve(ledger, other, claim(ledger, other, 1))
    keep(batch, "answered")
    first, second = batch.claims
    assert ledger.batch_requests.sent(batch.batch_id) == {
        custom_id(batch.nonce, first.row_id): SentRequest(1, first.row_id, closed=True),
        custom_id(batch.nonce, second.row_id): SentRequest(2, second.row_id, closed=False),
    }
    assert ledger.batch_requests.lost_documents(batch.batch_id) == []


def test_rows_are_handed_out_under_the_generation_that_the_batch_holds(ledger: Ledger, batch: StagedBatch) -> None:
    first, second = (held.row_id for held in batch.claims)
    found = ledger.batch_requests.rows_of(batch.batch_id, [first, second, 99])
    assert found == {row["result_id"]: row for row in batch.covered}
    assert {row["generation"] for row in found.values()} == {held.generation + 1 for held in batch.claims}
    assert ledger.batch_requests.rows_of(batch.batch_id, [first]).keys() == {first}
    assert ledger.batch_requests.rows_of(99, [first, second]) == {}
    ledger.results.record_failed(batch.holds()[0], a_failure())
    assert ledger.batch_requests.rows_of(batch.batch_id, [first, second]).keys() == {second}


# Keeping answers


def test_answers_are_kept_with_tokens_and_cost_before_anything_is_derived(
    ledger: Ledger, make_ledger: MakeLedger, batch: StagedBatch
) -> None:
    before = batch.covered
    keep(batch, "first\0", "second")
    kept = rows(make_ledger(), "attempts")
    assert [(row["status"], row["response"]) for row in kept] == [("answered", "first\ufffd"), ("answered", "second")]
    assert {(row["cost_usd"], row["input_tokens"], row["output_tokens"], row["verdict"]) for row in kept} == {
        (MILL, 100, 20, None)
    }
    assert batch.covered == before
    assert ledger.batch_requests.kept_unjudged(batch.batch_id) == [
        (row["token"], row["result_id"]) for row in batch.attempts
    ]
    assert ledger.batch_requests.response_of(2) == "second"


def test_an_answer_is_kept_once(ledger: Ledger, batch: StagedBatch) -> None:
    keep(batch, "first")
    before = batch.attempts[0]
    keep(batch, "again", "second")
    assert batch.attempts[0] == before
    assert batch.attempts[1]["response"] == "second"
    assert ledger.reports.total_usage()["cost_usd"] == 2 * MILL


def test_an_answer_to_an_abandoned_request_is_kept_and_one_to_a_refused_request_is_not(
    ledger: Ledger, batch: StagedBatch
) -> None:
    abandoned, refused = batch.attempts
    ledger.attempts.abandoned(abandoned["attempt_id"], abandoned["token"], cause=Cause.MISSING_FROM_RESULTS, message="")
    ledger.attempts.failed(
        refused["attempt_id"], refused["token"], cause=Cause.INVALID_REQUEST, message="", counted=True, request_id=None
    )
    before = batch.attempts[1]
    keep(batch, "late", "late")
    assert (batch.attempts[0]["status"], batch.attempts[0]["cost_usd"]) == ("answered", MILL)
    assert batch.attempts[1] == before


def test_a_crash_before_the_commit_keeps_none_of_a_slice(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(CrashAt(Failpoint.COMMIT_ATTEMPT_CLOSE))
    batch = a_batch(ledger, state=BatchState.ENDED)
    before = batch.attempts
    with pytest.raises(Crash):
        keep(batch, "first", "second")
    assert batch.attempts == before


def test_answers_under_other_ids_change_nothing(ledger: Ledger, batch: StagedBatch) -> None:
    before = contents(ledger)
    ledger.attempts.answered_all({"unknown": an_answer(), f"{batch.nonce}-99": an_answer()})
    ledger.attempts.answered_all({})
    assert contents(ledger) == before


def test_an_answer_that_comes_after_its_run_was_closed_is_in_the_runs_cost(ledger: Ledger, batch: StagedBatch) -> None:
    for held in batch.holds():
        ledger.results.record_failed(held, a_failure())
    collect(batch)
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (closed["cost_usd"], closed["unknown_cost_count"]) == (0, 2)
    keep(batch, "late")
    assert ledger.runs.get(batch.run_id) == {**closed, "cost_usd": MILL, "unknown_cost_count": 1}


@only_postgres
def test_an_answer_that_is_kept_while_its_run_is_being_closed_is_in_the_runs_cost(
    ledger: Ledger, make_ledger: MakeLedger, database_url: str
) -> None:
    batch = a_batch(ledger, state=BatchState.ENDED)
    for held, attempt in zip(batch.holds(), batch.attempts, strict=True):
        cause = Cause.MISSING_FROM_RESULTS
        ledger.attempts.abandoned(attempt["attempt_id"], attempt["token"], cause=cause, message="")
        ledger.results.record_failed(held, a_failure())
    collect(batch)
    hold = HoldAt(Failpoint.COMMIT_FINALIZE)
    slow = make_ledger(hold)
    with in_background(lambda: slow.finalize(batch.run_id)) as closing:
        hold.wait()
        with in_background(lambda: keep(batch, "late")) as keeping:
            wait_until_blocked(database_url, unless=keeping)
            hold.go_on()
            assert closing.result() is not None
            keeping.result()
    assert one_row(ledger, "extraction_runs")["cost_usd"] == MILL


# Ending rows


def test_a_kept_answer_completes_its_row_although_it_was_asked_to_cancel(ledger: Ledger) -> None:
    batch = a_batch(ledger, state=BatchState.IN_PROGRESS)
    ledger.batches.ask_to_cancel(batch.batch_id)
    assert batch.see(batch.take(), BatchState.ENDED)
    keep(batch, "first", "second")
    published: list[str] = []
    for held, attempt in zip(batch.holds(), batch.attempts, strict=True):
        assert record(batch, held, attempt["attempt_id"], published)
    assert [(row["status"], row["owner"], row["cost_usd"]) for row in batch.covered] == [("completed", None, MILL)] * 2
    assert [row["verdict"] for row in batch.attempts] == ["accepted"] * 2
    assert published == ["file"] * 2
    assert ledger.batch_requests.kept_unjudged(batch.batch_id) == []
    collect(batch)
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (closed["status"], counts(closed), closed["cost_usd"]) == ("completed", (2, 0, 2, 0, 0), 2 * MILL)


def test_the_first_of_two_collectors_ends_a_row_and_the_other_changes_nothing(
    ledger: Ledger, batch: StagedBatch
) -> None:
    keep(batch, "first")
    held, attempt_id = batch.holds()[0], batch.attempts[0]["attempt_id"]
    published: list[str] = []
    assert ledger.results.record_cancelled(held, "cancelled at the provider")
    before = contents(ledger)
    assert not record(batch, held, attempt_id, published)
    assert not ledger.results.record_cancelled(held, "again")
    assert ledger.results.record_failed(held, a_failure(attempt_id=attempt_id, next_retry_s=1.0)) is None
    assert ledger.results.record_retry(held, a_failure(), wait_s=0, refused_to_serve=True) is None
    assert (contents(ledger), published) == (before, [])


def test_a_request_that_the_provider_cancelled_ends_its_row_cancelled_with_what_it_cost(
    ledger: Ledger, batch: StagedBatch
) -> None:
    first, second = batch.attempts
    ledger.attempts.failed(
        first["attempt_id"], first["token"], cause=Cause.SERVER_ERROR, message="", counted=False, request_id=None
    )
    keep(batch, "", "paid")
    for held in batch.holds():
        assert ledger.results.record_cancelled(held, "cancelled at the provider")
    ended = [(row["status"], row["message"], row["cost_usd"], row["owner"]) for row in batch.covered]
    assert ended == [("cancelled", "cancelled at the provider", cost, None) for cost in (Decimal(0), MILL)]
    assert second["result_id"] == batch.covered[1]["result_id"]
    collect(batch)
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (closed["status"], counts(closed)) == ("cancelled", (2, 0, 0, 0, 2))


def test_a_row_that_goes_back_to_the_queue_is_no_longer_covered(ledger: Ledger, batch: StagedBatch) -> None:
    first, second = batch.holds()
    assert ledger.results.record_retry(first, a_failure(), wait_s=0, refused_to_serve=False) == "queued"
    ledger.results.record_failed(second, a_failure())
    collect(batch)
    assert ledger.finalize(batch.run_id) is None
    (again,) = claim(ledger, batch.run_id, 9)
    assert reserve(ledger, batch.run_id, [again]).covered == [again]


# Results that nobody asked for


def test_a_result_that_nobody_asked_for_becomes_a_failed_row_with_its_cost_once(
    ledger: Ledger, batch: StagedBatch
) -> None:
    assert ledger.batch_requests.unexpected(batch.row, "unknown-1", an_answer(response="paid"))
    row = rows(ledger, "extraction_results")[-1]
    told = (row["run_id"], row["status"], row["reason"], row["message"], row["cost_usd"])
    assert told == (
        batch.run_id, "failed", "custom_id_mismatch", "no result row at submission; custom_id mismatch", MILL,
    )  # fmt: skip
    attempt = rows(ledger, "attempts")[-1]
    kept = ("result_id", "batch_id", "status", "response", "cost_usd", "verdict")
    assert [attempt[name] for name in kept] == [
        row["result_id"], batch.batch_id, "answered", "paid", MILL, "custom_id_mismatch",
    ]  # fmt: skip
    before = contents(ledger)
    assert not ledger.batch_requests.unexpected(batch.row, "unknown-1", an_answer(response="again"))
    assert contents(ledger) == before
    assert ledger.batch_requests.sent(batch.batch_id).keys() == {one["token"] for one in batch.attempts[:2]}


def test_a_result_without_an_answer_that_nobody_asked_for_costs_nothing(ledger: Ledger, batch: StagedBatch) -> None:
    assert ledger.batch_requests.unexpected(batch.row, "unknown-1", None)
    assert len(rows(ledger, "attempts")) == 2
    assert rows(ledger, "extraction_results")[-1]["cost_usd"] is None


def test_unexpected_results_are_counted_apart_and_the_run_closes_in_balance(ledger: Ledger, batch: StagedBatch) -> None:
    for name in ("unknown-1", "unknown-2"):
        assert ledger.batch_requests.unexpected(batch.row, name, an_answer())
    keep(batch, "first")
    first, second = batch.holds()
    record(batch, first, batch.attempts[0]["attempt_id"], [])
    ledger.results.record_failed(second, a_failure())
    collect(batch)
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (closed["status"], counts(closed)) == ("completed_with_errors", (2, 2, 1, 3, 0))
    assert closed["cost_usd"] == 3 * MILL


def test_no_set_counts_an_unexpected_result_as_a_document_of_its_own(ledger: Ledger, batch: StagedBatch) -> None:
    before = ledger.documents.of_set(1)
    ledger.batch_requests.unexpected(batch.row, "unknown-1", an_answer())
    assert ledger.documents.of_set(1) == before
    assert ledger.reports.sets("servers")[0]["documents"] == 2


AWKWARD = ["", "\0", "\ud800", "ü\u2028", "'; --", "/../x", "a" * 65, "b" * 1_000_000, "\0" + "c" * 9]


def test_an_id_may_be_any_text(ledger: Ledger, batch: StagedBatch) -> None:
    assert [ledger.batch_requests.unexpected(batch.row, name, None) for name in AWKWARD] == [True] * len(AWKWARD)
    assert [ledger.batch_requests.unexpected(batch.row, name, None) for name in AWKWARD] == [False] * len(AWKWARD)
    keys = [row["document_key"] for row in rows(ledger, "extraction_results")[2:]]
    assert len(set(keys)) == len(AWKWARD)
    assert max(map(len, keys)) < 400
    assert ledger.batch_requests.unexpected(batch.row, "a" * 64, None)
    assert rows(ledger, "extraction_results")[-1]["document_key"] == f"unexpected/{batch.batch_id}/{'a' * 64}"


def test_a_settled_batch_takes_no_more_unexpected_results(ledger: Ledger, batch: StagedBatch) -> None:
    row = batch.row
    for held in batch.holds():
        ledger.results.record_failed(held, a_failure())
    collect(batch)
    closed = ledger.finalize(batch.run_id)
    before = contents(ledger)
    assert not ledger.batch_requests.unexpected(row, "late", an_answer())
    assert contents(ledger) == before
    assert ledger.runs.get(batch.run_id) == closed


def test_a_crash_before_the_commit_leaves_no_part_of_an_unexpected_result(make_ledger: MakeLedger) -> None:
    ledger = make_ledger(CrashAt(Failpoint.COMMIT_ATTEMPT_CLOSE))
    batch = a_batch(ledger, state=BatchState.ENDED)
    before = contents(ledger)
    with pytest.raises(Crash):
        ledger.batch_requests.unexpected(batch.row, "unknown-1", an_answer())
    assert contents(ledger) == before


def test_an_unexpected_result_fills_the_place_of_a_row_that_is_gone(ledger: Ledger, batch: StagedBatch) -> None:
    gone, held = batch.holds()
    name = batch.attempts[0]["token"]
    execute(ledger, f"DELETE FROM attempts WHERE result_id = {gone.row_id}")  # noqa: S608 - our number
    execute(ledger, f"DELETE FROM extraction_results WHERE result_id = {gone.row_id}")  # noqa: S608 - our number
    assert ledger.batch_requests.unexpected(batch.row, name, an_answer())
    ledger.results.record_failed(held, a_failure())
    collect(batch)
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (counts(closed), closed["cost_usd"], closed["unknown_cost_count"]) == ((2, 0, 0, 2, 0), MILL, 1)


def delete_without_foreign_keys(ledger: Ledger, held: Held) -> None:
    """Delete a row as SQLite's own terminal does, which leaves its attempts behind."""
    with ledger.engine.raw.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("PRAGMA foreign_keys=OFF")
        driver.execute(f"DELETE FROM extraction_results WHERE result_id = {held.row_id}")  # noqa: S608 - our number
        driver.execute("PRAGMA foreign_keys=ON")


@only_sqlite
@pytest.mark.parametrize(
    ("attempt", "line", "ends"), [("open", "late", "answered"), ("open", None, "failed"), ("kept", "late", "answered")]
)
def test_the_attempt_of_a_row_that_is_gone_goes_to_the_row_that_fills_its_place(
    ledger: Ledger, batch: StagedBatch, attempt: str, line: str | None, ends: str
) -> None:
    gone, held = batch.holds()
    name = batch.attempts[0]["token"]
    if attempt == "kept":
        keep(batch, "kept")
    delete_without_foreign_keys(ledger, gone)
    assert name not in ledger.batch_requests.sent(batch.batch_id)
    assert ledger.batch_requests.unexpected(batch.row, name, an_answer(response=line) if line else None)
    cost = MILL if line else 0
    moved, other = batch.attempts
    row = rows(ledger, "extraction_results")[-1]
    assert (moved["result_id"], moved["status"], moved["cost_usd"]) == (row["result_id"], ends, cost)
    assert (row["reason"], row["cost_usd"], moved["verdict"]) == ("custom_id_mismatch", cost, "custom_id_mismatch")
    assert moved["response"] == ("kept" if attempt == "kept" else line)
    assert (other["status"], other["result_id"]) == ("open", held.row_id)
    ledger.results.record_failed(held, a_failure())
    collect(batch)
    closed = ledger.finalize(batch.run_id)
    assert closed is not None
    assert (counts(closed), closed["cost_usd"], closed["unknown_cost_count"]) == ((2, 0, 0, 2, 0), cost, 1)


def test_an_id_of_a_request_whose_row_is_there_never_takes_its_attempt(ledger: Ledger, batch: StagedBatch) -> None:
    before = batch.attempts
    ledger.batch_requests.unexpected(batch.row, before[0]["token"], an_answer())
    assert batch.attempts[:2] == before
