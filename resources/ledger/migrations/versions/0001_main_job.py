"""The ledger of the main job: sets, documents, parse runs, extraction runs and results, attempts, workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Frozen copies of the column types: exact money is whole units of 1e-12 dollar on SQLite.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MONEY = sa.Numeric(38, 12).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Create the tables and their indexes."""
    op.create_table(
        "document_sets",
        sa.Column("set_id", BIG_ID, sa.Identity(always=False), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("set_id", name=op.f("pk_document_sets")),
        sa.UniqueConstraint("collection", "folder", name=op.f("uq_document_sets_collection_folder")),
        sa.UniqueConstraint("collection", "partition_key", name=op.f("uq_document_sets_collection_partition_key")),
    )
    op.create_table(
        "parse_runs",
        sa.Column("parse_run_id", BIG_ID, sa.Identity(always=False), nullable=False),
        sa.Column("parse_key", sa.String(length=64), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("provider_version", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("document_key", sa.Text(), nullable=False),
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
        sa.Column("markdown_sha256", sa.String(length=64), nullable=True),
        sa.Column("characters", sa.BigInteger(), nullable=True),
        sa.Column("page_count", sa.BigInteger(), nullable=True),
        sa.Column("media_type", sa.Text(), nullable=True),
        sa.Column("engine", sa.Text(), nullable=True),
        sa.Column("warnings", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(status = 'running') = (owner IS NOT NULL) AND (status = 'running') = (lease_expires_ms IS NOT NULL)",
            name=op.f("ck_parse_runs_held"),
        ),
        sa.CheckConstraint(
            "(status IN ('completed', 'failed', 'cancelled')) = (finished_ms IS NOT NULL)",
            name=op.f("ck_parse_runs_finished"),
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'completed', 'failed', 'cancelled')", name=op.f("ck_parse_runs_status")
        ),
        sa.PrimaryKeyConstraint("parse_run_id", name=op.f("pk_parse_runs")),
    )
    op.create_index(
        "ix_parse_runs_claim",
        "parse_runs",
        ["due_ms", "parse_run_id"],
        unique=False,
        postgresql_where=sa.text("status = 'queued'"),
        sqlite_where=sa.text("status = 'queued'"),
    )
    op.create_index("ix_parse_runs_key", "parse_runs", ["parse_key"], unique=False)
    op.create_index(
        "ux_parse_runs_key",
        "parse_runs",
        ["parse_key"],
        unique=True,
        postgresql_where=sa.text("status IN ('queued', 'running', 'completed')"),
        sqlite_where=sa.text("status IN ('queued', 'running', 'completed')"),
    )
    op.create_table(
        "documents",
        sa.Column("document_id", BIG_ID, sa.Identity(always=False), nullable=False),
        sa.Column("set_id", sa.BigInteger(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("document_key", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("read_signature", sa.Text(), nullable=True),
        sa.Column("content_hash", sa.String(length=64), nullable=True),
        sa.Column("input_fingerprint", sa.String(length=64), nullable=True),
        sa.Column("parse_run_id", sa.BigInteger(), nullable=True),
        sa.Column("next_retry_ms", sa.BigInteger(), nullable=True),
        sa.Column("registered_ms", sa.BigInteger(), nullable=False),
        sa.Column("removed_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["parse_run_id"], ["parse_runs.parse_run_id"], name=op.f("fk_documents_parse_run_id")),
        sa.ForeignKeyConstraint(["set_id"], ["document_sets.set_id"], name=op.f("fk_documents_set_id")),
        sa.PrimaryKeyConstraint("document_id", name=op.f("pk_documents")),
        sa.UniqueConstraint("collection", "document_key", name=op.f("uq_documents_collection_document_key")),
    )
    op.create_index("ix_documents_parse_run_id", "documents", ["parse_run_id"], unique=False)
    op.create_index("ix_documents_set_id", "documents", ["set_id", "document_id"], unique=False)
    op.create_table(
        "extraction_runs",
        sa.Column("run_id", BIG_ID, sa.Identity(always=False), nullable=False),
        sa.Column("set_id", sa.BigInteger(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=24), server_default="open", nullable=False),
        sa.Column("selection", sa.String(length=8), nullable=False),
        sa.Column("selected_keys", sa.Text(), nullable=True),
        sa.Column("sealed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("dagster_run_id", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("max_cost_usd", MONEY, nullable=True),
        sa.Column("request_count", sa.BigInteger(), nullable=True),
        sa.Column("unexpected_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completed_count", sa.BigInteger(), nullable=True),
        sa.Column("failed_count", sa.BigInteger(), nullable=True),
        sa.Column("cancelled_count", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", MONEY, nullable=True),
        sa.Column("unknown_cost_count", sa.BigInteger(), nullable=True),
        sa.Column("opened_ms", sa.BigInteger(), nullable=False),
        sa.Column("sealed_ms", sa.BigInteger(), nullable=True),
        sa.Column("closed_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "selection IN ('pending', 'failed', 'all', 'due')", name=op.f("ck_extraction_runs_selection")
        ),
        sa.CheckConstraint(
            "status = 'open' OR request_count + unexpected_count = completed_count + failed_count + cancelled_count",
            name=op.f("ck_extraction_runs_balance"),
        ),
        sa.CheckConstraint(
            "status IN ('open', 'completed', 'completed_with_errors', 'failed', 'cancelled')",
            name=op.f("ck_extraction_runs_status"),
        ),
        sa.ForeignKeyConstraint(["set_id"], ["document_sets.set_id"], name=op.f("fk_extraction_runs_set_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_extraction_runs")),
    )
    op.create_index("ix_extraction_runs_set_id", "extraction_runs", ["set_id", "run_id"], unique=False)
    op.create_index(
        "ux_extraction_runs_open",
        "extraction_runs",
        ["set_id"],
        unique=True,
        postgresql_where=sa.text("status = 'open'"),
        sqlite_where=sa.text("status = 'open'"),
    )
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.String(length=36), nullable=False),
        sa.Column("dagster_run_id", sa.Text(), nullable=True),
        sa.Column("set_id", sa.BigInteger(), nullable=True),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("beat_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["set_id"], ["document_sets.set_id"], name=op.f("fk_workers_set_id")),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("pk_workers")),
    )
    op.create_index("ix_workers_set_id", "workers", ["set_id"], unique=False)
    op.create_table(
        "extraction_results",
        sa.Column("result_id", BIG_ID, sa.Identity(always=False), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("document_id", sa.BigInteger(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("document_key", sa.Text(), nullable=False),
        sa.Column("input_fingerprint", sa.String(length=64), nullable=False),
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("parse_run_id", sa.BigInteger(), nullable=True),
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
        sa.Column("refusals_to_serve", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("attempt_id", sa.BigInteger(), nullable=True),
        sa.Column("output_path", sa.Text(), nullable=True),
        sa.Column("output_sha256", sa.String(length=64), nullable=True),
        sa.Column("output_bytes", sa.BigInteger(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("cost_usd", MONEY, nullable=True),
        sa.CheckConstraint(
            "(status = 'running') = (owner IS NOT NULL) AND (status = 'running') = (lease_expires_ms IS NOT NULL)",
            name=op.f("ck_extraction_results_held"),
        ),
        sa.CheckConstraint(
            "(status IN ('completed', 'failed', 'cancelled')) = (finished_ms IS NOT NULL)",
            name=op.f("ck_extraction_results_finished"),
        ),
        sa.CheckConstraint(
            "status <> 'completed' OR output_sha256 IS NOT NULL", name=op.f("ck_extraction_results_output")
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'completed', 'failed', 'cancelled')",
            name=op.f("ck_extraction_results_status"),
        ),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.document_id"], name=op.f("fk_extraction_results_document_id")
        ),
        sa.ForeignKeyConstraint(
            ["parse_run_id"], ["parse_runs.parse_run_id"], name=op.f("fk_extraction_results_parse_run_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["extraction_runs.run_id"], name=op.f("fk_extraction_results_run_id")),
        sa.PrimaryKeyConstraint("result_id", name=op.f("pk_extraction_results")),
        sa.UniqueConstraint("run_id", "document_id", name=op.f("uq_extraction_results_run_id_document_id")),
    )
    op.create_index(
        "ix_extraction_results_claim",
        "extraction_results",
        ["run_id", "due_ms", "result_id"],
        unique=False,
        postgresql_where=sa.text("status = 'queued'"),
        sqlite_where=sa.text("status = 'queued'"),
    )
    op.create_index(
        "ix_extraction_results_open",
        "extraction_results",
        ["run_id"],
        unique=False,
        postgresql_where=sa.text("status IN ('queued', 'running')"),
        sqlite_where=sa.text("status IN ('queued', 'running')"),
    )
    op.create_index(
        "ix_extraction_results_question",
        "extraction_results",
        ["document_id", "input_fingerprint", "result_id"],
        unique=False,
    )
    op.create_table(
        "attempts",
        sa.Column("attempt_id", BIG_ID, sa.Identity(always=False), nullable=False),
        sa.Column("token", sa.String(length=36), nullable=False),
        sa.Column("result_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("document_id", sa.BigInteger(), nullable=False),
        sa.Column("input_fingerprint", sa.String(length=64), nullable=False),
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=12), server_default="open", nullable=False),
        sa.Column("counted", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("max_output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("second_try", sa.String(length=12), nullable=True),
        sa.Column("reserved_usd", MONEY, nullable=True),
        sa.Column("opened_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_ms", sa.BigInteger(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("served_model", sa.Text(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_5m_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_1h_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_usd", MONEY, nullable=True),
        sa.Column("prices", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.CheckConstraint("(status = 'open') = (closed_ms IS NULL)", name=op.f("ck_attempts_closed")),
        sa.CheckConstraint("status <> 'answered' OR response IS NOT NULL", name=op.f("ck_attempts_answer_kept")),
        sa.CheckConstraint("status IN ('open', 'answered', 'failed', 'abandoned')", name=op.f("ck_attempts_status")),
        sa.ForeignKeyConstraint(["result_id"], ["extraction_results.result_id"], name=op.f("fk_attempts_result_id")),
        sa.ForeignKeyConstraint(["run_id"], ["extraction_runs.run_id"], name=op.f("fk_attempts_run_id")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("token", name=op.f("uq_attempts_token")),
    )
    op.create_index("ix_attempts_question", "attempts", ["document_id", "input_fingerprint", "edition"], unique=False)
    op.create_index("ix_attempts_result_id", "attempts", ["result_id"], unique=False)
    op.create_index("ix_attempts_run_id", "attempts", ["run_id"], unique=False)
    _tune_for_updates()


def _tune_for_updates() -> None:
    """Rows that change state often: leave room for in-place updates and clean up early (PostgreSQL)."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in ("parse_runs", "extraction_results", "attempts", "workers"):
        op.execute(
            f"ALTER TABLE {table} SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, "
            "autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)"
        )
