"""Threads of one process whose claims, or completions, share a transaction: each row is guarded for itself."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from extraction_core.failpoints import Failpoint
from resources.ledger.claims import Held
from tests.factories import LEASE_S, a_run, an_output, answer, claim, open_attempt
from tests.ledger.support import PATIENCE_S, HoldAt, Line, claim_anew, one_row, rows, wait_for_company

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from resources.ledger import Ledger
    from resources.ledger.group_commit import GroupCommit
    from resources.ledger.queue import WorkQueue
    from tests.conftest import MakeLedger

    Behind = Callable[[Callable[[], Any]], Future[Any]]


LOCKED = OperationalError("", None, Exception("database is locked"))
"""What is tried again."""


@contextmanager
def busy(group: GroupCommit[Any, Any], hold: HoldAt, leader: Callable[[], object]) -> Iterator[Behind]:
    """While a first call is held before its commit, let others wait behind it in the order given; then go on."""
    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(leader)
        hold.wait()

        def behind(call: Callable[[], Any]) -> Future[Any]:
            before = group.waiting
            waits = threads.submit(call)
            wait_for_company(group, before + 1)
            return waits

        try:
            yield behind
        finally:
            hold.go_on()
        first.result(PATIENCE_S)


def commits(ledger: Ledger) -> list[str]:
    """Return a list that gets an entry with every commit of a ledger from now on."""
    seen: list[str] = []
    event.listen(ledger.engine.raw, "commit", lambda _: seen.append("commit"))
    return seen


@pytest.fixture
def hold() -> HoldAt:
    """Holds the first claim before its commit."""
    return HoldAt(Failpoint.COMMIT_CLAIM, Failpoint.COMMIT_PARSE_CLAIM)


def queue_of(ledger: Ledger, line: Line) -> WorkQueue:
    """Return the queue of a line as another ledger sees it."""
    return ledger.results if line.queue is line.ledger.results else ledger.parses


def test_claims_of_several_workers_share_a_transaction_and_each_gets_rows_of_its_own_oldest_first(
    make_line: Callable[[int], Line], hold: HoldAt, make_ledger: MakeLedger
) -> None:
    line, ledger = make_line(9), make_ledger(hold)
    queue = queue_of(ledger, line)
    oldest = [row[line.key.name] for row in line.rows()][::-1]
    for due, row_id in enumerate(oldest):
        line.set(row_id, due_ms=due)
    done = commits(ledger)

    def claiming(worker: str, limit: int) -> Callable[[], list[Held]]:
        return lambda: [one.held for one in queue.claim(worker, line.scope, limit, LEASE_S)]

    with busy(queue.claiming, hold, claiming("leader", 1)) as behind:
        asked = [behind(claiming(*one)) for one in (("b", 2), ("c", 1), ("b", 1), ("d", 3))]
    claimed = [[held.row_id for held in one.result(PATIENCE_S)] for one in asked]
    assert len(done) == 2
    owners = {row[line.key.name]: (row["owner"], row["generation"]) for row in line.rows()}
    in_order = ["leader", "b", "b", "c", "b", "d", "d", "d"]
    assert owners == {**{row: (name, 1) for row, name in zip(oldest, in_order, strict=False)}, oldest[8]: (None, 0)}
    assert [len(one) for one in claimed] == [2, 1, 1, 3]
    of_b, of_c, more_of_b, of_d = claimed
    assert sorted(of_b + more_of_b) == sorted([oldest[1], oldest[2], oldest[4]])
    assert (of_c, sorted(of_d)) == ([oldest[3]], sorted(oldest[5:8]))


@pytest.mark.parametrize("second", ["b", "c"])
def test_when_there_are_too_few_rows_for_all_who_ask_those_who_asked_first_get_them(
    line: Line, hold: HoldAt, make_ledger: MakeLedger, second: str
) -> None:
    queue = queue_of(make_ledger(hold), line)
    with busy(queue.claiming, hold, lambda: queue.claim("leader", line.scope, 1, LEASE_S)) as behind:
        first = behind(lambda: queue.claim("b", line.scope, 1, LEASE_S))
        then = behind(lambda: queue.claim(second, line.scope, 5, LEASE_S))
        last = behind(lambda: queue.claim("d", line.scope, 5, LEASE_S))
    got = [[one.row["owner"] for one in asked.result(PATIENCE_S)] for asked in (first, then, last)]
    assert got == [["b"], [second], []]


def test_claims_of_other_runs_and_under_other_leases_do_not_share(
    line: Line, hold: HoldAt, make_ledger: MakeLedger
) -> None:
    queue = queue_of(make_ledger(hold), line)
    with busy(queue.claiming, hold, lambda: queue.claim("leader", line.scope, 1, LEASE_S)) as behind:
        long = behind(lambda: queue.claim("b", line.scope, 1, 2 * LEASE_S))
        elsewhere = behind(lambda: queue.claim("c", line.scope + 1, 1, LEASE_S))
        here = behind(lambda: queue.claim("d", line.scope, 1, LEASE_S))
    leases = [one.row["lease_expires_ms"] - one.row["claimed_ms"] for one in long.result() + here.result()]
    assert leases == [2_000 * LEASE_S, 1_000 * LEASE_S]
    assert elsewhere.result() == []


def test_callers_that_share_a_claim_whose_commit_went_unanswered_each_get_what_was_claimed_for_them(
    make_line: Callable[[int], Line], hold: HoldAt, make_ledger: MakeLedger
) -> None:
    line, ledger = make_line(8), make_ledger(hold)
    queue = queue_of(ledger, line)

    def claiming(worker: str, limit: int) -> Callable[[], list[Held]]:
        return lambda: [one.held for one in queue.claim(worker, line.scope, limit, LEASE_S)]

    with busy(queue.claiming, hold, claiming("leader", 1)) as behind:
        asked = [behind(claiming(*one)) for one in (("b", 2), ("c", 1), ("b", 1))]
        unanswered(ledger, number=2)
    claimed = [one.result(PATIENCE_S) for one in asked]
    assert [len(one) for one in claimed] == [2, 1, 1]
    held = {Held(row[line.key.name], row["generation"]): row["owner"] for row in line.rows() if row["owner"]}
    told = {held: owner for one, owner in zip(claimed, "bcb", strict=True) for held in one}
    assert {one: owner for one, owner in held.items() if owner != "leader"} == told


def test_a_rival_that_claimed_what_was_rolled_back_is_not_taken_for_us(line: Line, make_ledger: MakeLedger) -> None:
    ledger, rival = make_ledger(once_locked(line)), queue_of(make_ledger(), line)
    tries: list[str] = []
    taken: list[Held] = []

    def let_the_rival_claim(*_: object) -> None:
        tries.append("checkout")
        if len(tries) == 2:
            taken.extend(one.held for one in rival.claim("rival", line.scope, 2, LEASE_S))

    event.listen(ledger.engine.raw, "checkout", let_the_rival_claim)
    mine = [one.held for one in queue_of(ledger, line).claim("me", line.scope, 2, LEASE_S)]
    assert len(taken) == 2
    assert set(mine).isdisjoint(taken)
    assert [row["owner"] for row in line.rows()] == ["rival", "rival", "me"]


def once_locked(line: Line) -> Callable[[Failpoint], None]:
    """Return failpoints at which the first claim finds the database locked, and rolls back."""
    at = Failpoint.COMMIT_CLAIM if line.queue is line.ledger.results else Failpoint.COMMIT_PARSE_CLAIM
    left = [at]

    def failpoints(name: Failpoint) -> None:
        if name in left:
            left.remove(name)
            raise LOCKED

    return failpoints


def unanswered(ledger: Ledger, number: int) -> None:
    """Let the commit with this number, of those from now on, take place and then look as if it had not."""
    seen: list[str] = []

    def commit_and_fail(connection: sa.Connection) -> None:
        seen.append("commit")
        if len(seen) == number:
            connection.connection.commit()
            raise LOCKED

    event.listen(ledger.engine.raw, "commit", commit_and_fail)


class Completions:
    """Answered results whose completions are held; each has put a file in place, or not."""

    def __init__(self, ledger: Ledger, make_ledger: MakeLedger, count: int) -> None:
        self.held = claim(ledger, a_run(ledger, documents=count), count)
        self.attempts, self.more_attempts = ([open_attempt(ledger, one) for one in self.held] for _ in range(2))
        for attempt in self.attempts + self.more_attempts:
            answer(ledger, attempt)
        self.ledger, self.hold = ledger, HoldAt(Failpoint.COMMIT_COMPLETE)
        self.shared = make_ledger(self.hold)
        self.published: list[str] = []

    def completing(
        self, number: int, file: str, before: Callable[[], object] = lambda: None, *, again: bool = False
    ) -> bool:
        """Complete the result of a number with a file of a name, ``again`` with another answer."""

        def publish() -> None:
            before()
            self.published.append(file)

        attempt = (self.more_attempts if again else self.attempts)[number]
        held, output = self.held[number], an_output(path=file)
        return self.shared.results.record_completed(held, output, attempt.attempt_id, publish)

    def busy(self) -> Any:
        """Hold the completion of the first while others come."""
        return busy(self.shared.results.completing, self.hold, lambda: self.completing(0, "0"))

    def statuses(self) -> list[tuple[str, str | None]]:
        """Return the status and file of each."""
        return [(row["status"], row["output_path"]) for row in rows(self.ledger, "extraction_results")]


def test_completions_share_a_transaction_and_each_has_its_file_and_its_attempt(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    them = Completions(ledger, make_ledger, 4)
    done = commits(them.shared)
    with them.busy() as behind:
        asked = [behind(lambda number=number: them.completing(number, str(number))) for number in (1, 2, 3)]
    assert [one.result(PATIENCE_S) for one in asked] == [True] * 3
    assert len(done) == 2
    assert them.statuses() == [("completed", str(number)) for number in range(4)]
    assert sorted(them.published) == ["0", "1", "2", "3"]
    assert [row["verdict"] for row in rows(ledger, "attempts")] == ["accepted"] * 4 + [None] * 4


def test_files_of_completions_that_share_are_put_in_place_side_by_side(ledger: Ledger, make_ledger: MakeLedger) -> None:
    them, meeting = Completions(ledger, make_ledger, 3), threading.Barrier(2, timeout=PATIENCE_S)
    with them.busy() as behind:
        asked = [behind(lambda number=number: them.completing(number, str(number), meeting.wait)) for number in (1, 2)]
    assert [one.result(PATIENCE_S) for one in asked] == [True, True]


def refuse() -> None:
    """Stand for a folder that takes nothing."""
    raise PermissionError


def test_a_file_that_cannot_be_put_in_place_costs_none_of_those_that_share(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    them = Completions(ledger, make_ledger, 4)
    with them.busy() as behind:
        good, bad, also_good = (
            behind(lambda number=number: them.completing(number, str(number), refuse if number == 2 else int))
            for number in (1, 2, 3)
        )
    assert (good.result(PATIENCE_S), also_good.result(PATIENCE_S)) == (True, True)
    with pytest.raises(PermissionError):
        bad.result(PATIENCE_S)
    assert them.statuses() == [("completed", "0"), ("completed", "1"), ("running", None), ("completed", "3")]


def test_whoever_lost_its_claim_is_superseded_among_those_that_share(ledger: Ledger, make_ledger: MakeLedger) -> None:
    them = Completions(ledger, make_ledger, 3)
    successor = claim_anew(ledger, them.held[1])
    with them.busy() as behind:
        stale = behind(lambda: them.completing(1, "1"))
        good = behind(lambda: them.completing(2, "2"))
    assert (stale.result(PATIENCE_S), good.result(PATIENCE_S)) == (False, True)
    assert them.published == ["0", "2"]
    row = one_row(ledger, "extraction_results", f"result_id = {successor.row_id}")
    assert (row["status"], row["generation"]) == ("running", successor.generation)


def test_of_two_answers_to_one_claim_that_share_the_first_has_the_row_and_the_file(
    ledger: Ledger, make_ledger: MakeLedger
) -> None:
    them = Completions(ledger, make_ledger, 2)
    with them.busy() as behind:
        first = behind(lambda: them.completing(1, "first"))
        second = behind(lambda: them.completing(1, "second", again=True))
    assert (first.result(PATIENCE_S), second.result(PATIENCE_S)) == (True, False)
    assert them.published == ["0", "first"]
    row = one_row(ledger, "extraction_results", f"result_id = {them.held[1].row_id}")
    assert (row["output_path"], row["attempt_id"]) == ("first", them.attempts[1].attempt_id)
