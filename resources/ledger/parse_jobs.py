"""Parse jobs: parse runs that a service works on. Their rows are held by the job, not by a worker.

Committed before the service is asked, the row passes from its worker to the job, under the next generation and with a
lease that never runs out, so neither the worker's heartbeat nor a reclaim can touch it again. ``due_ms`` says when the
next look makes sense. Whoever looks takes the row by raising its generation; every write then names row, generation and
the state it expects. No row found means that somebody else has moved it, and nothing was changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from extraction_core.failpoints import Failpoint
from extraction_core.parse_jobs import MOST_TRIES, PARSE_JOB_MOVES, JobFailed, JobResult, ParseJobState
from extraction_core.parsing import ParseFailureReason
from extraction_core.states import RowStatus
from resources.ledger.claims import Claimed, Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.reservations import BATCH_LEASE_MS
from resources.ledger.selection import IS_OPEN_JOB
from resources.ledger.tables import documents, parse_runs
from resources.ledger.types import AnySelect, ExactDecimal, literal, now_ms, zero

PARSE = parse_runs.c
DOCUMENT = documents.c
OWNER = "parse job"


@dataclass(frozen=True, kw_only=True)
class JobUsage:
    """What the jobs of a set's documents used, in the service's own units; their price in dollars is not known.

    Attributes:
        jobs: how many were submitted.
        open: how many of them have not ended.
        unknown: ended ones of which the service told no pages: what they cost is not known at all.
    """

    jobs: int
    open: int
    pages: int
    credits_used: Decimal
    unknown: int


class ParseJobs:
    """Moves the jobs of parse runs through their states."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def begin(self, held: Held, nonce: str, *, look_in_s: float, deadline_s: float) -> Held | None:
        """Before the service is asked: the row of a worker becomes the row of a job. None: superseded.

        The documents that wait for it are marked due, so that a run takes them up when the job has ended; a person who
        cancels the asking run takes the marks off again.
        """
        hand_over = (
            sa.update(parse_runs)
            .where(
                PARSE.parse_run_id == held.row_id,
                PARSE.generation == held.generation,
                PARSE.status == literal(RowStatus.RUNNING),
                PARSE.job_state.is_(None),
            )
            .values(
                generation=PARSE.generation + 1,
                owner=OWNER,
                lease_expires_ms=BATCH_LEASE_MS,
                job_state=ParseJobState.SUBMITTING,
                job_nonce=nonce,
                job_submitted_ms=now_ms(),
                job_deadline_ms=now_ms() + int(deadline_s * 1000),
                job_looks=0,
                due_ms=now_ms() + int(look_in_s * 1000),
            )
        )
        begun = sa.select(PARSE.parse_run_id).where(PARSE.parse_run_id == held.row_id, PARSE.job_nonce == nonce)
        mark = (
            sa.update(documents)
            .where(DOCUMENT.parse_run_id == held.row_id, DOCUMENT.removed_ms.is_(None))
            .values(due_since_ms=sa.func.coalesce(DOCUMENT.due_since_ms, now_ms()), next_retry_ms=now_ms())
        )

        def transaction(connection: sa.Connection) -> Held | None:
            if connection.execute(hand_over).rowcount == 1:
                connection.execute(mark)
            elif connection.execute(begun).first() is None:  # else our own commit, whose acknowledgement was lost
                return None
            return Held(held.row_id, held.generation + 1)

        return self._engine.write(transaction, Failpoint.COMMIT_JOB_BEGIN)

    def accepted(self, held: Held, job_id: str, *, wait_s: float) -> bool:
        """Keep the id of a job: told by the answer, or found in the service's list. False: superseded."""
        values = {"job_id": job_id, "due_ms": _in(wait_s), "job_looks": 0, "message": None}
        return self._move(held, ParseJobState.SUBMITTED, values, Failpoint.COMMIT_JOB_ACCEPTED)

    def not_made(self, held: Held, message: str, *, wait_s: float = 0.0, again: bool = False) -> bool:
        """No job came of a submission: the row goes back to the queue, due in ``wait_s`` seconds. False: superseded.

        Args:
            held: the hold.
            message: how that is known.
            wait_s: seconds.
            again: whether that was found out by searching, which is counted.
        """
        values: dict[str, Any] = {
            "status": literal(RowStatus.QUEUED),
            "owner": sa.null(),
            "lease_expires_ms": sa.null(),
            "job_state": sa.null(),
            "job_nonce": sa.null(),
            "due_ms": _in(wait_s),
            "message": message,
            "reclaims": PARSE.reclaims + int(again),
        }
        return self._write(held, (ParseJobState.SUBMITTING,), values, Failpoint.COMMIT_JOB_END)

    def take(self, parse_run_id: int, lease_s: float) -> Claimed | None:
        """Take a job that is due for a look; None when somebody else looks at it, or it has ended.

        Returns:
            The hold, and the row with ``age_s`` since the submission and ``overdue``.
        """
        statement = (
            sa.update(parse_runs)
            .where(PARSE.parse_run_id == parse_run_id, IS_OPEN_JOB, PARSE.due_ms <= now_ms())
            .values(generation=PARSE.generation + 1, due_ms=_in(lease_s))
            .returning(
                *parse_runs.c,
                ((now_ms() - PARSE.job_submitted_ms) / 1000.0).label("age_s"),
                sa.case((PARSE.job_deadline_ms < now_ms(), 1), else_=0).label("overdue"),
            )
        )
        row = self._engine.write(
            lambda connection: connection.execute(statement).mappings().first(), Failpoint.COMMIT_JOB_TAKE
        )
        return None if row is None else Claimed(held=Held(row["parse_run_id"], row["generation"]), row=dict(row))

    def put_back(
        self, held: Held, state: ParseJobState, wait_s: float, message: str | None, *, looked: bool = False
    ) -> bool:
        """End a look at a job that stays in its state; the next one is due in ``wait_s`` seconds. False: superseded."""
        values = {"due_ms": _in(wait_s), "message": message, "job_looks": PARSE.job_looks + int(looked)}
        return self._write(held, (state,), values, Failpoint.COMMIT_JOB_LOOK)

    def fetched(self, held: Held, result_sha256: str, result: JobResult) -> bool:
        """The result's bytes are kept under their hash; what the job cost is known. False: superseded."""
        values = {
            "job_result_sha256": result_sha256,
            "job_pages": result.pages,
            "job_credits": result.credits_used,
            "due_ms": now_ms(),
            "message": None,
        }
        return self._move(held, ParseJobState.FETCHED, values, Failpoint.COMMIT_JOB_FETCHED)

    def completed(self, held: Held, values: Mapping[str, Any]) -> bool:
        """The Markdown of a fetched result is stored: the parse is done. False: superseded."""
        ended = {**values, **_ended(RowStatus.COMPLETED), "reason": None, "message": None}
        return self._move(held, ParseJobState.COMPLETED, ended, Failpoint.COMMIT_JOB_END)

    def failed(self, held: Held, failed: JobFailed) -> bool:
        """The service, or its result, gave no text. False: superseded, or the parse is completed.

        A retryable failure lets the next run submit the bytes anew, until that was done :data:`MOST_TRIES` times.
        """
        earlier = parse_runs.alias("earlier")
        tries = (
            sa.select(sa.func.count())
            .where(earlier.c.parse_key == PARSE.parse_key, earlier.c.job_nonce.is_not(None))
            .scalar_subquery()
        )
        values = {
            **_ended(RowStatus.FAILED),
            "reason": failed.reason,
            "message": failed.message,
            "retryable": tries < MOST_TRIES if failed.retryable else sa.false(),
            "job_pages": sa.func.coalesce(PARSE.job_pages, sa.literal(failed.pages, sa.BigInteger)),
            "job_credits": sa.func.coalesce(PARSE.job_credits, sa.literal(failed.credits_used, ExactDecimal)),
        }
        return self._move(held, ParseJobState.FAILED, values, Failpoint.COMMIT_JOB_END)

    def expired(self, held: Held, message: str) -> bool:
        """Nothing is to be had of the job any more; what it cost is unknown. False: superseded, or it has ended."""
        values = {**_ended(RowStatus.FAILED), "reason": ParseFailureReason.JOB_EXPIRED, "message": message}
        return self._move(held, ParseJobState.EXPIRED, {**values, "retryable": False}, Failpoint.COMMIT_JOB_END)

    def due(self, limit: int) -> list[Mapping[str, Any]]:
        """Return open jobs that are due for a look, oldest first, whichever document waits for them."""
        statement = (
            sa.select(parse_runs)
            .where(IS_OPEN_JOB, PARSE.due_ms <= now_ms())
            .order_by(PARSE.due_ms, PARSE.parse_run_id)
            .limit(limit)
        )
        return self._rows(statement)

    def open_of_set(self, set_id: int) -> list[Mapping[str, Any]]:
        """Return the open jobs that documents of a set wait for, oldest first."""
        statement = sa.select(parse_runs).where(IS_OPEN_JOB, _is_needed_by(set_id)).order_by(PARSE.parse_run_id)
        return self._rows(statement)

    def sets_to_extract(self, collection: str) -> list[int]:
        """Return the sets of a collection that are due, whose parse jobs have ended, and none of which is open."""
        is_due = sa.or_(DOCUMENT.due_since_ms.is_not(None), DOCUMENT.next_retry_ms <= now_ms())
        waiting = documents.alias("waiting")
        job = parse_runs.alias("job")
        is_open = sa.exists().where(
            waiting.c.set_id == DOCUMENT.set_id,
            waiting.c.removed_ms.is_(None),
            job.c.parse_run_id == waiting.c.parse_run_id,
            job.c.status == literal(RowStatus.RUNNING),
            job.c.job_state.is_not(None),
        )
        statement = (
            sa.select(DOCUMENT.set_id)
            .join(parse_runs, PARSE.parse_run_id == DOCUMENT.parse_run_id)
            .where(DOCUMENT.collection == collection, DOCUMENT.removed_ms.is_(None), is_due)
            .where(PARSE.job_state.is_not(None), PARSE.finished_ms.is_not(None), ~is_open)
            .distinct()
            .order_by(DOCUMENT.set_id)
        )
        return list(self._engine.read(lambda connection: connection.execute(statement).scalars().all()))

    def usage(self, set_id: int) -> JobUsage:
        """Sum what the jobs for a set's present documents used, earlier ones that failed too.

        Documents with equal bytes share a job. A submission that the service refused made none, and cost nothing.
        """
        needed = parse_runs.alias("needed")
        of_set = sa.select(needed.c.parse_key).join(documents, DOCUMENT.parse_run_id == needed.c.parse_run_id)
        mine = PARSE.parse_key.in_(of_set.where(DOCUMENT.set_id == set_id, DOCUMENT.removed_ms.is_(None)))
        ended = PARSE.finished_ms.is_not(None)
        made = sa.or_(PARSE.job_id.is_not(None), PARSE.job_state == literal(ParseJobState.EXPIRED))
        statement: AnySelect = sa.select(
            sa.func.count(),
            sa.func.count().filter(~ended),
            sa.cast(sa.func.coalesce(sa.func.sum(PARSE.job_pages), zero()), sa.BigInteger),
            sa.type_coerce(sa.func.coalesce(sa.func.sum(PARSE.job_credits), zero()), ExactDecimal),
            sa.func.count().filter(ended, made, PARSE.job_pages.is_(None)),
        ).where(PARSE.job_state.is_not(None), mine)
        row = self._engine.read(lambda connection: connection.execute(statement).one())
        return JobUsage(jobs=row[0], open=row[1], pages=int(row[2]), credits_used=row[3], unknown=row[4])

    def _move(self, held: Held, to: ParseJobState, values: Mapping[str, Any], failpoint: Failpoint) -> bool:
        before = tuple(state for state, after in PARSE_JOB_MOVES.items() if to in after)
        return self._write(held, before, {**values, "job_state": to}, failpoint)

    def _write(
        self, held: Held, expected: tuple[ParseJobState, ...], values: Mapping[str, Any], failpoint: Failpoint
    ) -> bool:
        statement = (
            sa.update(parse_runs)
            .where(
                PARSE.parse_run_id == held.row_id,
                PARSE.generation == held.generation,
                PARSE.status == literal(RowStatus.RUNNING),
                PARSE.job_state.in_(expected),
            )
            .values(**values)
        )
        return self._engine.write(lambda connection: connection.execute(statement).rowcount == 1, failpoint)

    def _rows(self, statement: AnySelect) -> list[Mapping[str, Any]]:
        return [
            dict(row) for row in self._engine.read(lambda connection: connection.execute(statement).mappings().all())
        ]


def _is_needed_by(set_id: int) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        DOCUMENT.parse_run_id == PARSE.parse_run_id, DOCUMENT.set_id == set_id, DOCUMENT.removed_ms.is_(None)
    )


def _in(wait_s: float) -> sa.ColumnElement[int]:
    return now_ms() + int(wait_s * 1000)


def _ended(status: RowStatus) -> dict[str, Any]:
    return {
        "status": literal(status),
        "finished_ms": now_ms(),
        "owner": sa.null(),
        "lease_expires_ms": sa.null(),
    }
