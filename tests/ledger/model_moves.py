"""The moves of the state machine: which verb comes next, done by whom.

What is drawn leans on what there is: a row may have a holder, one who lost it to another, and one who let it go, and
each of them goes on as if nothing had happened, often enough that every guard is met in every example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from extraction_core.states import ACTIVE_ROW, RowStatus, Select
from resources.ledger.queue import Held
from resources.ledger.results import Failed
from tests.factories import a_failure
from tests.ledger.model_calls import PRICE, Driver
from tests.ledger.model_driver import JUMP_S, LONG_WAIT_S

Draw = Callable[..., Any]
Move = Callable[[Driver, Draw], None]

WEIGHTS_OF_HOLDERS = {"holds it": 5, "lost it to another": 3, "let it go": 2, "lost it long ago": 1}
SELECTS = st.sampled_from([Select.PENDING, Select.ALL])
COSTS = st.sampled_from([PRICE, None])


def holders(driver: Driver) -> dict[str, list[Held]]:
    """Return all claims ever made, by what became of them."""
    found: dict[str, list[Held]] = {}
    for held in driver.claims:
        row = driver.model.rows[held.row_id]
        same, running = row.generation == held.generation, row.status is RowStatus.RUNNING
        became = {
            (True, True): "holds it",
            (False, True): "lost it to another",
            (True, False): "let it go",
            (False, False): "lost it long ago",
        }
        found.setdefault(became[same, running], []).append(held)
    return found


def a_claim(driver: Driver, draw: Draw) -> Held:
    """Draw a claim."""
    found = holders(driver)
    kind = draw(weighted({kind: weight for kind, weight in WEIGHTS_OF_HOLDERS.items() if kind in found}))
    return draw(st.sampled_from(found[kind]))


def claims(driver: Driver, draw: Draw) -> list[Held]:
    """Draw a few claims; of one row there may be an earlier and a later one."""
    return list(dict.fromkeys(a_claim(driver, draw) for _ in range(draw(st.integers(1, 3)))))


def a_call(driver: Driver, draw: Draw) -> int:
    """Draw a call, of whatever state."""
    found: dict[tuple[str, bool], list[int]] = {}
    for attempt_id, attempt in driver.model.attempts.items():
        found.setdefault((attempt.status, driver.model.is_late(attempt_id)), []).append(attempt_id)
    return draw(st.sampled_from(found[draw(st.sampled_from(sorted(found)))]))


def a_run(driver: Driver, draw: Draw) -> int:
    """Draw a run: the newest more often than those before it."""
    newest = max(driver.model.runs)
    return draw(st.sampled_from([*driver.model.runs, newest, newest, newest]))


def weighted(weights: Mapping[str, int]) -> st.SearchStrategy[str]:
    """Return a strategy that draws names by weight."""
    return st.sampled_from([name for name, weight in weights.items() for _ in range(weight)])


def a_reason(driver: Driver, draw: Draw, held: Held) -> Failed:
    """Draw why a row fails: its answer is judged by that reason."""
    return a_failure(reason=draw(st.sampled_from(["refused", "truncated"])), attempt_id=driver.model.answer_for(held))


def open_run(driver: Driver, draw: Draw) -> None:
    driver.open_run(draw(SELECTS))


def fill(driver: Driver, draw: Draw) -> None:
    driver.fill(a_run(driver, draw))


def seal(driver: Driver, draw: Draw) -> None:
    driver.seal(a_run(driver, draw))


def finalize(driver: Driver, draw: Draw) -> None:
    driver.finalize(a_run(driver, draw))


def request_cancel(driver: Driver, draw: Draw) -> None:
    driver.request_cancel(a_run(driver, draw))


def claim(driver: Driver, draw: Draw) -> None:
    driver.claim(a_run(driver, draw), draw(st.integers(1, 3)), draw(st.sampled_from(["ada", "bob"])))


def heartbeat(driver: Driver, draw: Draw) -> None:
    driver.heartbeat(claims(driver, draw))


def reclaim(driver: Driver, draw: Draw) -> None:
    driver.reclaim(a_run(driver, draw))


def release(driver: Driver, draw: Draw) -> None:
    driver.release(claims(driver, draw))


def retry(driver: Driver, draw: Draw) -> None:
    held = a_claim(driver, draw)
    wait_s = draw(st.sampled_from([0.0, LONG_WAIT_S]))
    driver.retry(held, a_reason(driver, draw, held), wait_s, refused=draw(st.booleans()))


def let_time_pass(driver: Driver, draw: Draw) -> None:
    driver.let_pass(JUMP_S * draw(st.integers(1, 2)))


def take_over_from_the_dead(driver: Driver, draw: Draw) -> None:
    """A lease's time later, another takes what was held; who held it does not know."""
    driver.let_pass(2 * JUMP_S)
    driver.reclaim(run_id := max(driver.model.runs))
    driver.claim(run_id, draw(st.integers(1, 3)), "successor")


