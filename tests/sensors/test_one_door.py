"""The one door: whatever asks, however often and at one moment, one run is launched for a document set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sensors.sweep import Sweep, SweepLimits
from tests.factories import a_run, claim_one, complete, fail
from tests.ledger.support import execute, rows, together
from tests.sensors.support import Status, Watch, held_back, launched, unanswering, unreadable

if TYPE_CHECKING:
    import dagster as dg

    from sensors.sweep import SweepReport
    from tests.conftest import MakeLedger

ROUNDS = 40


def left_behind(watch: Watch) -> int:
    """Register one set with an open extraction run of one row that nobody works on. Returns the run."""
    (document_set,) = watch.sets("mine")
    return a_run(watch.ledger, document_set)


def test_a_queued_run_is_not_asked_for_again_when_its_lease_has_run_out(watch: Watch) -> None:
    left_behind(watch)
    (queued,) = watch.accept(watch.sweep().launches)
    for _ in range(3):
        watch.lease_runs_out()
        report = watch.sweep()
        assert launched(report) == []
        assert held_back(report) == {"mine": f"in flight: Dagster run {queued} (QUEUED)"}
    assert [run.run_id for run in watch.runs()] == [queued]
    assert [row["launch_number"] for row in rows(watch.ledger, "document_sets")] == [1]
    assert len(rows(watch.ledger, "extraction_results")) == watch.active() == 1


@pytest.mark.parametrize("ended", [Status.FAILURE, Status.SUCCESS])
def test_a_run_that_ended_and_left_rows_open_is_followed_by_another(watch: Watch, ended: Status) -> None:
    left_behind(watch)
    (run_id,) = watch.accept(watch.sweep().launches)
    watch.lease_runs_out()
    watch.end(run_id, ended)
    (launch,) = watch.sweep().launches
    assert launch.number == 2
    assert watch.active() == 1


def test_a_request_that_led_to_no_run_is_made_again_when_its_lease_has_run_out(watch: Watch) -> None:
    left_behind(watch)
    assert launched(watch.sweep()) == ["mine"]
    assert "launch lease has not run out" in held_back(watch.sweep())["mine"]
    watch.lease_runs_out()
    assert [launch.number for launch in watch.sweep().launches] == [2]


def test_a_pass_that_begins_gives_the_lease_back_so_that_a_dead_one_is_followed_at_once(watch: Watch) -> None:
    left_behind(watch)
    (run_id,) = watch.accept(watch.sweep().launches)
    (document_set,) = watch.ledger.documents.sets(watch.target.collection.name)
    watch.ledger.launches.begun(document_set.set_id, watch.target.question())
    watch.end(run_id, Status.FAILURE)
    assert [launch.number for launch in watch.sweep().launches] == [2]


def test_a_pass_that_died_before_it_had_asked_something_new_is_followed_by_another(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    complete(watch.ledger, claim_one(watch.ledger, run_id := a_run(watch.ledger, mine)))
    watch.ledger.finalize(run_id)
    watch.ledger.launches.begun(mine.set_id, "an old question")
    assert [one.document_set.folder for one in watch.due()] == ["mine"]  # the collection asks something else by now
    watch.ledger.launches.begun(mine.set_id, watch.target.question())
    assert launched(watch.sweep()) == ["mine"]


def test_a_look_at_dagster_that_fails_launches_nothing_and_takes_no_lease(watch: Watch) -> None:
    left_behind(watch)
    (first,) = watch.accept(watch.sweep().launches)
    watch.lease_runs_out()
    before = rows(watch.ledger, "document_sets")
    with unanswering(watch.instance):
        for _ in range(2):
            report = watch.sweep()
            assert launched(report) == []
            assert "the check for runs in flight failed" in held_back(report)["mine"]
    assert rows(watch.ledger, "document_sets") == before
    assert launched(watch.sweep()) == []  # it is answered again, and the first run is still queued
    assert [run.run_id for run in watch.runs()] == [first]
    watch.end(first, Status.FAILURE)
    assert [launch.number for launch in watch.sweep().launches] == [2]


def test_a_set_that_nobody_asked_for_keeps_its_lease_while_dagster_does_not_answer(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    with unanswering(watch.instance):
        assert launched(watch.sweep()) == []
    assert watch.lease(mine) == (0, None)
    assert launched(watch.sweep()) == ["mine"]
    assert watch.lease(mine)[0] == 1


def test_a_look_up_that_fails_for_one_set_holds_that_one_back_and_lets_the_others_go(watch: Watch) -> None:
    first, second, third = watch.sets("first", "second", "third")
    a_run(watch.ledger, second)
    last = watch.dagster_run(Status.FAILURE, of=second)
    watch.work(second, last)
    watch.everybody_dies()
    with unreadable(watch.instance, last):
        report = watch.sweep()
    assert launched(report) == ["first", "third"]
    assert "a look-up failed" in held_back(report)["second"]
    assert [watch.lease(one)[0] for one in (first, second, third)] == [1, 0, 1]
    assert launched(watch.sweep()) == ["second"]


def test_heartbeats_that_cannot_be_read_launch_nothing_and_take_no_lease(watch: Watch) -> None:
    mine, other = watch.sets("mine", "other")
    execute(watch.ledger, "ALTER TABLE workers RENAME TO workers_elsewhere")
    try:
        report = watch.sweep()
    finally:
        execute(watch.ledger, "ALTER TABLE workers_elsewhere RENAME TO workers")
    assert launched(report) == []
    assert all("the check for live workers failed" in reason for reason in held_back(report).values())
    assert {watch.lease(mine), watch.lease(other)} == {(0, None)}
    assert launched(watch.sweep()) == ["mine", "other"]


def test_a_backfill_that_was_asked_for_and_has_no_runs_yet_holds_its_sets_back(watch: Watch) -> None:
    mine, _ = watch.sets("mine", "other")
    watch.backfill([mine.partition_key])
    assert launched(watch.sweep()) == ["other"]


def test_a_backfill_of_any_job_holds_the_partitions_that_it_names_back(watch: Watch) -> None:
    mine, _ = watch.sets("mine", "other")
    watch.backfill([mine.partition_key], job="nightly")
    assert launched(watch.sweep()) == ["other"]


def test_two_evaluations_at_one_moment_launch_one_run(
    watch: Watch, make_ledger: MakeLedger, instance: dg.DagsterInstance
) -> None:
    """Each stands for a process of its own and does as a daemon does: it sweeps, then makes a run of every launch."""
    evaluations = [Watch(make_ledger(), instance, watch.target) for _ in range(2)]

    def evaluate(number: int, after: int) -> SweepReport:
        one = evaluations[number]
        report = Sweep(one.ledger, instance, one.target, SweepLimits(sets=1)).run(after)
        one.accept(report.launches)
        return report

    for number, document_set in enumerate(watch.sets(*(f"set {number:03d}" for number in range(ROUNDS))), start=1):
        reports = together(2, lambda which, after=document_set.set_id - 1: evaluate(which, after))
        assert sum(len(report.launches) for report in reports) == 1
        assert watch.lease(document_set)[0] == 1
        (run,) = watch.runs(document_set)
        assert run.status is Status.QUEUED
        a_run(watch.ledger, document_set)
        assert watch.active() == number
        watch.end(run.run_id, Status.SUCCESS)


def test_an_evaluation_whose_numbers_are_stale_gets_no_lease_although_that_of_another_ran_out(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    ((due,), launches) = watch.due(), watch.ledger.launches
    assert launches.take_lease(mine.set_id, due.launch_number, 600) == 1
    watch.lease_runs_out()
    assert launches.take_lease(mine.set_id, due.launch_number, 600) is None
    assert watch.lease(mine)[0] == 1


def test_what_final_causes_and_people_ended_is_due_to_a_person_alone(watch: Watch) -> None:
    refused, cancelled = watch.sets("refused", "cancelled")
    fail(watch.ledger, claim_one(watch.ledger, run_id := a_run(watch.ledger, refused)))
    watch.ledger.finalize(run_id)
    watch.ledger.results.request_cancel(run_id := a_run(watch.ledger, cancelled))
    watch.ledger.finalize(run_id)
    report = watch.sweep()
    assert (launched(report), held_back(report)) == ([], {})


def test_what_may_be_tried_again_is_due_when_its_time_has_come(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    fail(watch.ledger, claim_one(watch.ledger, run_id := a_run(watch.ledger, mine)), next_retry_s=3600.0)
    watch.ledger.finalize(run_id)
    assert launched(watch.sweep()) == []
    execute(watch.ledger, "UPDATE documents SET next_retry_ms = 1")
    assert launched(watch.sweep()) == ["mine"]
