"""One sweep over one collection: settle what nobody works on, find what is due, ask for runs. Bounded and resumable.

A document set with an open extraction run is due, so one walk over the due sets serves both purposes, and what was not
settled is never launched: a run that a person cancelled would be started again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

import dagster as dg

from extraction_core.states import RowStatus
from resources.ledger import Ledger
from resources.ledger.launches import DueSet
from sensors.cancellations import Cancellation, Cancellations
from sensors.door import LAUNCH_LEASE_S, HeldBack, Launch, Unanswered, request_run
from sensors.probe import START_GRACE_S, InFlight, InFlightProbe
from sensors.target import SensorTarget

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SweepLimits:
    """Bounds of one sweep.

    Attributes:
        sets: due sets looked at, and settled where their extraction run is open.
        seconds: after which no further set is looked at; well under Dagster's 60 s for a tick.
        lease_s: how long a request has to become a run.
        start_grace_s: how long a started run may be without a sign of life.
    """

    sets: int = 50
    seconds: float = 20.0
    lease_s: float = LAUNCH_LEASE_S
    start_grace_s: float = START_GRACE_S


@dataclass(kw_only=True)
class SweepReport:
    """What a sweep did. ``cursor`` is the set to go on after; 0 when all due sets were looked at."""

    launches: list[Launch] = field(default_factory=list)
    held_back: list[HeldBack] = field(default_factory=list)
    reclaimed: int = 0
    closed: int = 0
    cancelled: int = 0
    withdrawn: int = 0
    dead: tuple[str, ...] = ()
    cursor: int = 0

    def __str__(self) -> str:
        """Return one line for a log."""
        parts = [f"{len(self.launches)} launched", f"{len(self.held_back)} held back"]
        parts += [
            f"{number} {what}"
            for number, what in (
                (self.reclaimed, "rows reclaimed"),
                (self.closed, "extraction runs closed"),
                (self.cancelled, "extraction runs cancelled"),
                (self.withdrawn, "sets left to people"),
                (len(self.dead), "dead Dagster runs settled"),
            )
            if number
        ]
        return ", ".join(parts)


class Sweep:
    """Sweeps one collection.

    Args:
        ledger: the ledger.
        instance: Dagster's storage.
        target: the collection.
        limits: bounds of one sweep.
        dry_run: whether to change nothing and only say what would be launched.
    """

    def __init__(
        self,
        ledger: Ledger,
        instance: dg.DagsterInstance,
        target: SensorTarget,
        limits: SweepLimits | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        self._ledger, self._instance, self._target, self._dry_run = ledger, instance, target, dry_run
        self._limits = limits or SweepLimits()
        self._cancellations = Cancellations(instance, ledger, target)
        self._deadline = time.monotonic() + self._limits.seconds

    def run(self, cursor: int = 0) -> SweepReport:
        """Sweep, going on after the set ``cursor``."""
        report = SweepReport()
        # the launch numbers first, then the look: a launch between the two has another number, and gets the lease alone
        due = self._due(after=cursor, limit=self._limits.sets)
        in_flight = self._look(report)
        for looked_at, one in enumerate(due, start=1):
            self._take_up(one, in_flight, report)
            if looked_at == len(due):
                report.cursor = one.document_set.set_id if len(due) == self._limits.sets else 0
            elif time.monotonic() > self._deadline:
                report.cursor = one.document_set.set_id
                break
        return report

    def _due(self, *, after: int, limit: int) -> list[DueSet]:
        return self._ledger.launches.due_sets(
            self._target.collection.name, self._target.question(), after=after, limit=limit
        )

    def _look(self, report: SweepReport) -> InFlight | Unanswered:
        probe = InFlightProbe(self._instance, self._ledger, self._target, start_grace_s=self._limits.start_grace_s)
        try:
            in_flight = probe.look(settle=not self._dry_run)
        except Exception as error:  # fail closed: an unanswered check launches nothing, whatever was raised
            log.exception("nothing is launched in this tick: the check for runs in flight failed")
            return Unanswered(reason=f"{type(error).__name__}: {error}")
        report.dead = in_flight.dead
        return in_flight

    def _take_up(self, due: DueSet, in_flight: InFlight | Unanswered, report: SweepReport) -> None:
        """Settle a set and ask for its run. What goes wrong with one set is its own affair: the others go on."""
        try:
            answer = None if isinstance(in_flight, Unanswered) else self._settle(due, in_flight, report)
            answer = answer or request_run(
                self._ledger, due, in_flight, lease_s=self._limits.lease_s, dry_run=self._dry_run
            )
        except Exception as error:  # fail closed, whatever Dagster's storage or the ledger raises
            log.exception("%s was skipped", due.document_set.folder)
            answer = HeldBack(due=due, reason=f"a look-up failed: {type(error).__name__}: {error}")
        if isinstance(answer, Launch):
            report.launches.append(answer)
        else:
            report.held_back.append(answer)

    def _settle(self, due: DueSet, in_flight: InFlight, report: SweepReport) -> HeldBack | None:
        """Give back what dead workers held; end what a person cancelled; close what has nothing left.

        Returns:
            Why the set is not due any more, or None when it still is.
        """
        run_id, set_id = due.open_run_id, due.document_set.set_id
        nobody_comes = in_flight.holder(due.document_set.partition_key) is None
        cancellation = self._cancellations.find(due) if nobody_comes else None
        if self._dry_run:
            return self._foresee(due, cancellation)
        if run_id is not None:
            report.reclaimed += self._ledger.results.reclaim(run_id) + self._ledger.parses.reclaim(set_id)
        if cancellation:
            if run_id is not None and self._ledger.results.stats(run_id).counts.get(RowStatus.RUNNING):
                return HeldBack(due=due, reason=_STILL_HELD)
            self._leave_to_people(due, cancellation, report)
        elif run_id is None or self._ledger.results.stats(run_id).active or self._ledger.finalize(run_id) is None:
            return None
        else:
            report.closed += 1
        if set_id in [one.document_set.set_id for one in self._due(after=set_id - 1, limit=1)]:
            return None
        return HeldBack(due=due, reason=_CANCELLED if cancellation else _NOTHING_LEFT)

    def _foresee(self, due: DueSet, cancellation: Cancellation | None) -> HeldBack | None:
        if cancellation:
            return HeldBack(due=due, reason=_CANCELLED)
        finished = due.open_run_id is not None and not self._ledger.results.stats(due.open_run_id).active
        return HeldBack(due=due, reason=_NOTHING_LEFT) if finished else None

    def _leave_to_people(self, due: DueSet, cancellation: Cancellation, report: SweepReport) -> None:
        """End what is left of a cancelled extraction run, and take the marks off what was due to the cancelled one."""
        run_id, set_id = due.open_run_id, due.document_set.set_id
        if run_id is not None:
            self._ledger.results.request_cancel(run_id)
            self._ledger.runs.seal(run_id)
            report.cancelled += self._ledger.finalize(run_id) is not None
        question = self._target.question() if cancellation.of_question else None
        self._ledger.launches.withdraw(set_id, cancellation.at_ms, question)
        self._cancellations.settle(cancellation)
        report.withdrawn += 1
        log.info("%s: Dagster run %s was cancelled by a person", due.document_set.folder, cancellation.dagster_run_id)


_CANCELLED = "a person cancelled its last run: what was left of it ends cancelled, and is due to a person alone"
_STILL_HELD = "a person cancelled its last run, and documents of it are still held: by a lease or a message batch"
_NOTHING_LEFT = "nothing of its extraction run was left: it is closed"
