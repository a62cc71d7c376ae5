"""What a launch asks of a document set, and what a pass over it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from extraction_core.states import Select


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a launch asks for.

    Attributes:
        extract: False when only the parsing is wanted.
        documents: keys that limit the run, or None.
        dagster_run_id: the Dagster run that asks, if any.
        is_cancelled: tells whether a person cancelled that run; any other interruption only releases what is held.
    """

    select: Select = Select.PENDING
    documents: Sequence[str] | None = None
    extract: bool = True
    dagster_run_id: str | None = None
    is_cancelled: Callable[[], bool] = lambda: False


class Result(StrEnum):
    """How a pass ended."""

    PARSED = "parsed"
    NOTHING_TO_DO = "nothing_to_do"
    CLOSED = "closed"
    HELD_BY_OTHERS = "held_by_others"
    SUBMITTED = "submitted"
    LINE_STOPPED = "line_stopped"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a pass did. ``run`` is the extraction run as the ledger has it, None when none was needed.

    Attributes:
        calls: calls made in this extraction run.
        seconds: wall time of this pass.
        reason: why the line was stopped, who holds the rest, or which message batches and parse jobs it is in.
    """

    result: Result
    run: Mapping[str, Any] | None
    seconds: float
    reason: str = ""
    unknown_documents: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProgressLine:
    """Where an extraction run stands, from SQL."""

    total: int
    done: int
    failed: int
    cost_usd: Decimal
    per_second: float

    def __str__(self) -> str:
        """Return the line for the log."""
        left = (self.total - self.done) / self.per_second if self.per_second else None
        eta = f", about {left:.0f} s left" if left else ""
        return (
            f"{self.done}/{self.total} documents, {self.failed} failed, ${self.cost_usd:.6f}, "
            f"{self.per_second:.1f} documents/s{eta}"
        )
