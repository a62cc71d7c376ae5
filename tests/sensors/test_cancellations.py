"""What a person cancelled is due to a person alone, whoever launched it, also when nobody had begun to work on it."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from resources.ledger.tables import documents, workers
from tests.factories import a_document, a_run, claim_one, fail
from tests.ledger.support import execute, one_row, rows
from tests.sensors.support import Status, Watch, held_back, launched, planned

HOUR_MS = 3_600_000


def cancel_while_queued(watch: Watch, *, by_hand: bool = False) -> str:
    """Let the run of the set ``mine`` be queued, by the sweeper or a person, and cancelled. Returns it."""
    (mine,) = watch.ledger.documents.sets(watch.target.collection.name)
    run_id = watch.dagster_run(Status.QUEUED, of=mine) if by_hand else watch.accept(watch.sweep().launches)[0]
    watch.end(run_id, Status.CANCELED)
    watch.lease_runs_out()
    return run_id


def nothing_is_due(watch: Watch) -> bool:
    """Whether a further sweep has nothing to look at."""
    watch.lease_runs_out()
    report = watch.sweep()
    return (launched(report), held_back(report)) == ([], {})


@pytest.mark.parametrize("by_hand", [False, True], ids=["launched by the sweeper", "launched by a person"])
def test_documents_whose_run_was_cancelled_while_it_was_queued_are_left_to_people(
    watch: Watch, *, by_hand: bool
) -> None:
    watch.sets("mine", documents=2)
    cancel_while_queued(watch, by_hand=by_hand)
    report = watch.sweep()
    assert (launched(report), report.withdrawn) == ([], 1)
    assert "a person cancelled its last run" in held_back(report)["mine"]
    assert "1 sets left to people" in str(report)
    assert {row["due_since_ms"] for row in rows(watch.ledger, "documents")} == {None}
    assert nothing_is_due(watch)


def test_documents_whose_retry_was_cancelled_while_it_was_queued_are_left_to_people(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    fail(watch.ledger, claim_one(watch.ledger, run_id := a_run(watch.ledger, mine)), next_retry_s=30.0)
    watch.ledger.finalize(run_id)
    execute(watch.ledger, "UPDATE documents SET next_retry_ms = 1")
    cancel_while_queued(watch)
    assert (launched(watch.sweep()), nothing_is_due(watch)) == ([], True)


def test_an_open_extraction_run_whose_resumption_was_cancelled_while_it_was_queued_ends_cancelled(watch: Watch) -> None:
    (mine,) = watch.sets("mine", documents=2)
    watch.work(mine, dead := watch.dagster_run(of=mine, started_s_ago=5))
    claim_one(watch.ledger, a_run(watch.ledger, mine))
    watch.end(dead, Status.FAILURE)
    watch.everybody_dies()
    execute(watch.ledger, "UPDATE workers SET ended_ms = beat_ms")
    cancel_while_queued(watch)
    report = watch.sweep()
    assert (launched(report), report.cancelled) == ([], 1)
    assert one_row(watch.ledger, "extraction_runs")["status"] == "cancelled"
    assert {row["status"] for row in rows(watch.ledger, "extraction_results")} == {"cancelled"}
    assert nothing_is_due(watch)


def test_a_run_that_was_cancelled_before_it_had_asked_for_anything_is_not_started_again(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    (run_id,) = watch.accept(watch.sweep().launches)
    worker = watch.work(mine, run_id)  # it parses
    watch.ledger.launches.begun(mine.set_id, watch.target.question())
    watch.ledger.workers.end(worker)
    watch.end(run_id, Status.CANCELED)
    assert (launched(watch.sweep()), nothing_is_due(watch)) == ([], True)


def test_a_document_that_changes_after_the_cancellation_is_due_anew_in_the_same_sweep(watch: Watch) -> None:
    watch.sets("mine", documents=2)
    cancel_while_queued(watch)
    changed = documents.c.document_key == a_document(1, folder="mine").key
    later = int(time.time() * 1000) + HOUR_MS
    execute(watch.ledger, sa.update(documents).where(changed).values(due_since_ms=later))
    report = watch.sweep()
    assert (launched(report), report.withdrawn) == (["mine"], 1)
    assert [row["due_since_ms"] for row in rows(watch.ledger, "documents")] == [None, later]


def test_what_a_person_asks_for_after_the_cancellation_is_launched(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    cancel_while_queued(watch)
    watch.sweep()
    watch.ledger.launches.ask_again(mine.set_id, [a_document(0, folder="mine").key], reset=False)
    assert launched(watch.sweep()) == ["mine"]


def test_a_run_that_was_cancelled_and_launched_again_by_hand_is_followed_when_that_one_dies(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    cancel_while_queued(watch)
    watch.end(watch.dagster_run(Status.QUEUED, of=mine), Status.FAILURE)
    assert launched(watch.sweep()) == ["mine"]


def test_a_second_run_that_was_cancelled_while_the_first_was_at_work_does_not_cancel_the_first_ones_rest(
    watch: Watch,
) -> None:
    (mine,) = watch.sets("mine")
    watch.work(mine, first := watch.dagster_run(of=mine, started_s_ago=5))
    claim_one(watch.ledger, a_run(watch.ledger, mine))
    watch.end(watch.dagster_run(Status.QUEUED, of=mine), Status.CANCELED)
    watch.end(first, Status.FAILURE)
    watch.everybody_dies()
    execute(watch.ledger, sa.update(workers).values(beat_ms=workers.c.beat_ms + 1000))  # it went on after that
    report = watch.sweep()
    assert (launched(report), report.cancelled) == (["mine"], 0)
    assert [row["status"] for row in rows(watch.ledger, "extraction_results")] == ["queued"]


def test_documents_that_are_still_held_are_waited_for_before_their_cancelled_run_ends(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    claim_one(watch.ledger, a_run(watch.ledger, mine))
    watch.end(watch.dagster_run(Status.QUEUED, of=mine), Status.CANCELED)
    report = watch.sweep()
    assert (launched(report), report.cancelled) == ([], 0)
    assert "still held" in held_back(report)["mine"]
    watch.everybody_dies()
    assert watch.sweep().cancelled == 1


def test_a_set_that_was_to_be_asked_something_new_is_left_to_people_until_the_question_changes_again(
    watch: Watch,
) -> None:
    (mine,) = watch.sets("mine")
    a_run(watch.ledger, mine)
    watch.ledger.results.request_cancel(1)
    watch.ledger.finalize(1)
    watch.ledger.launches.begun(mine.set_id, "an old question")
    cancel_while_queued(watch)
    assert (launched(watch.sweep()), nothing_is_due(watch)) == ([], True)
    execute(watch.ledger, "UPDATE document_sets SET question = 'what was asked before it changed again'")
    assert launched(watch.sweep()) == ["mine"]


def test_a_cancelled_run_of_somebodys_own_job_counts_and_one_of_another_collection_does_not(watch: Watch) -> None:
    mine, other = watch.sets("mine", "other")
    plan = planned(watch.instance, watch.target.collection, "nightly")
    watch.end(watch.dagster_run(Status.QUEUED, of=mine, job="nightly", plan=plan), Status.CANCELED)
    watch.end(watch.dagster_run(Status.QUEUED, of=other, job="of nobody knows what"), Status.CANCELED)
    assert launched(watch.sweep()) == ["other"]


def test_a_dry_run_withdraws_nothing(watch: Watch) -> None:
    watch.sets("mine")
    run_id = cancel_while_queued(watch)
    before = rows(watch.ledger, "documents"), watch.instance.get_run_by_id(run_id)
    report = watch.sweep(dry_run=True)
    assert (launched(report), report.withdrawn) == ([], 0)
    assert "a person cancelled its last run" in held_back(report)["mine"]
    assert (rows(watch.ledger, "documents"), watch.instance.get_run_by_id(run_id)) == before
