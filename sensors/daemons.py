"""Which daemons are at work on one Dagster storage: alive at all, or two of them.

Dagster keeps one beat for each kind of daemon, the last writer's, and does not say who evaluated a tick, so two daemons
show only over time. Every tick notes whose beat it sees and in which process it runs, since a daemon brings a code
server of its own. Two that are seen by turns are two at work; one that took another's place is first seen after the
other was last seen. Two do no harm to the documents, since a launch is granted once, but each is a surprise: an old
container, a laptop.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import dagster as dg

log = logging.getLogger(__name__)

SENSORS, QUEUE = "SENSOR", "QUEUED_RUN_COORDINATOR"
"""The two kinds of daemon that launches hang on: one evaluates sensors, one takes runs from the queue."""
SILENT_AFTER_S = 180.0
"""A daemon beats every 30 seconds; Dagster itself calls it dead only after half an hour."""
NOTED = "document_extraction/at_work"
RECENT_S = 600.0
"""How long two are told of after one of them was last seen."""
SIGHTINGS = 3
"""A sensor that a person tests in the UI once or twice runs in another process, too."""


@dataclass(frozen=True, kw_only=True)
class Sightings:
    """When somebody was seen at work: first and last, in seconds since 1970, and how often."""

    first: float
    last: float
    times: int


Noted = dict[str, Sightings]
"""``daemon <id>`` or ``process <host>:<pid>`` -> when it was seen."""


def beat_ages_s(instance: dg.DagsterInstance) -> Mapping[str, float]:
    """Return kind of daemon -> seconds since its last beat."""
    now = time.time()
    return {kind: now - beat.timestamp for kind, beat in instance.get_daemon_heartbeats().items()}


def note_who_ticks(instance: dg.DagsterInstance, process: str | None = None) -> None:
    """Note who is at work, as a tick begins, and warn when two are. No fault in that ends a tick.

    Ticks of one daemon begin in its old code server, then in its new one, and never by turns.

    Args:
        instance: Dagster's storage.
        process: where the tick runs; this process unless told otherwise.
    """
    try:
        noted = _recent(instance)
        _see(noted, f"process {process or f'{socket.gethostname()}:{os.getpid()}'}", time.time())
        beat = instance.get_daemon_heartbeats().get(SENSORS)
        if beat is not None:
            _see(noted, f"daemon {beat.daemon_id}", beat.timestamp)
        kept = json.dumps({name: asdict(seen) for name, seen in noted.items()})
        instance.daemon_cursor_storage.set_cursor_values({NOTED: kept})
        if several := _by_turns(noted):
            log.warning("%s", told_of_several(several))
    except Exception:
        log.exception("it could not be noted who is at work")


def several_at_work(instance: dg.DagsterInstance) -> list[str]:
    """Return which daemons, or processes of theirs, were seen by turns during the last ten minutes; none of one."""
    return _by_turns(_recent(instance))


def told_of_several(names: list[str]) -> str:
    """Return what a person is told about them."""
    return (
        f"several daemons are at work on one Dagster storage ({', '.join(names)}): stop all but one. "
        "No document is extracted twice by that, but ticks and launches may be delayed."
    )


def _recent(instance: dg.DagsterInstance) -> Noted:
    kept = instance.daemon_cursor_storage.get_cursor_values({NOTED}).get(NOTED) or "{}"
    noted = {name: Sightings(**seen) for name, seen in json.loads(kept).items()}
    return {name: seen for name, seen in noted.items() if seen.last >= time.time() - RECENT_S}


def _see(noted: Noted, name: str, at: float) -> None:
    before = noted.get(name) or Sightings(first=at, last=0.0, times=0)
    if at > before.last:
        noted[name] = Sightings(first=before.first, last=at, times=before.times + 1)


def _by_turns(noted: Noted) -> list[str]:
    often = {name: seen for name, seen in noted.items() if seen.times >= SIGHTINGS}
    return sorted(
        name
        for name, seen in often.items()
        for other, also in often.items()
        if name != other and _kind(name) == _kind(other) and seen.first <= also.last and also.first <= seen.last
    )


def _kind(name: str) -> str:
    return name.partition(" ")[0]
