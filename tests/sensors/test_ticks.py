"""The two sensors as Dagster evaluates them: on by default, bounded, resumable, never twice for one set."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from extraction_assets.assets.document_set import build_document_set_assets
from extraction_assets.components import DocumentCollection
from extraction_assets.dagster_look import sensors_of
from extraction_assets.jobs import build_extraction_job
from resources.configurable import ExtractionEnvironment
from sensors.document_inbox import build_document_inbox, inbox_name
from sensors.retry_sweeper import build_retry_sweeper, sweeper_name
from sensors.run_requests import run_requests
from sensors.sweep import SweepLimits
from tests.factories import COLLECTION, a_collection, some_files
from tests.ledger.support import rows
from tests.sensors.support import PARTITION_TAG, Status, Watch

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO = 1_000_000_000


def sweeper(watch: Watch, **limits: float) -> dg.SensorDefinition:
    """The sweeper of the collection under watch."""
    return build_retry_sweeper(
        watch.target, build_extraction_job(watch.target.collection), SweepLimits(**limits) if limits else None
    )


def tick(watch: Watch, sensor: dg.SensorDefinition, cursor: str | None = None) -> dg.SensorResult:
    """Evaluate a sensor once."""
    return cast("dg.SensorResult", sensor(dg.build_sensor_context(instance=watch.instance, cursor=cursor)))


def partitions(result: dg.SensorResult) -> list[str]:
    """The partitions that a tick asks runs for."""
    return [request.partition_key for request in result.run_requests or []]


def test_every_sensor_of_a_collection_is_on_by_default_and_shown_in_the_status(tmp_path: Path) -> None:
    component = DocumentCollection(a_collection(tmp_path / "docs"))
    sensors = component.build_defs(cast("dg.ComponentLoadContext", None)).sensors or []
    assert {inbox_name(COLLECTION), sweeper_name(COLLECTION)} <= {sensor.name for sensor in sensors}
    assert {sensor.default_status for sensor in sensors} == {dg.DefaultSensorStatus.RUNNING}
    assert {sensor.name: sensor.minimum_interval_seconds for sensor in sensors} == sensors_of(COLLECTION)


def test_a_tick_takes_up_so_many_sets_and_the_next_one_goes_on_where_it_stopped(watch: Watch) -> None:
    sets, sensor = watch.sets(*"abcde"), sweeper(watch, sets=2)
    cursor, asked = None, []
    for _ in range(3):
        result = tick(watch, sensor, cursor)
        asked.append(partitions(result))
        cursor = result.cursor
    keys = [document_set.partition_key for document_set in sets]
    assert asked == [keys[:2], keys[2:4], keys[4:]]
    assert cursor == "0"


def test_a_tick_that_has_no_time_left_goes_on_in_the_next_one(watch: Watch) -> None:
    sets, sensor = watch.sets(*"abc"), sweeper(watch, seconds=0.0)
    cursor, asked = None, []
    for _ in sets:
        result = tick(watch, sensor, cursor)
        asked += partitions(result)
        cursor = result.cursor
    assert asked == [document_set.partition_key for document_set in sets]


def test_every_launch_has_a_run_key_of_its_own_and_asks_for_what_is_due(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    requests = []
    for _ in range(3):
        requests += tick(watch, sweeper(watch)).run_requests or []
        watch.lease_runs_out()
    assert len({request.run_key for request in requests}) == len(requests) == 3
    assert [request.tags["extraction/launch"] for request in requests] == ["1", "2", "3"]
    assert {request.tags["extraction/select"] for request in requests} == {"due"}
    assert {request.partition_key for request in requests} == {mine.partition_key}


def test_a_ledger_that_is_begun_anew_does_not_use_the_run_keys_of_the_one_before(watch: Watch) -> None:
    watch.sets("mine")
    launches = watch.sweep().launches  # number 1 of set 1, as in every new ledger
    (before,), (after,) = (run_requests(watch.target, launches, now=lambda at=at: at) for at in (1e9, 1e9 + 86_400))
    assert before.run_key != after.run_key


def test_inbox_and_sweeper_at_one_time_ask_for_one_run(watch: Watch) -> None:
    source = a_collection(watch.folder / "docs")
    inbox = build_document_inbox(watch.target, build_extraction_job(source))
    watch.age_files(LONG_AGO)
    first, second = tick(watch, inbox), tick(watch, sweeper(watch))
    assert (len(partitions(first)), partitions(second)) == (1, [])
    assert [row["launch_number"] for row in rows(watch.ledger, "document_sets")] == [1]


@pytest.mark.parametrize("which", ["inbox", "sweeper"])
def test_an_instance_that_lacks_a_partition_gets_it_and_dagster_takes_the_whole_tick(watch: Watch, which: str) -> None:
    collection = a_collection(watch.folder / "docs", some_files(1))
    watch.age_files(LONG_AGO)
    job = build_extraction_job(collection)
    if which == "inbox":
        sensor = build_document_inbox(watch.target, job)
    else:
        watch.sets("dell")
        sensor = build_retry_sweeper(watch.target, job)
    definitions = dg.Definitions(
        assets=[build_document_set_assets(collection)],
        jobs=[job],
        sensors=[sensor],
        resources={"extraction": ExtractionEnvironment()},
    )
    with dg.SensorEvaluationContext(  # as the code server makes it; one from `build_sensor_context` knows no partitions
        watch.instance.get_ref(),
        last_tick_completion_time=None,
        last_run_key=None,
        cursor=None,
        repository_name="__repository__",
        repository_def=definitions.get_repository_def(),
    ) as context:
        told = sensor.evaluate_tick(context)
    data = dg.deserialize_value(dg.serialize_value(told), SensorExecutionData)  # on its way to the daemon
    (request,) = data.run_requests or []
    assert request.tags[PARTITION_TAG] == request.partition_key
    (added,) = data.dynamic_partitions_requests
    assert (added.partitions_def_name, list(added.partition_keys)) == (
        watch.target.partitions_name,
        [request.partition_key],
    )


def test_a_tick_without_a_launch_says_what_it_held_back(watch: Watch) -> None:
    (mine,) = watch.sets("mine")
    watch.dagster_run(Status.QUEUED, of=mine)
    result = tick(watch, sweeper(watch))
    assert partitions(result) == []
    assert result.skip_reason is not None
    assert result.skip_reason.skip_message == "0 launched, 1 held back"
