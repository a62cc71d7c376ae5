"""Slices: what is asked while one is at work makes up the next one, and nobody pays for a neighbour."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers import slices as slices_module
from extraction_assets.workers.slices import MOST, Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


async def in_thread(work: Callable[[], Sequence[int | Exception]]) -> Sequence[int | Exception]:
    return await asyncio.to_thread(work)


class Doubling:
    """Doubles numbers; a negative one is a defect, and 0 has an error for an answer."""

    def __init__(self) -> None:
        self.slices: list[list[int]] = []

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.slices.append(list(numbers))
        if min(numbers) < 0:
            message = "a defect"
            raise ValueError(message)
        return [LookupError("unlucky") if number == 0 else 2 * number for number in numbers]


async def asked(work: Doubling, numbers: Sequence[int]) -> list[int | BaseException]:
    slices = Slices[int, int](work, in_thread)
    return await asyncio.gather(*map(slices.ask, numbers), return_exceptions=True)


def test_many_requests_are_few_slices_and_each_gets_its_own_answer() -> None:
    work, numbers = Doubling(), range(1, 3 * MOST + 1)
    assert asyncio.run(asked(work, numbers)) == [2 * number for number in numbers]
    assert [len(part) for part in work.slices] == [MOST] * 3


def test_an_error_among_the_answers_is_raised_for_its_own_request_only() -> None:
    one, other, third = asyncio.run(asked(Doubling(), [1, 0, 3]))
    assert (one, third) == (2, 6)
    assert isinstance(other, LookupError)


def test_a_slice_that_fails_is_tried_request_by_request_so_that_only_the_bad_one_fails() -> None:
    work = Doubling()
    one, bad, third = asyncio.run(asked(work, [1, -1, 3]))
    assert (one, third) == (2, 6)
    assert isinstance(bad, ValueError)
    assert work.slices == [[1, -1, 3], [1], [-1], [3]]


def test_what_was_asked_for_is_done_although_who_asked_was_cut_off() -> None:
    async def cut_off(work: Doubling) -> None:
        slices = Slices[int, int](work, in_thread)
        task = asyncio.create_task(slices.ask(5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await slices.drain()

    work = Doubling()
    asyncio.run(cut_off(work))
    assert work.slices == [[5]]


def test_a_busy_step_waits_out_the_interval_but_neither_a_lone_request_nor_a_full_slice_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices_module, "INTERVAL_S", 3600.0)

    async def ask(work: Doubling) -> bool:
        slices = Slices[int, int](work, in_thread, most=3)
        async with asyncio.timeout(60):
            await slices.ask(1)
            await asyncio.gather(*map(slices.ask, (2, 3, 4)))
        waiting = asyncio.ensure_future(slices.ask(5))
        await asyncio.wait([waiting], timeout=0.05)
        return waiting.done()

    work = Doubling()
    assert not asyncio.run(ask(work))
    assert work.slices == [[1], [2, 3, 4]]


def test_a_slice_is_no_larger_than_its_step_allows() -> None:
    async def many(work: Doubling) -> None:
        slices = Slices[int, int](work, in_thread, most=2)
        await asyncio.gather(*map(slices.ask, range(1, 6)))

    work = Doubling()
    asyncio.run(many(work))
    assert work.slices == [[1, 2], [3, 4], [5]]


@pytest.mark.parametrize("may_be_dropped", [True, False])
def test_what_nobody_waits_for_any_more_is_done_all_the_same_unless_it_may_be_dropped(*, may_be_dropped: bool) -> None:
    async def cut_off(work: Doubling) -> None:
        slices = Slices[int, int](work, in_thread, may_be_dropped=may_be_dropped)
        await slices.ask(1)
        task = asyncio.create_task(slices.ask(2))  # waits for the interval to pass
        await asyncio.sleep(0)
        task.cancel()
        await slices.drain()

    work = Doubling()
    asyncio.run(cut_off(work))
    assert work.slices == ([[1]] if may_be_dropped else [[1], [2]])
