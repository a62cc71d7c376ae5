"""Read-only questions about sets, documents and money. Every count and sum is SQL.

The state of a document is that of the newest result for its current input fingerprint; without one it is pending.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from extraction_core.states import ACTIVE_ROW, RowStatus
from resources.ledger.engine import LedgerEngine
from resources.ledger.selection import counted_attempts, latest_result_id
from resources.ledger.tables import attempts, document_sets, documents, extraction_results, parse_runs
from resources.ledger.types import AnySelect, ExactDecimal, literal, zero

DOCUMENT = documents.c
RESULT = extraction_results.c
ATTEMPT = attempts.c
SET = document_sets.c
PENDING = "pending"


class Reports:
    """The queries behind the terminal's ``status`` and the UI's metadata."""

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine

    def set_counts(self, set_id: int) -> dict[str, int]:
        """Return how many documents of a set are in each state; the sum is the number of present documents."""
        states = _document_states().where(DOCUMENT.set_id == set_id).subquery()
        statement = sa.select(states.c.state, sa.func.count().label("count")).group_by(states.c.state)
        rows = self._all(statement)
        return {row["state"]: int(row["count"]) for row in rows}

    def sets(self, collection: str) -> list[Mapping[str, Any]]:
        """Return one row per set: key, folder, documents per state, known cost, calls of unknown cost, last error."""
        states = _document_states().where(DOCUMENT.collection == collection).subquery()

        def number(*wanted: str) -> sa.ColumnElement[int]:
            return sa.func.count().filter(states.c.state.in_([literal(state) for state in wanted]))

        statement = (
            sa.select(
                SET.set_id,
                SET.partition_key,
                SET.folder,
                sa.func.count(states.c.document_id).label("documents"),
                number(RowStatus.COMPLETED).label("completed"),
                number(RowStatus.FAILED).label("failed"),
                number(RowStatus.CANCELLED).label("cancelled"),
                number(*ACTIVE_ROW).label("active"),
                number(PENDING).label("pending"),
            )
            .select_from(document_sets.outerjoin(states, states.c.set_id == SET.set_id))
            .where(SET.collection == collection)
            .group_by(SET.set_id, SET.partition_key, SET.folder)
            .order_by(SET.folder)
        )
        money = self._money_by_set(collection)
        errors = self._last_errors(collection)
        nothing = {"cost_usd": 0, "unknown_cost_calls": 0, "calls": 0}
        return [
            {**row, **money.get(row["set_id"], nothing), "last_error": errors.get(row["set_id"])}
            for row in self._all(statement)
        ]

    def documents(self, collection: str, set_id: int | None = None) -> list[Mapping[str, Any]]:
        """Return one row per present document: key, set, state, reason, message, output, attempts, known cost."""
        statement = _document_states(with_detail=True).where(DOCUMENT.collection == collection)
        if set_id is not None:
            statement = statement.where(DOCUMENT.set_id == set_id)
        return self._all(statement.order_by(DOCUMENT.document_key))

    def exhausted(self, collection: str, max_attempts: int, set_id: int | None = None) -> dict[int, int]:
        """Return set id -> failed documents without attempts left, which only a change or a person makes due again."""
        statement = (
            sa.select(DOCUMENT.set_id, sa.func.count().label("count"))
            .select_from(documents.join(extraction_results, RESULT.result_id == latest_result_id()))
            .where(DOCUMENT.collection == collection, DOCUMENT.removed_ms.is_(None))
            .where(RESULT.status == literal(RowStatus.FAILED), counted_attempts() >= max_attempts)
            .group_by(DOCUMENT.set_id)
        )
        if set_id is not None:
            statement = statement.where(DOCUMENT.set_id == set_id)
        return {row["set_id"]: int(row["count"]) for row in self._all(statement)}

    def run_usage(self, run_id: int) -> Mapping[str, Any]:
        """Return a run's tokens by kind, calls, known cost and number of calls of unknown cost."""
        return self._all(_usage().where(ATTEMPT.run_id == run_id))[0]

    def set_usage(self, set_id: int) -> Mapping[str, Any]:
        """Return the same for all runs of a set."""
        mine = sa.select(DOCUMENT.document_id).where(DOCUMENT.set_id == set_id)
        return self._all(_usage().where(ATTEMPT.document_id.in_(mine)))[0]

    def total_usage(self) -> Mapping[str, Any]:
        """Return the same for the whole ledger."""
        return self._all(_usage())[0]

    def run_failures(self, run_id: int, limit: int) -> list[Mapping[str, Any]]:
        """Return failed rows of a run, by document key, at most ``limit``."""
        statement = (
            sa.select(RESULT.document_key, RESULT.reason, RESULT.message, RESULT.cost_usd)
            .where(RESULT.run_id == run_id, RESULT.status == literal(RowStatus.FAILED))
            .order_by(RESULT.document_key)
            .limit(limit)
        )
        return self._all(statement)

    def set_outputs(self, set_id: int) -> list[Mapping[str, Any]]:
        """Return path and hash of the newest completed result of every present document of a set."""
        done = extraction_results.alias("done")
        newest = (
            sa.select(sa.func.max(done.c.result_id))
            .where(done.c.document_id == DOCUMENT.document_id, done.c.status == literal(RowStatus.COMPLETED))
            .correlate(documents)
            .scalar_subquery()
        )
        statement = (
            sa.select(RESULT.document_key, RESULT.output_path, RESULT.output_sha256)
            .select_from(documents.join(extraction_results, RESULT.result_id == newest))
            .where(DOCUMENT.set_id == set_id, DOCUMENT.removed_ms.is_(None))
            .order_by(RESULT.document_key)
        )
        return self._all(statement)

    def parse_failures(self, set_id: int) -> list[Mapping[str, Any]]:
        """Return the present documents of a set whose parse failed, with reason and message."""
        return self._parsed(set_id, parse_runs.c.status == literal(RowStatus.FAILED))

    def parse_warnings(self, set_id: int) -> list[Mapping[str, Any]]:
        """Return the present documents of a set whose parse has warnings."""
        return self._parsed(set_id, sa.and_(parse_runs.c.warnings.is_not(None), parse_runs.c.warnings != []))

    def parse_counts(self, set_id: int) -> Mapping[str, Any]:
        """Return ``documents``, ``parsed``, ``failed`` and ``characters`` of a set."""

        def number(status: RowStatus) -> sa.ColumnElement[int]:
            return sa.func.count().filter(parse_runs.c.status == literal(status))

        statement = (
            sa.select(
                sa.func.count().label("documents"),
                number(RowStatus.COMPLETED).label("parsed"),
                number(RowStatus.FAILED).label("failed"),
                sa.cast(sa.func.coalesce(sa.func.sum(parse_runs.c.characters), zero()), sa.BigInteger).label(
                    "characters"
                ),
            )
            .select_from(documents.outerjoin(parse_runs, parse_runs.c.parse_run_id == DOCUMENT.parse_run_id))
            .where(DOCUMENT.set_id == set_id, DOCUMENT.removed_ms.is_(None))
        )
        return self._all(statement)[0]

    def _parsed(self, set_id: int, wanted: sa.ColumnElement[bool]) -> list[Mapping[str, Any]]:
        statement = (
            sa.select(DOCUMENT.document_key, parse_runs.c.reason, parse_runs.c.message, parse_runs.c.warnings)
            .select_from(documents.join(parse_runs, parse_runs.c.parse_run_id == DOCUMENT.parse_run_id))
            .where(DOCUMENT.set_id == set_id, DOCUMENT.removed_ms.is_(None), wanted)
            .order_by(DOCUMENT.document_key)
        )
        return self._all(statement)

    def _money_by_set(self, collection: str) -> dict[int, Mapping[str, Any]]:
        statement = (
            _usage(DOCUMENT.set_id)
            .select_from(attempts.join(documents, DOCUMENT.document_id == ATTEMPT.document_id))
            .where(DOCUMENT.collection == collection)
            .group_by(DOCUMENT.set_id)
        )
        return {
            row["set_id"]: {name: row[name] for name in ("cost_usd", "unknown_cost_calls", "calls")}
            for row in self._all(statement)
        }

    def _last_errors(self, collection: str) -> dict[int, str]:
        """The newest failed state per set: ``key: reason``."""
        states = _document_states(with_detail=True).where(DOCUMENT.collection == collection).subquery()
        newest = (
            sa.select(states.c.set_id, sa.func.max(states.c.result_id).label("result_id"))
            .where(states.c.state == literal(RowStatus.FAILED))
            .group_by(states.c.set_id)
            .subquery()
        )
        statement = sa.select(newest.c.set_id, RESULT.document_key, RESULT.reason).join_from(
            newest, extraction_results, RESULT.result_id == newest.c.result_id
        )
        return {row["set_id"]: f"{row['document_key']}: {row['reason']}" for row in self._all(statement)}

    def _all(self, statement: AnySelect) -> list[Mapping[str, Any]]:
        rows = self._engine.read(lambda connection: connection.execute(statement).mappings().all())
        return [dict(row) for row in rows]


