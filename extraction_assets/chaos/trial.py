"""A trial from beginning to end: start everything, let it die until enough have, let it recover, compare the books.

This process plays Dagster's daemon and all that goes wrong. It is the only one that is spared.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from extraction_assets.chaos.crew import Crew
from extraction_assets.chaos.place import NAME, Place
from extraction_assets.chaos.plan import UNHARMED, Mishap, Plan
from extraction_assets.chaos.proof import violations
from extraction_assets.chaos.provider import Provider
from extraction_assets.local import running_sandbox
from extraction_assets.local_postgres import LocalPostgres, running_local_postgres
from extraction_core.errors import ConfigurationError
from extraction_core.settings import Timing
from resources.environment import Environment
from resources.ledger import Ledger
from resources.ledger.audit import broken_promises, is_unused
from resources.ledger.trials import cut_connections, install_witness, move_time

MOST_WORKERS = 4
PROGRESS_EVERY_S = 5.0
JUMP_S = 1000.0
"""Longer than every wait that can be pending in realtime but a back-off, and than the settle time of a reservation."""
QUIET_ROUNDS = 5
LONGEST_REST_S = 300.0
"""How long everything may take to come to an end once nobody dies any more."""
BATCH_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """What is asked of a trial.

    Attributes:
        documents: how many documents there are at first; as many are added whenever all are done before enough died.
        ledger: ``sqlite``, ``postgres`` (a server of the trial's own), or the address of an empty database.
    """

    kills: int
    seed: int
    ledger: str
    mode: str
    documents: int


@dataclass(kw_only=True)
class Tally:
    """What went wrong, counted. ``restarts`` are processes started after the first ones died."""

    kills: int = 0
    restarts: int = 0
    frozen: int = 0
    rivals: int = 0
    storms: int = 0
    connections_cut: int = 0
    database_crashes: int = 0
    clock_jumps: int = 0
    faulty_exits: int = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a trial. ``found`` are the proof's figures; ``folder`` is where everything is to be seen."""

    options: TrialOptions
    documents: int
    tally: Tally
    found: dict[str, Any]
    seconds: float
    folder: Path
    ledger_url: str = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form, every count at the top."""
        return {
            **asdict(self.options),
            **asdict(self.tally),
            "documents": self.documents,
            **self.found,
            "seconds": round(self.seconds, 1),
        }


def run_trial(options: TrialOptions, folder: Path, say: Callable[[str], None]) -> Outcome:
    """Run a trial in an empty folder.

    Raises:
        ConfigurationError: the ledger is not empty: a trial kills its workers, and moves its clocks.
        NoPostgresError: a server was asked for, and there is none on this machine.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        url, server = stack.enter_context(_ledger(options.ledger, folder))
        environment = Environment(home=folder / "home", ledger_url=url, timing=Timing())
        provider = Provider(stack.enter_context(running_sandbox(environment)))
        place = Place(folder=folder, ledger_url=url, mode=options.mode, provider_url=provider.url)
        place.enter()
        instance = stack.enter_context(place.dagster())
        trial = Trial(options, place, provider, instance, server, say)
        trial.run()
        say("everything is at rest; comparing ledger, files and the provider's log")
        found = violations(place, provider, trial.documents)
        return Outcome(
            options=options,
            documents=trial.documents,
            tally=trial.tally,
            found=found,
            seconds=time.monotonic() - begun,
            folder=folder,
            ledger_url=url,
        )


class Trial:
    """The loop.

    Args:
        options: what is asked.
        place: where it takes place.
        provider: the sandbox.
        instance: the Dagster storage.
        server: the database server, if it is the trial's own.
        say: receives a line every few seconds.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a trial is made of
        self,
        options: TrialOptions,
        place: Place,
        provider: Provider,
        instance: dg.DagsterInstance,
        server: LocalPostgres | None,
        say: Callable[[str], None],
    ) -> None:
        self._options, self._place, self._provider, self._server, self._say = options, place, provider, server, say
        self._plan = Plan(options.seed, options.mode)
        self._crew = Crew(place, instance)
        self._ledger = _empty_ledger(place.ledger_url)
        self._keys: list[str] = []
        self._waiting: list[str] = []
        self._mishaps: list[tuple[float, Mishap]] = []
        self._said_at = time.monotonic()
        self._quiet_rounds = 0
        self.documents = 0
        self.tally = Tally()

    def run(self) -> None:
        """Go on until enough have died and everything is at rest, or it does not come to rest."""
        self._provider.batches_take(BATCH_SECONDS)
        self._add_documents()
        calm_since: float | None = None
        try:
            while True:
                if calm_since is None and self._crew.kills >= self._options.kills:
                    calm_since = time.monotonic()
                    self._provider.clear_faults()
                self._turn(calm=calm_since is not None)
                if calm_since and (self._is_at_rest() or time.monotonic() - calm_since > LONGEST_REST_S):
                    return
        finally:
            self._crew.end()
            self._count()
            self._ledger.close()

    def _turn(self, *, calm: bool) -> None:
        """Strike, bury, start: one round of the loop."""
        if not calm:
            self._harm()
        self._crew.strike()
        asked = self._crew.bury()
        if asked is not None:
            self._waiting += asked
            self._quiet_rounds = 0 if asked else self._quiet_rounds + (not self._crew.children)
        while self._waiting and self._crew.workers < MOST_WORKERS:
            self._launch(self._waiting.pop(0), calm=calm)
        if not self._crew.is_ticking and not self._waiting:
            if asked == [] and not self._crew.children:
                self._nothing_asked(calm=calm)
            self._crew.start_tick(UNHARMED if calm else self._plan.tick())
        self._progress()
        self._crew.wait(0.05)

    def _launch(self, partition_key: str, *, calm: bool) -> None:
        self._crew.start_worker(partition_key, UNHARMED if calm else self._plan.worker(), as_dagster_run=True)
        self.tally.restarts += self._crew.kills > 0
        if calm:
            return
        if self._plan.has_rival():
            self._crew.start_worker(partition_key, self._plan.worker(), as_dagster_run=False)
            self.tally.rivals += 1
        now = time.monotonic()
        self._mishaps += [(now + delay, mishap) for delay, mishap in self._plan.mishaps()]

    def _nothing_asked(self, *, calm: bool) -> None:
        """Nobody is alive and nothing is due now: let time go by, or give everybody more to do."""
        if not calm and self._quiet_rounds > QUIET_ROUNDS:
            self._add_documents()
        move_time(self._ledger.engine, JUMP_S)
        self._provider.move_time(JUMP_S)
        self.tally.clock_jumps += 1

    def _is_at_rest(self) -> bool:
        """Whether nothing was due for so many jumps of the clock that nothing will be."""
        if self._crew.children[1:] or self._waiting or self._quiet_rounds <= QUIET_ROUNDS:
            return False
        promises = broken_promises(self._ledger.engine)
        return not promises["unfinished"] and not promises["open_runs"]

    def _harm(self) -> None:
        """Let happen what is due of the mishaps."""
        due = [mishap for moment, mishap in self._mishaps if moment <= time.monotonic()]
        self._mishaps = [one for one in self._mishaps if one[0] > time.monotonic()]
        for mishap in due:
            if mishap is Mishap.STORM:
                self._provider.add_faults(self._plan.storm())
                self.tally.storms += 1
            elif mishap is Mishap.CUT:
                self.tally.connections_cut += cut_connections(self._ledger.engine)
            elif self._server:
                self._server.crash_and_restart()
                self.tally.database_crashes += 1

    def _add_documents(self) -> None:
        self._place.add_documents(self.documents, self._options.documents)
        self.documents += self._options.documents
        self._quiet_rounds = 0

    def _progress(self) -> None:
        if time.monotonic() - self._said_at < PROGRESS_EVERY_S:
            return
        self._said_at = time.monotonic()
        states = self._ledger.reports.sets(NAME)
        done, failed = (sum(row[name] for row in states) for name in ("completed", "failed"))
        self._say(
            f"{self._crew.kills} of {self._options.kills} kills, {done} of {self.documents} documents done, "
            f"{failed} failed so far, {self._crew.workers} workers alive"
        )

    def _count(self) -> None:
        counted = self.tally
        counted.kills, counted.faulty_exits = self._crew.kills, self._crew.faulty_exits
        counted.frozen = len(self._place.frozen.read_text().splitlines()) if self._place.frozen.exists() else 0


@contextmanager
def _ledger(wanted: str, folder: Path) -> Iterator[tuple[str, LocalPostgres | None]]:
    """Give the address of an empty ledger, and the server if it is the trial's own."""
    if wanted == "sqlite":
        yield f"sqlite:///{folder / 'ledger.db'}", None
    elif wanted == "postgres":
        with running_local_postgres() as server:
            yield server.url, server
    else:
        yield wanted, None


def _empty_ledger(url: str) -> Ledger:
    ledger = Ledger(url)
    if not is_unused(ledger.engine):
        ledger.close()
        raise ConfigurationError(
            "--ledger-url", None, "names a ledger that is in use.", "A trial needs an empty database of its own."
        )
    install_witness(ledger.engine)
    return ledger


def say_on_stderr() -> Callable[[str], None]:
    """Return what prints a line with the seconds since now."""
    begun = time.monotonic()

    def say(line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - begun:6.1f} s] {line}\n")
        sys.stderr.flush()

    return say
