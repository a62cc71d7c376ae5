"""The one door to new runs: every sensor and the terminal's ``sweep`` pass it, for every document set.

Check first, then take the set's launch lease with one guarded UPDATE, then ask for one run. A check that cannot be
answered is a refusal that has cost nothing: no lease is taken, and the next tick checks again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from resources.ledger import Ledger
from resources.ledger.launches import DueSet
from sensors.probe import InFlight

log = logging.getLogger(__name__)

LAUNCH_LEASE_S = 600.0
"""How long a request may take to become a run that can be seen. A lease that ends early costs nothing but a look."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One run is to be launched for a set. ``number`` makes its run key new: run keys deduplicate for ever."""

    due: DueSet
    number: int


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """No run is to be launched for a set now, and why."""

    due: DueSet
    reason: str


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """The look at Dagster failed: nothing may be launched."""

    reason: str


def request_run(  # noqa: PLR0913 - what a door asks of everybody
    ledger: Ledger,
    due: DueSet,
    in_flight: InFlight | Unanswered,
    *,
    lease_s: float,
    dry_run: bool = False,
    collecting: bool = False,
) -> Launch | HeldBack:
    """Ask for one run of a set, if nothing is in flight and nobody else has asked.

    Args:
        ledger: the ledger.
        due: the set.
        in_flight: what the probe saw in this tick.
        lease_s: how long the request has to become a run, in seconds.
        dry_run: whether to say only what would happen.
        collecting: whether the run is to collect a message batch that has ended; then others of the set may be open.
    """
    if isinstance(in_flight, Unanswered):
        return HeldBack(due=due, reason=f"the check for runs in flight failed: {in_flight.reason}")
    if holder := in_flight.holder(due.document_set.partition_key) or _holder_in_ledger(ledger, due, collecting):
        return HeldBack(due=due, reason=f"in flight: {holder}")
    if dry_run:
        free = ledger.launches.lease_is_free(due.document_set.set_id)
        return Launch(due=due, number=due.launch_number + 1) if free else HeldBack(due=due, reason=_ASKED)
    number = ledger.launches.take_lease(due.document_set.set_id, due.launch_number, lease_s)
    return HeldBack(due=due, reason=_ASKED) if number is None else Launch(due=due, number=number)


def _holder_in_ledger(ledger: Ledger, due: DueSet, collecting: bool) -> str | None:  # noqa: FBT001 - see above
    """Return who is at work on a set by the ledger; a question that cannot be answered counts as somebody."""
    try:
        if workers := ledger.launches.live_workers(due.document_set.set_id):
            return f"live worker of {workers[0]}"
        if batches := [] if collecting else ledger.batches.open_of_set(due.document_set.set_id):
            name = batches[0]["provider_id"] or f"reservation {batches[0]['batch_id']}"
            return f"message batch {name} ({batches[0]['state']})"
        if jobs := ledger.parse_jobs.open_of_set(due.document_set.set_id):
            return f"{len(jobs)} parse jobs, the first of {jobs[0]['document_key']} ({jobs[0]['job_state']})"
    except Exception as error:  # noqa: BLE001 - whatever the database raises: fail closed, let the other sets go on
        log.warning("%s was skipped: the ledger could not be read: %s", due.document_set.folder, error)
        return f"unknown, the check for live workers failed: {error}"
    return None


_ASKED = "its launch lease has not run out: a run was asked for, or the last one ended in a fault that needs a person"
