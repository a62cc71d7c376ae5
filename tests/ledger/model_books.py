"""What the model of the ledger knows, and the questions that its verbs ask of it.

Time is a number of seconds that moves only when it is told to, so a test moves the database's rows back by as much.
Rows and attempts are named by the ids that the database gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from extraction_core.states import ACTIVE_ROW, AttemptStatus, RowStatus, RunStatus, Select
from resources.ledger.claims import Held
from tests.ledger.model_rows import DUE_AT_ONCE, ModelAttempt, ModelRow, ModelRun


@dataclass
class ModelBooks:
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

    def of_run(self, run_id: int, *statuses: RowStatus) -> dict[int, ModelRow]:
        """Return a run's rows that are in one of the statuses."""
        return {
            result_id: row
            for result_id, row in self.rows.items()
            if row.run_id == run_id and row.status in (statuses or RowStatus)
        }

    def held(self, held: Held) -> ModelRow | None:
        """Return the row of a claim that is still valid."""
        row = self.rows[held.row_id]
        return row if row.status is RowStatus.RUNNING and row.generation == held.generation else None

    def to_fill(self, run_id: int) -> dict[int, int]:
        """Return document -> edition of the rows that a fill of a run adds."""
        run = self.runs[run_id]
        if run.status is not RunStatus.OPEN or run.request_count is not None:
            return {}
        taken = {
            row.document_id for row in self.rows.values() if row.run_id == run_id or row.status in ACTIVE_ROW
        }  # fmt: skip
        return {
            document: self._edition(document, run_id)
            for document in self.documents
            if document not in taken and self._is_selected(document, run.select)
        }

    def _edition(self, document: int, run_id: int) -> int:
        anew = self.runs[run_id].select is Select.ALL
        editions = [row.edition for row in self._rows_of(document) if not (anew and row.run_id == run_id)]
        return max(editions, default=-1) + 1 if anew else max(editions, default=0)

    def _is_selected(self, document: int, select: Select) -> bool:
        if select is Select.ALL:
            return True
        rows = self._rows_of(document)
        question = (document, max((row.edition for row in rows), default=0))
        return all(row.status is not RowStatus.COMPLETED for row in rows) and (
            self.counted(question) < self.max_attempts or self.kept_answer(question) is not None
        )

    def _rows_of(self, document: int) -> list[ModelRow]:
        return [row for row in self.rows.values() if row.document_id == document]

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

    def answer_for(self, held: Held) -> int:
        """Return the answer that the holder of a row would derive it from: a kept one, else an earlier one; 0: none."""
        answered = [
            attempt_id for attempt_id, one in self.attempts.items()
            if one.result_id == held.row_id and one.status is AttemptStatus.ANSWERED
        ]  # fmt: skip
        return self.kept_answer(self.rows[held.row_id].question) or max(answered, default=0)

    def cost_of_row(self, result_id: int) -> Decimal | None:
        """Return what a row's calls cost, as far as it is known."""
        known = [
            one.cost_usd for one in self.attempts.values() if one.result_id == result_id and one.cost_usd is not None
        ]
        return sum(known, Decimal(0)) if known else None

    def is_late(self, attempt_id: int) -> bool:
        """Tell whether the run of a call was closed, and what became of the call is not known."""
        attempt = self.attempts[attempt_id]
        return attempt.status is AttemptStatus.ABANDONED and self.runs[attempt.run_id].status is not RunStatus.OPEN

    def rows_as_stored(self) -> dict[int, ModelRow]:
        """Return the rows without what the database keeps elsewhere or as a time."""
        return {
            result_id: replace(row, lease_until=None, due_at=DUE_AT_ONCE, published=0)
            for result_id, row in self.rows.items()
        }

    def valid(self, held: Iterable[Held]) -> dict[Held, ModelRow]:
        """Return those of the claims that are still valid, with their rows."""
        return {one: row for one in held if (row := self.held(one))}