def _document_states(*, with_detail: bool = False) -> AnySelect:
    """Present documents with their state; with detail also the newest result's columns."""
    state = sa.func.coalesce(RESULT.status, literal(PENDING)).label("state")
    columns: list[sa.ColumnElement[Any]] = [DOCUMENT.document_id, DOCUMENT.set_id, state]
    if with_detail:
        columns += [
            DOCUMENT.document_key,
            SET.partition_key,
            RESULT.result_id,
            RESULT.reason,
            RESULT.message,
            RESULT.retryable,
            RESULT.notes,
            RESULT.output_path,
            DOCUMENT.next_retry_ms,
            counted_attempts().label("attempts"),
            _document_cost().label("cost_usd"),
        ]
    joined = documents.join(document_sets, SET.set_id == DOCUMENT.set_id).outerjoin(
        extraction_results, RESULT.result_id == latest_result_id()
    )
    return sa.select(*columns).select_from(joined).where(DOCUMENT.removed_ms.is_(None))


def _document_cost() -> sa.ColumnElement[Any]:
    total = sa.type_coerce(sa.func.sum(ATTEMPT.cost_usd), ExactDecimal)
    return sa.select(total).where(ATTEMPT.document_id == DOCUMENT.document_id).correlate(documents).scalar_subquery()


def _usage(*also: sa.ColumnElement[Any]) -> AnySelect:
    """Sums over attempts: every token kind, calls made, known cost, calls whose cost is not known."""

    def total(column: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.cast(sa.func.coalesce(sa.func.sum(column), zero()), sa.BigInteger).label(column.key)

    return sa.select(
        *also,
        sa.func.count(ATTEMPT.attempt_id).label("calls"),
        total(ATTEMPT.input_tokens),
        total(ATTEMPT.cache_write_5m_tokens),
        total(ATTEMPT.cache_write_1h_tokens),
        total(ATTEMPT.cache_read_tokens),
        total(ATTEMPT.output_tokens),
        sa.type_coerce(sa.func.coalesce(sa.func.sum(ATTEMPT.cost_usd), zero()), ExactDecimal).label("cost_usd"),
        sa.func.count(ATTEMPT.attempt_id).filter(ATTEMPT.cost_usd.is_(None)).label("unknown_cost_calls"),
    )
