"""The database's clock is set back an hour: everything written before lies in the future then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Result
from extraction_core.failpoints import Failpoint
from resources.ledger.trials import move_time
from tests.factories import LEASE_S, a_run, a_set, claim, complete, some_files

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from tests.conftest import MakeLedger
    from tests.workplace import Workplace

HOUR_S = 3600.0
DOCUMENTS = 6


def test_a_clock_that_is_set_back_while_calls_are_in_flight_makes_nothing_be_asked_twice(workplace: Workplace) -> None:
    left = [HOUR_S]

    def set_the_clock(name: Failpoint) -> None:
        if name is Failpoint.CALL_PROVIDER and left:
            move_time(workplace.books.ledger.engine, -left.pop())

    collection = workplace.collection(some_files(DOCUMENTS), concurrency=2)
    assert workplace.run(collection, failpoints=set_the_clock).result is Result.CLOSED
    assert left == []
    assert len(workplace.calls()) == len(workplace.books.attempts) == DOCUMENTS
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    workplace.books.assert_settled()


def test_a_living_worker_keeps_its_rows_when_the_clock_is_set_back(ledger: Ledger, make_ledger: MakeLedger) -> None:
    run_id = a_run(ledger, a_set(ledger, 2))
    held = claim(ledger, run_id, 2)
    move_time(ledger.engine, -HOUR_S)
    assert set(ledger.results.heartbeat(held, LEASE_S)) == {one.row_id for one in held}
    other = make_ledger()
    assert claim(other, run_id, 2, worker="other") == []
    assert other.results.reclaim(run_id) == 0
    move_time(ledger.engine, LEASE_S + 1)  # the beat after the change was the one that counts
    assert other.results.reclaim(run_id) == 2


def test_a_dead_worker_s_rows_come_back_an_hour_later_and_are_done_once(ledger: Ledger) -> None:
    run_id = a_run(ledger, a_set(ledger, 1))
    (stale,) = claim(ledger, run_id)
    move_time(ledger.engine, -HOUR_S)
    assert ledger.results.reclaim(run_id) == 0
    move_time(ledger.engine, HOUR_S + LEASE_S + 1)
    assert ledger.results.reclaim(run_id) == 1
    (held,) = claim(ledger, run_id, worker="next")
    complete(ledger, held)
    assert ledger.results.release([stale]) == 0
    assert ledger.finalize(run_id) is not None
