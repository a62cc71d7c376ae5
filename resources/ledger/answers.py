"""Keeping answers, many at once: what was paid for is written down before anything is derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.pricing import PRICES_VERSION, TokenUsage
from extraction_core.states import AttemptStatus
from resources.ledger.engine import LedgerEngine
from resources.ledger.finalization import keep_runs_from_closing, rederive_cost, runs_of
from resources.ledger.row_sets import is_postgres, row_set, row_set_arguments
from resources.ledger.spending import IS_ABANDONED, IS_OPEN
from resources.ledger.tables import attempts
from resources.ledger.types import AnySelect, ExactDecimal, SafeText, literal, now_ms

ATTEMPT = attempts.c
KEPT: Mapping[str, sa.types.TypeEngine[Any]] = {
    "response": SafeText(),
    "request_id": sa.Text(),
    "served_model": SafeText(),
    "stop_reason": SafeText(),
    "input_tokens": sa.BigInteger(),
    "cache_write_5m_tokens": sa.BigInteger(),
    "cache_write_1h_tokens": sa.BigInteger(),
    "cache_read_tokens": sa.BigInteger(),
    "output_tokens": sa.BigInteger(),
    "cost_usd": ExactDecimal(),
    "prices": sa.Text(),
}
COLUMNS = {"of_token": sa.Text(), **KEPT}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A provider's answer as it is kept. ``cost_usd`` is None when the price is not known."""

    response: str
    request_id: str | None
    served_model: str | None
    stop_reason: str | None
    usage: TokenUsage | None
    cost_usd: Decimal | None


def keep_answers(engine: LedgerEngine, answers: Mapping[str, Answer]) -> int:
    """Keep answers, by their attempts' tokens, in one transaction; see :meth:`Attempts.answered_all`."""
    rows = [(token, *answer_values(answer).values()) for token, answer in answers.items()]

    def transaction(connection: sa.Connection) -> int:
        closed = keep_runs_from_closing(connection, _runs(), {"tokens": list(answers)})
        postgres = is_postgres(connection)
        arguments = row_set_arguments(COLUMNS, rows, postgres=postgres)
        kept = connection.execute(_keeping(postgres), arguments).rowcount
        for run_id in closed:
            rederive_cost(connection, run_id)
        return kept

    return engine.write(transaction, Failpoint.COMMIT_ATTEMPT_CLOSE) if rows else 0


def answer_values(answer: Answer) -> dict[str, Any]:
    """Return the columns that keep an answer, in the order of :data:`KEPT`."""
    usage = answer.usage
    return {
        "response": answer.response,
        "request_id": answer.request_id,
        "served_model": answer.served_model,
        "stop_reason": answer.stop_reason,
        "input_tokens": usage.input_tokens if usage else None,
        "cache_write_5m_tokens": usage.cache_write_5m_tokens if usage else None,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens if usage else None,
        "cache_read_tokens": usage.cache_read_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost_usd": answer.cost_usd,
        "prices": PRICES_VERSION,
    }


@lru_cache(1)
def _runs() -> AnySelect:
    return runs_of(ATTEMPT.token.in_(sa.bindparam("tokens", expanding=True)))


@lru_cache(2)
def _keeping(postgres: bool) -> sa.Update:  # noqa: FBT001 - cached by position
    given = row_set(COLUMNS, postgres=postgres)
    return (
        sa.update(attempts)
        .where(ATTEMPT.token == given.c.of_token, sa.or_(IS_OPEN, IS_ABANDONED))
        .values(status=literal(AttemptStatus.ANSWERED), closed_ms=now_ms(), **{name: given.c[name] for name in KEPT})
    )
