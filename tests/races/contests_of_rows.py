"""Two who want one row of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_core.failpoints import Failpoint
from extraction_core.states import RowStatus
from resources.ledger.claims import Held
from tests.factories import (
    LEASE_S,
    a_failure,
    a_run,
    claim,
    claim_one,
)
from tests.ledger.support import one_row, rows
from tests.races.contests import Contest, an_answered_row, expire

if TYPE_CHECKING:
    from resources.ledger import Ledger


def claim_and_claim(ledger: Ledger) -> Contest:
    run_id = a_run(ledger, documents=4)
    return Contest(
        at=Failpoint.COMMIT_CLAIM,
        first=lambda one: claim(one, run_id, 2, worker="first"),
        second=lambda one: claim(one, run_id, 4, worker="second"),
        told=([Held(1, 1), Held(2, 1)], [Held(3, 1), Held(4, 1)]),
        after=lambda: [row["owner"] for row in rows(ledger, "extraction_results")],
        leaves=["first", "first", "second", "second"],
        waits=False,
    )


def complete_and_complete(ledger: Ledger) -> Contest:
    row = an_answered_row(ledger)
    return Contest(
        at=Failpoint.COMMIT_COMPLETE,
        first=row.complete,
        second=lambda one: row.complete(one, answer=1),
        told=(True, False),
        after=lambda: (row.status, row.published),
        leaves=("completed", [row.attempts[0]]),
    )


def complete_and_fail(ledger: Ledger) -> Contest:
    row = an_answered_row(ledger)
    return Contest(
        at=Failpoint.COMMIT_COMPLETE,
        first=row.complete,
        second=lambda one: one.results.record_failed(row.held, a_failure()),
        told=(True, None),
        after=lambda: row.status,
        leaves="completed",
    )


def fail_and_complete(ledger: Ledger) -> Contest:
    row = an_answered_row(ledger)
    return Contest(
        at=Failpoint.COMMIT_FAIL,
        first=lambda one: one.results.record_failed(row.held, a_failure()),
        second=row.complete,
        told=(RowStatus.FAILED, False),
        after=lambda: (row.status, row.published),
        leaves=("failed", []),
    )


def reclaim_and_complete(ledger: Ledger) -> Contest:
    row = an_answered_row(ledger, expired=True)
    return Contest(
        at=Failpoint.COMMIT_RECLAIM,
        first=lambda one: one.results.reclaim(row.run_id),
        second=row.complete,
        told=(1, False),
        after=lambda: (row.status, row.published),
        leaves=("queued", []),
    )


def complete_and_reclaim(ledger: Ledger) -> Contest:
    row = an_answered_row(ledger, expired=True)
    return Contest(
        at=Failpoint.COMMIT_COMPLETE,
        first=row.complete,
        second=lambda one: one.results.reclaim(row.run_id),
        told=(True, 0),
        after=lambda: row.status,
        leaves="completed",
        waits=False,
    )


def heartbeat_and_reclaim(ledger: Ledger) -> Contest:
    held = claim_one(ledger, run_id := a_run(ledger, documents=1))
    expire(ledger)
    return Contest(
        at=Failpoint.COMMIT_HEARTBEAT,
        first=lambda one: one.results.heartbeat([held], LEASE_S),
        second=lambda one: one.results.reclaim(run_id),
        told=({held.row_id: False}, 0),
        after=lambda: one_row(ledger, "extraction_results")["status"],
        leaves="running",
        waits=False,
    )


def reclaim_and_heartbeat(ledger: Ledger) -> Contest:
    held = claim_one(ledger, run_id := a_run(ledger, documents=1))
    expire(ledger)
    return Contest(
        at=Failpoint.COMMIT_RECLAIM,
        first=lambda one: one.results.reclaim(run_id),
        second=lambda one: one.results.heartbeat([held], LEASE_S),
        told=(1, {}),
        after=lambda: one_row(ledger, "extraction_results")["status"],
        leaves="queued",
    )


def cancel_and_complete(ledger: Ledger) -> Contest:
    row = an_answered_row(ledger)
    return Contest(
        at=Failpoint.COMMIT_RELEASE,
        first=lambda one: one.results.request_cancel(row.run_id),
        second=row.complete,
        told=((0, 1), True),
        after=lambda: (row.status, row.published),
        leaves=("completed", [row.attempts[0]]),
    )


CONTESTS_OF_ROWS = [
    claim_and_claim,
    complete_and_complete,
    complete_and_fail,
    fail_and_complete,
    reclaim_and_complete,
    complete_and_reclaim,
    heartbeat_and_reclaim,
    reclaim_and_heartbeat,
    cancel_and_complete,
]
