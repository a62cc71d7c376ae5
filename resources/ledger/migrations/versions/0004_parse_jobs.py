"""Parse jobs: a parse run may be held by a job of a parse service, which is submitted, polled and fetched."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATES = (
    "job_state IS NULL"
    " OR job_state IN ('submitting', 'submitted', 'fetched') AND status = 'running'"
    " OR job_state = 'completed' AND status = 'completed'"
    " OR job_state IN ('failed', 'expired') AND status = 'failed'"
)


def upgrade() -> None:
    """Add the columns of a job, the rule between its state and the row's, and the indexes to find it by."""
    exact = sa.BigInteger() if op.get_bind().dialect.name == "sqlite" else sa.Numeric(38, 12)
    for column in (
        sa.Column("job_nonce", sa.String(length=16), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("job_submitted_ms", sa.BigInteger(), nullable=True),
        sa.Column("job_deadline_ms", sa.BigInteger(), nullable=True),
        sa.Column("job_looks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("job_result_sha256", sa.String(length=64), nullable=True),
        sa.Column("job_pages", sa.BigInteger(), nullable=True),
        sa.Column("job_credits", exact, nullable=True),
    ):
        op.add_column("parse_runs", column)
    # SQLite takes a constraint only together with a column
    name = op.f("ck_parse_runs_job_state")
    op.execute(f"ALTER TABLE parse_runs ADD COLUMN job_state VARCHAR(12) CONSTRAINT {name} CHECK ({STATES})")
    of_a_job = sa.text("status = 'running' AND job_state IS NOT NULL")
    op.create_index(
        "ix_parse_runs_job",
        "parse_runs",
        ["due_ms", "parse_run_id"],
        postgresql_where=of_a_job,
        sqlite_where=of_a_job,
    )
    known = sa.text("job_id IS NOT NULL")
    op.create_index(
        "ux_parse_runs_job_id", "parse_runs", ["job_id"], unique=True, postgresql_where=known, sqlite_where=known
    )
