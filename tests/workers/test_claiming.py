"""When a worker claims."""

from __future__ import annotations

import math

import pytest

from extraction_assets.workers.claiming import INTERVAL_S, LONGEST_IDLE_S, ClaimRhythm
from tests.workers.clock import Clock

PLACES = 32


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rhythm(clock: Clock) -> ClaimRhythm:
    """The rhythm of a worker whose last claim found rows just now."""
    rhythm = ClaimRhythm(clock)
    rhythm.begin()
    rhythm.end(found_rows=True)
    return rhythm


def found_nothing(rhythm: ClaimRhythm) -> None:
    rhythm.begin()
    rhythm.end(found_rows=False)


def test_a_worker_with_nothing_in_flight_claims_at_once(rhythm: ClaimRhythm) -> None:
    found_nothing(rhythm)
    assert rhythm.wait_s(0, PLACES) == 0


def test_nothing_is_claimed_while_every_place_is_taken(rhythm: ClaimRhythm) -> None:
    assert rhythm.wait_s(PLACES, PLACES) == math.inf
    assert rhythm.wait_s(PLACES + 1, PLACES) == math.inf


def test_a_claim_waits_for_an_eighth_of_the_places_and_not_longer_than_the_interval(
    rhythm: ClaimRhythm, clock: Clock
) -> None:
    assert rhythm.wait_s(PLACES - 4, PLACES) == 0
    assert rhythm.wait_s(PLACES - 3, PLACES) == pytest.approx(INTERVAL_S)
    clock.now += INTERVAL_S
    assert rhythm.wait_s(PLACES - 3, PLACES) == pytest.approx(0)


def test_a_worker_of_few_places_claims_for_each_that_becomes_free(rhythm: ClaimRhythm) -> None:
    assert rhythm.wait_s(3, 4) == 0


def test_a_claim_that_found_nothing_is_not_repeated_soon_however_many_places_are_free(
    rhythm: ClaimRhythm, clock: Clock
) -> None:
    found_nothing(rhythm)
    assert rhythm.wait_s(1, PLACES) == pytest.approx(LONGEST_IDLE_S)
    clock.now += LONGEST_IDLE_S
    assert rhythm.wait_s(1, PLACES) == pytest.approx(0)


def test_a_row_that_ended_is_claimed_again_after_the_interval_also_when_it_ended_during_an_empty_claim(
    rhythm: ClaimRhythm,
) -> None:
    rhythm.begin()
    rhythm.row_ended()
    rhythm.end(found_rows=False)
    assert rhythm.wait_s(1, PLACES) == pytest.approx(INTERVAL_S)
