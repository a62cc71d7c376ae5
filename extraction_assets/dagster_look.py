"""One look at a Dagster instance: do its daemons live, do the sensors tick, why do runs wait?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import InstigatorState, InstigatorTick, TickStatus

from extraction_assets.oversight import Oversight, SensorState
from extraction_assets.queue_look import look_at_queue
from extraction_core.collection import Collection
from sensors import batch_poller, document_inbox, parse_poller, retry_sweeper
from sensors.daemons import QUEUE, SENSORS, SILENT_AFTER_S, beat_ages_s, several_at_work, told_of_several

MISSED_TICKS = 5
"""A sensor is late after so many intervals, and not before a daemon would count as silent: sensors take turns."""
NO_DAEMON = (
    "no Dagster daemon is alive: no sensor ticks and no queued run starts. "
    "Start it with `make dev` or `dagster-daemon run`."
)

Seen = tuple[InstigatorTick | None, InstigatorState]
"""The last tick of a sensor in one code location, and its state there."""


def look_at_dagster(home: str, collections: Sequence[Collection]) -> Oversight:
    """Look at the instance that DAGSTER_HOME names.

    Raises:
        Exception: whatever its storage raises.
    """
    with dg.DagsterInstance.get() as instance:
        ages = beat_ages_s(instance)
        needed = {SENSORS, QUEUE} & set(instance.get_required_daemon_types())
        alive = all(ages.get(kind, SILENT_AFTER_S) < SILENT_AFTER_S for kind in needed)
        sensors = list(_look_at_sensors(instance, collections, daemon_alive=alive))
        queue = look_at_queue(instance, daemon_alive=alive)
        several = several_at_work(instance)
    warnings = [] if alive else [NO_DAEMON]
    warnings += [told_of_several(several)] if several else []
    warnings += [sensor.warning for sensor in sensors if sensor.warning]
    warnings += [f"queued runs will not start: {reason}" for reason in queue.stuck if alive]
    return Oversight(
        home=home,
        daemon_s_ago=ages.get(SENSORS),
        daemon_alive=alive,
        sensors=sensors,
        queue=queue,
        warnings=warnings,
    )


def sensors_of(collection: str, *, parses_by_jobs: bool = False) -> Mapping[str, int]:
    """Return the sensors of a collection: name -> how often it should tick, in seconds.

    Args:
        collection: its name.
        parses_by_jobs: whether a parse service may be at work on its documents.
    """
    by_jobs = {parse_poller.parse_poller_name(collection): parse_poller.INTERVAL_S} if parses_by_jobs else {}
    return {
        document_inbox.inbox_name(collection): document_inbox.INTERVAL_S,
        retry_sweeper.sweeper_name(collection): retry_sweeper.INTERVAL_S,
        batch_poller.poller_name(collection): batch_poller.INTERVAL_S,
        **by_jobs,
    }


def _look_at_sensors(
    instance: dg.DagsterInstance, collections: Sequence[Collection], *, daemon_alive: bool
) -> Iterator[SensorState]:
    states = instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
    for collection in collections:
        for name, interval_s in sensors_of(collection.name, parses_by_jobs=collection.settings.parses_by_jobs).items():
            own = [state for state in states if state.instigator_name == name]
            late_s = max(MISSED_TICKS * interval_s, SILENT_AFTER_S) if daemon_alive else None
            yield _look_at_sensor(instance, collection.name, name, own, late_s)


def _look_at_sensor(
    instance: dg.DagsterInstance,
    collection: str,
    name: str,
    states: Sequence[InstigatorState],
    late_s: float | None,
) -> SensorState:
    """Judge one sensor. A code location that was renamed leaves a state behind: what ticked last is the living one.

    Args:
        instance: Dagster's storage.
        collection: the sensor's collection.
        name: its name.
        states: its states, one for each code location that ever had it.
        late_s: seconds after which a tick is missed; None when nothing can be expected of it.
    """
    seen = sorted(((_last_tick(instance, state), state) for state in states), key=lambda pair: _at(pair[0]))
    tick, state = seen[-1] if seen else (None, None)
    on = state.is_running if state else None
    return SensorState(
        name=name,
        collection=collection,
        on=on,
        last_tick_s_ago=time.time() - tick.timestamp if tick else None,
        last_tick=tick.status.value.lower() if tick else None,
        warning=f"{name} is off: switch it on in the UI, under Automation"
        if on is False
        else _told(name, seen, late_s),
    )


def _told(name: str, seen: Sequence[Seen], late_s: float | None) -> str | None:
    """Return what a person should know of a sensor that is on."""
    tick = seen[-1][0] if seen else None
    if late_s is not None and time.time() - _at(tick) > late_s:
        since = "has never ticked" if tick is None else f"has not ticked for {time.time() - tick.timestamp:.0f} s"
        return f"{name} {since}: is its code location loaded? The UI says so under Deployment"
    if tick and tick.status is TickStatus.FAILURE:
        return f"the last tick of {name} failed: {tick.error.message.strip() if tick.error else 'no message'}"
    if late_s is not None and (twins := _ticking_twins(seen, late_s)):
        return f"{name} ticks in several code locations at once ({', '.join(twins)}): stop all but one"
    return None


def _last_tick(instance: dg.DagsterInstance, state: InstigatorState) -> InstigatorTick | None:
    return next(iter(instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)), None)


def _at(tick: InstigatorTick | None) -> float:
    return tick.timestamp if tick else 0.0


def _ticking_twins(seen: Sequence[Seen], within_s: float) -> list[str]:
    """Return the code locations that tick a sensor, if they are several."""
    earliest = time.time() - within_s
    names = {
        state.repository_selector.location_name for tick, state in seen if state.is_running and _at(tick) > earliest
    }
    return sorted(names) if len(names) > 1 else []
