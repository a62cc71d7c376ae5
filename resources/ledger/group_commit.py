"""Group commit: calls that wait at the same moment share one transaction.

A transaction costs about the same for one row as for thirty, and one that waits for the disk lets others gather. So the
first call does its work at once, alone; whoever calls meanwhile waits, and the first of those does the work of all
with the next transaction. Nobody waits for company, and a call returns when its own row is committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from resources.ledger.engine import is_of_the_database

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST = 50
"""Calls of one transaction: it holds their rows' locks for as long as all of them take."""


@dataclass(eq=False)
class _Call(Generic[Asked, Answer]):
    """One call, and how it went: answered, failed for everybody, or neither: then its caller does it alone.

    Attributes:
        asked: what is asked for.
        woken: set when the caller need not wait any longer, or must lead.
        leads: whether its caller does the next transaction, or is doing it.
        group: the calls that it does with its own when it leads.
    """

    asked: Asked
    woken: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    group: Sequence[_Call[Asked, Answer]] = ()
    answer: tuple[Answer] | None = None
    fault: Exception | None = None


class GroupCommit(Generic[Asked, Answer]):
    """Does what several threads ask for in one go. Thread-safe.

    Args:
        work: does several calls in one transaction and answers them in their order. When it raises, nothing was done;
            unless the database is at fault, each call is then tried once more by itself, so that one of them never
            costs a neighbour.
        alike: calls go together when this is equal for them.
    """

    def __init__(
        self, work: Callable[[Sequence[Asked]], Sequence[Answer]], alike: Callable[[Asked], Hashable] = lambda _: None
    ) -> None:
        self._work, self._alike = work, alike
        self._lock = threading.Lock()
        self._waiting: list[_Call[Asked, Answer]] = []
        self._is_led = False

    @property
    def waiting(self) -> int:
        """Calls that wait for the next transaction."""
        with self._lock:
            return len(self._waiting)

    def ask(self, asked: Asked) -> Answer:
        """Do a call, with others if there are any, and return its answer.

        Raises:
            Exception: what the work raises for this call alone, or the database's refusal of all of them.
        """
        call: _Call[Asked, Answer] = _Call(asked)
        try:
            try:
                self._take_part(call)
            finally:
                self._step_back(call)
        except BaseException:  # an interrupt may have hit the stepping back as well
            self._step_back(call)
            raise
        if call.fault:
            raise call.fault
        return call.answer[0] if call.answer else self._work([asked])[0]

    def _take_part(self, call: _Call[Asked, Answer]) -> None:
        with self._lock:
            self._waiting.append(call)
            call.leads, self._is_led = not self._is_led, True
        if not call.leads:
            call.woken.wait()
        if call.leads:
            self._lead(call)

    def _lead(self, leader: _Call[Asked, Answer]) -> None:
        """Do what waits, the leader's own call first."""
        self._gather(leader)
        try:
            answers = self._work([call.asked for call in leader.group])
        except Exception as error:
            if len(leader.group) == 1:
                raise
            fault = error if is_of_the_database(error) else None
            for call in leader.group:
                call.fault = fault
        else:
            for call, answer in zip(leader.group, answers, strict=True):
                call.answer = (answer,)

    def _gather(self, leader: _Call[Asked, Answer]) -> None:
        kind = self._alike(leader.asked)
        with self._lock:
            others = [one for one in self._waiting if one is not leader and self._alike(one.asked) == kind]
            leader.group = [leader, *others[: MOST - 1]]
            gathered = set(leader.group)
            self._waiting = [one for one in self._waiting if one not in gathered]

    def _step_back(self, call: _Call[Asked, Answer]) -> None:
        """Let nobody wait for this caller any more: its group goes on, and the next one leads.

        However far it came: callers are interrupted anywhere. It may be done twice.
        """
        with self._lock:
            self._waiting = [one for one in self._waiting if one is not call]
            for one in call.group:
                one.woken.set()
            if not call.leads:
                return
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].woken.set()
            call.leads = False
