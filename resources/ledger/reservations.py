"""Reserving a message batch: everything about it is committed before the provider hears of it.

One transaction writes the batch with its random nonce, hands the rows it covers from the worker to the batch, and opens
one attempt for each. Whatever happens afterwards, the ledger knows what may have been sent and paid for. The caps that
:mod:`resources.ledger.attempts` keeps for single calls are kept here for many at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from extraction_core.batches import custom_id
from extraction_core.failpoints import Failpoint
from extraction_core.states import AttemptStatus, RowStatus
from resources.ledger.attempts import result_cost
from resources.ledger.claims import HELD_COLUMNS, Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.row_sets import is_postgres, row_set, row_set_arguments
from resources.ledger.spending import abandon_open, spent_or_reserved
from resources.ledger.tables import attempts, extraction_results, extraction_runs, message_batches
from resources.ledger.types import AnySelect, literal, now_ms

RESULT = extraction_results.c
ATTEMPT = attempts.c
BATCH_LEASE_MS = 9_007_199_254_740_991
"""The lease of a covered row is its batch's: it never runs out by itself, so no reclaim can touch the row."""


def owner_of(batch_id: int) -> str:
    """Return the owner of the rows that a batch covers."""
    return f"message batch {batch_id}"


def covered_by(batch_id: int) -> sa.ColumnElement[bool]:
    """Return the predicate of the rows that a batch covers."""
    return sa.and_(RESULT.owner == owner_of(batch_id), RESULT.status == literal(RowStatus.RUNNING))


@dataclass(frozen=True, kw_only=True)
class PlannedRequest:
    """One request of a batch: a row that the worker holds, and what is written down of its attempt."""

    held: Held
    model: str
    max_output_tokens: int
    reserved_usd: Decimal | None
    second_try: str | None


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """What became of the rows that a batch was planned for, each named by the claim that it was planned under.

    Attributes:
        batch: the batch as its submitter holds it; None when nothing could be covered.
        covered: rows that the batch holds now, under their next generation: the claim is over.
        kept: row -> attempt and text of an answer that was kept and not judged yet: no request is needed.
        exhausted: row -> how many attempts were counted: no request may be made.
        over_budget: rows for which the run's budget has no room now.
        spent_usd: what the budget's run has spent or reserved, without this batch.
    """

    batch: Held | None = None
    nonce: str = ""
    covered: Sequence[Held] = ()
    kept: dict[Held, tuple[int, str]] = field(default_factory=dict[Held, tuple[int, str]])
    exhausted: dict[Held, int] = field(default_factory=dict[Held, int])
    over_budget: Sequence[Held] = ()
    spent_usd: Decimal = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """For whom a batch is reserved, by whom, and with which mark."""

    run_id: int
    worker: str
    nonce: str
    lease_s: float
    max_attempts: int


def reserve(engine: LedgerEngine, order: BatchOrder, requests: Sequence[PlannedRequest]) -> Reservation:
    """Reserve a batch for rows that a worker holds.

    Rows that the worker lost are left out; one that was asked to cancel ends here. A second call with the same nonce
    finds the batch of the first.
    """
    planned = {request.held: request for request in requests}

    def transaction(connection: sa.Connection) -> Reservation:
        run = _locked_run(connection, order.run_id)
        earlier = _reserved_before(connection, order.nonce, requests)
        rows = _held_rows(connection, list(planned))
        _end_cancelled(connection, [row.held for row in rows if row.cancel_requested])
        rows = [row for row in rows if not row.cancel_requested]
        kept = {row.held: (row.kept_id, row.response) for row in rows if row.kept_id is not None}
        rows = [row for row in rows if row.held not in kept]
        exhausted = {row.held: row.counted for row in rows if row.counted >= order.max_attempts}
        free = [planned[row.held] for row in rows if row.held not in exhausted]
        spent, fitting = _within_budget(connection, run, free)
        batch, covered = earlier or _reserve_for(connection, order, run, fitting)
        return Reservation(
            batch=batch,
            nonce=order.nonce,
            covered=covered,
            kept=kept,
            exhausted=exhausted,
            over_budget=[request.held for request in (free if earlier else free[len(fitting) :])],
            spent_usd=spent,
        )

    return engine.write(transaction, Failpoint.COMMIT_BATCH_RESERVE)


@dataclass(frozen=True)
class _HeldRow:
    held: Held
    cancel_requested: bool
    counted: int
    kept_id: int | None
    response: str


def _locked_run(connection: sa.Connection, run_id: int) -> sa.RowMapping:
    """The run's row, locked: two reservations at once would each see room in the budget."""
    statement = sa.select(extraction_runs).where(extraction_runs.c.run_id == run_id).with_for_update(key_share=True)
    return connection.execute(statement).mappings().one()


def _reserved_before(
    connection: sa.Connection, nonce: str, requests: Sequence[PlannedRequest]
) -> tuple[Held, Sequence[Held]] | None:
    """Our own earlier commit, whose acknowledgement was lost: the batch and the claims that it covers."""
    mine = sa.select(message_batches.c.batch_id).where(message_batches.c.nonce == nonce)
    batch_id = connection.execute(mine).scalar()
    if batch_id is None:
        return None
    asked = connection.execute(sa.select(ATTEMPT.result_id).where(ATTEMPT.batch_id == batch_id)).scalars()
    covered = set(asked)
    return Held(batch_id, 1), [request.held for request in requests if request.held.row_id in covered]


