"""Work that is spread over threads comes back in order, and none of it is left running."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from extraction_core.shares import SHARES, in_shares


@pytest.mark.parametrize("count", [0, 1, SHARES - 1, SHARES, SHARES + 1, 3 * SHARES + 2])
def test_results_are_in_the_order_of_the_items(count: int) -> None:
    with ThreadPoolExecutor(SHARES) as threads:
        assert in_shares(threads, lambda item: 2 * item, range(count)) == [2 * item for item in range(count)]


def test_shares_are_done_at_the_same_time() -> None:
    together = Barrier(SHARES, timeout=60)
    with ThreadPoolExecutor(SHARES) as threads:
        in_shares(threads, lambda _item: together.wait(), range(SHARES))


def test_what_fails_is_raised_when_the_other_shares_have_ended() -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 0:
            raise LookupError(item)
        done.append(item)

    with ThreadPoolExecutor(1) as threads:  # whose own end waits for everything: what counts is what was done before
        with pytest.raises(LookupError):
            in_shares(threads, work, range(2 * SHARES))
        ended = sorted(done)
    assert ended == [item for item in range(2 * SHARES) if item % SHARES]
