"""The plan: fates come from the seed, and a trial of twenty kills meets every telling one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from extraction_assets.chaos.plan import (
    FROZEN_AT_BATCHES,
    FROZEN_AT_CALLS,
    TELLING_OF_BATCHES,
    TELLING_OF_CALLS,
    Mishap,
    Plan,
)
from extraction_core.failpoints import Failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extraction_assets.chaos.plan import Fate, Ordeal

SEEDS = range(20)
OPENING, A_HAND = 6, 17
"""Launches: at least; at most."""


@pytest.mark.parametrize("mode", ["realtime", "batch"])
def test_a_seed_repeats_its_plan_and_another_one_is_another_plan(mode: str) -> None:
    def planned(seed: int) -> list[object]:
        plan = Plan(seed, mode)
        return [(plan.launch(), plan.tick(), plan.storm()) for _ in range(50)]

    assert planned(7) == planned(7)
    assert planned(7) != planned(8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mode", "telling"), [("realtime", TELLING_OF_CALLS), ("batch", TELLING_OF_BATCHES)])
def test_a_hand_after_the_opening_every_telling_failpoint_has_killed(
    seed: int, mode: str, telling: tuple[Failpoint, ...]
) -> None:
    fates = _fates(seed, mode, OPENING + A_HAND)
    assert set(telling) <= {fate.failpoint for fate in fates if not fate.freezes}


@pytest.mark.parametrize(("mode", "freezing"), [("realtime", FROZEN_AT_CALLS), ("batch", FROZEN_AT_BATCHES)])
def test_in_two_hands_somebody_was_frozen_wherever_anybody_is(mode: str, freezing: tuple[Failpoint, ...]) -> None:
    for seed in SEEDS:
        frozen = {fate.failpoint for fate in _fates(seed, mode, OPENING + 2 * A_HAND) if fate.freezes}
        assert frozen == set(freezing)


def test_some_workers_have_caller_processes_and_some_of_these_are_killed_but_none_where_batches_are_sent() -> None:
    for seed in SEEDS:
        launched = list(islice(_launches(seed, "realtime"), OPENING + 4 * A_HAND))
        assert {one.fate.apart for one in launched} == {False, True}
        assert Mishap.CALLERS in {mishap for one in launched for _, mishap in one.mishaps}
        assert not any(fate.apart for fate in _fates(seed, "batch", OPENING + 4 * A_HAND))


def test_calls_begin_with_late_sleepers_and_half_finished_files_on_a_provider_that_is_well() -> None:
    for seed in SEEDS:
        first = list(islice(_launches(seed, "realtime"), 4))
        assert {(one.fate.failpoint, one.fate.freezes) for one in first} == {
            (Failpoint.BEGIN_COMPLETE, True),
            (Failpoint.PROVIDER_ANSWERED, True),
            (Failpoint.REPLACE_OUTPUT, False),
            (Failpoint.COMMIT_COMPLETE, False),
        }
        assert not any(one.storm or one.mishaps for one in first)


def test_batches_begin_with_creates_of_which_nobody_is_told_and_that_are_listed_late() -> None:
    for seed in SEEDS:
        first = next(_launches(seed, "batch"))
        assert [fault["kind"] for fault in first.storm or ()] == ["drop", "listed_late"]


def _launches(seed: int, mode: str) -> Iterator[Ordeal]:
    plan = Plan(seed, mode)
    while True:
        yield plan.launch()


def _fates(seed: int, mode: str, launches: int) -> list[Fate]:
    """Of the launched ones; not of their rivals."""
    return [one.fate for one in islice(_launches(seed, mode), launches)]
