"""The moves of the state machine: which verb comes next, done by whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from hypothesis import note

from extraction_core.states import ACTIVE_ROW, RowStatus
from tests.factories import a_failure
from tests.ledger.model_calls import Driver
from tests.ledger.model_choices import (
    COSTS,
    SELECTS,
    YES_OR_NO,
    a_call,
    a_claim,
    a_reason,
    a_run,
    calls,
    claims,
    weighted,
)
from tests.ledger.model_driver import JUMP_S, LONG_WAIT_S

Move = Callable[[Driver, Random], None]


def open_run(driver: Driver, chance: Random) -> None:
    driver.open_run(chance.choice(SELECTS))


def fill(driver: Driver, chance: Random) -> None:
    driver.fill(a_run(driver, chance))


def seal(driver: Driver, chance: Random) -> None:
    driver.seal(a_run(driver, chance))


def finalize(driver: Driver, chance: Random) -> None:
    driver.finalize(a_run(driver, chance))


def request_cancel(driver: Driver, chance: Random) -> None:
    driver.request_cancel(a_run(driver, chance))


def claim(driver: Driver, chance: Random) -> None:
    driver.claim(a_run(driver, chance), chance.randint(1, 3), chance.choice(["ada", "bob"]))


def heartbeat(driver: Driver, chance: Random) -> None:
    driver.heartbeat(claims(driver, chance))


def reclaim(driver: Driver, chance: Random) -> None:
    driver.reclaim(a_run(driver, chance))


def release(driver: Driver, chance: Random) -> None:
    driver.release(claims(driver, chance))


def retry(driver: Driver, chance: Random) -> None:
    held = a_claim(driver, chance)
    wait_s = chance.choice([0.0, LONG_WAIT_S])
    driver.retry(held, a_reason(driver, chance, held), wait_s, refused=chance.choice(YES_OR_NO))


def let_time_pass(driver: Driver, chance: Random) -> None:
    driver.let_pass(JUMP_S * chance.randint(1, 2))


def take_over_from_the_dead(driver: Driver, chance: Random) -> None:
    """A lease's time later, another takes what was held, and perhaps calls; who held it does not know."""
    driver.let_pass(2 * JUMP_S)
    driver.reclaim(run_id := max(driver.model.runs))
    taken = driver.claim(run_id, chance.randint(1, 3), "successor")
    if taken and chance.choice(YES_OR_NO):
        driver.open_attempts(taken)


def wind_up(driver: Driver, chance: Random) -> None:
    """End everything of the newest run, some calls still open, and go on with the next run."""
    run_id = max(driver.model.runs)
    driver.let_pass(3 * JUMP_S)
    driver.reclaim(run_id)
    for held in driver.claim(run_id, 10):
        driver.open_attempt(held)
        driver.fail(held, chance.choice([a_failure(), a_reason(driver, chance, held)]))
    driver.seal(run_id)
    driver.finalize(run_id)
    next_id = driver.open_run(chance.choice(SELECTS))
    driver.fill(next_id)
    driver.claim(next_id, chance.randint(1, 3))


def open_attempt(driver: Driver, chance: Random) -> None:
    driver.open_attempt(a_claim(driver, chance))


def open_attempt_again(driver: Driver, chance: Random) -> None:
    """Open a call whose opening may have gone unanswered."""
    held = a_claim(driver, chance)
    mine = [one for one, attempt in driver.model.attempts.items() if attempt.result_id == held.row_id]
    driver.open_attempt(held, max(mine, default=None))


def open_attempts(driver: Driver, chance: Random) -> None:
    driver.open_attempts(claims(driver, chance))


def call(driver: Driver, chance: Random) -> None:
    attempt_id = driver.open_attempt(a_claim(driver, chance))
    if attempt_id is not None:
        driver.answered(attempt_id)


def call_in_vain(driver: Driver, chance: Random) -> None:
    """Judge an answer unusable, hold the row again, and perhaps find another fault in the same answer."""
    held = a_claim(driver, chance)
    attempt_id = driver.open_attempt(held)
    if attempt_id is not None:
        driver.answered(attempt_id)
    driver.retry(held, a_reason(driver, chance, held))
    for again in driver.claim(driver.model.rows[held.row_id].run_id, 3):
        if chance.choice(YES_OR_NO):
            driver.retry(again, a_reason(driver, chance, again))


def answered(driver: Driver, chance: Random) -> None:
    driver.answered(a_call(driver, chance), chance.choice(COSTS))


def answered_all(driver: Driver, chance: Random) -> None:
    driver.answered_all(calls(driver, chance), chance.choice(COSTS))


def answered_under_a_false_token(driver: Driver, chance: Random) -> None:
    driver.answered_under_a_false_token(a_call(driver, chance))


def refused(driver: Driver, chance: Random) -> None:
    driver.refused(a_call(driver, chance), counted=chance.choice(YES_OR_NO))


def abandoned(driver: Driver, chance: Random) -> None:
    driver.abandoned(a_call(driver, chance))


def complete(driver: Driver, chance: Random) -> None:
    driver.complete(a_claim(driver, chance))


def complete_all(driver: Driver, chance: Random) -> None:
    driver.complete_all(claims(driver, chance))


def fail(driver: Driver, chance: Random) -> None:
    held = a_claim(driver, chance)
    driver.fail(held, a_reason(driver, chance, held))


def cancelled_by_the_provider(driver: Driver, chance: Random) -> None:
    driver.cancelled_by_the_provider(a_claim(driver, chance))


ALWAYS: Mapping[Move, int] = {
    open_run: 1, fill: 1, seal: 2, finalize: 3, claim: 8, reclaim: 2, take_over_from_the_dead: 4, wind_up: 1,
    let_time_pass: 1,
}  # fmt: skip
ON_CLAIMS: Mapping[Move, int] = {
    heartbeat: 3, release: 3, retry: 4, open_attempt: 4, open_attempt_again: 2, open_attempts: 3, call: 3, call_in_vain: 4, complete: 2,
    complete_all: 2, fail: 3,
}  # fmt: skip
ON_CALLS: Mapping[Move, int] = {
    answered: 3, answered_all: 2, answered_under_a_false_token: 1, refused: 2, abandoned: 2,
}  # fmt: skip
WHEN_CANCELLED: Mapping[Move, int] = {cancelled_by_the_provider: 1}
WHEN_ACTIVE: Mapping[Move, int] = {request_cancel: 1}
WHEN_ALL_HAVE_ENDED: Mapping[Move, int] = {wind_up: 30}
WHEN_NOBODY_HOLDS_A_ROW: Mapping[Move, int] = {claim: 20, take_over_from_the_dead: 10}


def move(driver: Driver, chance: Random) -> None:
    """Make one of the moves that can be made now, often one that keeps things going."""
    rows = driver.model.rows.values()
    active = {row.status for row in rows} & ACTIVE_ROW
    possible = {
        **ALWAYS,
        **(ON_CLAIMS if driver.claims else {}),
        **(ON_CALLS if driver.tokens else {}),
        **(WHEN_CANCELLED if any(row.cancel_requested for row in rows) else {}),
        **(WHEN_ACTIVE if active else WHEN_ALL_HAVE_ENDED),
        **({} if RowStatus.RUNNING in active else WHEN_NOBODY_HOLDS_A_ROW),
    }
    drawn = weighted(chance, possible)
    note(drawn.__name__.replace("_", " "))
    drawn(driver, chance)
