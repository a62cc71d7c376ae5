"""What a race of two is, and how the rows look that they race for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.factories import a_run, an_output, answer, claim_one, open_attempt
from tests.ledger.support import execute, one_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from extraction_core.failpoints import Failpoint
    from resources.ledger import Ledger
    from resources.ledger.claims import Held


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Two who want the same.

    Attributes:
        at: where the first one stops.
        told: what each of them is told.
        after: what is to be looked at when both are through.
        leaves: what is seen there.
        waits: whether the second has to wait for the first where rows are locked one by one.
    """

    at: Failpoint
    first: Callable[[Ledger], Any]
    second: Callable[[Ledger], Any]
    told: tuple[Any, Any]
    after: Callable[[], Any]
    leaves: Any
    waits: bool = True


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The only row of a run, held by a worker with two answers, of which it should use one."""

    ledger: Ledger
    run_id: int
    held: Held
    attempts: tuple[int, int]
    published: list[int]
    """The attempts whose file was put in place."""

    def complete(self, ledger: Ledger, answer: int = 0) -> bool:
        """End the row completed with one of the answers."""
        attempt_id = self.attempts[answer]
        return ledger.results.record_completed(
            self.held, an_output(), attempt_id, lambda: self.published.append(attempt_id)
        )

    @property
    def status(self) -> str:
        """The row's status."""
        return one_row(self.ledger, "extraction_results")["status"]


def an_answered_row(ledger: Ledger, *, expired: bool = False) -> Answered:
    """Stage it; ``expired``: its holder's lease has run out."""
    held = claim_one(ledger, run_id := a_run(ledger, documents=1))
    first, second = open_attempt(ledger, held), open_attempt(ledger, held)
    answer(ledger, first)
    answer(ledger, second)
    if expired:
        expire(ledger)
    return Answered(
        ledger=ledger, run_id=run_id, held=held, attempts=(first.attempt_id, second.attempt_id), published=[]
    )


def expire(ledger: Ledger) -> None:
    """Let all leases have run out."""
    execute(ledger, "UPDATE extraction_results SET lease_expires_ms = 1")