def _held_rows(connection: sa.Connection, held: Sequence[Held]) -> list[_HeldRow]:
    """Lock the rows that are still held, with their counted attempts and an answer that was kept, if there is one."""
    postgres = is_postgres(connection)
    given = row_set(HELD_COLUMNS, postgres=postgres)
    same_question = sa.and_(
        ATTEMPT.document_id == RESULT.document_id,
        ATTEMPT.input_fingerprint == RESULT.input_fingerprint,
        ATTEMPT.edition == RESULT.edition,
    )
    counted = sa.select(sa.func.count()).where(same_question, ATTEMPT.counted).correlate(extraction_results)
    kept = (
        sa.select(sa.func.min(ATTEMPT.attempt_id))
        .where(same_question, ATTEMPT.status == literal(AttemptStatus.ANSWERED), ATTEMPT.verdict.is_(None))
        .correlate(extraction_results)
        .scalar_subquery()
    )
    answer = attempts.alias("answer")
    statement: AnySelect = (
        sa.select(
            RESULT.result_id,
            RESULT.generation,
            RESULT.cancel_requested,
            counted.scalar_subquery(),
            answer.c.attempt_id,
            answer.c.response,
        )
        .select_from(
            extraction_results.join(
                given,
                sa.and_(RESULT.result_id == given.c.row_id, RESULT.generation == given.c.generation),
            ).outerjoin(answer, answer.c.attempt_id == kept)
        )
        .where(RESULT.status == literal(RowStatus.RUNNING))
        .order_by(RESULT.result_id)
        .with_for_update(of=extraction_results)
    )
    arguments = row_set_arguments(HELD_COLUMNS, sorted(held), postgres=postgres)
    return [
        _HeldRow(Held(row[0], row[1]), bool(row[2]), int(row[3]), row[4], row[5] or "")
        for row in connection.execute(statement, arguments)
    ]


def _end_cancelled(connection: sa.Connection, held: Sequence[Held]) -> None:
    """End locked rows that were asked to cancel: who asked saw no batch that could be cancelled for them."""
    values = {
        "status": literal(RowStatus.CANCELLED),
        "owner": sa.null(),
        "lease_expires_ms": sa.null(),
        "finished_ms": now_ms(),
        "cost_usd": result_cost(RESULT.result_id),
    }
    rows, arguments = _given(connection, held)
    connection.execute(sa.update(extraction_results).where(RESULT.result_id.in_(rows)).values(**values), arguments)


def _within_budget(
    connection: sa.Connection, run: sa.RowMapping, requests: Sequence[PlannedRequest]
) -> tuple[Decimal, Sequence[PlannedRequest]]:
    """Return what the run has spent or reserved, and the requests that still fit, from the front."""
    budget = run["max_cost_usd"]
    if budget is None:
        return Decimal(0), requests
    spent = connection.execute(spent_or_reserved(run["run_id"])).scalar_one()
    total = spent
    for place, request in enumerate(requests):
        total += request.reserved_usd or Decimal(0)
        if total > budget:
            return spent, requests[:place]
    return spent, requests


def _reserve_for(
    connection: sa.Connection, order: BatchOrder, run: sa.RowMapping, requests: Sequence[PlannedRequest]
) -> tuple[Held | None, Sequence[Held]]:
    if not requests:
        return None, ()
    batch = _insert(connection, order, run, len(requests))
    _cover(connection, batch, order.nonce, requests)
    return batch, [request.held for request in requests]


def _insert(connection: sa.Connection, order: BatchOrder, run: sa.RowMapping, count: int) -> Held:
    statement = (
        sa.insert(message_batches)
        .values(
            run_id=order.run_id,
            set_id=run["set_id"],
            collection=run["collection"],
            nonce=order.nonce,
            request_count=count,
            status=RowStatus.RUNNING,
            owner=order.worker,
            generation=1,
            lease_expires_ms=now_ms() + int(order.lease_s * 1000),
            created_ms=now_ms(),
            claimed_ms=now_ms(),
        )
        .returning(message_batches.c.batch_id)
    )
    return Held(connection.execute(statement).scalar_one(), 1)


def _cover(connection: sa.Connection, batch: Held, nonce: str, requests: Sequence[PlannedRequest]) -> None:
    covered, arguments = _given(connection, [request.held for request in requests])
    connection.execute(abandon_open(ATTEMPT.result_id.in_(covered)), arguments)
    # the next generation: a heartbeat that the worker sends at this moment must not give the row its short lease back
    taken = (
        sa.update(extraction_results)
        .where(RESULT.result_id.in_(covered))
        .values(owner=owner_of(batch.row_id), lease_expires_ms=BATCH_LEASE_MS, generation=RESULT.generation + 1)
        .returning(
            RESULT.result_id,
            RESULT.run_id,
            RESULT.document_id,
            RESULT.input_fingerprint,
            RESULT.edition,
            now_ms().label("opened_ms"),
        )
    )
    questions = {row["result_id"]: row for row in connection.execute(taken, arguments).mappings()}
    connection.execute(
        sa.insert(attempts),
        [_attempt(batch, nonce, request, questions[request.held.row_id]) for request in requests],
    )


def _given(connection: sa.Connection, held: Sequence[Held]) -> tuple[AnySelect, Mapping[str, Any]]:
    """Return the ids of rows, however many, as a subquery with its arguments."""
    postgres = is_postgres(connection)
    given = row_set(HELD_COLUMNS, postgres=postgres)
    return sa.select(given.c.row_id), row_set_arguments(HELD_COLUMNS, held, postgres=postgres)


def _attempt(batch: Held, nonce: str, request: PlannedRequest, question: sa.RowMapping) -> dict[str, Any]:
    return {
        "token": custom_id(nonce, request.held.row_id),
        **question,
        "batch_id": batch.row_id,
        "model": request.model,
        "max_output_tokens": request.max_output_tokens,
        "reserved_usd": request.reserved_usd,
        "second_try": request.second_try,
    }
