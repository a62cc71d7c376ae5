"""What a run takes of a set is decided by each document's own past, not by that of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extraction_core.states import Select
from tests.factories import a_run, a_selection, a_set, claim, claim_one, fail, open_attempt

if TYPE_CHECKING:
    from resources.ledger import Ledger


def test_a_document_whose_attempts_are_used_up_is_left_out_whatever_was_asked_anew_of_others(ledger: Ledger) -> None:
    mine, other = a_set(ledger, 1), a_set(ledger, 1, collection="others")
    held = claim_one(ledger, run_id := a_run(ledger, mine))
    open_attempt(ledger, held, max_attempts=1)
    fail(ledger, held)
    ledger.finalize(run_id)
    for select in (Select.ALL, Select.ALL):
        (held,) = claim(ledger, run_id := a_run(ledger, other, select=select))
        fail(ledger, held)
        ledger.finalize(run_id)
    assert ledger.runs.selects(a_selection(mine, max_attempts=1)) == 0
    assert ledger.runs.selects(a_selection(other, max_attempts=1)) == 1
