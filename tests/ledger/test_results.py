"""How a result ends together with its file, its attempt and its document's next try."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from resources.ledger.tables import extraction_results
from tests.factories import (
    Crash,
    CrashAt,
    a_failure,
    a_parse_request,
    a_run,
    a_set,
    an_output,
    answer,
    claim,
    claim_one,
    complete,
    fail,
    open_attempt,
)
from tests.ledger.support import database_now_ms, execute, one_row, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from resources.ledger.claims import Held
    from tests.conftest import MakeLedger
    from tests.factories import OpenAttempt


@pytest.fixture
def attempt(ledger: Ledger, held: Held) -> OpenAttempt:
    """Its attempt, answered."""
    opened = open_attempt(ledger, held)
    answer(ledger, opened)
    return opened


def test_a_claimed_row_has_its_parse_run_with_it(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=2)
    (parse_run_id,) = ledger.parses.enqueue([a_parse_request()], again=False).values()
    first = sa.select(sa.func.min(extraction_results.c.result_id)).scalar_subquery()
    parsed = sa.update(extraction_results).values(parse_run_id=parse_run_id)
    execute(ledger, parsed.where(extraction_results.c.result_id == first))
    with_one, without = ledger.results.claim("worker", run_id, 2, 60)
    assert with_one.row["parse"] == one_row(ledger, "parse_runs")
    assert without.row["parse"] is None


def never_called() -> None:
    """Stand for a file that must not be replaced."""
    pytest.fail("the file was replaced")


def test_a_completed_row_says_what_its_file_is(ledger: Ledger, held: Held, attempt: OpenAttempt) -> None:
    output = an_output(path="servers/x.json", size_bytes=7, notes=("a note",))
    assert ledger.results.record_completed(held, output, attempt.attempt_id, lambda: None)
    row = one_row(ledger, "extraction_results")
    file = (row["output_path"], row["output_sha256"], row["output_bytes"], row["notes"], row["attempt_id"])
    assert file == ("servers/x.json", output.sha256, 7, ["a note"], attempt.attempt_id)
    assert (row["status"], row["reason"], row["message"]) == ("completed", None, None)
    assert one_row(ledger, "attempts")["verdict"] == "accepted"


def test_the_file_is_put_in_place_before_others_see_the_row_completed(
    ledger: Ledger, make_ledger: MakeLedger, held: Held, attempt: OpenAttempt
) -> None:
    other, seen = make_ledger(), []
    ledger.results.record_completed(
        held, an_output(), attempt.attempt_id, lambda: seen.append(one_row(other, "extraction_results")["status"])
    )
    assert (seen, one_row(other, "extraction_results")["status"]) == (["running"], "completed")


def test_a_file_that_cannot_be_put_in_place_leaves_the_row_running(
    ledger: Ledger, held: Held, attempt: OpenAttempt
) -> None:
    before = rows(ledger, "extraction_results"), rows(ledger, "attempts"), rows(ledger, "documents")

    def refuse() -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        ledger.results.record_completed(held, an_output(), attempt.attempt_id, refuse)
    assert (rows(ledger, "extraction_results"), rows(ledger, "attempts"), rows(ledger, "documents")) == before


def test_a_crash_between_file_and_commit_leaves_the_row_to_be_completed_again(
    ledger: Ledger, make_ledger: MakeLedger, held: Held, attempt: OpenAttempt
) -> None:
    crashing, published = make_ledger(CrashAt(Failpoint.COMMIT_COMPLETE)), []
    with pytest.raises(Crash):
        crashing.results.record_completed(held, an_output(), attempt.attempt_id, lambda: published.append(1))
    assert one_row(ledger, "extraction_results")["status"] == "running"
    assert ledger.results.record_completed(held, an_output(), attempt.attempt_id, lambda: published.append(2))
    assert (published, one_row(ledger, "extraction_results")["status"]) == ([1, 2], "completed")


def test_a_worker_that_lost_its_claim_does_not_replace_the_file(
    ledger: Ledger, held: Held, attempt: OpenAttempt
) -> None:
    execute(ledger, "UPDATE extraction_results SET lease_expires_ms = 1")
    run_id = one_row(ledger, "extraction_results")["run_id"]
    ledger.results.reclaim(run_id)
    claim_one(ledger, run_id, worker="successor")
    before = one_row(ledger, "extraction_results")
    assert not ledger.results.record_completed(held, an_output(), attempt.attempt_id, never_called)
    assert one_row(ledger, "extraction_results") == before


def test_completing_again_after_a_lost_acknowledgement_is_told_from_a_lost_claim(
    ledger: Ledger, held: Held, attempt: OpenAttempt
) -> None:
    ledger.results.record_completed(held, an_output(), attempt.attempt_id, lambda: None)
    before = one_row(ledger, "extraction_results")
    assert ledger.results.record_completed(held, an_output(), attempt.attempt_id, never_called)
    assert not ledger.results.record_completed(held, an_output(), attempt.attempt_id + 1, never_called)
    assert one_row(ledger, "extraction_results") == before


def test_a_failed_row_says_why_and_its_answer_is_judged(ledger: Ledger, held: Held, attempt: OpenAttempt) -> None:
    failed = a_failure(reason="schema_mismatch", message="no\0 model", attempt_id=attempt.attempt_id)
    assert ledger.results.record_failed(held, failed) == "failed"
    row = one_row(ledger, "extraction_results")
    assert (row["reason"], row["message"], row["retryable"]) == ("schema_mismatch", "no\ufffd model", False)
    assert one_row(ledger, "attempts")["verdict"] == "schema_mismatch"


def test_a_judgement_is_not_changed_by_a_later_one(ledger: Ledger, held: Held, attempt: OpenAttempt) -> None:
    unusable = a_failure(reason="unparsable", attempt_id=attempt.attempt_id)
    ledger.results.record_retry(held, unusable, wait_s=0, refused_to_serve=False)
    again = claim_one(ledger, one_row(ledger, "extraction_results")["run_id"])
    fail(ledger, again, reason="refused", attempt_id=attempt.attempt_id)
    assert one_row(ledger, "attempts")["verdict"] == "unparsable"


def test_a_failure_that_may_be_tried_again_says_when(ledger: Ledger, held: Held) -> None:
    before = database_now_ms(ledger)
    fail(ledger, held, next_retry_s=60.0)
    due = one_row(ledger, "documents")["next_retry_ms"]
    assert before + 60_000 <= due <= database_now_ms(ledger) + 60_000
    assert one_row(ledger, "extraction_results")["retryable"] is True


@pytest.mark.parametrize("ending", [complete, fail])
def test_an_ending_for_good_takes_the_next_try_back(
    ledger: Ledger, held: Held, ending: Callable[[Ledger, Held], None]
) -> None:
    execute(ledger, "UPDATE documents SET next_retry_ms = 1")
    ending(ledger, held)
    assert one_row(ledger, "documents")["next_retry_ms"] is None


def test_only_the_document_of_the_row_gets_another_try(ledger: Ledger) -> None:
    run_id = a_run(ledger, a_set(ledger, 2))
    first, second = claim(ledger, run_id, 2)
    fail(ledger, first, next_retry_s=60.0)
    fail(ledger, second)
    assert [row["next_retry_ms"] is None for row in rows(ledger, "documents")] == [False, True]


def test_what_a_person_cancelled_is_not_tried_again_by_itself(ledger: Ledger, held: Held) -> None:
    ledger.results.request_cancel(one_row(ledger, "extraction_results")["run_id"])
    assert ledger.results.record_failed(held, a_failure(next_retry_s=60.0)) == "cancelled"
    assert one_row(ledger, "documents")["next_retry_ms"] is None


def test_a_retry_keeps_the_reason_for_the_next_try(ledger: Ledger, held: Held, attempt: OpenAttempt) -> None:
    unusable = a_failure(reason="truncated", message="cut", attempt_id=attempt.attempt_id)
    assert ledger.results.record_retry(held, unusable, wait_s=0, refused_to_serve=False) == "queued"
    row = one_row(ledger, "extraction_results")
    assert (row["status"], row["reason"], row["message"], row["refusals_to_serve"]) == ("queued", "truncated", "cut", 0)
