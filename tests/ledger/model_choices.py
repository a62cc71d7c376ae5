"""What the moves of the state machine draw: by whom, of which call, in which run.

It leans on what there is: a row may have a holder, one who lost it to another, and one who let it go, and each of them
goes on as if nothing had happened, often enough that every guard is met many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from hypothesis import note

from extraction_core.states import RowStatus, Select
from resources.ledger.claims import Held
from resources.ledger.results import Failed
from tests.factories import a_failure
from tests.ledger.model_calls import PRICE, Driver

T = TypeVar("T")

WEIGHTS_OF_HOLDERS = {"holds it": 6, "lost it to another": 4, "let it go": 2, "lost it long ago": 1}
SELECTS = (Select.PENDING, Select.ALL)
COSTS = (PRICE, None)
YES_OR_NO = (True, False)


def holders(driver: Driver) -> dict[str, list[Held]]:
    """Return all claims ever made, by what became of them."""
    found: dict[str, list[Held]] = {}
    for held in driver.claims:
        row = driver.model.rows[held.row_id]
        became = {
            (True, True): "holds it",
            (False, True): "lost it to another",
            (True, False): "let it go",
            (False, False): "lost it long ago",
        }
        found.setdefault(became[row.generation == held.generation, row.status is RowStatus.RUNNING], []).append(held)
    return found


def a_claim(driver: Driver, chance: Random) -> Held:
    """Draw a claim."""
    found = holders(driver)
    kind = weighted(chance, {kind: weight for kind, weight in WEIGHTS_OF_HOLDERS.items() if kind in found})
    held = chance.choice(found[kind])
    note(f"  by who {kind}: {held}")
    return held


def claims(driver: Driver, chance: Random) -> list[Held]:
    """Draw a few claims; sometimes with the last two of one row, of which only the later may be valid."""
    drawn = [a_claim(driver, chance) for _ in range(chance.randint(1, 3))]
    if chance.choice(YES_OR_NO):
        drawn.extend([held for held in driver.claims if held.row_id == drawn[0].row_id][-2:])
    return list(dict.fromkeys(drawn))


def a_call(driver: Driver, chance: Random) -> int:
    """Draw a call, of whatever state."""
    found: dict[tuple[str, bool], list[int]] = {}
    for attempt_id, attempt in driver.model.attempts.items():
        found.setdefault((attempt.status, driver.model.is_late(attempt_id)), []).append(attempt_id)
    attempt_id = chance.choice(found[chance.choice(sorted(found))])
    note(f"  of call {attempt_id}: {driver.model.attempts[attempt_id]}")
    return attempt_id


def calls(driver: Driver, chance: Random) -> list[int]:
    """Draw a few calls."""
    return sorted({a_call(driver, chance) for _ in range(chance.randint(1, 3))})


def a_run(driver: Driver, chance: Random) -> int:
    """Draw a run: the newest more often than those before it."""
    newest = max(driver.model.runs)
    return chance.choice([*driver.model.runs, newest, newest, newest])


def weighted(chance: Random, weights: Mapping[T, int]) -> T:
    """Draw by weight."""
    return chance.choices(list(weights), list(weights.values()))[0]


def a_reason(driver: Driver, chance: Random, held: Held) -> Failed:
    """Draw why a row fails: its answer is judged by that reason."""
    return a_failure(reason=chance.choice(["refused", "truncated", "empty"]), attempt_id=driver.model.answer_for(held))
