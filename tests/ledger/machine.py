"""The state machine: an opening, then moves drawn by weight; after each the ledger is held against its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.factories import a_failure
from tests.ledger.model_calls import Driver
from tests.ledger.model_checks import Seen, check, look
from tests.ledger.model_driver import DOCUMENTS, JUMP_S, LONG_WAIT_S, MAX_ATTEMPTS
from tests.ledger.model_moves import move

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from random import Random

    from resources.ledger import Ledger


def not_sealed(driver: Driver) -> None:
    """All rows of a run have ended, but more may come."""
    run_id = driver.open_run()
    driver.fill(run_id)
    driver.complete_all(driver.claim(run_id, DOCUMENTS))


def taken_over(driver: Driver) -> None:
    """Workers who still think that they hold rows: one waits for a call, another's answer was judged unusable."""
    run_id = _a_run(driver)
    first, second, *_ = driver.claim(run_id, DOCUMENTS)
    driver.open_attempts([first, second])
    driver.answered(max(driver.tokens))
    driver.retry(second, a_failure(attempt_id=max(driver.tokens)))
    driver.let_pass(2 * JUMP_S)
    driver.reclaim(run_id)
    driver.claim(run_id, DOCUMENTS - 1, "bob")


def waiting(driver: Driver) -> None:
    """Rows that are due in another order than they were made in, one of them much later."""
    run_id = _a_run(driver)
    first, second, third, _ = driver.claim(run_id, DOCUMENTS)
    driver.release([third])
    driver.retry(first, a_failure(), LONG_WAIT_S, refused=True)
    driver.release([second])


def closed(driver: Driver) -> None:
    """A run that was closed while a call was open, and the next one."""
    run_id = _a_run(driver)
    held = driver.claim(run_id, DOCUMENTS)
    driver.open_attempts(held)
    for one in held:
        driver.fail(one, a_failure())
    driver.finalize(run_id)
    next_id = _a_run(driver)
    driver.claim(next_id, DOCUMENTS - 1)


OPENINGS = (not_sealed, taken_over, waiting, closed)


def _a_run(driver: Driver) -> int:
    run_id = driver.open_run()
    driver.fill(run_id)
    driver.seal(run_id)
    return run_id


class LedgerMachine(RuleBasedStateMachine):
    """Drives the verbs of one ledger, each example on a document set of its own.

    Hypothesis draws the seed and how many moves are made; the moves are drawn from the seed. Its own draws prefer what
    is simple, and leave out some rules in each example: what matters here was then done once in hundreds of steps.
    """

    def __init__(self, ledger: Ledger, threads: Executor) -> None:
        super().__init__()
        self.driver = Driver(ledger, threads)
        self.before = Seen({}, {}, {})

    @initialize(chance=st.randoms(use_true_random=True))
    def begin(self, chance: Random) -> None:
        self.chance = chance
        opening = chance.choice(OPENINGS)
        note(opening.__name__.replace("_", " "))
        opening(self.driver)

    @rule()
    def move(self) -> None:
        move(self.driver, self.chance)

    @invariant()
    def the_ledger_is_as_its_model_says(self) -> None:
        seen = look(self.driver.ledger, self.driver.set.collection)
        check(seen, self.before, self.driver.model, MAX_ATTEMPTS)
        self.before = seen
