"""Opening attempts, many at once: where the caps are, so no call is made that did not pass here.

One transaction: the rows are locked first; what is known of their questions is read in a second statement, since a
count in the locking one would not see what a rival committed while we waited. The statements' texts do not depend on
the number of rows. :mod:`resources.ledger.reservations` does the same for the requests of a message batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.states import AttemptStatus, RowStatus
from resources.ledger.claims import HELD_COLUMNS, Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.row_sets import is_postgres, row_set, row_set_arguments
from resources.ledger.spending import IS_OPEN, abandon_open, spent_or_reserved
from resources.ledger.tables import attempts, extraction_results, extraction_runs
from resources.ledger.types import AnySelect, ExactDecimal, literal, now_ms

RESULT = extraction_results.c
ATTEMPT = attempts.c
RUN = extraction_runs.c
COLUMNS: Mapping[str, sa.types.TypeEngine[Any]] = {
    **HELD_COLUMNS,
    "token": sa.Text(),
    "model": sa.Text(),
    "max_output_tokens": sa.BigInteger(),
    "reserved_usd": ExactDecimal(),
    "second_try": sa.Text(),
}


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


Opening = Opened | KeptAnswer | NotOpened


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
class Order:
    """An attempt that is to be opened for a held result."""

    held: Held
    plan: AttemptPlan


def open_all(engine: LedgerEngine, orders: Sequence[Order], max_attempts: int) -> list[Opening]:
    """Open an attempt for each, unless an answer is kept, a cap is reached or the claim was lost.

    Returns:
        What became of them, in the order of ``orders``.
    """
    by_row = sorted(orders, key=lambda order: order.held)

    def transaction(connection: sa.Connection) -> list[Opening]:
        arguments, postgres = _arguments(connection, by_row), is_postgres(connection)
        if postgres:  # a writer of SQLite is alone from its first statement on
            connection.execute(_lock(), arguments).all()
        rows = connection.execute(_facts(postgres), arguments).mappings()
        # by claim: of one row there may be an earlier and a later one
        known = {Held(row["result_id"], row["generation"]): row for row in rows}
        _abandon_left_open(connection, list(known.values()))
        decided = {order.held: _without_insertion(known.get(order.held), max_attempts) for order in by_row}
        free = [order for order in by_row if decided[order.held] is None]
        opened = _open(connection, free, known)
        return [decided[order.held] or opened[order.held] for order in orders]

    return engine.write(transaction, Failpoint.COMMIT_ATTEMPT_OPEN)


def _open(
    connection: sa.Connection, orders: Sequence[Order], known: Mapping[Held, sa.RowMapping]
) -> dict[Held, Opening]:
    """Open attempts as far as the budgets allow."""
    decided: dict[Held, Opening] = {**_over_budget(connection, orders, known)}
    fitting = [order for order in orders if order.held not in decided]
    ids = _insert(connection, fitting)
    for order in fitting:
        counted = known[order.held]["counted"] + 1
        decided[order.held] = Opened(attempt_id=ids[order.plan.token], counted=counted)
    return decided


def _abandon_left_open(connection: sa.Connection, rows: Sequence[sa.RowMapping]) -> None:
    """Nobody waits any more for what an earlier holder of a row has asked."""
    left_open = [
        row["result_id"] for row in rows if row["left_open"] and row["mine"] is None and row["kept_id"] is None
    ]
    if left_open:
        connection.execute(abandon_open(ATTEMPT.result_id.in_(left_open)))


def _without_insertion(known: sa.RowMapping | None, max_attempts: int) -> Opening | None:
    """Return what becomes of an order without an insertion; None when an attempt may be opened, as far as it goes."""
    if known is None:
        return NotOpened(cause=None)
    counted = known["counted"]
    if known["mine"] is not None:  # our own earlier commit, whose acknowledgement was lost
        return Opened(attempt_id=known["mine"], counted=counted)
    if known["kept_id"] is not None:
        return KeptAnswer(attempt_id=known["kept_id"], response=known["response"], second_try=known["second_try"])
    if counted < max_attempts:
        return None
    message = f"{counted} of {max_attempts} attempts are used for this question"
    return NotOpened(cause=Cause.EXHAUSTED, message=message)


def _over_budget(
    connection: sa.Connection, orders: Sequence[Order], known: Mapping[Held, sa.RowMapping]
) -> dict[Held, NotOpened]:
    """Hold the most that the calls can cost against the budgets of their runs, one after another.

    A call whose cost is not known (open, abandoned) weighs what was reserved for it. A run's row is locked first, or
    two openings at once would each see room for one.
    """
    refused: dict[Held, NotOpened] = {}

    def run_of(order: Order) -> int:
        return known[order.held]["run_id"]

    for run_id, group in groupby(sorted(orders, key=run_of), key=run_of):
        of_run = list(group)
        budget = known[of_run[0].held]["max_cost_usd"]
        if budget is None:
            continue
        connection.execute(sa.select(RUN.run_id).where(RUN.run_id == run_id).with_for_update(key_share=True))
        in_flight_of_run = sa.select(sa.func.count()).where(ATTEMPT.run_id == run_id, IS_OPEN)
        spent = connection.execute(spent_or_reserved(run_id)).scalar_one()
        in_flight = connection.execute(in_flight_of_run).scalar_one()
        for order in of_run:
            reserve = order.plan.reserved_usd or Decimal(0)
            if spent + reserve <= budget:
                spent, in_flight = spent + reserve, in_flight + 1
                continue
            message = f"${spent:f} spent or reserved, up to ${reserve:f} for this call, limit ${budget:f} for the run"
            refused[order.held] = NotOpened(cause=Cause.COST_LIMIT, message=message, wait=in_flight > 0)
    return refused


def _insert(connection: sa.Connection, orders: Sequence[Order]) -> dict[str, int]:
    """Write the attempts. Returns token -> attempt."""
    if not orders:
        return {}
    statement = _insertion(is_postgres(connection))
    rows = connection.execute(statement, _arguments(connection, orders))
    return {row[0]: row[1] for row in rows}


def _arguments(connection: sa.Connection, orders: Sequence[Order]) -> dict[str, Any]:
    def row(held: Held, plan: AttemptPlan) -> tuple[Any, ...]:
        return (*held, plan.token, plan.model, plan.max_output_tokens, plan.reserved_usd, plan.second_try)

    rows = [row(order.held, order.plan) for order in orders]
    return row_set_arguments(COLUMNS, rows, postgres=is_postgres(connection))


def _given(postgres: bool) -> tuple[sa.FromClause, sa.ColumnElement[bool]]:  # noqa: FBT001 - as its callers
    """Return the orders as a row source, and what joins them to the rows that are still held."""
    given = row_set(COLUMNS, postgres=postgres)
    held = sa.and_(
        RESULT.result_id == given.c.row_id,
        RESULT.generation == given.c.generation,
        RESULT.status == literal(RowStatus.RUNNING),
    )
    return given, held


@lru_cache(1)
def _lock() -> AnySelect:
    """All openings for one document pass here one after another; in one order, so that two slices cannot deadlock."""
    given, held = _given(postgres=True)
    rows = sa.select(RESULT.result_id).select_from(extraction_results.join(given, held))
    return rows.order_by(RESULT.result_id).with_for_update(of=extraction_results)


@lru_cache(2)
def _facts(postgres: bool) -> AnySelect:  # noqa: FBT001 - cached by position
    given, held = _given(postgres)
    same_question = sa.and_(
        ATTEMPT.document_id == RESULT.document_id,
        ATTEMPT.input_fingerprint == RESULT.input_fingerprint,
        ATTEMPT.edition == RESULT.edition,
    )
    unjudged = sa.and_(ATTEMPT.status == literal(AttemptStatus.ANSWERED), ATTEMPT.verdict.is_(None))
    kept_id = _of_row(sa.select(sa.func.min(ATTEMPT.attempt_id)).where(same_question, unjudged))
    kept = attempts.alias("kept")
    mine = attempts.alias("mine")
    return sa.select(
        RESULT.result_id,
        RESULT.generation,
        RESULT.run_id,
        RUN.max_cost_usd,
        _of_row(sa.select(sa.func.count()).where(same_question, ATTEMPT.counted)).label("counted"),
        _of_row(sa.select(sa.func.count()).where(ATTEMPT.result_id == RESULT.result_id, IS_OPEN)).label("left_open"),
        mine.c.attempt_id.label("mine"),
        kept.c.attempt_id.label("kept_id"),
        kept.c.response,
        kept.c.second_try,
    ).select_from(
        extraction_results.join(given, held)
        .join(extraction_runs, RUN.run_id == RESULT.run_id)
        .outerjoin(mine, mine.c.token == given.c.token)
        .outerjoin(kept, kept.c.attempt_id == kept_id)
    )


def _of_row(query: AnySelect) -> sa.ScalarSelect[Any]:
    return query.correlate(extraction_results).scalar_subquery()


@lru_cache(2)
def _insertion(postgres: bool) -> sa.Executable:  # noqa: FBT001 - cached by position
    given, held = _given(postgres)
    values: dict[str, sa.ColumnElement[Any]] = {
        **{name: RESULT[name] for name in ("result_id", "run_id", "document_id", "input_fingerprint", "edition")},
        **{name: given.c[name] for name in ("token", "model", "max_output_tokens", "reserved_usd", "second_try")},
        "opened_ms": now_ms(),
    }
    rows = sa.select(*values.values()).select_from(extraction_results.join(given, held))
    return sa.insert(attempts).from_select(list(values), rows).returning(ATTEMPT.token, ATTEMPT.attempt_id)
