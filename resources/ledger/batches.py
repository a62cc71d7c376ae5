"""Message batches after their reservation: who looks at one, what a look found, and how each is settled.

A batch is a claimable row like every other: whoever looks at it, adopts it or collects it holds it for that time, by
the verbs of the queue. Its ``state`` says how far it is; ``due_ms`` when the next look makes sense. Every write names
the hold and the state it expects; no row found means that somebody else has moved it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from extraction_core.batches import AT_PROVIDER, BATCH_MOVES, BatchSeen, BatchState
from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.states import AttemptStatus, RowStatus
from resources.ledger.attempts import result_cost
from resources.ledger.batch_queries import BatchQueries
from resources.ledger.claims import Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.queue import WorkQueue
from resources.ledger.reservations import BatchOrder, PlannedRequest, Reservation, covered_by, reserve
from resources.ledger.spending import IS_OPEN
from resources.ledger.tables import attempts, extraction_results, message_batches
from resources.ledger.types import literal, now_ms

BATCH = message_batches.c
RESULT = extraction_results.c
ATTEMPT = attempts.c
COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


class Batches(BatchQueries, WorkQueue):
    """Message batches; a claim's scope is an extraction run."""

    def __init__(self, engine: LedgerEngine) -> None:
        super().__init__(
            engine,
            message_batches,
            BATCH.batch_id,
            BATCH.run_id == sa.bindparam("scope", type_=sa.BigInteger),
            Failpoint.COMMIT_BATCH_TAKE,
        )

    def reserve(self, order: BatchOrder, requests: Sequence[PlannedRequest]) -> Reservation:
        """Reserve a batch for rows that a worker holds; see :func:`resources.ledger.reservations.reserve`."""
        return reserve(self._engine, order, requests)

    def take(self, batch_id: int, worker: str, lease_s: float, *states: BatchState) -> Held | None:
        """Hold a batch that nobody holds and that is in one of these states; None when that is not so any more."""
        statement = (
            sa.update(message_batches)
            .where(BATCH.batch_id == batch_id, BATCH.state.in_(states))
            .values(
                status=literal(RowStatus.RUNNING),
                owner=worker,
                generation=BATCH.generation + 1,
                claimed_ms=now_ms(),
                lease_expires_ms=now_ms() + int(lease_s * 1000),
            )
            .returning(BATCH.batch_id, BATCH.generation)
        )
        earlier: list[Held] = []

        def transaction(connection: sa.Connection) -> Held | None:
            free = BATCH.status == literal(RowStatus.QUEUED)
            # run again after a commit that went unanswered: what that one took is ours
            ours = [sa.and_(BATCH.owner == worker, BATCH.generation == one.generation) for one in earlier]
            row = connection.execute(statement.where(sa.or_(free, *ours))).first()
            earlier[:] = [] if row is None else [Held(row[0], row[1])]
            return earlier[0] if earlier else None

        return self._engine.write(transaction, Failpoint.COMMIT_BATCH_TAKE)

    def reclaim_abandoned(self, collection: str, settle_s: float) -> int:
        """Free batches whose holder died. Returns how many.

        A reservation whose submitter died may have been sent until its lease ended; nobody looks for it before the
        settle time after that has passed, so that a provider that lists a batch late is not asked twice.
        """
        sent_until = BATCH.lease_expires_ms + int(settle_s * 1000)
        statement = (
            sa.update(message_batches)
            .where(
                BATCH.collection == collection,
                BATCH.status == literal(RowStatus.RUNNING),
                BATCH.lease_expires_ms < now_ms(),
            )
            .values(
                status=literal(RowStatus.QUEUED),
                owner=sa.null(),
                lease_expires_ms=sa.null(),
                reclaims=BATCH.reclaims + 1,
                due_ms=sa.case((BATCH.state == literal(BatchState.RESERVED), sent_until), else_=now_ms()),
            )
            .returning(BATCH.batch_id)
        )
        return self._engine.write(lambda connection: len(connection.execute(statement).all()), Failpoint.COMMIT_RECLAIM)

    def release(self, held: Iterable[Held]) -> int:
        """Stop holding batches at once. Returns how many were still ours.

        A reservation stays held until its lease is over: what was sent a moment ago is looked for only after that (see
        :meth:`reclaim_abandoned`).
        """
        not_reserved = BATCH.state != literal(BatchState.RESERVED)
        values = {**_FREE, "due_ms": now_ms()}
        return sum(self._move(claim, values, Failpoint.COMMIT_RELEASE, not_reserved) for claim in sorted(held))

    def put_back(self, held: Held, wait_s: float, *, message: str | None = None, looked: bool = False) -> bool:
        """Stop holding a batch; the next look is due in ``wait_s`` seconds. False: superseded."""
        values: dict[str, Any] = {**_FREE, "due_ms": now_ms() + int(wait_s * 1000), "looks": BATCH.looks + int(looked)}
        return self._move(held, values | ({"message": message} if message else {}), Failpoint.COMMIT_BATCH_LOOK)

    def saw(self, held: Held, seen: BatchSeen, *, wait_s: float, overdue_s: float, anew: bool = False) -> bool:
        """Keep what a look showed and stop holding the batch. False: superseded, or the state cannot be reached.

        Args:
            held: the hold.
            seen: what was seen.
            wait_s: seconds until the next look; an ended batch is due at once.
            overdue_s: seconds from now after which the batch is overdue, if that was not fixed before.
            anew: whether that is fixed anew, because the batch begins to be cancelled.
        """
        before = [state for state, after in BATCH_MOVES.items() if seen.state in after or state == seen.state]
        overdue = now_ms() + int(overdue_s * 1000)
        values: dict[str, Any] = {
            **_FREE,
            "state": seen.state,
            "provider_id": seen.provider_id,
            "created_at": seen.created_at,
            "expires_at": seen.expires_at,
            "due_ms": now_ms() if seen.state is BatchState.ENDED else now_ms() + int(wait_s * 1000),
            "accepted_ms": sa.func.coalesce(BATCH.accepted_ms, now_ms()),
            "overdue_ms": overdue if anew else sa.func.coalesce(BATCH.overdue_ms, overdue),
            "message": None,
            **{name: seen.counts.get(name, 0) for name in COUNTS},
        }
        return self._move(held, values, Failpoint.COMMIT_BATCH_ACCEPTED, BATCH.state.in_(before))

    def ask_to_cancel(self, batch_id: int) -> bool:
        """Mark a batch and the rows it covers to be cancelled. False: the provider is not at work on it any more."""
        statement = (
            sa.update(message_batches)
            .where(BATCH.batch_id == batch_id, BATCH.state.in_(AT_PROVIDER))
            .values(cancel_requested=sa.true(), due_ms=_due_at_once())
            .returning(BATCH.batch_id)
        )

        def transaction(connection: sa.Connection) -> bool:
            if connection.execute(statement).first() is None:
                return False
            connection.execute(
                sa.update(extraction_results).where(covered_by(batch_id)).values(cancel_requested=sa.true())
            )
            return True

        return self._engine.write(transaction, Failpoint.COMMIT_RELEASE)

    def void(self, held: Held, cause: Cause, message: str) -> bool:
        """No batch came of a reservation: nothing was billed, and its rows go back to the queue. False: superseded."""
        closed = {"status": literal(AttemptStatus.FAILED), "cost_usd": 0, "counted": False}
        freed = {
            "status": sa.case((RESULT.cancel_requested, literal(RowStatus.CANCELLED)), else_=literal(RowStatus.QUEUED)),
            "finished_ms": sa.case((RESULT.cancel_requested, now_ms())),
            "cost_usd": sa.case((RESULT.cancel_requested, result_cost(RESULT.result_id))),
            "due_ms": now_ms(),
        }
        return self._settle(held, BatchState.VOID, (cause, message), closed, freed)

    def lose(self, held: Held, message: str) -> bool:
        """What became of a batch cannot be known any more: costs unknown, its rows are for a person. False: superseded.

        Args:
            held: the hold.
            message: why.
        """
        closed = {"status": literal(AttemptStatus.ABANDONED)}
        failed = {
            "status": sa.case((RESULT.cancel_requested, literal(RowStatus.CANCELLED)), else_=literal(RowStatus.FAILED)),
            "finished_ms": now_ms(),
            "cost_usd": result_cost(RESULT.result_id),
            "reason": Cause.BATCH_LOST,
            "message": message,
        }
        return self._settle(held, BatchState.LOST, (Cause.BATCH_LOST, message), closed, failed)

    def collected(self, held: Held, message: str | None) -> bool:
        """Every request of a held batch is accounted for. False: superseded, or rows are still covered by it."""
        none_left = ~sa.exists().where(covered_by(held.row_id))
        values = {
            "status": literal(RowStatus.COMPLETED),
            "state": BatchState.COLLECTED,
            "finished_ms": now_ms(),
            "owner": sa.null(),
            "lease_expires_ms": sa.null(),
            "message": message,
        }
        ended = BATCH.state == literal(BatchState.ENDED)
        return self._move(held, values, Failpoint.COMMIT_BATCH_SETTLE, ended, none_left)

    def _settle(
        self,
        held: Held,
        state: BatchState,
        why: tuple[Cause, str],
        closed: Mapping[str, Any],
        freed: Mapping[str, Any],
    ) -> bool:
        """Settle a batch without results: the batch, its attempts and its rows in one transaction."""
        status = RowStatus.CANCELLED if state is BatchState.VOID else RowStatus.FAILED
        hold = (
            sa.update(message_batches)
            .where(*self._is_held(held), BATCH.state.in_([one for one, after in BATCH_MOVES.items() if state in after]))
            .values(
                status=literal(status),
                state=state,
                finished_ms=now_ms(),
                owner=sa.null(),
                lease_expires_ms=sa.null(),
                reason=why[0],
                message=why[1],
            )
        )
        close = sa.update(attempts).where(ATTEMPT.batch_id == held.row_id, IS_OPEN)
        values = {"closed_ms": now_ms(), "reason": why[0], "message": why[1], **closed}
        release = sa.update(extraction_results).where(covered_by(held.row_id))

        def transaction(connection: sa.Connection) -> bool:
            if connection.execute(hold).rowcount != 1:
                return False
            connection.execute(close.values(**values))
            connection.execute(release.values(owner=sa.null(), lease_expires_ms=sa.null(), **freed))
            return True

        return self._engine.write(transaction, Failpoint.COMMIT_BATCH_SETTLE)

    def _move(
        self, held: Held, values: Mapping[str, Any], failpoint: Failpoint, *conditions: sa.ColumnElement[bool]
    ) -> bool:
        statement = sa.update(message_batches).where(*self._is_held(held), *conditions).values(**values)
        return self._engine.write(lambda connection: connection.execute(statement).rowcount == 1, failpoint)

    def _is_held(self, held: Held) -> tuple[sa.ColumnElement[bool], ...]:
        return BATCH.batch_id == held.row_id, BATCH.generation == held.generation, self._running


def cancel_batches(run_id: int) -> sa.Update:
    """Return the statement that marks a run's open batches to be cancelled at the provider."""
    return (
        sa.update(message_batches)
        .where(BATCH.run_id == run_id, BATCH.state.in_(AT_PROVIDER))
        .values(cancel_requested=sa.true(), due_ms=_due_at_once())
    )


def _due_at_once() -> sa.ColumnElement[int]:
    """A reservation keeps its settle time: until then nobody knows whether there is anything to cancel."""
    return sa.case((BATCH.state == literal(BatchState.RESERVED), BATCH.due_ms), else_=now_ms())


_FREE: Mapping[str, Any] = {"status": literal(RowStatus.QUEUED), "owner": sa.null(), "lease_expires_ms": sa.null()}
