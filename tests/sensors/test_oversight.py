"""Whether anything launches by itself: what the terminal says of daemons, sensors and queue."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._daemon.types import DaemonHeartbeat
from dagster_shared.error import SerializableErrorInfo

from extraction_assets.jobs import build_extraction_job
from extraction_assets.oversight import Oversight, QueueState, SensorState, oversee
from extraction_assets.queue_look import look_at_queue
from sensors.batch_poller import poller_name
from sensors.daemons import NOTED, QUEUE, SENSORS, note_who_ticks
from sensors.document_inbox import build_document_inbox, inbox_name
from sensors.retry_sweeper import build_retry_sweeper, sweeper_name
from tests.factories import COLLECTION, a_collection
from tests.ledger.support import only_sqlite
from tests.sensors.support import PROJECT_ROOT, Status, Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extraction_core.collection import Collection

SWEEPER = sweeper_name(COLLECTION)
TWO_PLACES = Path(PROJECT_ROOT / "dagster.yaml").read_text(encoding="utf-8")


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    """The collection whose sensors are looked at."""
    return a_collection(tmp_path / "docs", {})


def beat(instance: dg.DagsterInstance, daemon: str = "a", s_ago: float = 0.0) -> None:
    """Let both daemons that launches hang on have given a sign of life."""
    for kind in (SENSORS, QUEUE):
        instance.add_daemon_heartbeat(DaemonHeartbeat(time.time() - s_ago, kind, daemon, []))


def sensor(
    instance: dg.DagsterInstance,
    name: str,
    *tick_s_ago: float,
    on: bool = True,
    status: TickStatus = TickStatus.SKIPPED,
    location: str = "document_extraction",
) -> None:
    """Let a sensor have a state in a code location, and have ticked."""
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
    state = InstigatorState(
        RemoteInstigatorOrigin(repository, name),
        InstigatorType.SENSOR,
        InstigatorStatus.DECLARED_IN_CODE if on else InstigatorStatus.STOPPED,
        SensorInstigatorData(min_interval=30),
    )
    instance.add_instigator_state(state)
    for s_ago in tick_s_ago:
        instance.create_tick(
            TickData(
                state.instigator_origin_id,
                name,
                InstigatorType.SENSOR,
                status,
                time.time() - s_ago,
                selector_id=state.selector_id,
                error=SerializableErrorInfo("the source is gone", [], None) if status is TickStatus.FAILURE else None,
            )
        )


def ages_aside(lines: Sequence[str]) -> list[str]:
    """Return lines without their seconds: machines are slow at times."""
    return [re.sub(r"\b\d+ s\b", "N s", line) for line in lines]


def of_sweeper(oversight: Oversight) -> SensorState:
    """What is said of the sweeper."""
    return next(one for one in oversight.sensors if one.name == SWEEPER)


def test_where_all_is_well_each_sensors_last_tick_is_told_and_nothing_is_warned_of(
    instance: dg.DagsterInstance, collection: Collection
) -> None:
    beat(instance, s_ago=20)
    sensor(instance, SWEEPER, 300, 12)
    sensor(instance, inbox_name(COLLECTION), 40)
    sensor(instance, poller_name(COLLECTION), 9)
    oversight = oversee([collection])
    assert oversight.warnings == []
    first, *rest = ages_aside(oversight.lines())
    assert first == f"Dagster at {instance.root_directory}: daemon alive, last seen N s ago"
    assert rest == [
        "  servers_document_inbox: on, last tick N s ago (skipped)",
        "  servers_retry_sweeper: on, last tick N s ago (skipped)",
        "  servers_batch_poller: on, last tick N s ago (skipped)",
        "  no run is queued",
    ]


@pytest.mark.parametrize("silent_s", [None, 300.0], ids=["never seen", "silent for minutes"])
def test_no_daemon_alive_is_warned_of_once_and_not_again_for_each_sensor(
    instance: dg.DagsterInstance, collection: Collection, silent_s: float | None
) -> None:
    if silent_s:
        beat(instance, s_ago=silent_s)
    oversight = oversee([collection])
    (warning,) = oversight.warnings
    assert warning.startswith("no Dagster daemon is alive")
    assert oversight.daemon_alive is False


def test_a_sensor_that_is_switched_off_is_warned_of_also_without_a_daemon(
    instance: dg.DagsterInstance, collection: Collection
) -> None:
    sensor(instance, SWEEPER, 10, on=False)
    oversight = oversee([collection])
    assert of_sweeper(oversight).on is False
    assert f"{SWEEPER} is off: switch it on in the UI, under Automation" in oversight.warnings


@pytest.mark.parametrize(
    ("ticks", "told"), [((), "has never ticked"), ((1000.0,), "has not ticked for N s")], ids=["never", "long ago"]
)
def test_a_sensor_that_does_not_tick_although_a_daemon_lives_is_warned_of(
    instance: dg.DagsterInstance, collection: Collection, ticks: tuple[float, ...], told: str
) -> None:
    beat(instance)
    if ticks:
        sensor(instance, SWEEPER, *ticks)
    warning = of_sweeper(oversee([collection])).warning
    assert warning is not None
    assert ages_aside([warning])[0].startswith(f"{SWEEPER} {told}")


def test_a_last_tick_that_failed_is_warned_of_with_its_reason(
    instance: dg.DagsterInstance, collection: Collection
) -> None:
    beat(instance)
    sensor(instance, SWEEPER, 10, status=TickStatus.FAILURE)
    assert of_sweeper(oversee([collection])).warning == f"the last tick of {SWEEPER} failed: the source is gone"


def test_what_a_renamed_code_location_left_behind_does_not_hide_the_living_sensor(
    instance: dg.DagsterInstance, collection: Collection
) -> None:
    beat(instance)
    sensor(instance, SWEEPER, 90_000, on=False, location="before")
    sensor(instance, SWEEPER, 10)
    assert of_sweeper(oversee([collection])).warning is None


def test_a_sensor_that_ticks_in_two_code_locations_is_warned_of(
    instance: dg.DagsterInstance, collection: Collection
) -> None:
    beat(instance)
    sensor(instance, SWEEPER, 20, location="laptop")
    sensor(instance, SWEEPER, 10)
    assert "ticks in several code locations at once (document_extraction, laptop)" in str(
        of_sweeper(oversee([collection])).warning
    )


def warned_of_several(oversight: Oversight) -> bool:
    """Whether it is said that several daemons are at work."""
    return any(warning.startswith("several daemons are at work") for warning in oversight.warnings)


@pytest.mark.parametrize(
    ("seen", "told"),
    [("ababab", True), ("aaabbb", False), ("aaabba", False), ("aaa", False)],
    ids=["two by turns", "one after the other", "another for two ticks", "one"],
)
@pytest.mark.parametrize("sign", ["beats", "processes"])
def test_two_daemons_are_told_by_what_is_seen_by_turns_and_a_restart_is_not(
    instance: dg.DagsterInstance,
    collection: Collection,
    seen: str,
    sign: str,
    caplog: pytest.LogCaptureFixture,
    *,
    told: bool,
) -> None:
    for place, name in enumerate(seen):
        beat(instance, name if sign == "beats" else "x", s_ago=30.0 * (len(seen) - place))
        note_who_ticks(instance, name if sign == "processes" else "x")
    assert warned_of_several(oversee([collection])) == ("several daemons are at work" in caplog.text) == told


def test_a_daemon_that_was_stopped_long_ago_is_not_told_of(
    instance: dg.DagsterInstance, collection: Collection
) -> None:
    for place, name in enumerate("abababaaa"):
        beat(instance, name, s_ago=4000.0 - 30.0 * place if place < 6 else 9.0 - place)
        note_who_ticks(instance, "x")
    assert not warned_of_several(oversee([collection]))


@only_sqlite
def test_the_ticks_of_both_sensors_note_who_is_at_work(watch: Watch) -> None:
    job = build_extraction_job(watch.target.collection)
    Path(watch.target.collection.source).mkdir(exist_ok=True)
    for sensor in (build_retry_sweeper(watch.target, job), build_document_inbox(watch.target, job)):
        watch.instance.daemon_cursor_storage.set_cursor_values({NOTED: "{}"})
        sensor(dg.build_sensor_context(instance=watch.instance))
        (kept,) = watch.instance.daemon_cursor_storage.get_cursor_values({NOTED}).values()
        assert f":{os.getpid()}" in kept


def queue_under(instance: dg.DagsterInstance, config: str, *, daemon_alive: bool = True) -> QueueState:
    """Look at the queue of an instance as if its configuration were another one."""
    home = Path(instance.root_directory)
    (home / "other.yaml").write_text(config, encoding="utf-8")
    with dg.DagsterInstance.from_config(str(home), "other.yaml") as other:
        return look_at_queue(other, daemon_alive=daemon_alive)


def limits(runs: str) -> str:
    """Return a configuration with limits of runs."""
    return f"concurrency: {{runs: {runs}}}"


@only_sqlite
@pytest.mark.parametrize(
    ("config", "stuck"),
    [
        (limits("{max_concurrent_runs: 0}"), "max_concurrent_runs is 0"),
        (limits("{tag_concurrency_limits: [{key: dagster/partition, limit: 0}]}"), "1 of them have a tag"),
        (
            "run_coordinator: {module: dagster.core.run_coordinator, class: DefaultRunCoordinator}",
            "the instance launches by ",
        ),
        (limits("{max_concurrent_runs: -1}"), None),
    ],
    ids=["no place", "a tag that is never let through", "another coordinator", "no limit"],
)
def test_queued_runs_that_nothing_will_ever_take_up_are_told_with_the_reason(
    watch: Watch, config: str, stuck: str | None
) -> None:
    watch.dagster_run(Status.QUEUED, of=watch.sets("mine")[0])
    queue = queue_under(watch.instance, config)
    assert queue.queued == 1
    assert [one.startswith(stuck or "") for one in queue.stuck] == [True] * (stuck is not None)
    assert queue.waits_for == []


@only_sqlite
def test_queued_runs_that_wait_for_others_are_told_for_whom(watch: Watch) -> None:
    mine, other = watch.sets("mine", "other")
    watch.dagster_run(Status.QUEUED, of=mine)
    at_work = [watch.dagster_run(Status.STARTED, of=document_set) for document_set in (mine, other)]
    queue = queue_under(watch.instance, TWO_PLACES)
    places, tag = queue.waits_for
    assert queue.stuck == []
    assert places.startswith("all 2 places (max_concurrent_runs) are taken by ")
    assert all(run_id in places for run_id in at_work)
    assert tag.startswith("1 of them wait for a run in progress that has the same tag")


@only_sqlite
def test_queued_runs_without_a_daemon_wait_for_one(watch: Watch) -> None:
    watch.dagster_run(Status.QUEUED, of=watch.sets("mine")[0])
    assert "no daemon is alive that would take them up" in str(
        queue_under(watch.instance, TWO_PLACES, daemon_alive=False)
    )


def test_a_dagster_that_never_ran_is_warned_of_and_not_begun_by_looking(
    tmp_path: Path, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "fresh"
    home.mkdir()
    shutil.copy(PROJECT_ROOT / "dagster.yaml", home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    oversight = oversee([collection])
    assert oversight.warnings == (f"no Dagster has run at {home} yet: nothing is launched by itself",)
    assert [path.name for path in home.iterdir()] == ["dagster.yaml"]


def test_a_dagster_that_cannot_be_looked_at_is_a_warning(
    tmp_path: Path, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dagster.yaml").write_text("storage: {nowhere: {}}")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (warning,) = oversee([collection]).warnings
    assert warning.startswith("Dagster could not be looked at: ")


def test_without_a_dagster_home_nothing_is_looked_at_and_that_is_told(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    oversight = oversee([collection])
    assert oversight.warnings == ()
    assert oversight.lines()[0].startswith("Dagster was not looked at: DAGSTER_HOME is not set")
