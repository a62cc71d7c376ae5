"""Results that nobody asked for: a batch answered under a custom id that has no row.

They were paid for, so they are accounted for: each becomes a failed row of its run with an attempt of its own, or with
that of the request whose row is gone. It stands for no document; what holds its place is a document row that is
registered as removed, so that no set counts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from extraction_core.fingerprints import sha256_hex
from extraction_core.states import AttemptStatus, RowStatus
from resources.ledger.answers import Answer, answer_values
from resources.ledger.attempts import result_cost
from resources.ledger.engine import LedgerEngine
from resources.ledger.row_sets import is_postgres
from resources.ledger.spending import IS_ABANDONED, IS_OPEN
from resources.ledger.tables import ACTIVE, attempts, documents, extraction_results, message_batches
from resources.ledger.types import literal, now_ms

RESULT = extraction_results.c
ATTEMPT = attempts.c
BATCH = message_batches.c
MESSAGE = "no result row at submission; custom_id mismatch"
TOKEN_LENGTH = 36
PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_PART = 32


def record_unexpected(engine: LedgerEngine, batch: Mapping[str, Any], custom_id: str, answer: Answer | None) -> bool:
    """Record one unexpected result, once.

    Args:
        engine: the ledger's engine.
        batch: the batch's row.
        custom_id: the id that it came under, whatever text that is.
        answer: what was answered and paid for; None when the line held no answer, which costs nothing.

    Returns:
        Whether it was new; False as well when the batch is settled: its run may be closed, and takes no more rows.
    """
    name = _storable(custom_id)
    key = f"unexpected/{batch['batch_id']}/{name}"

    def transaction(connection: sa.Connection) -> bool:
        document_id = _insert_document(connection, batch, key) if _is_unsettled(connection, batch) else None
        if document_id is None:
            return False
        question = {"document_id": document_id, "input_fingerprint": sha256_hex(key.encode()), "edition": 0}
        row = {"run_id": batch["run_id"], "collection": batch["collection"], "document_key": key, **question}
        ended = {"status": RowStatus.FAILED, "reason": Cause.CUSTOM_ID_MISMATCH, "message": MESSAGE}
        insert = sa.insert(extraction_results).values(**row, **ended, created_ms=now_ms(), finished_ms=now_ms())
        result_id = connection.execute(insert.returning(RESULT.result_id)).scalar_one()
        place = {"result_id": result_id, **question, "verdict": Cause.CUSTOM_ID_MISMATCH}
        if not _take_over(connection, batch, name, place, answer) and answer:
            connection.execute(_attempt(batch, key, answer).values(**place))
        cost = sa.update(extraction_results).where(RESULT.result_id == result_id)
        connection.execute(cost.values(cost_usd=result_cost(result_id)))
        return True

    return engine.write(transaction, Failpoint.COMMIT_ATTEMPT_CLOSE)


def _storable(custom_id: str) -> str:
    """Return an id of the provider's pattern as it is; any other text shortened, in ASCII, with its digest."""
    if PLAIN_ID.fullmatch(custom_id):
        return custom_id
    return f"{custom_id[:LONGEST_PART]!a} {sha256_hex(custom_id.encode('utf-8', 'surrogatepass'))}"


def _is_unsettled(connection: sa.Connection, batch: Mapping[str, Any]) -> bool:
    """Whether the batch is open; until the transaction ends it cannot be settled, nor can its run be closed."""
    unsettled = sa.or_(*(BATCH.status == literal(status) for status in ACTIVE))
    statement = sa.select(BATCH.batch_id).where(BATCH.batch_id == batch["batch_id"], unsettled)
    return connection.execute(statement.with_for_update(read=True)).first() is not None


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


def _take_over(
    connection: sa.Connection, batch: Mapping[str, Any], name: str, place: Mapping[str, Any], answer: Answer | None
) -> bool:
    """Give the attempt of a request whose row is gone its new place, and close it. False: there is no such attempt."""
    row_is_gone = ~sa.exists().where(RESULT.result_id == ATTEMPT.result_id)
    mine = sa.update(attempts).where(ATTEMPT.token == name, ATTEMPT.batch_id == batch["batch_id"], row_is_gone)
    closed = _answered(answer) if answer else {"status": AttemptStatus.FAILED, "cost_usd": Decimal(0)}
    connection.execute(mine.where(sa.or_(IS_OPEN, IS_ABANDONED)).values(**closed, closed_ms=now_ms()))
    return connection.execute(mine.values(**place)).rowcount == 1


def _attempt(batch: Mapping[str, Any], key: str, answer: Answer) -> sa.Insert:
    return sa.insert(attempts).values(
        token=sha256_hex(key.encode())[:TOKEN_LENGTH],
        run_id=batch["run_id"],
        batch_id=batch["batch_id"],
        model=answer.served_model or "",
        max_output_tokens=0,
        opened_ms=now_ms(),
        closed_ms=now_ms(),
        **_answered(answer),
    )


def _answered(answer: Answer) -> dict[str, Any]:
    return {"status": AttemptStatus.ANSWERED, **answer_values(answer)}
