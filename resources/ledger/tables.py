"""The tables, their constraints and their partial indexes: half of the invariants live here.

``parse_runs``, ``extraction_results`` and ``message_batches`` share the columns of a claimable row
(:func:`queue_columns`); the work queue serves all three with the same verbs. All ``*_ms`` columns are milliseconds of
the database's clock.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from extraction_core.batches import BatchState
from extraction_core.parse_jobs import OPEN_JOB, ParseJobState
from extraction_core.states import ACTIVE_ROW, AttemptStatus, RowStatus, RunStatus, Select
from resources.ledger.types import BigId, ExactDecimal, SafeJson, SafeText

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ACTIVE_SQL = "status IN ('queued', 'running')"
QUEUED_SQL = "status = 'queued'"
OPEN_SQL = "status = 'open'"
RUNNING_JOB_SQL = "status = 'running' AND job_state IS NOT NULL"
JOB_KNOWN_SQL = "job_id IS NOT NULL"
PARSED_OR_ACTIVE_SQL = "status IN ('queued', 'running', 'completed')"
_OPEN_JOB_SQL = ", ".join(f"'{state}'" for state in ParseJobState if state in OPEN_JOB)
JOB_STATE_SQL = (
    "job_state IS NULL"
    f" OR job_state IN ({_OPEN_JOB_SQL}) AND status = 'running'"
    " OR job_state = 'completed' AND status = 'completed'"
    " OR job_state IN ('failed', 'expired') AND status = 'failed'"
)
"""A job that is open holds its row, and one that has ended has ended it."""


def _one_of(column: str, states: type[StrEnum]) -> sa.CheckConstraint:
    listed = ", ".join(f"'{state.value}'" for state in states)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)


def _partial(name: str, *columns: sa.ColumnElement[Any], where: str, unique: bool = False) -> sa.Index:
    predicate = sa.text(where)
    return sa.Index(name, *columns, unique=unique, postgresql_where=predicate, sqlite_where=predicate)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def queue_columns() -> list[sa.schema.SchemaItem]:
    """Return the columns of a claimable row, and the rule that a running row, and no other, is held."""
    return [
        sa.Column("status", sa.String(12), nullable=False, server_default=RowStatus.QUEUED),
        _count("due_ms"),
        _count("generation"),
        sa.Column("owner", sa.Text),
        sa.Column("lease_expires_ms", sa.BigInteger),
        _flag("cancel_requested"),
        _count("reclaims"),
        sa.Column("reason", sa.Text),
        sa.Column("message", SafeText),
        _flag("retryable"),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("claimed_ms", sa.BigInteger),
        sa.Column("finished_ms", sa.BigInteger),
        _one_of("status", RowStatus),
        sa.CheckConstraint(
            "(status = 'running') = (owner IS NOT NULL) AND (status = 'running') = (lease_expires_ms IS NOT NULL)",
            name="held",
        ),
        sa.CheckConstraint(
            "(status IN ('completed', 'failed', 'cancelled')) = (finished_ms IS NOT NULL)", name="finished"
        ),
    ]


document_sets = sa.Table(
    "document_sets",
    metadata,
    sa.Column("set_id", BigId, sa.Identity(), primary_key=True),
    sa.Column("collection", sa.Text, nullable=False),
    sa.Column("partition_key", sa.Text, nullable=False),
    sa.Column("folder", sa.Text, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("question", sa.String(64)),
    _count("launch_number"),
    sa.Column("launch_lease_expires_ms", sa.BigInteger),
    sa.UniqueConstraint("collection", "partition_key"),
    sa.UniqueConstraint("collection", "folder"),
)

parse_runs = sa.Table(
    "parse_runs",
    metadata,
    sa.Column("parse_run_id", BigId, sa.Identity(), primary_key=True),
    sa.Column("parse_key", sa.String(64), nullable=False),
    sa.Column("content_hash", sa.String(64), nullable=False),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("provider_version", sa.Text, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("document_key", sa.Text, nullable=False),
    *queue_columns(),
    sa.Column("markdown_sha256", sa.String(64)),
    sa.Column("characters", sa.BigInteger),
    sa.Column("page_count", sa.BigInteger),
    sa.Column("media_type", sa.Text),
    sa.Column("engine", sa.Text),
    sa.Column("warnings", SafeJson),
    sa.Column("job_state", sa.String(12)),
    sa.Column("job_nonce", sa.String(16)),
    sa.Column("job_id", sa.Text),
    sa.Column("job_submitted_ms", sa.BigInteger),
    sa.Column("job_deadline_ms", sa.BigInteger),
    _count("job_looks"),
    sa.Column("job_result_sha256", sa.String(64)),
    sa.Column("job_pages", sa.BigInteger),
    sa.Column("job_credits", ExactDecimal),
    sa.CheckConstraint(JOB_STATE_SQL, name="job_state"),
)
_partial("ux_parse_runs_key", parse_runs.c.parse_key, where=PARSED_OR_ACTIVE_SQL, unique=True)
_partial("ix_parse_runs_claim", parse_runs.c.due_ms, parse_runs.c.parse_run_id, where=QUEUED_SQL)
_partial("ix_parse_runs_job", parse_runs.c.due_ms, parse_runs.c.parse_run_id, where=RUNNING_JOB_SQL)
_partial("ux_parse_runs_job_id", parse_runs.c.job_id, where=JOB_KNOWN_SQL, unique=True)
sa.Index("ix_parse_runs_key", parse_runs.c.parse_key)

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("document_id", BigId, sa.Identity(), primary_key=True),
    sa.Column("set_id", sa.BigInteger, sa.ForeignKey("document_sets.set_id"), nullable=False),
    sa.Column("collection", sa.Text, nullable=False),
    sa.Column("document_key", sa.Text, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
    sa.Column("read_signature", sa.Text),
    sa.Column("content_hash", sa.String(64)),
    sa.Column("input_fingerprint", sa.String(64)),
    sa.Column("parse_run_id", sa.BigInteger, sa.ForeignKey("parse_runs.parse_run_id")),
    sa.Column("next_retry_ms", sa.BigInteger),
    sa.Column("due_since_ms", sa.BigInteger),
    sa.Column("lowest_edition", sa.Integer, nullable=False, server_default="0"),
    sa.Column("registered_ms", sa.BigInteger, nullable=False),
    sa.Column("removed_ms", sa.BigInteger),
    sa.UniqueConstraint("collection", "document_key"),
    sa.Index("ix_documents_set_id", "set_id", "document_id"),
    sa.Index("ix_documents_parse_run_id", "parse_run_id"),
)

_partial("ix_documents_due", documents.c.set_id, where="due_since_ms IS NOT NULL")
_partial("ix_documents_retry", documents.c.next_retry_ms, where="next_retry_ms IS NOT NULL")

extraction_runs = sa.Table(
    "extraction_runs",
    metadata,
    sa.Column("run_id", BigId, sa.Identity(), primary_key=True),
    sa.Column("set_id", sa.BigInteger, sa.ForeignKey("document_sets.set_id"), nullable=False),
    sa.Column("collection", sa.Text, nullable=False),
    sa.Column("status", sa.String(24), nullable=False, server_default=RunStatus.OPEN),
    sa.Column("selection", sa.String(8), nullable=False),
    sa.Column("selected_keys", SafeJson),
    _flag("sealed"),
    sa.Column("dagster_run_id", sa.Text),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("max_cost_usd", ExactDecimal),
    sa.Column("request_count", sa.BigInteger),
    _count("unexpected_count"),
    sa.Column("completed_count", sa.BigInteger),
    sa.Column("failed_count", sa.BigInteger),
    sa.Column("cancelled_count", sa.BigInteger),
    sa.Column("cost_usd", ExactDecimal),
    sa.Column("unknown_cost_count", sa.BigInteger),
    sa.Column("opened_ms", sa.BigInteger, nullable=False),
    sa.Column("sealed_ms", sa.BigInteger),
    sa.Column("closed_ms", sa.BigInteger),
    _one_of("status", RunStatus),
    _one_of("selection", Select),
    sa.CheckConstraint(
        "status = 'open' OR request_count + unexpected_count = completed_count + failed_count + cancelled_count",
        name="balance",
    ),
)
_partial("ux_extraction_runs_open", extraction_runs.c.set_id, where=OPEN_SQL, unique=True)
sa.Index("ix_extraction_runs_set_id", extraction_runs.c.set_id, extraction_runs.c.run_id)

extraction_results = sa.Table(
    "extraction_results",
    metadata,
    sa.Column("result_id", BigId, sa.Identity(), primary_key=True),
    sa.Column("run_id", sa.BigInteger, sa.ForeignKey("extraction_runs.run_id"), nullable=False),
    sa.Column("document_id", sa.BigInteger, sa.ForeignKey("documents.document_id"), nullable=False),
    sa.Column("collection", sa.Text, nullable=False),
    sa.Column("document_key", sa.Text, nullable=False),
    sa.Column("input_fingerprint", sa.String(64), nullable=False),
    sa.Column("edition", sa.Integer, nullable=False),
    sa.Column("parse_run_id", sa.BigInteger, sa.ForeignKey("parse_runs.parse_run_id")),
    *queue_columns(),
    _count("refusals_to_serve"),
    sa.Column("attempt_id", sa.BigInteger),
    sa.Column("output_path", sa.Text),
    sa.Column("output_sha256", sa.String(64)),
    sa.Column("output_bytes", sa.BigInteger),
    sa.Column("notes", SafeJson),
    sa.Column("cost_usd", ExactDecimal),
    sa.UniqueConstraint("run_id", "document_id"),
    sa.CheckConstraint("status <> 'completed' OR output_sha256 IS NOT NULL", name="output"),
)
_partial("ux_extraction_results_active", extraction_results.c.document_id, where=ACTIVE_SQL, unique=True)
_partial(
    "ix_extraction_results_claim",
    extraction_results.c.run_id,
    extraction_results.c.due_ms,
    extraction_results.c.result_id,
    where=QUEUED_SQL,
)
_partial("ix_extraction_results_open", extraction_results.c.run_id, where=ACTIVE_SQL)
sa.Index(
    "ix_extraction_results_question",
    extraction_results.c.document_id,
    extraction_results.c.input_fingerprint,
    extraction_results.c.result_id,
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("attempt_id", BigId, sa.Identity(), primary_key=True),
    sa.Column("token", sa.String(36), nullable=False),
    sa.Column("result_id", sa.BigInteger, sa.ForeignKey("extraction_results.result_id"), nullable=False),
    sa.Column("run_id", sa.BigInteger, sa.ForeignKey("extraction_runs.run_id"), nullable=False),
    sa.Column("batch_id", sa.BigInteger),
    sa.Column("document_id", sa.BigInteger, nullable=False),
    sa.Column("input_fingerprint", sa.String(64), nullable=False),
    sa.Column("edition", sa.Integer, nullable=False),
    sa.Column("status", sa.String(12), nullable=False, server_default=AttemptStatus.OPEN),
    sa.Column("counted", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("max_output_tokens", sa.BigInteger, nullable=False),
    sa.Column("second_try", sa.String(12)),
    sa.Column("reserved_usd", ExactDecimal),
    sa.Column("opened_ms", sa.BigInteger, nullable=False),
    sa.Column("closed_ms", sa.BigInteger),
    sa.Column("request_id", sa.Text),
    sa.Column("response", SafeText),
    sa.Column("served_model", SafeText),
    sa.Column("stop_reason", SafeText),
    sa.Column("input_tokens", sa.BigInteger),
    sa.Column("cache_write_5m_tokens", sa.BigInteger),
    sa.Column("cache_write_1h_tokens", sa.BigInteger),
    sa.Column("cache_read_tokens", sa.BigInteger),
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("cost_usd", ExactDecimal),
    sa.Column("prices", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("message", SafeText),
    sa.Column("verdict", sa.Text),
    sa.UniqueConstraint("token"),
    _one_of("status", AttemptStatus),
    sa.CheckConstraint("(status = 'open') = (closed_ms IS NULL)", name="closed"),
    sa.CheckConstraint("status <> 'answered' OR response IS NOT NULL", name="answer_kept"),
    sa.Index("ix_attempts_question", "document_id", "input_fingerprint", "edition"),
    sa.Index("ix_attempts_result_id", "result_id"),
    sa.Index("ix_attempts_run_id", "run_id"),
)

_partial("ix_attempts_batch_id", attempts.c.batch_id, where="batch_id IS NOT NULL")

message_batches = sa.Table(
    "message_batches",
    metadata,
    sa.Column("batch_id", BigId, sa.Identity(), primary_key=True),
    sa.Column("run_id", sa.BigInteger, sa.ForeignKey("extraction_runs.run_id"), nullable=False),
    sa.Column("set_id", sa.BigInteger, sa.ForeignKey("document_sets.set_id"), nullable=False),
    sa.Column("collection", sa.Text, nullable=False),
    sa.Column("nonce", sa.String(16), nullable=False),
    sa.Column("provider_id", sa.Text),
    sa.Column("state", sa.String(12), nullable=False, server_default=BatchState.RESERVED),
    _count("request_count"),
    *queue_columns(),
    sa.Column("accepted_ms", sa.BigInteger),
    sa.Column("created_at", sa.Text),
    sa.Column("expires_at", sa.Text),
    sa.Column("overdue_ms", sa.BigInteger),
    _count("looks"),
    *[_count(name) for name in ("processing", "succeeded", "errored", "canceled", "expired")],
    sa.UniqueConstraint("nonce"),
    sa.UniqueConstraint("provider_id"),
    _one_of("state", BatchState),
    sa.CheckConstraint("(state IN ('collected', 'lost', 'void')) = (finished_ms IS NOT NULL)", name="settled"),
    sa.CheckConstraint("state IN ('reserved', 'lost', 'void') OR provider_id IS NOT NULL", name="known"),
    sa.Index("ix_message_batches_run_id", "run_id"),
)
_partial("ix_message_batches_unsettled", message_batches.c.set_id, message_batches.c.due_ms, where=ACTIVE_SQL)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("worker_id", sa.String(36), primary_key=True),
    sa.Column("dagster_run_id", sa.Text),
    sa.Column("set_id", sa.BigInteger, sa.ForeignKey("document_sets.set_id")),
    sa.Column("collection", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("started_ms", sa.BigInteger, nullable=False),
    sa.Column("beat_ms", sa.BigInteger, nullable=False),
    sa.Column("lease_expires_ms", sa.BigInteger, nullable=False),
    sa.Column("ended_ms", sa.BigInteger),
    sa.Index("ix_workers_set_id", "set_id"),
    sa.Index("ix_workers_dagster_run_id", "dagster_run_id"),
)

ACTIVE = tuple(sorted(ACTIVE_ROW))
