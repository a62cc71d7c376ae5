"""What the model of the ledger keeps of runs, rows and attempts, and the same read off the database's rows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from extraction_core.states import AttemptStatus, RowStatus, RunStatus, Select

if TYPE_CHECKING:
    from tests.ledger.support import Row

DUE_AT_ONCE = float("-inf")
"""A new row is due before all that were given back: its due time is the beginning of time."""


@dataclass
class ModelRun:
    """An extraction run."""

    select: Select
    status: RunStatus = RunStatus.OPEN
    request_count: int | None = None
    """What it was sealed with; None: not sealed."""
    counts: tuple[int, int, int] | None = None
    """Completed, failed, cancelled."""
    cost_usd: Decimal | None = None
    unknown_cost_count: int | None = None


@dataclass
class ModelRow:
    """An extraction result. It is held, and by whom, exactly as long as it is running."""

    run_id: int
    document_id: int
    edition: int
    status: RowStatus = RowStatus.QUEUED
    generation: int = 0
    owner: str | None = None
    lease_until: float | None = None
    due_at: float = DUE_AT_ONCE
    cancel_requested: bool = False
    reclaims: int = 0
    refusals: int = 0
    attempt_id: int | None = None
    cost_usd: Decimal | None = None
    published: int = 0

    @property
    def question(self) -> tuple[int, int]:
        """Document and edition: the documents of the model never change."""
        return self.document_id, self.edition


@dataclass
class ModelAttempt:
    """A provider call."""

    result_id: int
    run_id: int
    question: tuple[int, int]
    status: AttemptStatus = AttemptStatus.OPEN
    counted: bool = True
    cost_usd: Decimal | None = None
    verdict: str | None = None


def row_of(row: Row) -> ModelRow:
    """Return a row of ``extraction_results`` without what changes with time."""
    return ModelRow(
        run_id=row["run_id"],
        document_id=row["document_id"],
        edition=row["edition"],
        status=RowStatus(row["status"]),
        generation=row["generation"],
        owner=row["owner"],
        cancel_requested=row["cancel_requested"],
        reclaims=row["reclaims"],
        refusals=row["refusals_to_serve"],
        attempt_id=row["attempt_id"],
        cost_usd=row["cost_usd"],
    )


def attempt_of(row: Row) -> ModelAttempt:
    """Return a row of ``attempts``."""
    return ModelAttempt(
        result_id=row["result_id"],
        run_id=row["run_id"],
        question=(row["document_id"], row["edition"]),
        status=AttemptStatus(row["status"]),
        counted=row["counted"],
        cost_usd=row["cost_usd"],
        verdict=row["verdict"],
    )


def run_of(row: Row) -> ModelRun:
    """Return a row of ``extraction_runs``."""
    counts = (row["completed_count"], row["failed_count"], row["cancelled_count"])
    return ModelRun(
        select=Select(row["selection"]),
        status=RunStatus(row["status"]),
        request_count=row["request_count"],
        counts=None if row["status"] == RunStatus.OPEN else counts,
        cost_usd=row["cost_usd"],
        unknown_cost_count=row["unknown_cost_count"],
    )
