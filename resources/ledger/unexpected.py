"""Results that nobody asked for: a batch answered under a custom id that has no row.

They were paid for, so they are accounted for: each becomes a failed row of its run with an attempt of its own. It
stands for no document; what holds its place is a document row that is registered as removed, so that no set counts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.fingerprints import sha256_hex
from extraction_core.states import AttemptStatus, RowStatus
from resources.ledger.attempts import Answer, answer_values
from resources.ledger.engine import LedgerEngine
from resources.ledger.row_sets import is_postgres
from resources.ledger.tables import attempts, documents, extraction_results
from resources.ledger.types import now_ms

MESSAGE = "no result row at submission; custom_id mismatch"
TOKEN_LENGTH = 36


def record_unexpected(engine: LedgerEngine, batch: Mapping[str, Any], custom_id: str, answer: Answer | None) -> bool:
    """Record one unexpected result, once.

    Args:
        engine: the ledger's engine.
        batch: the batch's row.
        custom_id: the id that it came under.
        answer: what was answered and paid for; None when the line held no answer, which costs nothing.

    Returns:
        Whether it was new.
    """
    key = f"unexpected/{batch['batch_id']}/{custom_id}"

    def transaction(connection: sa.Connection) -> bool:
        document_id = _insert_document(connection, batch, key)
        if document_id is None:
            return False
        question = {"document_id": document_id, "input_fingerprint": sha256_hex(key.encode()), "edition": 0}
        row = {"run_id": batch["run_id"], "collection": batch["collection"], "document_key": key, **question}
        ended = {"status": RowStatus.FAILED, "reason": Cause.CUSTOM_ID_MISMATCH, "message": MESSAGE}
        cost = answer.cost_usd if answer else None
        result_id = connection.execute(
            sa.insert(extraction_results)
            .values(**row, **ended, cost_usd=cost, created_ms=now_ms(), finished_ms=now_ms())
            .returning(extraction_results.c.result_id)
        ).scalar_one()
        if answer:
            connection.execute(_attempt(batch, key, answer).values(result_id=result_id, **question))
        return True

    return engine.write(transaction, Failpoint.COMMIT_ATTEMPT_CLOSE)


def _insert_document(connection: sa.Connection, batch: Mapping[str, Any], key: str) -> int | None:
    insert = postgresql.insert(documents) if is_postgres(connection) else sqlite.insert(documents)
    values = {
        "set_id": batch["set_id"],
        "collection": batch["collection"],
        "document_key": key,
        "size_bytes": 0,
        "signature": "",
        "registered_ms": now_ms(),
        "removed_ms": now_ms(),
    }
    statement = insert.values(**values).on_conflict_do_nothing(index_elements=["collection", "document_key"])
    return connection.execute(statement.returning(documents.c.document_id)).scalar()


def _attempt(batch: Mapping[str, Any], key: str, answer: Answer) -> sa.Insert:
    return sa.insert(attempts).values(
        token=sha256_hex(key.encode())[:TOKEN_LENGTH],
        run_id=batch["run_id"],
        batch_id=batch["batch_id"],
        status=AttemptStatus.ANSWERED,
        model=answer.served_model or "",
        max_output_tokens=0,
        opened_ms=now_ms(),
        closed_ms=now_ms(),
        verdict=Cause.CUSTOM_ID_MISMATCH,
        **answer_values(answer),
    )
