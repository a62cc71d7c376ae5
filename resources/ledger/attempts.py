"""Attempts: one row per provider call, committed before the call and closed with its answer, tokens and cost.

The only source of money. Opening is where the caps are: whoever launches whatever, no call is made without passing
:meth:`Attempts.open`. Closing is guarded by the attempt's own token, not by the row's generation: an answer that
comes late was paid for all the same and is never lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.pricing import PRICES_VERSION, TokenUsage
from extraction_core.states import AttemptStatus, RowStatus
from resources.ledger.engine import LedgerEngine
from resources.ledger.finalization import keep_runs_from_closing, rederive_cost
from resources.ledger.queue import Held
from resources.ledger.tables import attempts, extraction_results, extraction_runs
from resources.ledger.types import AnySelect, ExactDecimal, literal, now_ms, zero

RESULT = extraction_results.c
ATTEMPT = attempts.c
IS_OPEN = ATTEMPT.status == literal(AttemptStatus.OPEN)
IS_ABANDONED = ATTEMPT.status == literal(AttemptStatus.ABANDONED)
ANSWER_COLUMNS = (
    "response", "request_id", "served_model", "stop_reason", "input_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "cache_read_tokens", "output_tokens", "cost_usd", "prices",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The call may be made. ``counted`` is the number of counted attempts of the question, this one included."""

    attempt_id: int
    counted: int


@dataclass(frozen=True, kw_only=True)
class KeptAnswer:
    """No call is needed: an answer of this question was kept and not judged yet."""

    attempt_id: int
    response: str
    second_try: str | None


@dataclass(frozen=True, kw_only=True)
class NotOpened:
    """No call may be made. ``cause`` is None when the claim was lost (superseded)."""

    cause: Cause | None
    message: str = ""
    wait: bool = False
    """The budget is only held by calls in flight: try again when they have ended."""


@dataclass(frozen=True, kw_only=True)
class AttemptPlan:
    """What an attempt will ask: stored with it before the call.

    Attributes:
        token: the attempt's own identity, made by the worker; opening twice with one token opens once.
        reserved_usd: the most that the call can cost, held against the run's budget while it is open; None if unknown.
        second_try: the special remedy that this attempt is (``larger``, ``ask_again``), or None.
    """

    token: str
    model: str
    max_output_tokens: int
    reserved_usd: Decimal | None
    second_try: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A provider's answer as it is kept. ``cost_usd`` is None when the price is not known."""

    response: str
    request_id: str | None
    served_model: str | None
    stop_reason: str | None
    usage: TokenUsage | None
    cost_usd: Decimal | None


class Attempts:
    """Opens, closes and abandons attempts."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def open(self, held: Held, plan: AttemptPlan, max_attempts: int) -> Opened | KeptAnswer | NotOpened:
        """Open an attempt for a held result, unless an answer is kept, a cap is reached or the claim was lost."""

        def transaction(connection: sa.Connection) -> Opened | KeptAnswer | NotOpened:
            row = connection.execute(_held_row(held)).mappings().first()
            if row is None:
                return NotOpened(cause=None)
            mine = connection.execute(sa.select(ATTEMPT.attempt_id).where(ATTEMPT.token == plan.token)).scalar()
            if mine is not None:  # our own earlier commit, whose acknowledgement was lost
                return Opened(attempt_id=mine, counted=_counted(connection, row))
            kept = connection.execute(_kept_answer(row)).first()
            if kept is not None:
                return KeptAnswer(attempt_id=kept[0], response=kept[1], second_try=kept[2])
            connection.execute(abandon_open(ATTEMPT.result_id == row["result_id"]))
            refusal = _cap_reached(connection, row, max_attempts) or _budget_reached(connection, row, plan)
            if refusal:
                return refusal
            attempt_id = connection.execute(_insert(row, plan)).scalar_one()
            return Opened(attempt_id=attempt_id, counted=_counted(connection, row))

        return self._engine.write(transaction, Failpoint.COMMIT_ATTEMPT_OPEN)

    def answered(self, attempt_id: int, token: str, answer: Answer) -> bool:
        """Keep an answer with its tokens and cost, once; an abandoned attempt too. False if it was closed before."""
        values = {"status": literal(AttemptStatus.ANSWERED), "closed_ms": now_ms(), **answer_values(answer)}
        return self._close(attempt_id, token, values, from_abandoned=True)

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
        return self._close(attempt_id, token, values, from_abandoned=False)

    def abandoned(self, attempt_id: int, token: str, *, cause: Cause, message: str) -> bool:
        """Close an attempt whose outcome is not known: cost unknown, reported. False if it was closed before."""
        values = {
            "status": literal(AttemptStatus.ABANDONED),
            "closed_ms": now_ms(),
            "reason": cause,
            "message": message,
        }
        return self._close(attempt_id, token, values, from_abandoned=False)

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

    def _close(self, attempt_id: int, token: str, values: Mapping[str, Any], *, from_abandoned: bool) -> bool:
        expected = sa.or_(IS_OPEN, IS_ABANDONED) if from_abandoned else IS_OPEN
        statement = (
            sa.update(attempts)
            .where(ATTEMPT.attempt_id == attempt_id, ATTEMPT.token == token, expected)
            .values(**values)
            .returning(ATTEMPT.run_id)
        )

        def transaction(connection: sa.Connection) -> bool:
            keep_runs_from_closing(connection, ATTEMPT.attempt_id == attempt_id)
            run_id = connection.execute(statement).scalar()
            if run_id is not None:
                rederive_cost(connection, run_id)
            return run_id is not None

        return self._engine.write(transaction, Failpoint.COMMIT_ATTEMPT_CLOSE)


def answer_values(answer: Answer) -> dict[str, Any]:
    """Return the columns that keep an answer."""
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


def judged(attempt_id: int, verdict: str) -> sa.Update:
    """Return the statement that marks a kept answer as judged; it belongs into the transaction of the row's move."""
    return (
        sa.update(attempts).where(ATTEMPT.attempt_id == attempt_id, ATTEMPT.verdict.is_(None)).values(verdict=verdict)
    )


