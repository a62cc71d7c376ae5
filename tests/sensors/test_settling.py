"""What a sweep settles before it asks: dead runs, forced cancellations, deleted runs, runs with nothing left."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from resources.ledger.tables import workers
from tests.factories import a_run, claim, claim_one, complete
from tests.ledger.support import execute, one_row, rows
from tests.sensors.support import Status, Watch, held_back, launched

GRACE_S = 600.0


def statuses(watch: Watch, run_id: int) -> list[str]:
    """The statuses of an extraction run's rows, by document."""
    return [row["status"] for row in rows(watch.ledger, "extraction_results", f"run_id = {run_id}")]


def test_a_started_run_whose_worker_died_is_reported_failed_and_its_set_is_launched(watch: Watch) -> None:
    (mine,) = watch.sets("mine", documents=3)
    dead = watch.dagster_run(of=mine, started_s_ago=5)
    watch.work(mine, dead)
    run_id = a_run(watch.ledger, mine)
    complete(watch.ledger, claim_one(watch.ledger, run_id))
    claim(watch.ledger, run_id, 2)
    assert held_back(watch.sweep()) == {"mine": f"in flight: Dagster run {dead} (STARTED)"}
    watch.everybody_dies()
    report = watch.sweep()
    assert (launched(report), report.dead, report.reclaimed) == (["mine"], (dead,), 2)
    assert watch.status_of(dead) is Status.FAILURE
    assert sorted(statuses(watch, run_id)) == ["completed", "queued", "queued"]


def test_a_started_run_without_a_sign_of_life_is_dead_after_its_grace_and_not_before(watch: Watch) -> None:
    young, old = watch.sets("young", "old")
    watch.dagster_run(of=young, started_s_ago=GRACE_S - 60)
    dead = watch.dagster_run(of=old, started_s_ago=GRACE_S + 60)
    report = watch.sweep()
    assert (launched(report), report.dead) == (["old"], (dead,))
    assert watch.status_of(dead) is Status.FAILURE


def test_a_started_run_whose_worker_left_in_order_has_the_grace_to_end(watch: Watch) -> None:
    leaving, left = watch.sets("leaving", "left")
    dead = watch.dagster_run(of=left, started_s_ago=GRACE_S + 60)
    for document_set, run_id in ((leaving, watch.dagster_run(of=leaving, started_s_ago=GRACE_S + 60)), (left, dead)):
        watch.ledger.workers.end(watch.work(document_set, run_id))
    execute(watch.ledger, sa.update(workers).where(workers.c.dagster_run_id == dead).values(ended_ms=1))
    report = watch.sweep()
    assert (launched(report), report.dead) == (["left"], (dead,))


@pytest.mark.parametrize("status", [Status.CANCELING, Status.STARTING, Status.QUEUED])
def test_only_a_started_run_can_be_found_dead(watch: Watch, status: Status) -> None:
    (mine,) = watch.sets("mine")
    run_id = watch.dagster_run(status, of=mine)
    watch.work(mine, run_id)
    watch.everybody_dies()
    report = watch.sweep()
    assert (launched(report), report.dead) == ([], ())
    assert watch.status_of(run_id) is status


def cancelled_by_force(watch: Watch) -> int:
    """A run that a person marked as cancelled after its process had died: one row completed, one held, one queued."""
    (mine,) = watch.sets("mine", documents=3)
    worker_run = watch.dagster_run(of=mine, started_s_ago=5)
    watch.work(mine, worker_run)
    run_id = a_run(watch.ledger, mine)
    complete(watch.ledger, claim_one(watch.ledger, run_id))
    claim_one(watch.ledger, run_id)
    watch.everybody_dies()
    watch.end(worker_run, Status.CANCELED)
    return run_id


def test_a_forced_cancellation_of_a_dead_process_is_settled_and_not_started_again(watch: Watch) -> None:
    run_id = cancelled_by_force(watch)
    report = watch.sweep()
    assert (launched(report), report.cancelled) == ([], 1)
    assert sorted(statuses(watch, run_id)) == ["cancelled", "cancelled", "completed"]
    run = one_row(watch.ledger, "extraction_runs")
    assert (run["status"], run["request_count"], run["completed_count"], run["cancelled_count"]) == (
        "cancelled",
        3,
        1,
        2,
    )
    watch.lease_runs_out()
    again = watch.sweep()
    assert (launched(again), held_back(again)) == ([], {})


