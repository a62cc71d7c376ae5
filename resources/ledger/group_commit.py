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

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST = 50
"""Calls of one transaction: it holds their rows' locks for as long as all of them take."""


@dataclass(eq=False)
class _Call(Generic[Asked, Answer]):
    """One call: woken when it was answered, when it must lead, or when it must be done by itself."""

    asked: Asked
    woken: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    answer: tuple[Answer] | None = None


class GroupCommit(Generic[Asked, Answer]):
    """Does what several threads ask for in one go. Thread-safe.

    Args:
        work: does several calls in one transaction and answers them in their order. When it raises, nothing may have
            been done; each call is then tried once more by itself, so that one of them never costs a neighbour.
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
            Exception: what the work raises for this call alone.
        """
        call: _Call[Asked, Answer] = _Call(asked)
        try:
            with self._lock:
                self._waiting.append(call)
                call.leads, self._is_led = not self._is_led, True
            if not call.leads:
                call.woken.wait()
            if call.leads:
                self._lead(call)
        except BaseException:
            self._forsake(call)
            raise
        if call.answer is None:
            return self._work([asked])[0]
        return call.answer[0]

    def _lead(self, leader: _Call[Asked, Answer]) -> None:
        """Do what waits, the leader's own call first; then let the next one lead."""
        group = self._gather(leader)
        try:
            for call, answer in zip(group, self._work([call.asked for call in group]), strict=True):
                call.answer = (answer,)
        except Exception:
            if len(group) == 1:
                raise
        finally:
            for call in group:
                call.woken.set()
            self._hand_on(leader)

    def _gather(self, leader: _Call[Asked, Answer]) -> list[_Call[Asked, Answer]]:
        kind = self._alike(leader.asked)
        with self._lock:
            others = [one for one in self._waiting if one is not leader and self._alike(one.asked) == kind]
            group = [leader, *others[: MOST - 1]]
            gathered = set(group)
            self._waiting = [one for one in self._waiting if one not in gathered]
        return group

    def _hand_on(self, leader: _Call[Asked, Answer]) -> None:
        with self._lock:
            leader.leads = False
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].woken.set()

    def _forsake(self, call: _Call[Asked, Answer]) -> None:
        """Leave no place behind in which the others would wait for a caller who was interrupted."""
        with self._lock:
            self._waiting = [one for one in self._waiting if one is not call]
        if call.leads:
            self._hand_on(call)