def wind_up(driver: Driver, draw: Draw) -> None:
    """End everything of the newest run, some calls still open, and go on with the next run."""
    run_id = max(driver.model.runs)
    driver.let_pass(3 * JUMP_S)
    driver.reclaim(run_id)
    for held in driver.claim(run_id, 10):
        driver.open_attempt(held)
        driver.fail(held, a_failure())
    driver.seal(run_id)
    driver.finalize(run_id)
    next_id = driver.open_run(draw(SELECTS))
    driver.fill(next_id)
    driver.claim(next_id, draw(st.integers(1, 3)))


def open_attempt(driver: Driver, draw: Draw) -> None:
    driver.open_attempt(a_claim(driver, draw))


def open_attempt_again(driver: Driver, draw: Draw) -> None:
    """Open a call whose opening may have gone unanswered."""
    held = a_claim(driver, draw)
    mine = [one for one, attempt in driver.model.attempts.items() if attempt.result_id == held.row_id]
    driver.open_attempt(held, max(mine, default=None))


def open_attempts(driver: Driver, draw: Draw) -> None:
    driver.open_attempts(claims(driver, draw))


def call(driver: Driver, draw: Draw) -> None:
    attempt_id = driver.open_attempt(a_claim(driver, draw))
    if attempt_id is not None:
        driver.answered(attempt_id)


def answered(driver: Driver, draw: Draw) -> None:
    driver.answered(a_call(driver, draw), draw(COSTS))


def answered_all(driver: Driver, draw: Draw) -> None:
    driver.answered_all(sorted({a_call(driver, draw) for _ in range(draw(st.integers(1, 3)))}), draw(COSTS))


def answered_under_a_false_token(driver: Driver, draw: Draw) -> None:
    driver.answered_under_a_false_token(a_call(driver, draw))


def refused(driver: Driver, draw: Draw) -> None:
    driver.refused(a_call(driver, draw), counted=draw(st.booleans()))


def abandoned(driver: Driver, draw: Draw) -> None:
    driver.abandoned(a_call(driver, draw))


def complete(driver: Driver, draw: Draw) -> None:
    driver.complete(a_claim(driver, draw))


def complete_all(driver: Driver, draw: Draw) -> None:
    driver.complete_all(claims(driver, draw))


def fail(driver: Driver, draw: Draw) -> None:
    held = a_claim(driver, draw)
    driver.fail(held, a_reason(driver, draw, held))


def cancelled_by_the_provider(driver: Driver, draw: Draw) -> None:
    driver.cancelled_by_the_provider(a_claim(driver, draw))


ALWAYS: Mapping[Move, int] = {
    open_run: 1, fill: 1, seal: 2, finalize: 3, claim: 6, reclaim: 2, take_over_from_the_dead: 3, wind_up: 1,
    let_time_pass: 1,
}  # fmt: skip
ON_CLAIMS: Mapping[Move, int] = {
    heartbeat: 3, release: 4, retry: 4, open_attempt: 4, open_attempt_again: 1, open_attempts: 3, call: 3, complete: 2,
    complete_all: 2, fail: 3,
}  # fmt: skip
ON_CALLS: Mapping[Move, int] = {
    answered: 3, answered_all: 2, answered_under_a_false_token: 1, refused: 2, abandoned: 2,
}  # fmt: skip
WHEN_ACTIVE: Mapping[Move, int] = {request_cancel: 1}
WHEN_CANCELLED: Mapping[Move, int] = {cancelled_by_the_provider: 1}
MOVES: Mapping[str, Move] = {
    move.__name__: move for moves in (ALWAYS, ON_CLAIMS, ON_CALLS, WHEN_ACTIVE, WHEN_CANCELLED) for move in moves
}


def possible(driver: Driver) -> dict[str, int]:
    """Return the names of the moves that can be made now, with their weights."""
    rows = driver.model.rows.values()
    moves = [ALWAYS]
    if driver.claims:
        moves.append(ON_CLAIMS)
    if driver.tokens:
        moves.append(ON_CALLS)
    if any(row.status in ACTIVE_ROW for row in rows):
        moves.append(WHEN_ACTIVE)
    if any(row.cancel_requested for row in rows):
        moves.append(WHEN_CANCELLED)
    return {move.__name__: weight for some in moves for move, weight in some.items()}
