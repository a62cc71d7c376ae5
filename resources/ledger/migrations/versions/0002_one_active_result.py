"""At most one active result per document; what is due and which launches were asked for.

A ledger that already holds several active results of one document is put in order first: a running row with a live
lease stays, else the newest; the others end cancelled with the reason ``duplicate``.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ACTIVE = "status IN ('queued', 'running')"


def upgrade() -> None:
    """Cancel duplicates, add the unique index, the due marks and the launch lease."""
    op.execute(_cancel_duplicates(_now_ms()))
    _partial_index("ux_extraction_results_active", "extraction_results", ["document_id"], ACTIVE, unique=True)
    op.add_column("documents", sa.Column("due_since_ms", sa.BigInteger(), nullable=True))
    op.add_column("documents", sa.Column("lowest_edition", sa.Integer(), server_default="0", nullable=False))
    op.execute(_mark_never_asked(_now_ms()))
    _partial_index("ix_documents_due", "documents", ["set_id"], "due_since_ms IS NOT NULL")
    _partial_index("ix_documents_retry", "documents", ["next_retry_ms"], "next_retry_ms IS NOT NULL")
    op.add_column("document_sets", sa.Column("question", sa.String(length=64), nullable=True))
    op.add_column("document_sets", sa.Column("launch_number", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("document_sets", sa.Column("launch_lease_expires_ms", sa.BigInteger(), nullable=True))
    op.create_index("ix_workers_dagster_run_id", "workers", ["dagster_run_id"])


def _now_ms() -> str:
    if op.get_bind().dialect.name == "postgresql":
        return "(extract(epoch from now()) * 1000)::bigint"
    return "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


def _cancel_duplicates(now_ms: str) -> str:
    """Of every document's active rows keep one: running with a live lease first, then the newest."""
    return f"""
        UPDATE extraction_results
        SET status = 'cancelled', reason = 'duplicate', owner = NULL, lease_expires_ms = NULL,
            finished_ms = {now_ms}
        WHERE {ACTIVE} AND result_id NOT IN (
            SELECT result_id FROM (
                SELECT result_id, row_number() OVER (
                    PARTITION BY document_id
                    ORDER BY CASE WHEN status = 'running' AND lease_expires_ms >= {now_ms} THEN 0 ELSE 1 END,
                             result_id DESC
                ) AS place
                FROM extraction_results WHERE {ACTIVE}
            ) AS ranked WHERE place = 1
        )
    """


def _mark_never_asked(now_ms: str) -> str:
    """Documents without a result for their current input are due."""
    return f"""
        UPDATE documents SET due_since_ms = {now_ms}
        WHERE removed_ms IS NULL AND NOT EXISTS (
            SELECT 1 FROM extraction_results r
            WHERE r.document_id = documents.document_id AND r.input_fingerprint = documents.input_fingerprint
        )
    """


def _partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    predicate = sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=predicate, sqlite_where=predicate)