def test_a_forced_cancellation_waits_while_another_worker_of_the_set_lives(watch: Watch) -> None:
    run_id = cancelled_by_force(watch)
    (mine,) = watch.ledger.documents.sets(watch.target.collection.name)
    watch.work(mine, watch.dagster_run(of=mine, started_s_ago=1))
    assert watch.sweep().cancelled == 0
    assert "cancelled" not in statuses(watch, run_id)


def test_a_forced_cancellation_waits_while_another_run_of_the_set_is_to_come(watch: Watch) -> None:
    run_id = cancelled_by_force(watch)
    (mine,) = watch.ledger.documents.sets(watch.target.collection.name)
    launched_by_hand = watch.dagster_run(Status.QUEUED, of=mine)
    report = watch.sweep()
    assert (report.cancelled, held_back(report)) == (0, {"mine": f"in flight: Dagster run {launched_by_hand} (QUEUED)"})
    assert sorted(statuses(watch, run_id)) == ["completed", "queued", "queued"]


def test_a_forced_cancellation_is_settled_even_by_a_sweep_that_has_no_time_left(watch: Watch) -> None:
    cancelled_by_force(watch)
    report = watch.sweep(seconds=0.0)
    assert (launched(report), report.cancelled) == ([], 1)


def test_a_cancellation_of_an_earlier_run_does_not_cancel_a_later_one(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    cancelled = watch.dagster_run(Status.CANCELED, of=mine)
    worker = watch.work(mine, cancelled)
    first = a_run(watch.ledger, mine)
    watch.ledger.results.request_cancel(first)
    watch.ledger.finalize(first)
    watch.ledger.workers.end(worker)
    execute(watch.ledger, "UPDATE workers SET ended_ms = ended_ms - 1")
    second = a_run(watch.ledger, mine)
    assert launched(watch.sweep()) == ["mine"]
    assert statuses(watch, second) == ["queued"]


def test_a_deleted_dagster_run_is_gone_and_its_set_is_launched(watch: Watch) -> None:
    (mine,) = watch.sets("mine", documents=2)
    deleted = watch.dagster_run(of=mine, started_s_ago=5)
    watch.work(mine, deleted)
    run_id = a_run(watch.ledger, mine)
    complete(watch.ledger, claim_one(watch.ledger, run_id))
    claim_one(watch.ledger, run_id)
    watch.instance.delete_run(deleted)
    assert "in flight: live worker" in held_back(watch.sweep())["mine"]
    watch.everybody_dies()
    assert launched(watch.sweep()) == ["mine"]
    assert sorted(statuses(watch, run_id)) == ["completed", "queued"]


def test_a_run_with_nothing_left_is_closed_and_not_launched(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    run_id = a_run(watch.ledger, mine)
    complete(watch.ledger, claim_one(watch.ledger, run_id))
    report = watch.sweep()
    assert (launched(report), report.closed) == ([], 1)
    assert one_row(watch.ledger, "extraction_runs")["status"] == "completed"


def test_a_set_whose_run_is_closed_and_that_has_more_to_do_is_launched_in_the_same_sweep(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    complete(watch.ledger, claim_one(watch.ledger, a_run(watch.ledger, mine)))
    execute(watch.ledger, "UPDATE documents SET due_since_ms = 1")
    report = watch.sweep()
    assert (launched(report), report.closed) == (["mine"], 1)


def test_rows_that_a_living_worker_holds_are_not_reclaimed(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    watch.work(mine, None)
    claim_one(watch.ledger, a_run(watch.ledger, mine))
    assert watch.sweep().reclaimed == 0
    assert [row["status"] for row in rows(watch.ledger, "extraction_results")] == ["running"]


def test_all_open_runs_are_reached_although_a_sweep_takes_up_few_at_a_time(watch: Watch) -> None:
    cursor = 0
    for document_set in watch.sets(*"abcdef"):
        complete(watch.ledger, claim_one(watch.ledger, a_run(watch.ledger, document_set)))
    for _ in range(3):
        cursor = watch.sweep(cursor, sets=2).cursor
    assert {row["status"] for row in rows(watch.ledger, "extraction_runs")} == {"completed"}


def test_a_dry_run_tells_what_would_be_settled_and_settles_nothing(watch: Watch) -> None:
    cancelled_by_force(watch)
    before = [rows(watch.ledger, table) for table in ("extraction_runs", "extraction_results", "document_sets")]
    report = watch.sweep(dry_run=True)
    assert launched(report) == []
    assert held_back(report)["mine"].startswith("a person cancelled its last run")
    assert [rows(watch.ledger, table) for table in ("extraction_runs", "extraction_results", "document_sets")] == before
