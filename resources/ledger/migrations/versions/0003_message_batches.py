"""Message batches: reserved before they are created, held and collected by the same verbs as every claimable row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
STATES = "'reserved', 'in_progress', 'canceling', 'ended', 'collected', 'lost', 'void'"
ACTIVE = "status IN ('queued', 'running')"


def upgrade() -> None:
    """Create the table, and let an attempt name the batch that it is a request of."""
    op.create_table(
        "message_batches",
        sa.Column("batch_id", BIG_ID, sa.Identity(always=False), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("set_id", sa.BigInteger(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("nonce", sa.String(length=16), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=12), server_default="reserved", nullable=False),
        sa.Column("request_count", sa.BigInteger(), server_default="0", nullable=False),
        *_queue_columns(),
        sa.Column("accepted_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.Text(), nullable=True),
        sa.Column("overdue_ms", sa.BigInteger(), nullable=True),
        sa.Column("looks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("processing", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("succeeded", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("errored", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("canceled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("expired", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "(status = 'running') = (owner IS NOT NULL) AND (status = 'running') = (lease_expires_ms IS NOT NULL)",
            name=op.f("ck_message_batches_held"),
        ),
        sa.CheckConstraint(
            "(status IN ('completed', 'failed', 'cancelled')) = (finished_ms IS NOT NULL)",
            name=op.f("ck_message_batches_finished"),
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'completed', 'failed', 'cancelled')",
            name=op.f("ck_message_batches_status"),
        ),
        sa.CheckConstraint(f"state IN ({STATES})", name=op.f("ck_message_batches_state")),
        sa.CheckConstraint(
            "(state IN ('collected', 'lost', 'void')) = (finished_ms IS NOT NULL)",
            name=op.f("ck_message_batches_settled"),
        ),
        sa.CheckConstraint(
            "state IN ('reserved', 'lost', 'void') OR provider_id IS NOT NULL",
            name=op.f("ck_message_batches_known"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["extraction_runs.run_id"], name=op.f("fk_message_batches_run_id")),
        sa.ForeignKeyConstraint(["set_id"], ["document_sets.set_id"], name=op.f("fk_message_batches_set_id")),
        sa.PrimaryKeyConstraint("batch_id", name=op.f("pk_message_batches")),
        sa.UniqueConstraint("nonce", name=op.f("uq_message_batches_nonce")),
        sa.UniqueConstraint("provider_id", name=op.f("uq_message_batches_provider_id")),
    )
    predicate = sa.text(ACTIVE)
    op.create_index(
        "ix_message_batches_unsettled",
        "message_batches",
        ["set_id", "due_ms"],
        postgresql_where=predicate,
        sqlite_where=predicate,
    )
    op.create_index("ix_message_batches_run_id", "message_batches", ["run_id"])
    op.add_column("attempts", sa.Column("batch_id", sa.BigInteger(), nullable=True))
    of_a_batch = sa.text("batch_id IS NOT NULL")
    op.create_index(
        "ix_attempts_batch_id", "attempts", ["batch_id"], postgresql_where=of_a_batch, sqlite_where=of_a_batch
    )


def _queue_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("status", sa.String(length=12), server_default="queued", nullable=False),
        sa.Column("due_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reclaims", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("retryable", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("claimed_ms", sa.BigInteger(), nullable=True),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
    ]
