"""The verbs of the work queue, on both tables and both databases."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from extraction_core.failpoints import Failpoint
from resources.ledger.claims import Held
from resources.ledger.engine import LedgerEngine
from tests.factories import LEASE_S, a_failure, a_run, a_set, claim_one, needed_parses
from tests.ledger.support import (
    HoldAt,
    Line,
    database_now_ms,
    driver_errors,
    execute,
    in_background,
    only_postgres,
    rows,
    together,
    wait_until_blocked,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from tests.conftest import MakeLedger

HOUR_MS = 3_600_000


def test_a_claim_takes_the_oldest_due_row_first_and_none_that_is_not_due(line: Line) -> None:
    first, second, third = (row[line.key.name] for row in line.rows())
    line.set(first, due_ms=20)
    line.set(second, due_ms=10)
    line.set(third, due_ms=database_now_ms(line.ledger) + HOUR_MS)
    assert [[held.row_id for held in line.claim()] for _ in range(3)] == [[second], [first], []]


def test_a_claim_returns_the_row_as_it_is_held_now(line: Line) -> None:
    before = line.rows()[0]
    (claimed,) = line.queue.claim("me", line.scope, 1, LEASE_S)
    after = line.row(claimed.held.row_id)
    assert {name: claimed.row[name] for name in after} == after
    assert claimed.held == (before[line.key.name], 1)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"status", "owner", "generation", "claimed_ms", "lease_expires_ms"}
    assert (after["status"], after["owner"]) == ("running", "me")
    assert after["lease_expires_ms"] - after["claimed_ms"] == LEASE_S * 1000


def test_a_claim_takes_rows_of_its_run_only(ledger: Ledger) -> None:
    here = a_run(ledger, a_set(ledger, 2, folder="here"))
    there = a_run(ledger, a_set(ledger, 2, collection="other", folder="there"))
    claimed = ledger.results.claim("worker", here, 10, LEASE_S)
    assert [item.row["run_id"] for item in claimed] == [here, here]
    assert [row["status"] for row in rows(ledger, "extraction_results", f"run_id = {there}")] == ["queued", "queued"]


def test_a_parse_claim_takes_what_documents_of_its_set_need_only(ledger: Ledger) -> None:
    document_set = needed_parses(ledger, 2)
    elsewhere = a_set(ledger, 1, collection="other", folder="elsewhere")
    assert ledger.parses.claim("worker", elsewhere.set_id, 10, LEASE_S) == []
    assert len(ledger.parses.claim("worker", document_set.set_id, 10, LEASE_S)) == 2


@pytest.mark.parametrize("batch", [1, 7])
def test_fifty_workers_that_race_for_a_hundred_rows_claim_each_exactly_once(
    make_line: Callable[[int], Line], database_url: str, batch: int
) -> None:
    line = make_line(100)

    def claim_until_empty(number: int) -> list[int]:
        engine = LedgerEngine(database_url)
        queue = type(line.queue)(engine)
        mine: list[int] = []
        while claimed := queue.claim(f"worker {number}", line.scope, batch, LEASE_S):
            mine += [item.held.row_id for item in claimed]
        engine.close()
        return mine

    claims = together(50, claim_until_empty)
    assert Counter(row_id for mine in claims for row_id in mine) == {row[line.key.name]: 1 for row in line.rows()}
    owners = {row_id: f"worker {number}" for number, mine in enumerate(claims) for row_id in mine}
    assert {row[line.key.name]: (row["owner"], row["generation"]) for row in line.rows()} == {
        row_id: (owner, 1) for row_id, owner in owners.items()
    }


def test_reclaim_returns_a_row_whose_lease_ran_out_and_no_other(line: Line) -> None:
    dead, alive = line.claim(2)
    line.expire(dead)
    alive_before = line.row(alive.row_id)
    assert line.queue.reclaim(line.scope) == 1
    assert line.row(alive.row_id) == alive_before
    row = line.row(dead.row_id)
    assert (row["status"], row["owner"], row["lease_expires_ms"], row["reclaims"]) == ("queued", None, None, 1)
    assert line.claim_one("next") == Held(dead.row_id, dead.generation + 1)


def test_reclaim_leaves_other_scopes_alone(line: Line) -> None:
    line.expire(line.claim_one())
    assert line.queue.reclaim(line.scope + 1) == 0


def test_only_one_of_many_reclaimers_returns_a_row(line: Line, make_ledger: MakeLedger) -> None:
    line.expire(line.claim_one())
    ledgers = [make_ledger() for _ in range(8)]
    queues = [other.results if line.queue is line.ledger.results else other.parses for other in ledgers]
    assert sorted(together(8, lambda number: queues[number].reclaim(line.scope))) == [0] * 7 + [1]


def test_a_row_keeps_its_counters_when_it_is_given_back_and_when_it_fails(make_line: Callable[[int], Line]) -> None:
    line = make_line(1)
    held = line.claim_one()
    held = line.lose(line.lose(held))
    assert line.requeue(held) == "queued"
    held = line.claim_one()
    assert line.fail(held) == "failed"
    row = line.row(held.row_id)
    assert (row["status"], row["reclaims"], row["generation"]) == ("failed", 2, 4)


def test_refusals_to_serve_are_counted_over_all_claims_of_a_result(ledger: Ledger) -> None:
    run_id = a_run(ledger, documents=1)
    for _ in range(3):
        held = claim_one(ledger, run_id)
        ledger.results.record_retry(held, a_failure(), wait_s=0, refused_to_serve=True)
    ledger.results.record_retry(claim_one(ledger, run_id), a_failure(), wait_s=0, refused_to_serve=False)
    assert [row["refusals_to_serve"] for row in rows(ledger, "extraction_results")] == [3]


STALE_WRITES = {
    "heartbeat": (Line.heartbeat, {}),
    "complete": (Line.complete, False),
    "fail": (Line.fail, None),
    "requeue": (Line.requeue, None),
    "release": (lambda line, held: line.queue.release([held]), 0),
}


def test_no_write_of_a_worker_that_lost_its_lease_changes_anything(line: Line) -> None:
    stale = line.claim_one()
    line.lose(stale)
    before = line.rows()
    for verb, (write, superseded) in STALE_WRITES.items():
        assert write(line, stale) == superseded, verb
        assert line.rows() == before, verb


def test_no_write_of_a_worker_whose_row_went_back_to_the_queue_changes_anything(line: Line) -> None:
    stale = line.claim_one()
    line.expire(stale)
    line.queue.reclaim(line.scope)
    before = line.rows()
    for verb, (write, superseded) in STALE_WRITES.items():
        assert write(line, stale) == superseded, verb
        assert line.rows() == before, verb


def test_requeue_makes_a_row_due_after_the_wait(line: Line) -> None:
    held = line.claim_one()
    before = database_now_ms(line.ledger)
    assert line.requeue(held, wait_s=30) == "queued"
    row = line.row(held.row_id)
    assert before + 30_000 <= row["due_ms"] <= database_now_ms(line.ledger) + 30_000
    assert (row["status"], row["finished_ms"]) == ("queued", None)


def test_release_gives_back_what_is_still_held_and_tells_how_many(line: Line) -> None:
    lost, kept, also_kept = line.claim(3)
    line.lose(lost)
    assert line.queue.release([lost, kept, also_kept]) == 2
    assert sorted(row["status"] for row in line.rows()) == ["queued", "queued", "running"]


def test_one_heartbeat_extends_a_thousand_leases(make_line: Callable[[int], Line]) -> None:
    line = make_line(1000)
    held = line.claim(1000)
    execute(line.ledger, f"UPDATE {line.table.name} SET lease_expires_ms = 1")  # noqa: S608 - a table of ours
    before = database_now_ms(line.ledger)
    assert line.heartbeat(*held) == {claim.row_id: False for claim in held}
    assert len(held) == 1000
    (lease,) = {row["lease_expires_ms"] for row in line.rows()}
    assert lease >= before + LEASE_S * 1000


def test_a_heartbeat_changes_nothing_but_leases(line: Line) -> None:
    held = line.claim(3)
    before = line.rows()
    line.heartbeat(*held)
    unleased = [{**row, "lease_expires_ms": None} for row in before]
    assert [{**row, "lease_expires_ms": None} for row in line.rows()] == unleased


def test_a_heartbeat_answers_for_what_is_still_owned_only(line: Line) -> None:
    lost, kept, ended = line.claim(3)
    line.lose(lost)
    line.complete(ended)
    assert line.heartbeat(lost, kept, ended) == {kept.row_id: False}


@only_postgres
def test_heartbeats_over_the_same_rows_do_not_deadlock(
    make_line: Callable[[int], Line], make_ledger: MakeLedger
) -> None:
    line = make_line(200)
    held = line.claim(200)
    execute(line.ledger, f"ANALYZE {line.table.name}")
    ledgers = [make_ledger() for _ in range(4)]
    errors = driver_errors(*ledgers)

    def beat(number: int) -> None:
        queue = ledgers[number].results if line.queue is line.ledger.results else ledgers[number].parses
        order = random.Random(number)
        for _ in range(12):
            assert len(queue.heartbeat(order.sample(held, 150), LEASE_S)) == 150

    together(4, beat)
    assert errors == []


def test_cancelling_ends_queued_rows_and_marks_running_ones(line: Line) -> None:
    held = line.claim_one()
    assert line.queue.request_cancel(line.scope) == (2, 1)
    assert [(row["status"], row["cancel_requested"]) for row in line.rows()] == [
        ("running", True),
        ("cancelled", True),
        ("cancelled", True),
    ]
    assert line.heartbeat(held) == {held.row_id: True}


def test_cancelling_leaves_other_scopes_alone(line: Line) -> None:
    before = line.rows()
    assert line.queue.request_cancel(line.scope + 1) == (0, 0)
    assert line.rows() == before


ENDINGS_OF_CANCELLED = {
    "fail": Line.fail,
    "requeue": Line.requeue,
    "release": lambda line, held: line.queue.release([held]),
    "reclaim": lambda line, held: (line.expire(held), line.queue.reclaim(line.scope)),
}


@pytest.mark.parametrize("verb", ENDINGS_OF_CANCELLED)
def test_a_running_row_that_was_asked_to_cancel_ends_cancelled_by_any_way_back(line: Line, verb: str) -> None:
    held = line.claim_one()
    line.queue.request_cancel(line.scope)
    ENDINGS_OF_CANCELLED[verb](line, held)
    row = line.row(held.row_id)
    assert (row["status"], row["owner"]) == ("cancelled", None)
    assert row["finished_ms"] is not None
    assert line.queue.stats(line.scope).active == 0


def test_an_answer_that_came_before_the_cancellation_took_effect_completes_the_row(line: Line) -> None:
    held = line.claim_one()
    line.queue.request_cancel(line.scope)
    assert line.complete(held)
    assert line.row(held.row_id)["status"] == "completed"


@only_postgres
@pytest.mark.parametrize("verb", ["claim", "release"])
def test_cancelling_reaches_a_row_that_is_claimed_or_released_at_that_moment(
    make_line: Callable[[int], Line], make_ledger: MakeLedger, database_url: str, verb: str
) -> None:
    line = make_line(1)
    claim_at = Failpoint.COMMIT_CLAIM if line.queue is line.ledger.results else Failpoint.COMMIT_PARSE_CLAIM
    hold = HoldAt(claim_at if verb == "claim" else Failpoint.COMMIT_RELEASE)
    mover = make_ledger(hold)
    queue = mover.results if line.queue is line.ledger.results else mover.parses
    held = line.claim() if verb == "release" else []
    moves = {
        "claim": lambda: queue.claim("worker", line.scope, 1, LEASE_S),
        "release": lambda: queue.release(held),
    }
    with in_background(moves[verb]) as moving:
        hold.wait()
        with in_background(lambda: line.queue.request_cancel(line.scope)) as cancelling:
            wait_until_blocked(database_url)
            hold.go_on()
            cancelling.result()
        moving.result()
    (row,) = line.rows()
    assert (row["status"], row["cancel_requested"]) == ("running" if verb == "claim" else "cancelled", True)


def test_stats_count_rows_by_status_and_tell_when_the_next_is_due(make_line: Callable[[int], Line]) -> None:
    line = make_line(4)
    done, lost, _running = line.claim(3)
    line.complete(done)
    line.fail(lost)
    waiting = line.rows()[3][line.key.name]
    line.set(waiting, due_ms=database_now_ms(line.ledger) + HOUR_MS)
    stats = line.queue.stats(line.scope)
    assert stats.counts == {"queued": 1, "running": 1, "completed": 1, "failed": 1}
    assert stats.active == 2
    assert stats.next_due_in_ms is not None
    assert HOUR_MS - 60_000 < stats.next_due_in_ms <= HOUR_MS


def test_stats_tell_that_a_row_is_overdue_and_that_nothing_is_queued(make_line: Callable[[int], Line]) -> None:
    line = make_line(1)
    overdue = line.queue.stats(line.scope).next_due_in_ms
    assert overdue is not None
    assert overdue < 0
    line.claim()
    assert line.queue.stats(line.scope).next_due_in_ms is None


def test_get_returns_the_whole_row_or_none(line: Line) -> None:
    row = line.rows()[0]
    assert line.queue.get(row[line.key.name]) == row
    assert line.queue.get(10**6) is None
