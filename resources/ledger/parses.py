"""Parse runs: one parsing of some bytes by one provider version, whatever documents those bytes stand for.

At most one parse run per parse key is active or completed (a partial unique index), so equal bytes are parsed once. A
failed one is reused as well, since parsing the same bytes the same way fails the same way, unless another try may
help or a person asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from extraction_core.failpoints import Failpoint
from extraction_core.parsing import ParsedDocument
from extraction_core.states import RowStatus
from resources.ledger.engine import LedgerEngine
from resources.ledger.queue import Held, WorkQueue
from resources.ledger.row_sets import is_postgres
from resources.ledger.tables import PARSED_OR_ACTIVE_SQL, documents, parse_runs
from resources.ledger.types import now_ms

PARSE = parse_runs.c


@dataclass(frozen=True, kw_only=True)
class ParseRequest:
    """What should be parsed: the identity of the parse, where the bytes are, and whose they are first."""

    parse_key: str
    content_hash: str
    provider: str
    provider_version: str
    source: str
    document_key: str


class Parses(WorkQueue):
    """The queue of parse runs; a claim's scope is a document set: any worker of a set parses what the set needs."""

    def __init__(self, engine: LedgerEngine) -> None:
        needed = sa.exists().where(
            documents.c.parse_run_id == PARSE.parse_run_id, documents.c.set_id == sa.bindparam("scope")
        )
        super().__init__(engine, parse_runs, PARSE.parse_run_id, needed, Failpoint.COMMIT_PARSE_CLAIM)

    def enqueue(self, requests: Sequence[ParseRequest], *, again: bool) -> dict[str, int]:
        """Enqueue what is not parsed yet. Idempotent.

        Args:
            requests: at most a few hundred.
            again: whether a person asks to parse again what failed for good.

        Returns:
            Parse key -> parse run id, whether newly inserted or not.
        """
        by_key = {request.parse_key: request for request in requests}
        if not by_key:
            return {}

        def transaction(connection: sa.Connection) -> dict[str, int]:
            known = _latest(connection, by_key)
            missing = [key for key in sorted(by_key) if key not in known or _worth_another(known[key], again=again)]
            if missing:
                _insert(connection, [by_key[key] for key in missing])
                known = _latest(connection, by_key)
            return {key: row["parse_run_id"] for key, row in known.items()}

        return self._engine.write(transaction, Failpoint.COMMIT_PARSE_ENQUEUE)

    def failed_for(self, parse_run_ids: AbstractSet[int], reasons: AbstractSet[str]) -> set[int]:
        """Return which of some parse runs (at most a few hundred) failed for one of some reasons."""
        statement = sa.select(PARSE.parse_run_id).where(
            PARSE.parse_run_id.in_(sorted(parse_run_ids)),
            PARSE.status == RowStatus.FAILED,
            PARSE.reason.in_(sorted(reasons)),
        )
        return set(self._engine.read(lambda connection: connection.execute(statement).scalars().all()))

    def warned_of(self, parse_run_ids: AbstractSet[int], codes: AbstractSet[str]) -> set[int]:
        """Return which of some parse runs (at most a few hundred) were parsed with a warning of one of some codes."""
        statement = sa.select(PARSE.parse_run_id, PARSE.warnings).where(
            PARSE.parse_run_id.in_(sorted(parse_run_ids)), PARSE.status == RowStatus.COMPLETED
        )
        rows = self._engine.read(lambda connection: connection.execute(statement).all())
        return {run_id for run_id, warnings in rows if codes & {one.split(":", 1)[0] for one in warnings or ()}}

    def record_parsed(self, held: Held, values: Mapping[str, Any]) -> bool:
        """End a held parse run completed. False: superseded."""
        return self._engine.write(lambda connection: self.complete(connection, held, values), Failpoint.COMMIT_PARSE)

    def record_failed(self, held: Held, *, reason: str, message: str, retryable: bool) -> RowStatus | None:
        """End a held parse run failed. None: superseded."""
        return self._engine.write(
            lambda connection: self.fail(connection, held, reason=reason, message=message, retryable=retryable),
            Failpoint.COMMIT_PARSE,
        )


def parsed_values(parsed: ParsedDocument, markdown_sha256: str) -> dict[str, Any]:
    """Return what a completed parse run says of its text."""
    return {
        "markdown_sha256": markdown_sha256,
        "characters": len(parsed.markdown),
        "page_count": len(parsed.pages),
        "media_type": parsed.media_type,
        "engine": f"{parsed.engine} {parsed.engine_version}",
        "warnings": list(parsed.warnings),
    }


def _latest(connection: sa.Connection, keys: Mapping[str, ParseRequest]) -> dict[str, sa.RowMapping]:
    newest = sa.select(sa.func.max(PARSE.parse_run_id)).where(PARSE.parse_key.in_(list(keys))).group_by(PARSE.parse_key)
    statement = sa.select(PARSE.parse_key, PARSE.parse_run_id, PARSE.status, PARSE.retryable).where(
        PARSE.parse_run_id.in_(newest)
    )
    return {row["parse_key"]: row for row in connection.execute(statement).mappings()}


def _worth_another(row: sa.RowMapping, *, again: bool) -> bool:
    if row["status"] == RowStatus.CANCELLED:
        return True
    return row["status"] == RowStatus.FAILED and (again or row["retryable"])


def _insert(connection: sa.Connection, requests: Sequence[ParseRequest]) -> None:
    rows = [{**vars(request), "created_ms": now_ms()} for request in requests]
    insert = postgresql.insert(parse_runs) if is_postgres(connection) else sqlite.insert(parse_runs)
    connection.execute(
        insert.values(rows).on_conflict_do_nothing(
            index_elements=["parse_key"], index_where=sa.text(PARSED_OR_ACTIVE_SQL)
        )
    )
