"""Does each verb of calls, and each that ends a row, to a ledger and to its model, and compares what they say."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from extraction_core.causes import Cause
from extraction_core.states import AttemptStatus
from resources.ledger.attempts import KeptAnswer, NotOpened, Opened, Opening, Order
from resources.ledger.completions import Completed
from tests.factories import a_plan, an_answer, an_output
from tests.ledger.model import Said
from tests.ledger.model_driver import MAX_ATTEMPTS, QueueDriver
from tests.ledger.model_rows import ModelAttempt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.ledger.claims import Held
    from resources.ledger.results import Failed

PRICE = Decimal("0.001")


class Driver(QueueDriver):
    """All verbs of one document set."""

    def open_attempt(self, held: Held, again: int | None = None) -> int | None:
        """Open a call, or with the token of an earlier one; returns the attempt if a call may be made."""
        plan = a_plan(token=self.tokens[again]) if again is not None else a_plan()
        opened = self.ledger.attempts.open(held, plan, MAX_ATTEMPTS)
        return self._opened(Order(held=held, plan=plan), opened, again)

    def open_attempts(self, held: Sequence[Held]) -> None:
        """Open a call for each at once."""
        orders = [Order(held=one, plan=a_plan()) for one in held]
        opened = self.ledger.attempts.open_all(orders, MAX_ATTEMPTS)
        for order, opening in zip(orders, opened, strict=True):
            self._opened(order, opening)

    def _opened(self, order: Order, opening: Opening, again: int | None = None) -> int | None:
        said = self.model.opening(order.held, again)
        assert _said(opening, again) == said
        if not isinstance(opening, Opened):
            return None
        if said.mine is None:
            row = self.model.rows[order.held.row_id]
            self.model.attempts[opening.attempt_id] = ModelAttempt(order.held.row_id, row.run_id, row.question)
            self.tokens[opening.attempt_id] = order.plan.token
        return opening.attempt_id

    def answered(self, attempt_id: int, cost_usd: Decimal | None = PRICE) -> None:
        """Let an answer come."""
        kept = self.ledger.attempts.answered(self.tokens[attempt_id], an_answer(cost_usd=cost_usd))
        assert kept is self.model.close(attempt_id, AttemptStatus.ANSWERED, cost_usd)

    def answered_all(self, attempt_ids: Sequence[int], cost_usd: Decimal | None = PRICE) -> None:
        """Let many answers come at once."""
        answers = {self.tokens[attempt_id]: an_answer(cost_usd=cost_usd) for attempt_id in attempt_ids}
        self.ledger.attempts.answered_all(answers)
        for attempt_id in attempt_ids:
            self.model.close(attempt_id, AttemptStatus.ANSWERED, cost_usd)

    def answered_under_a_false_token(self, attempt_id: int) -> None:
        """Let an answer come that is not for this call."""
        assert not self.ledger.attempts.answered("another token", an_answer())

    def refused(self, attempt_id: int, *, counted: bool) -> None:
        """Let the provider refuse a call."""
        closed = self.ledger.attempts.failed(
            attempt_id,
            self.tokens[attempt_id],
            cause=Cause.RATE_LIMITED,
            message="no",
            counted=counted,
            request_id=None,
        )
        assert closed is self.model.close(attempt_id, AttemptStatus.FAILED, Decimal(0), counted=counted)

    def abandoned(self, attempt_id: int) -> None:
        """Let a call end without an answer."""
        token = self.tokens[attempt_id]
        closed = self.ledger.attempts.abandoned(attempt_id, token, cause=Cause.TIMEOUT, message="no answer")
        assert closed is self.model.close(attempt_id, AttemptStatus.ABANDONED, None)

    def complete(self, held: Held) -> None:
        """End a row completed."""
        attempt_id, published = self.model.answer_for(held), list[int]()
        won = self.ledger.results.record_completed(held, an_output(), attempt_id, lambda: published.append(held.row_id))
        expected = self.model.complete(held, attempt_id)
        assert won is (expected or self.model.completed_before(held, attempt_id))
        assert published == [held.row_id] * expected

    def complete_all(self, held: Sequence[Held]) -> None:
        """End many rows completed at once."""
        published: list[Held] = []
        done = [
            Completed(
                held=one,
                output=an_output(),
                attempt_id=self.model.answer_for(one),
                publish=lambda one=one: published.append(one),
            )
            for one in held
        ]
        expected = {one.held for one in done if self.model.complete(one.held, one.attempt_id)}
        assert self.ledger.results.record_all_completed(done, self.threads) == expected
        assert sorted(published) == sorted(expected)

    def fail(self, held: Held, failed: Failed) -> None:
        """End a row failed."""
        assert self.ledger.results.record_failed(held, failed) == self.model.fail(held, failed)

    def cancelled_by_the_provider(self, held: Held) -> None:
        """End a row cancelled."""
        assert self.ledger.results.record_cancelled(held, "cancelled") is self.model.cancelled(held)


def _said(opening: Opening, again: int | None) -> Said:
    match opening:
        case Opened():
            return Said(mine=None if again is None else opening.attempt_id, counted=opening.counted)
        case KeptAnswer():
            return Said(kept=opening.attempt_id)
        case NotOpened():
            return Said(refused=opening.cause, superseded=opening.cause is None)
