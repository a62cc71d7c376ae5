"""A worker that lost a row and claimed it again has two tasks on it, whose requests may meet in one transaction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from extraction_core.states import RowStatus
from resources.ledger.attempts import NotOpened, Opened, Order
from resources.ledger.completions import Completed
from tests.factories import MAX_ATTEMPTS, a_plan, a_run, an_output, answer, claim_one, open_attempt
from tests.ledger.support import one_row, rows

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.claims import Held


def claimed_twice(ledger: Ledger) -> tuple[Held, Held]:
    """Return the earlier and the later claim of a row."""
    earlier = claim_one(ledger, run_id := a_run(ledger, documents=1))
    ledger.results.release([earlier])
    return earlier, claim_one(ledger, run_id)


def test_only_the_later_of_two_claims_of_one_row_puts_its_file_in_place(ledger: Ledger) -> None:
    earlier, later = claimed_twice(ledger)
    answer(ledger, attempt := open_attempt(ledger, later))
    published: list[Held] = []

    def done(held: Held) -> Completed:
        return Completed(
            held=held,
            output=an_output(),
            attempt_id=attempt.attempt_id,
            publish=lambda: published.append(held),
        )

    with ThreadPoolExecutor(1) as threads:
        won = ledger.results.record_all_completed([done(later), done(earlier)], threads)
    assert (won, published) == ({later}, [later])
    assert one_row(ledger, "extraction_results")["status"] == RowStatus.COMPLETED


def test_only_the_later_of_two_claims_of_one_row_may_call(ledger: Ledger) -> None:
    earlier, later = claimed_twice(ledger)
    orders = [Order(held=held, plan=a_plan()) for held in (later, earlier)]
    opened = ledger.attempts.open_all(orders, MAX_ATTEMPTS)
    assert opened == [Opened(attempt_id=rows(ledger, "attempts")[0]["attempt_id"], counted=1), NotOpened(cause=None)]
    assert [row["token"] for row in rows(ledger, "attempts")] == [orders[0].plan.token]
