"""What holds a document set back: anything that Dagster has not finished, whatever its kind or age."""

from __future__ import annotations

import pytest

from extraction_assets.assets.keys import extractions_key, parsed_documents_key
from sensors.probe import IN_FLIGHT
from tests.factories import COLLECTION, a_collection
from tests.sensors.support import Status, Watch, held_back, launched, planned

RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


def test_every_status_but_the_three_finished_ones_counts_as_in_flight() -> None:
    assert {status.name for status in IN_FLIGHT} == {
        "QUEUED", "NOT_STARTED", "MANAGED", "STARTING", "STARTED", "SUSPENDED", "CANCELING",
    }  # fmt: skip


def test_a_run_in_flight_holds_its_set_back_whatever_its_status_and_no_other_set(watch: Watch) -> None:
    *mine, other = watch.sets(*(status.value for status in IN_FLIGHT), "other")
    told = {}
    for document_set, status in zip(mine, IN_FLIGHT, strict=True):
        run_id = watch.dagster_run(status, of=document_set, started_s_ago=1 if status is Status.STARTED else None)
        told[document_set.folder] = f"in flight: Dagster run {run_id} ({status.value})"
    report = watch.sweep()
    assert held_back(report) == told
    assert launched(report) == [other.folder]
    assert {watch.lease(document_set) for document_set in mine} == {(0, None)}


def test_a_run_that_was_made_in_the_year_2000_holds_its_set_back(watch: Watch) -> None:
    statuses = [status for status in IN_FLIGHT if status is not Status.STARTED]  # that one must show a sign of life
    mine = watch.sets(*(status.value for status in statuses))
    for document_set, status in zip(mine, statuses, strict=True):
        watch.made_in_the_year_2000(watch.dagster_run(status, of=document_set))
    assert launched(watch.sweep()) == []
    assert {watch.lease(document_set) for document_set in mine} == {(0, None)}


def test_a_run_that_ended_by_itself_does_not_hold_its_set_back(watch: Watch) -> None:
    for document_set, status in zip(watch.sets("a", "b"), (Status.SUCCESS, Status.FAILURE), strict=True):
        watch.dagster_run(status, of=document_set)
    assert launched(watch.sweep()) == ["a", "b"]


def test_a_run_of_assets_without_a_job_holds_the_set_back(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    watch.dagster_run(Status.QUEUED, of=mine, assets=[parsed_documents_key(COLLECTION)])
    assert launched(watch.sweep()) == []


def test_a_run_of_all_assets_that_names_none_holds_the_set_back(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    watch.dagster_run(Status.STARTING, of=mine, job="__ASSET_JOB")
    assert launched(watch.sweep()) == []


def test_runs_of_other_jobs_and_other_assets_do_not_hold_the_set_back(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    plan = planned(watch.instance, a_collection(watch.folder / "others", name="invoices"), "invoices_extraction")
    watch.dagster_run(Status.QUEUED, of=mine, job="invoices_extraction", plan=plan)
    watch.dagster_run(Status.QUEUED, of=mine, assets=[extractions_key("invoices")])
    assert launched(watch.sweep()) == [mine.folder]


def test_a_run_of_somebodys_own_job_over_our_assets_holds_its_set_back_before_its_worker_shows_life(
    watch: Watch,
) -> None:
    mine, _ = watch.sets("mine", "other")
    plan = planned(watch.instance, watch.target.collection, "nightly")
    run_id = watch.dagster_run(Status.QUEUED, of=mine, job="nightly", plan=plan)
    report = watch.sweep()
    assert held_back(report) == {"mine": f"in flight: Dagster run {run_id} (QUEUED)"}
    assert launched(report) == ["other"]


@pytest.mark.parametrize("plan", [None, "a plan that is gone"])
def test_a_run_of_which_cannot_be_told_what_it_executes_holds_its_set_back(watch: Watch, plan: str | None) -> None:
    mine, _ = watch.sets("mine", "other")
    watch.dagster_run(Status.QUEUED, of=mine, job="nightly", plan=plan)
    assert launched(watch.sweep()) == ["other"]


def test_a_run_of_our_job_that_names_no_partition_holds_every_set_back(watch: Watch) -> None:
    watch.sets("a", "b")
    watch.dagster_run(Status.QUEUED)
    assert launched(watch.sweep()) == []


def a_range(watch: Watch, first: str, last: str) -> None:
    """Let a range run be queued; a run of one names no partition of its own."""
    watch.dagster_run(
        Status.QUEUED, assets=[extractions_key(COLLECTION)], tags=dict(zip(RANGE_TAGS, (first, last), strict=True))
    )


def three_sets(watch: Watch) -> list[str]:
    """Register three sets and make them known to Dagster in that order. Returns their partition keys."""
    keys = [document_set.partition_key for document_set in watch.sets("one", "two", "three")]
    watch.instance.add_dynamic_partitions(watch.target.partitions_name, keys)
    return keys


def test_a_range_run_holds_all_sets_of_its_range_back(watch: Watch) -> None:
    one, two, _ = three_sets(watch)
    a_range(watch, one, two)
    assert launched(watch.sweep()) == ["three"]


def test_a_range_of_one_set_holds_that_set_back(watch: Watch) -> None:
    _, two, _ = three_sets(watch)
    a_range(watch, two, two)
    assert launched(watch.sweep()) == ["one", "three"]


@pytest.mark.parametrize("ends", ["one end was deleted", "the ends are reversed"])
def test_a_range_that_cannot_be_expanded_holds_every_set_back(watch: Watch, ends: str) -> None:
    one, two, three = three_sets(watch)
    if ends == "the ends are reversed":
        a_range(watch, three, one)
    else:
        a_range(watch, one, two)
        watch.instance.delete_dynamic_partition(watch.target.partitions_name, two)
    report = watch.sweep()
    assert launched(report) == []
    assert set(held_back(report)) == {"one", "two", "three"}


def test_a_failed_run_that_dagster_will_retry_holds_the_set_back_until_its_retry_has_ended(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    failed = watch.dagster_run(Status.FAILURE, of=mine, tags={"dagster/will_retry": "true"})
    assert launched(watch.sweep()) == []
    retry = watch.dagster_run(Status.QUEUED, of=mine)
    watch.instance.add_run_tags(failed, {"dagster/auto_retry_run_id": retry})
    assert list(held_back(watch.sweep()).values()) == [f"in flight: Dagster run {retry} (QUEUED)"]
    watch.end(retry, Status.FAILURE)
    assert launched(watch.sweep()) == [mine.folder]


def test_a_retry_of_dagster_that_never_came_does_not_hold_the_set_back_for_ever(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    failed = watch.dagster_run(Status.FAILURE, of=mine, tags={"dagster/will_retry": "true"})
    watch.made_in_the_year_2000(failed)
    assert launched(watch.sweep()) == [mine.folder]


def test_a_live_worker_holds_the_set_back_although_dagster_knows_of_no_run(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    worker = watch.work(mine, dagster_run_id=None)
    assert held_back(watch.sweep()) == {mine.folder: f"in flight: live worker of {worker}"}
    watch.everybody_dies()
    assert launched(watch.sweep()) == [mine.folder]
