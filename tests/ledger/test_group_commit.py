"""Which calls are done together, and that one of them never costs another."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from extraction_core.errors import LedgerError
from resources.ledger import group_commit
from resources.ledger.group_commit import GroupCommit
from tests.ledger.support import PATIENCE_S, wait_for_company

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    Ask = Callable[[str], "Future[str]"]


class Work:
    """Answers in capitals. ``lead`` and ``next`` are held where they come first; ``bad``, ``full`` and ``interrupt`` raise."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.holds = {"lead": Hold(), "next": Hold()}

    def __call__(self, asked: Sequence[str]) -> list[str]:
        self.groups.append(sorted(asked))
        if hold := self.holds.get(asked[0]):
            hold.reached.set()
            assert hold.go_on.wait(PATIENCE_S)
        if "bad" in asked:
            raise ValueError
        if "full" in asked:
            raise LedgerError("its disk is full")
        if "interrupt" in asked and len(asked) > 1:
            raise KeyboardInterrupt
        return [one.upper() for one in asked]


class Hold:
    """Where a leader is held."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()


FEWEST_LINES = 20
"""Lines that a leader runs through; fewer, and it was not interrupted where it matters."""


class Interrupted(BaseException):
    """What a signal's handler raises."""


@pytest.fixture
def work() -> Work:
    """What the calls have done."""
    return Work()


@contextmanager
def busy(work: Work, group: GroupCommit[str, str]) -> Iterator[Ask]:
    """While a leader is held, let each call of what is yielded wait behind the one before; go on at the end."""
    with ThreadPoolExecutor(100) as threads:
        leader = threads.submit(group.ask, "lead")
        assert work.holds["lead"].reached.wait(PATIENCE_S)

        def ask(one: str) -> Future[str]:
            before = group.waiting
            asked = threads.submit(group.ask, one)
            wait_for_company(group, before + 1)
            return asked

        try:
            yield ask
        finally:
            work.holds["lead"].go_on.set()
        assert leader.result(PATIENCE_S) == "LEAD"


def test_a_call_alone_is_done_at_once_and_by_itself(work: Work) -> None:
    group = GroupCommit(work)
    assert [group.ask("a"), group.ask("b")] == ["A", "B"]
    assert work.groups == [["a"], ["b"]]


def test_calls_that_come_while_one_is_at_work_are_done_together_and_each_gets_its_own_answer(work: Work) -> None:
    with busy(work, GroupCommit(work)) as ask:
        asked = [ask(one) for one in "abc"]
    assert [one.result(PATIENCE_S) for one in asked] == ["A", "B", "C"]
    assert work.groups == [["lead"], ["a", "b", "c"]]


def test_calls_of_different_kinds_are_not_done_together(work: Work) -> None:
    with busy(work, GroupCommit(work, alike=lambda one: one.isdigit())) as ask:
        asked = [ask(one) for one in ("a", "1", "b", "2")]
    assert [one.result(PATIENCE_S) for one in asked] == ["A", "1", "B", "2"]
    assert work.groups == [["lead"], ["a", "b"], ["1", "2"]]


def test_a_transaction_has_so_many_calls_and_no_more(work: Work) -> None:
    with busy(work, GroupCommit(work)) as ask:
        asked = [ask(f"{number}") for number in range(group_commit.MOST + 3)]
    assert [one.result(PATIENCE_S) for one in asked] == [f"{number}" for number in range(group_commit.MOST + 3)]
    assert [len(group) for group in work.groups] == [1, group_commit.MOST, 3]


def test_a_call_that_cannot_be_done_costs_its_neighbours_nothing(work: Work) -> None:
    with busy(work, GroupCommit(work)) as ask:
        first, bad, last = ask("a"), ask("bad"), ask("c")
    assert (first.result(PATIENCE_S), last.result(PATIENCE_S)) == ("A", "C")
    with pytest.raises(ValueError):  # noqa: PT011 - what the work raises, as it is
        bad.result(PATIENCE_S)
    assert sorted(work.groups[2:]) == [["a"], ["bad"], ["c"]]


def test_those_behind_a_call_that_failed_alone_are_done(work: Work) -> None:
    group = GroupCommit(work)
    with pytest.raises(ValueError):  # noqa: PT011 - as above
        group.ask("bad")
    assert group.ask("a") == "A"
    assert work.groups == [["bad"], ["a"]]


