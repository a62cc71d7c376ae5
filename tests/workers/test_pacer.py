"""The common pace, with a clock of the test's own."""

from __future__ import annotations

import pytest

from extraction_assets.workers.pacer import REFUSALS_IN_A_ROW, Pacer, PutOff
from extraction_core.causes import Cause
from tests.workers.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pacer(clock: Clock) -> Pacer:
    return Pacer(16, 60.0, clock)


def refuse(pacer: Pacer, wait_s: float = 1.0) -> None:
    pacer.refused(pacer.begin_call(), Cause.OVERLOADED, wait_s)


def test_at_first_nobody_waits(pacer: Pacer) -> None:
    assert (pacer.pause_s, pacer.put_off, pacer.limit) == (0.0, None, 16)


def test_a_refusal_pauses_for_as_long_as_was_asked(pacer: Pacer, clock: Clock) -> None:
    refuse(pacer, 5.0)
    clock.now += 4.0
    assert pacer.pause_s == 1.0
    clock.now += 1.0
    assert pacer.pause_s == 0.0


def test_a_shorter_pause_does_not_end_a_longer_one(pacer: Pacer) -> None:
    refuse(pacer, 5.0)
    refuse(pacer, 1.0)
    assert pacer.pause_s == 5.0


def test_each_pause_halves_the_calls_in_flight_down_to_one(pacer: Pacer) -> None:
    limits = []
    for _ in range(5):
        refuse(pacer)
        limits.append(pacer.limit)
    assert limits == [8, 4, 2, 1, 1]


def test_calls_that_were_in_flight_together_halve_once(pacer: Pacer) -> None:
    tickets = [pacer.begin_call() for _ in range(16)]
    for ticket in tickets:
        pacer.refused(ticket, Cause.RATE_LIMITED, 1.0)
    assert (pacer.limit, pacer.put_off) == (8, None)


def test_a_late_refusal_of_a_call_in_flight_still_asks_for_its_whole_wait(pacer: Pacer) -> None:
    early, late = pacer.begin_call(), pacer.begin_call()
    pacer.refused(early, Cause.RATE_LIMITED, 1.0)
    pacer.refused(late, Cause.RATE_LIMITED, 7.0)
    assert pacer.pause_s == 7.0


def test_every_answer_adds_one_call_up_to_the_most(pacer: Pacer) -> None:
    refuse(pacer)
    for _ in range(20):
        pacer.served()
    assert pacer.limit == 16


def test_a_pause_too_long_puts_the_rest_off_for_as_long(pacer: Pacer, clock: Clock) -> None:
    refuse(pacer, 61.0)
    assert pacer.put_off == PutOff(cause=Cause.OVERLOADED, wait_s=61.0)
    clock.now += 2.0
    assert pacer.put_off is None


def test_many_pauses_without_an_answer_put_the_rest_off(pacer: Pacer) -> None:
    for _ in range(REFUSALS_IN_A_ROW):
        assert pacer.put_off is None
        refuse(pacer)
    assert pacer.put_off == PutOff(cause=Cause.OVERLOADED, wait_s=60.0)


def test_an_answer_in_between_starts_the_count_anew(pacer: Pacer) -> None:
    for _ in range(3 * REFUSALS_IN_A_ROW):
        refuse(pacer)
        pacer.served()
    assert pacer.put_off is None
