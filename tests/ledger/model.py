"""The ledger in a few lines of Python: what its verbs do to runs, rows and attempts, without SQL and without races."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from extraction_core.causes import Cause
from extraction_core.states import ACTIVE_ROW, ATTEMPT_MOVES, AttemptStatus, RowStatus, RunStatus
from resources.ledger.claims import Held
from resources.ledger.results import Failed
from tests.ledger.model_books import ModelBooks
from tests.ledger.model_rows import ModelRow

LEASE_S = 30_000.0


class Said(NamedTuple):
    """What became of an opening: a cause for refusing it, or the attempt that is there already, or a new one."""

    refused: Cause | None = None
    superseded: bool = False
    kept: int | None = None
    mine: int | None = None
    counted: int | None = None
    """How many attempts the cap has counted, this one included; None: no call may be made."""


class Model(ModelBooks):
    """The verbs, each as the ledger has it."""

    def seal(self, run_id: int) -> int | None:
        """Seal a run; None: it was sealed before, or is closed."""
        run = self.runs[run_id]
        if run.request_count is not None:
            return None
        run.request_count = len(self.of_run(run_id))
        return run.request_count

    def finalize(self, run_id: int) -> bool:
        """Close a run that is sealed and has no active row."""
        run = self.runs[run_id]
        if run.status is not RunStatus.OPEN or run.request_count is None or self.of_run(run_id, *ACTIVE_ROW):
            return False
        completed, failed, cancelled = (
            len(self.of_run(run_id, status)) for status in (RowStatus.COMPLETED, RowStatus.FAILED, RowStatus.CANCELLED)
        )
        run.counts, run.status = (completed, failed, cancelled), _status(completed, failed, cancelled)
        self._sum_up(run_id)
        for attempt in self.attempts.values():
            if attempt.run_id == run_id and attempt.status is AttemptStatus.OPEN:
                attempt.status = AttemptStatus.ABANDONED
        return True

    def claim(self, worker: str, run_id: int, limit: int) -> list[Held]:
        """Claim rows, oldest due first."""
        queued = self.of_run(run_id, RowStatus.QUEUED).items()
        due = sorted((row.due_at, result_id) for result_id, row in queued if row.due_at <= self.now)
        claimed = {result_id: self.rows[result_id] for _, result_id in due[:limit]}
        for row in claimed.values():
            row.status, row.owner, row.lease_until = RowStatus.RUNNING, worker, self.now + LEASE_S
            row.generation += 1
        return sorted(Held(result_id, row.generation) for result_id, row in claimed.items())

    def heartbeat(self, held: Iterable[Held]) -> dict[int, bool]:
        """Extend leases; returns what is still owned, and whether it was asked to cancel."""
        owned = self.valid(held)
        for row in owned.values():
            row.lease_until = self.now + LEASE_S
        return {one.row_id: row.cancel_requested for one, row in owned.items()}

    def reclaim(self, run_id: int) -> int:
        """Take back the rows whose leases ran out."""
        held = self.of_run(run_id, RowStatus.RUNNING).values()
        expired = [row for row in held if row.lease_until is not None and row.lease_until < self.now]
        for row in expired:
            _let_go_or_cancel(row, RowStatus.QUEUED)
            row.reclaims += 1
        return len(expired)

    def request_cancel(self, run_id: int) -> tuple[int, int]:
        """Cancel a run; returns how many rows ended, and how many got the flag."""
        active, queued = self.of_run(run_id, *ACTIVE_ROW), self.of_run(run_id, RowStatus.QUEUED)
        for row in active.values():
            row.cancel_requested = True
        for row in queued.values():
            _let_go(row, RowStatus.CANCELLED)
        return len(queued), len(active) - len(queued)

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

    def complete(self, held: Held, attempt_id: int) -> bool:
        """End a row completed, with its file. False: superseded."""
        row = self.held(held)
        if row is None:
            return False
        _let_go(row, RowStatus.COMPLETED)
        row.attempt_id, row.cost_usd = attempt_id, self.cost_of_row(held.row_id)
        row.published += 1
        self._judge(attempt_id, "accepted")
        return True

    def completed_before(self, held: Held, attempt_id: int) -> bool:
        """Tell whether this holder completed the row with this answer."""
        row = self.rows[held.row_id]
        mine = (row.generation, row.attempt_id) == (held.generation, attempt_id)
        return mine and row.status is RowStatus.COMPLETED

    def fail(self, held: Held, failed: Failed) -> RowStatus | None:
        """End a row failed, or cancelled if that was asked; None: superseded."""
        row = self.held(held)
        if row is None:
            return None
        row.cost_usd = self.cost_of_row(held.row_id)
        self._judge(failed.attempt_id, failed.reason)
        return _let_go_or_cancel(row, RowStatus.FAILED)

    def cancelled(self, held: Held) -> bool:
        """End a row cancelled, because the provider says so."""
        row = self.held(held)
        if row is None:
            return False
        row.cost_usd = self.cost_of_row(held.row_id)
        _let_go(row, RowStatus.CANCELLED)
        return True

    def opening(self, held: Held, again: int | None) -> Said:
        """Ask for an attempt; ``again``: the one that was opened with this token before. The new one is not made."""
        row = self.held(held)
        if row is None:
            return Said(superseded=True)
        if again is not None:
            return Said(mine=again, counted=self.counted(row.question))
        if kept := self.kept_answer(row.question):
            return Said(kept=kept)
        for attempt in self.attempts.values():  # whoever made these calls does not hold the row any more
            if attempt.result_id == held.row_id and attempt.status is AttemptStatus.OPEN:
                attempt.status = AttemptStatus.ABANDONED
        counted = self.counted(row.question)
        return Said(refused=Cause.EXHAUSTED) if counted >= self.max_attempts else Said(counted=counted + 1)

    def close(self, attempt_id: int, status: AttemptStatus, cost_usd: Decimal | None, *, counted: bool = True) -> bool:
        """Close a call that is open; an abandoned one may still be answered."""
        attempt = self.attempts[attempt_id]
        if status not in ATTEMPT_MOVES[attempt.status]:
            return False
        attempt.status, attempt.cost_usd, attempt.counted = status, cost_usd, counted
        self._sum_up(attempt.run_id)
        return True

    def _judge(self, attempt_id: int | None, verdict: str) -> None:
        attempt = self.attempts.get(attempt_id or 0)
        if attempt and attempt.verdict is None:
            attempt.verdict = verdict

    def _sum_up(self, run_id: int) -> None:
        run = self.runs[run_id]
        if run.status is RunStatus.OPEN:
            return
        costs: Sequence[Decimal | None] = [one.cost_usd for one in self.attempts.values() if one.run_id == run_id]
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