def test_when_the_database_is_at_fault_all_are_told_at_once(work: Work) -> None:
    with busy(work, GroupCommit(work)) as ask:
        asked = [ask(one) for one in ("a", "full", "b")]
    for one in asked:
        with pytest.raises(LedgerError, match="full"):
            one.result(PATIENCE_S)
    assert work.groups == [["lead"], ["a", "b", "full"]]


def test_calls_whose_leader_is_interrupted_are_done_by_their_own_callers(work: Work) -> None:
    with busy(work, GroupCommit(work)) as ask:
        leader, other = ask("a"), ask("interrupt")
    with pytest.raises(KeyboardInterrupt):
        leader.result(PATIENCE_S)
    assert other.result(PATIENCE_S) == "INTERRUPT"


def test_only_one_leads_at_a_time(work: Work) -> None:
    group = GroupCommit(work)
    with ThreadPoolExecutor(1) as threads, busy(work, group) as ask:
        following = ask("next")
        work.holds["lead"].go_on.set()
        assert work.holds["next"].reached.wait(PATIENCE_S)
        last = threads.submit(group.ask, "a")
        wait_for_company(group, 1)
        work.holds["next"].go_on.set()
        assert (following.result(PATIENCE_S), last.result(PATIENCE_S)) == ("NEXT", "A")
    assert work.groups == [["lead"], ["next"], ["a"]]


class InterruptAtLine:
    """Raises :class:`Interrupted` in the thread that enters it, at the n-th line that it runs of the group commit."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __enter__(self) -> None:
        """Count from here on."""
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != group_commit.__file__:
            return None
        line = linecache.getline(group_commit.__file__, frame.f_lineno).strip()
        # such a line is passed a second time before the lock is given back, where no interrupt of Python's comes
        if event == "line" and not line.startswith("with "):
            self.left -= 1
            if self.left == 0:
                raise Interrupted
        return self._trace


def interrupt_a_leader_at(number: int) -> bool:
    """Interrupt a leader with two calls behind it. Returns whether it was; whoever waits in vain fails."""
    work = Work()
    group = GroupCommit(work)
    interrupt = InterruptAtLine(number)

    def ask_and_be_interrupted() -> None:
        with suppress(Interrupted), interrupt:
            group.ask("a")

    with busy(work, group) as ask:
        leader = threading.Thread(target=ask_and_be_interrupted)
        leader.start()
        while leader.is_alive() and group.waiting == 0:
            pass
        behind = [ask("b"), ask("c")]
    leader.join(PATIENCE_S)
    assert [one.result(PATIENCE_S) for one in behind] == ["B", "C"]
    assert group.ask("d") == "D"
    return interrupt.left <= 0


def test_wherever_a_leader_is_interrupted_nobody_waits_for_it() -> None:
    lines = 0
    while interrupt_a_leader_at(lines + 1):
        lines += 1
    assert lines > FEWEST_LINES


def test_a_caller_that_is_interrupted_where_it_should_lead_lets_the_next_one_lead(work: Work) -> None:
    def interrupt_the_first(asked: str) -> None:
        if asked == "gone":
            raise Interrupted

    with busy(work, GroupCommit(work, interrupt_the_first)) as ask:
        gone, behind = ask("gone"), ask("a")
    with pytest.raises(Interrupted):
        gone.result(PATIENCE_S)
    assert behind.result(PATIENCE_S) == "A"
    assert work.groups == [["lead"], ["a"]]


def test_a_caller_that_is_interrupted_while_it_waits_is_not_waited_for(work: Work) -> None:
    group, interrupted = GroupCommit(work), threading.Event()

    def interrupt(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise Interrupted

    def interrupt_us_when_we_wait() -> None:
        wait_for_company(group, 1)
        while not interrupted.wait(0.01):  # one that comes right before the wait is not seen in it
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with busy(work, group) as ask:
            killer = threading.Thread(target=interrupt_us_when_we_wait)
            killer.start()
            with pytest.raises(Interrupted):
                group.ask("gone")
            killer.join()
            behind = ask("a")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert behind.result(PATIENCE_S) == "A"
    assert work.groups == [["lead"], ["a"]]