def judged_all(attempt_ids: Sequence[int], verdict: str) -> sa.Update:
    """Return the statement that marks several kept answers as judged."""
    return (
        sa.update(attempts)
        .where(ATTEMPT.attempt_id.in_(attempt_ids), ATTEMPT.verdict.is_(None))
        .values(verdict=verdict)
    )


def result_cost(result_id: int | sa.ColumnElement[int]) -> sa.ScalarSelect[Any]:
    """Return the sum of a result's known attempt costs, for its ``cost_usd``."""
    total = sa.type_coerce(sa.func.sum(ATTEMPT.cost_usd), ExactDecimal)
    return sa.select(total).where(ATTEMPT.result_id == result_id).correlate(extraction_results).scalar_subquery()


def spent_or_reserved(run_id: int) -> AnySelect:
    """Return what a run's calls cost; one whose cost is not known weighs what was reserved for it."""
    known_or_reserved = sa.func.coalesce(ATTEMPT.cost_usd, ATTEMPT.reserved_usd, zero())
    total = sa.type_coerce(sa.func.coalesce(sa.func.sum(known_or_reserved), zero()), ExactDecimal)
    return sa.select(total).where(ATTEMPT.run_id == run_id)


def _held_row(held: Held) -> AnySelect:
    """The row, locked: all openings for one document pass here one after another."""
    return (
        sa.select(extraction_results)
        .where(
            RESULT.result_id == held.row_id,
            RESULT.generation == held.generation,
            RESULT.status == literal(RowStatus.RUNNING),
        )
        .with_for_update()
    )


def _of_question(row: sa.RowMapping) -> sa.ColumnElement[bool]:
    return sa.and_(
        ATTEMPT.document_id == row["document_id"],
        ATTEMPT.input_fingerprint == row["input_fingerprint"],
        ATTEMPT.edition == row["edition"],
    )


def _kept_answer(row: sa.RowMapping) -> AnySelect:
    return (
        sa.select(ATTEMPT.attempt_id, ATTEMPT.response, ATTEMPT.second_try)
        .where(_of_question(row), ATTEMPT.status == literal(AttemptStatus.ANSWERED), ATTEMPT.verdict.is_(None))
        .order_by(ATTEMPT.attempt_id)
        .limit(1)
    )


def abandon_open(which: sa.ColumnElement[bool]) -> sa.Update:
    """Return the statement that abandons attempts left open by an earlier holder: what became of them is not known."""
    return (
        sa.update(attempts)
        .where(IS_OPEN, which)
        .values(
            status=literal(AttemptStatus.ABANDONED),
            closed_ms=now_ms(),
            reason=Cause.CONNECTION_LOST,
            message="the worker that made the call ended before its answer came",
        )
    )


def _counted(connection: sa.Connection, row: sa.RowMapping) -> int:
    counted = sa.select(sa.func.count()).where(_of_question(row), ATTEMPT.counted)
    return int(connection.execute(counted).scalar_one())


def _cap_reached(connection: sa.Connection, row: sa.RowMapping, max_attempts: int) -> NotOpened | None:
    counted = _counted(connection, row)
    if counted < max_attempts:
        return None
    return NotOpened(cause=Cause.EXHAUSTED, message=f"{counted} of {max_attempts} attempts are used for this question")


def _budget_reached(connection: sa.Connection, row: sa.RowMapping, plan: AttemptPlan) -> NotOpened | None:
    """Hold the most that the call can cost against the budget of its run.

    A call whose cost is not known (open, abandoned) weighs what was reserved for it. The run's row is locked first,
    or two openings at once would each see room for one.
    """
    run = sa.select(extraction_runs.c.max_cost_usd).where(extraction_runs.c.run_id == row["run_id"])
    budget = connection.execute(run).scalar()
    if budget is None:
        return None
    connection.execute(run.with_for_update(key_share=True))
    in_flight_of_run = sa.select(sa.func.count()).where(ATTEMPT.run_id == row["run_id"], IS_OPEN)
    spent = connection.execute(spent_or_reserved(row["run_id"])).scalar_one()
    in_flight = connection.execute(in_flight_of_run).scalar_one()
    reserve = plan.reserved_usd or Decimal(0)
    if spent + reserve <= budget:
        return None
    message = f"${spent:f} spent or reserved, up to ${reserve:f} for this call, limit ${budget:f} for the run"
    return NotOpened(cause=Cause.COST_LIMIT, message=message, wait=in_flight > 0)


def _insert(row: sa.RowMapping, plan: AttemptPlan) -> sa.Executable:
    return (
        sa.insert(attempts)
        .values(
            token=plan.token,
            result_id=row["result_id"],
            run_id=row["run_id"],
            document_id=row["document_id"],
            input_fingerprint=row["input_fingerprint"],
            edition=row["edition"],
            model=plan.model,
            max_output_tokens=plan.max_output_tokens,
            reserved_usd=plan.reserved_usd,
            second_try=plan.second_try,
            opened_ms=now_ms(),
        )
        .returning(ATTEMPT.attempt_id)
    )
