"""A trial from beginning to end: let everything die until enough have, then let it recover.

This process plays Dagster's daemon and all that goes wrong. It is the only one that is spared.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dagster as dg

from extraction_assets.chaos.crew import Crew
from extraction_assets.chaos.outcome import Tally, TrialOptions
from extraction_assets.chaos.place import NAME, Place
from extraction_assets.chaos.plan import UNHARMED, Mishap, Ordeal, Plan
from extraction_assets.chaos.provider import FOREIGN, Provider
from extraction_assets.chaos.storms import Storm
from extraction_assets.local_postgres import LocalPostgres
from extraction_core.errors import ConfigurationError
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
        self._waiting: list[str] = []
        self._mishaps: list[tuple[float, Mishap]] = []
        self._mistakable: set[int] = set()
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
        """Start a worker. Who takes over from a sleeper is spared: only finished work can be harmed by its waking."""
        spared = calm or self._crew.sleepers(partition_key)
        ordeal = Ordeal(fate=UNHARMED) if spared else self._plan.launch()
        if ordeal.storm:
            self._storm(ordeal.storm)
        self._crew.start_worker(partition_key, ordeal.fate, as_dagster_run=True)
        self.tally.restarts += self._crew.kills > 0
        if ordeal.rival:
            self._crew.start_worker(partition_key, ordeal.rival, as_dagster_run=False)
            self.tally.rivals += 1
        now = time.monotonic()
        self._mishaps += [(now + delay, mishap) for delay, mishap in ordeal.mishaps]

    def _storm(self, faults: Storm) -> None:
        self._provider.add_faults(faults)
        self.tally.storms += 1

    def _nothing_asked(self, *, calm: bool) -> None:
        """Nobody is alive and nothing is due now: let time go by, or give everybody more to do."""
        if not calm and (self._is_done() or self._quiet_rounds > QUIET_ROUNDS):
            self._add_documents()
        self._add_foreign_batches()
        move_time(self._ledger.engine, JUMP_S)
        self._provider.move_time(JUMP_S)
        self.tally.clock_jumps += 1

    def _add_foreign_batches(self) -> None:
        """Whoever will look for a batch whose id was never stored finds one of the same size that is not ours."""
        for batch in self._ledger.batches.listed(NAME, settled=False):
            if batch["provider_id"] is None and batch["batch_id"] not in self._mistakable:
                self._mistakable.add(batch["batch_id"])
                ids = [f"{FOREIGN}{number}" for number in range(batch["request_count"])]
                self._provider.add_batch(self._place.collection().settings.model, ids)

    def _is_at_rest(self) -> bool:
        """Whether nothing was due for so many jumps of the clock that nothing will be."""
        if self._crew.children[1:] or self._waiting or self._quiet_rounds <= QUIET_ROUNDS:
            return False
        return self._is_done()

    def _is_done(self) -> bool:
        promises = broken_promises(self._ledger.engine)
        return not promises["unfinished"] and not promises["open_runs"]

    def _harm(self) -> None:
        """Let happen what is due of the mishaps."""
        due = [mishap for moment, mishap in self._mishaps if moment <= time.monotonic()]
        self._mishaps = [one for one in self._mishaps if one[0] > time.monotonic()]
        for mishap in due:
            if mishap is Mishap.STORM:
                self._storm(self._plan.storm())
            elif mishap is Mishap.CUT:
                self.tally.connections_cut += cut_connections(self._ledger.engine)
            elif mishap is Mishap.CALLERS:
                self.tally.callers_killed += self._crew.kill_callers()
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
        counted.frozen = self._place.lives.frozen


def _empty_ledger(url: str) -> Ledger:
    ledger = Ledger(url)
    if not is_unused(ledger.engine):
        ledger.close()
        raise ConfigurationError(
            "--ledger-url", None, "names a ledger that is in use.", "A trial needs an empty database of its own."
        )
    install_witness(ledger.engine)
    return ledger
