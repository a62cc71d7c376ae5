"""Spreading work that waits for the disk over a few threads, by the share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")

SHARES = 4
"""Handing one small file to another thread costs more than writing it: a thread is given a quarter at once."""


def in_shares(threads: Executor, work: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """Do the work for every item, on up to :data:`SHARES` threads, the caller's own among them.

    Returns the results in the order of the items. All shares have ended when this returns or raises; what fails ends
    its own share.

    Raises:
        Exception: what the work raised, that of the first share that failed.
    """
    if not items:
        return []
    own, *others = [items[start::SHARES] for start in range(min(SHARES, len(items)))]
    futures = [threads.submit(_do, work, share) for share in others]
    try:
        done = [_do(work, own)]
    finally:
        wait(futures)
    done += [future.result() for future in futures]
    return [done[position % SHARES][position // SHARES] for position in range(len(items))]


def _do(work: Callable[[Item], T], share: Sequence[Item]) -> list[T]:
    return [work(item) for item in share]
