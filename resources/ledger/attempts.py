"""Attempts: one row per provider call, committed before the call and closed with its answer, tokens and cost.

The only source of money. Opening is where the caps are: whoever launches whatever, no call is made without passing
:meth:`Attempts.open`. Closing is guarded by the attempt's own token, not by the row's generation: an answer that
comes late was paid for all the same and is never lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.states import AttemptStatus
from resources.ledger.answers import Answer, keep_answers
from resources.ledger.claims import Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.finalization import keep_runs_from_closing, rederive_cost, runs_of
from resources.ledger.openings import AttemptPlan, KeptAnswer, NotOpened, Opened, Opening, Order, open_all
from resources.ledger.spending import IS_OPEN
from resources.ledger.tables import attempts, extraction_results
from resources.ledger.types import ExactDecimal, literal, now_ms

__all__ = ["Answer", "AttemptPlan", "Attempts", "KeptAnswer", "NotOpened", "Opened", "Opening", "Order"]

RESULT = extraction_results.c
ATTEMPT = attempts.c


class Attempts:
    """Opens, closes and abandons attempts."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def open(self, held: Held, plan: AttemptPlan, max_attempts: int) -> Opening:
        """Open an attempt for a held result, unless an answer is kept, a cap is reached or the claim was lost."""
        return self.open_all([Order(held=held, plan=plan)], max_attempts)[0]

    def open_all(self, orders: Sequence[Order], max_attempts: int) -> list[Opening]:
        """Open many attempts in one transaction; see :func:`resources.ledger.openings.open_all`."""
        return open_all(self._engine, orders, max_attempts)

    def answered(self, token: str, answer: Answer) -> bool:
        """Keep one answer. False if its attempt was closed before."""
        return self.answered_all({token: answer}) == 1

    def answered_all(self, answers: Mapping[str, Answer]) -> int:
        """Keep answers with tokens and cost, each once, by their attempts' tokens; of abandoned attempts too.

        Returns:
            How many were kept; the others' attempts were closed before.
        """
        return keep_answers(self._engine, answers)

    def failed(  # noqa: PLR0913 - one column each
        self, attempt_id: int, token: str, *, cause: Cause, message: str, counted: bool, request_id: str | None
    ) -> bool:
        """Close an attempt that the provider refused: nothing was billed. False if it was closed before."""
        values = {
            "status": literal(AttemptStatus.FAILED),
            "closed_ms": now_ms(),
            "cost_usd": Decimal(0),
            "reason": cause,
            "message": message,
            "counted": counted,
            "request_id": request_id,
        }
        return self._close(attempt_id, token, values)

    def abandoned(self, attempt_id: int, token: str, *, cause: Cause, message: str) -> bool:
        """Close an attempt whose outcome is not known: cost unknown, reported. False if it was closed before."""
        values = {
            "status": literal(AttemptStatus.ABANDONED),
            "closed_ms": now_ms(),
            "reason": cause,
            "message": message,
        }
        return self._close(attempt_id, token, values)

    def history(self, result_id: int) -> Mapping[str, Any]:
        """Return ``counted``, ``second_tries`` (special remedies used) and ``refusals`` of a result's question."""

        def query(connection: sa.Connection) -> Mapping[str, Any]:
            row = (
                connection.execute(sa.select(extraction_results).where(RESULT.result_id == result_id)).mappings().one()
            )
            tries = sa.select(ATTEMPT.second_try).where(_of_question(row), ATTEMPT.second_try.is_not(None)).distinct()
            return {
                "counted": _counted(connection, row),
                "second_tries": frozenset(connection.execute(tries).scalars()),
                "refusals": row["refusals_to_serve"],
            }

        return self._engine.read(query)

    def _close(self, attempt_id: int, token: str, values: Mapping[str, Any]) -> bool:
        statement = (
            sa.update(attempts)
            .where(ATTEMPT.attempt_id == attempt_id, ATTEMPT.token == token, IS_OPEN)
            .values(**values)
            .returning(ATTEMPT.run_id)
        )

        def transaction(connection: sa.Connection) -> bool:
            closed = keep_runs_from_closing(connection, runs_of(ATTEMPT.attempt_id == attempt_id))
            run_id = connection.execute(statement).scalar()
            if run_id in closed:
                rederive_cost(connection, run_id)
            return run_id is not None

        return self._engine.write(transaction, Failpoint.COMMIT_ATTEMPT_CLOSE)


def judged(attempt_id: int, verdict: str) -> sa.Update:
    """Return the statement that marks a kept answer as judged; it belongs into the transaction of the row's move."""
    return (
        sa.update(attempts).where(ATTEMPT.attempt_id == attempt_id, ATTEMPT.verdict.is_(None)).values(verdict=verdict)
    )


@lru_cache
def judged_all(verdict: str) -> sa.Update:
    """Return the statement that marks several kept answers as judged; its argument is ``attempt_ids``."""
    these = ATTEMPT.attempt_id.in_(sa.bindparam("attempt_ids", expanding=True))
    return sa.update(attempts).where(these, ATTEMPT.verdict.is_(None)).values(verdict=verdict)


def result_cost(result_id: int | sa.ColumnElement[int]) -> sa.ScalarSelect[Any]:
    """Return the sum of a result's known attempt costs, for its ``cost_usd``."""
    total = sa.type_coerce(sa.func.sum(ATTEMPT.cost_usd), ExactDecimal)
    return sa.select(total).where(ATTEMPT.result_id == result_id).correlate(extraction_results).scalar_subquery()


def _of_question(row: sa.RowMapping) -> sa.ColumnElement[bool]:
    return sa.and_(
        ATTEMPT.document_id == row["document_id"],
        ATTEMPT.input_fingerprint == row["input_fingerprint"],
        ATTEMPT.edition == row["edition"],
    )


def _counted(connection: sa.Connection, row: sa.RowMapping) -> int:
    counted = sa.select(sa.func.count()).where(_of_question(row), ATTEMPT.counted)
    return int(connection.execute(counted).scalar_one())
