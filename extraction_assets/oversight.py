"""Whether anything launches by itself: daemons, sensors and the queue of Dagster, as values for the terminal.

Importing this module loads no dagster, which takes seconds. Dagster is looked at only where DAGSTER_HOME holds state
of it, and whatever goes wrong in that becomes a warning: the ledger's own commands never fail of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from extraction_core.collection import Collection


@dataclass(frozen=True, kw_only=True)
class SensorState:
    """One sensor.

    Attributes:
        on: whether it is switched on; None when Dagster has never heard of it.
        last_tick_s_ago: seconds since its last tick began; None when there was none.
        last_tick: how that ended: started, skipped, success, failure.
        warning: what a person should know.
    """

    name: str
    collection: str
    on: bool | None
    last_tick_s_ago: float | None
    last_tick: str | None
    warning: str | None

    def __str__(self) -> str:
        """Return one line for people."""
        switch = {True: "on", False: "off", None: "unknown to Dagster"}[self.on]
        if self.last_tick_s_ago is None:
            return f"{self.name}: {switch}, never ticked"
        return f"{self.name}: {switch}, last tick {self.last_tick_s_ago:.0f} s ago ({self.last_tick})"


@dataclass(frozen=True, kw_only=True)
class QueueState:
    """Dagster's queue of runs.

    Attributes:
        queued: runs in it, of all collections.
        oldest_s: seconds for which the first of them has waited; None when there is none.
        waits_for: why they wait, and for whom.
        stuck: why they will wait for ever unless a person does something.
    """

    queued: int
    oldest_s: float | None
    waits_for: Sequence[str]
    stuck: Sequence[str]

    def __str__(self) -> str:
        """Return one line for people."""
        if not self.queued:
            return "no run is queued"
        reasons = "; ".join([*self.stuck, *self.waits_for]) or "the daemon takes them up in turn"
        return f"{self.queued} runs are queued, the first for {self.oldest_s or 0:.0f} s: {reasons}"


@dataclass(frozen=True, kw_only=True)
class Oversight:
    """What Dagster says of who launches.

    Attributes:
        home: DAGSTER_HOME; None when it is not set and nothing was looked at.
        daemon_s_ago: seconds since the last sign of life of the daemon that evaluates sensors; None for never.
        daemon_alive: whether the daemons that launches hang on are alive; None when that was not looked at.
        sensors: the sensors of the chosen collections.
        queue: the queue; None when it was not looked at.
        warnings: what a person should do something about.
    """

    home: str | None
    daemon_s_ago: float | None = None
    daemon_alive: bool | None = None
    sensors: Sequence[SensorState] = ()
    queue: QueueState | None = None
    warnings: Sequence[str] = ()

    def lines(self) -> list[str]:
        """Return what people read, warnings aside."""
        if self.home is None:
            return ["Dagster was not looked at: DAGSTER_HOME is not set, so daemon, sensors and queue are unknown here"]
        if self.daemon_alive is None:
            return [f"Dagster at {self.home} was not looked at"]
        beat = "never seen" if self.daemon_s_ago is None else f"last seen {self.daemon_s_ago:.0f} s ago"
        lines = [f"Dagster at {self.home}: daemon {'alive' if self.daemon_alive else 'not alive'}, {beat}"]
        lines += [f"  {sensor}" for sensor in self.sensors]
        return [*lines, f"  {self.queue}"] if self.queue else lines

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form."""
        return asdict(self)


def oversee(collections: Sequence[Collection]) -> Oversight:
    """Look at the Dagster that DAGSTER_HOME names, as far as there is one."""
    home = os.environ.get("DAGSTER_HOME")
    if not home:
        return Oversight(home=None)
    if not Path(home).is_absolute() or not Path(home).is_dir():
        return Oversight(home=home, warnings=(f"DAGSTER_HOME is {home!r}, not an absolute folder",))
    if not _holds_state(Path(home)):
        return Oversight(home=home, warnings=(f"no Dagster has run at {home} yet: nothing is launched by itself",))
    try:
        from extraction_assets.dagster_look import look_at_dagster  # noqa: PLC0415 - loads dagster

        return look_at_dagster(home, collections)
    except Exception as error:  # noqa: BLE001 - an unreachable storage, one of another version: the ledger is readable
        return Oversight(home=home, warnings=(f"Dagster could not be looked at: {type(error).__name__}: {error}",))


def _holds_state(home: Path) -> bool:
    """Whether there is something to look at: opening an instance would make its databases, which takes seconds."""
    if (home / "history" / "runs.db").exists():
        return True
    config = home / "dagster.yaml"
    return config.exists() and "storage" in config.read_text(encoding="utf-8")  # it is kept elsewhere
