"""The ledger against its model: verbs in any order, by workers who are late, die and come back.

After each step, rows, attempts, runs and money must be those of the model.
``LEDGER_MODEL_EXAMPLES=2000`` makes it a long search with new examples; otherwise they are always the same few.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import event

from tests.ledger.machine import LedgerMachine

if TYPE_CHECKING:
    from resources.ledger import Ledger

LONG_SEARCH = os.environ.get("LEDGER_MODEL_EXAMPLES")
EXAMPLES = int(LONG_SEARCH or 20)
STEPS = 40


@pytest.fixture
def hasty_ledger(ledger: Ledger) -> Ledger:
    """A ledger that does not wait for the disk, as the tests' PostgreSQL does not: no step here is a power cut."""

    def hasten(connection: Any, _record: object) -> None:
        if ledger.engine.is_sqlite:
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(ledger.engine.raw, "connect", hasten)
    ledger.engine.raw.dispose()
    return ledger


def test_the_ledger_does_what_its_model_does_whatever_the_order_of_its_verbs(hasty_ledger: Ledger) -> None:
    with ThreadPoolExecutor(2) as threads:

        class Machine(LedgerMachine):
            def __init__(self) -> None:
                super().__init__(hasty_ledger, threads)

        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                derandomize=LONG_SEARCH is None,
                database=None,
                deadline=None,
                phases=list(Phase) if LONG_SEARCH else [Phase.generate],  # to shrink takes minutes
                report_multiple_bugs=False,
                print_blob=False,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
            ),
        )
