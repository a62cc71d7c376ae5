"""The ledger in a few lines of Python: what its verbs do to runs, rows and attempts, without SQL and without races.

Time is a number of seconds that moves only when it is told to, so a test moves the database's rows back by as much.
Rows and attempts are named by the ids that the database gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from extraction_core.states import ACTIVE_ROW, ATTEMPT_MOVES, AttemptStatus, RowStatus, RunStatus, Select
from resources.ledger.queue import Held
from resources.ledger.results import Failed
from tests.ledger.model_rows import ModelAttempt, ModelRow, ModelRun

LEASE_S = 30_000.0


@dataclass
class Model:
    """One document set.

    Attributes:
        documents: ids of its documents.
        max_attempts: the cap.
    """

    documents: Sequence[int]
    max_attempts: int
    now: float = 0.0
    runs: dict[int, ModelRun] = field(default_factory=dict[int, ModelRun])
    rows: dict[int, ModelRow] = field(default_factory=dict[int, ModelRow])
    attempts: dict[int, ModelAttempt] = field(default_factory=dict[int, ModelAttempt])

    def open_run(self) -> int | None:
        """Return the open run."""
        return next((run_id for run_id, run in self.runs.items() if run.status is RunStatus.OPEN), None)

    def held(self, held: Held) -> ModelRow | None:
        """Return the row of a claim that is still valid."""
        row = self.rows[held.row_id]
        return row if row.status is RowStatus.RUNNING and row.generation == held.generation else None

    def to_fill(self, run_id: int) -> dict[int, int]:
        """Return document -> edition of the rows that a fill of a run adds."""
        run = self.runs[run_id]
        if run.status is not RunStatus.OPEN or run.request_count is not None:
            return {}
        return {
            document: self._edition(document, run_id)
            for document in self.documents
            if self._is_selected(document, run.select)
            and not any(
                row.document_id == document and (row.run_id == run_id or row.status in ACTIVE_ROW)
                for row in self.rows.values()
            )
        }

    def _edition(self, document: int, run_id: int) -> int:
        anew = self.runs[run_id].select is Select.ALL
        editions = [
            row.edition
            for row in self.rows.values()
            if row.document_id == document and not (anew and row.run_id == run_id)
        ]
        return max(editions, default=-1) + 1 if anew else max(editions, default=0)

    def _is_selected(self, document: int, select: Select) -> bool:
        if select is Select.ALL:
            return True
        rows = [row for row in self.rows.values() if row.document_id == document]
        question = (document, max((row.edition for row in rows), default=0))
        return all(row.status is not RowStatus.COMPLETED for row in rows) and (
            self.counted(question) < self.max_attempts or self.kept_answer(question) is not None
        )

    def seal(self, run_id: int) -> int | None:
        """Seal a run; None: it was sealed before, or is closed."""
        run = self.runs[run_id]
        if run.request_count is not None:
            return None
        run.request_count = sum(row.run_id == run_id for row in self.rows.values())
        return run.request_count

    def claim(self, worker: str, run_id: int, limit: int) -> list[Held]:
        """Claim rows, oldest due first."""
        due = [
            (row.due_at, result_id)
            for result_id, row in self.rows.items()
            if row.run_id == run_id and row.status is RowStatus.QUEUED and row.due_at <= self.now
        ]
        claimed = sorted(result_id for _, result_id in sorted(due)[:limit])
        for result_id in claimed:
            row = self.rows[result_id]
            row.status, row.owner, row.lease_until = RowStatus.RUNNING, worker, self.now + LEASE_S
            row.generation += 1
        return [Held(result_id, self.rows[result_id].generation) for result_id in claimed]

    def heartbeat(self, held: Iterable[Held]) -> dict[int, bool]:
        """Extend leases; returns what is still owned, and whether it was asked to cancel."""
        owned = {one.row_id: row for one in held if (row := self.held(one))}
        for row in owned.values():
            row.lease_until = self.now + LEASE_S
        return {result_id: row.cancel_requested for result_id, row in owned.items()}

    def complete(self, held: Held, attempt_id: int) -> bool:
        """End a row completed; to whoever completed it with this answer before it is said again."""
        row = self.held(held)
        if row is None:
            ended = self.rows[held.row_id]
            mine = (ended.generation, ended.attempt_id) == (held.generation, attempt_id)
            return mine and ended.status is RowStatus.COMPLETED
        _let_go(row, RowStatus.COMPLETED)
        row.attempt_id, row.cost_usd = attempt_id, self._cost_of_row(held.row_id)
        row.published += 1
        self._judge(attempt_id, "accepted")
        return True

    def fail(self, held: Held, failed: Failed) -> RowStatus | None:
        """End a row failed, or cancelled if that was asked; None: superseded."""
        row = self.held(held)
        if row is None:
            return None
        row.cost_usd = self._cost_of_row(held.row_id)
        self._judge(failed.attempt_id, failed.reason)
        return _let_go_or_cancel(row, RowStatus.FAILED)

    def cancelled(self, held: Held) -> bool:
        """End a row cancelled, because the provider says so."""
        row = self.held(held)
        if row is None:
            return False
        row.cost_usd = self._cost_of_row(held.row_id)
        _let_go(row, RowStatus.CANCELLED)
        return True

    def requeue(
        self, held: Held, wait_s: float, failed: Failed | None = None, *, refused: bool = False
    ) -> RowStatus | None:
        """Give a row back, due later, or end it cancelled if that was asked; None: superseded."""
        row = self.held(held)
        if row is None:
            return None
        row.due_at = self.now + wait_s
        row.refusals += refused
        if failed:
            self._judge(failed.attempt_id, failed.reason)
        return _let_go_or_cancel(row, RowStatus.QUEUED)

    def reclaim(self, run_id: int) -> int:
        """Take back the rows whose leases ran out."""
        expired = [
            row for row in self.rows.values()
            if row.run_id == run_id and row.lease_until is not None and row.lease_until < self.now
        ]  # fmt: skip
        for row in expired:
            _let_go_or_cancel(row, RowStatus.QUEUED)
            row.reclaims += 1
        return len(expired)

    def request_cancel(self, run_id: int) -> tuple[int, int]:
        """Cancel a run; returns how many rows ended, and how many got the flag."""
        active = [row for row in self.rows.values() if row.run_id == run_id and row.status in ACTIVE_ROW]
        queued = [row for row in active if row.status is RowStatus.QUEUED]
        for row in active:
            row.cancel_requested = True
        for row in queued:
            _let_go(row, RowStatus.CANCELLED)
        return len(queued), len(active) - len(queued)

    def counted(self, question: tuple[int, int]) -> int:
        """Return how many attempts of a question count towards the cap."""
        return sum(one.question == question and one.counted for one in self.attempts.values())

    def kept_answer(self, question: tuple[int, int]) -> int | None:
        """Return the first answer to a question that was not judged yet."""
        kept = (
            attempt_id for attempt_id, one in sorted(self.attempts.items())
            if one.question == question and one.status is AttemptStatus.ANSWERED and one.verdict is None
        )  # fmt: skip
        return next(kept, None)

    def abandon_open(self, result_id: int) -> None:
        """Whoever made these calls does not hold the row any more."""
        for attempt in self.attempts.values():
            if attempt.result_id == result_id and attempt.status is AttemptStatus.OPEN:
                attempt.status = AttemptStatus.ABANDONED

    def _cost_of_row(self, result_id: int) -> Decimal | None:
        known = [
            one.cost_usd for one in self.attempts.values() if one.result_id == result_id and one.cost_usd is not None
        ]
        return sum(known, Decimal(0)) if known else None

    def answer_for(self, held: Held) -> int:
        """Return the answer that the holder of a row would derive it from: a kept one, else an earlier one; 0: none."""
        row = self.rows[held.row_id]
        answered = [
            attempt_id for attempt_id, one in self.attempts.items()
            if one.result_id == held.row_id and one.status is AttemptStatus.ANSWERED
        ]  # fmt: skip
        return self.kept_answer((row.document_id, row.edition)) or max(answered, default=0)

    def close(self, attempt_id: int, status: AttemptStatus, cost_usd: Decimal | None, *, counted: bool = True) -> bool:
        """Close a call that is open; an abandoned one may still be answered."""
        attempt = self.attempts[attempt_id]
        if status not in ATTEMPT_MOVES[attempt.status]:
            return False
        attempt.status, attempt.cost_usd, attempt.counted = status, cost_usd, counted
        self._sum_up(attempt.run_id)
        return True

    def rows_as_stored(self) -> dict[int, ModelRow]:
        """Return the rows without what the database keeps elsewhere or as a time."""
        return {
            result_id: replace(row, lease_until=None, due_at=0.0, published=0) for result_id, row in self.rows.items()
        }

    def finalize(self, run_id: int) -> bool:
        """Close a run that is sealed and has no active row."""
        run = self.runs[run_id]
        rows = [row.status for row in self.rows.values() if row.run_id == run_id]
        if run.status is not RunStatus.OPEN or run.request_count is None or any(one in ACTIVE_ROW for one in rows):
            return False
        completed, failed, cancelled = (
            rows.count(status) for status in (RowStatus.COMPLETED, RowStatus.FAILED, RowStatus.CANCELLED)
        )
        run.counts, run.status = (completed, failed, cancelled), _status(completed, failed, cancelled)
        self._sum_up(run_id)
        for attempt in self.attempts.values():
            if attempt.run_id == run_id and attempt.status is AttemptStatus.OPEN:
                attempt.status = AttemptStatus.ABANDONED
        return True

    def _judge(self, attempt_id: int | None, verdict: str) -> None:
        attempt = self.attempts.get(attempt_id or 0)
        if attempt and attempt.verdict is None:
            attempt.verdict = verdict

    def _sum_up(self, run_id: int) -> None:
        run = self.runs[run_id]
        if run.status is RunStatus.OPEN:
            return
        costs = [one.cost_usd for one in self.attempts.values() if one.run_id == run_id]
        run.cost_usd = sum((cost for cost in costs if cost is not None), Decimal(0))
        run.unknown_cost_count = costs.count(None)


def _let_go(row: ModelRow, status: RowStatus) -> None:
    row.status, row.owner, row.lease_until = status, None, None


def _let_go_or_cancel(row: ModelRow, status: RowStatus) -> RowStatus:
    _let_go(row, RowStatus.CANCELLED if row.cancel_requested else status)
    return row.status


def _status(completed: int, failed: int, cancelled: int) -> RunStatus:
    if cancelled:
        return RunStatus.CANCELLED
    if not failed:
        return RunStatus.COMPLETED
    return RunStatus.COMPLETED_WITH_ERRORS if completed else RunStatus.FAILED
