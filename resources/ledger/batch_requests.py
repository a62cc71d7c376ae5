"""The requests of a message batch: what was sent, which answers are kept, which rows the batch still covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.states import AttemptStatus
from resources.ledger.attempts import Answer
from resources.ledger.engine import LedgerEngine
from resources.ledger.reservations import covered_by
from resources.ledger.spending import IS_OPEN
from resources.ledger.tables import attempts, extraction_results
from resources.ledger.types import literal
from resources.ledger.unexpected import record_unexpected

RESULT = extraction_results.c
ATTEMPT = attempts.c


class SentRequest(NamedTuple):
    """One request of a batch, as its collector needs it. ``closed``: its answer or its failure is written down."""

    attempt_id: int
    result_id: int
    closed: bool


class BatchRequests:
    """Reads and closes the requests of batches that a collector holds."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def sent(self, batch_id: int) -> dict[str, SentRequest]:
        """Return custom id -> request, for all requests of a batch whose row is there."""
        statement = (
            sa.select(ATTEMPT.token, ATTEMPT.attempt_id, ATTEMPT.result_id, ~IS_OPEN)
            .join(extraction_results, RESULT.result_id == ATTEMPT.result_id)
            .where(ATTEMPT.batch_id == batch_id, ATTEMPT.verdict.is_distinct_from(Cause.CUSTOM_ID_MISMATCH))
        )
        rows = self._engine.read(lambda connection: connection.execute(statement).all())
        return {row[0]: SentRequest(row[1], row[2], bool(row[3])) for row in rows}

    def lost_documents(self, batch_id: int) -> list[str]:
        """Return the keys of the documents whose rows failed because the batch was lost."""
        statement = (
            sa.select(RESULT.document_key)
            .join(attempts, ATTEMPT.result_id == RESULT.result_id)
            .where(ATTEMPT.batch_id == batch_id, RESULT.reason == Cause.BATCH_LOST)
            .order_by(RESULT.document_key)
        )
        return list(self._engine.read(lambda connection: connection.execute(statement).scalars().all()))

    def rows_of(self, batch_id: int, result_ids: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """Return the rows among these that the batch still covers, by id, with all their columns."""
        statement = sa.select(extraction_results).where(RESULT.result_id.in_(result_ids), covered_by(batch_id))
        rows = self._engine.read(lambda connection: connection.execute(statement).mappings().all())
        return {row["result_id"]: dict(row) for row in rows}

    def kept_unjudged(self, batch_id: int) -> list[tuple[str, int]]:
        """Return custom id and row of answers that were kept, but from which nothing was derived yet."""
        statement = (
            sa.select(ATTEMPT.token, ATTEMPT.result_id)
            .join(extraction_results, RESULT.result_id == ATTEMPT.result_id)
            .where(
                ATTEMPT.batch_id == batch_id,
                ATTEMPT.status == literal(AttemptStatus.ANSWERED),
                ATTEMPT.verdict.is_(None),
                covered_by(batch_id),
            )
        )
        return [(row[0], row[1]) for row in self._engine.read(lambda connection: connection.execute(statement).all())]

    def response_of(self, attempt_id: int) -> str:
        """Return the text of a kept answer."""
        statement = sa.select(ATTEMPT.response).where(ATTEMPT.attempt_id == attempt_id)
        return str(self._engine.read(lambda connection: connection.execute(statement).scalar_one()))

    def unexpected(self, batch: Mapping[str, Any], custom_id: str, answer: Answer | None) -> bool:
        """Account for a result that nobody asked for; see :mod:`resources.ledger.unexpected`."""
        return record_unexpected(self._engine, batch, custom_id, answer)
