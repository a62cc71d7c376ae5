"""Parse runs: one parsing of some bytes by one provider version, whatever documents those bytes stand for.

At most one parse run per parse key is active or completed (a partial unique index), so equal bytes are parsed once. A
failed one is reused as well, since parsing the same bytes the same way fails the same way, unless another try may
help or a person asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from extraction_core.failpoints import Failpoint
from extraction_core.parsing import ParsedDocument, ParseFailure
from extraction_core.states import RowStatus
from resources.ledger.claims import HELD_COLUMNS, Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.queue import WorkQueue
from resources.ledger.row_sets import is_postgres, row_set, row_set_arguments
from resources.ledger.tables import PARSED_OR_ACTIVE_SQL, documents, parse_runs
from resources.ledger.types import SafeJson, SafeText, literal, now_ms

PARSE = parse_runs.c
PARSED: Mapping[str, sa.types.TypeEngine[Any]] = {
    "markdown_sha256": sa.Text(),
    "characters": sa.BigInteger(),
    "page_count": sa.BigInteger(),
    "media_type": SafeText(),
    "engine": SafeText(),
    "warnings": SafeJson(),
}
"""What a completed parse run says of its text; see :func:`parsed_values`."""
COLUMNS = {**HELD_COLUMNS, **PARSED}


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

    def keys_in_set(self, set_id: int, parse_run_ids: AbstractSet[int]) -> dict[int, str]:
        """Return for parse runs (at most a few hundred) a present document of a set, the first by key of several.

        A run that no document of the set needs any more is left out.
        """
        statement = (
            sa.select(documents.c.parse_run_id, sa.func.min(documents.c.document_key))
            .where(
                documents.c.parse_run_id.in_(sorted(parse_run_ids)),
                documents.c.set_id == set_id,
                documents.c.removed_ms.is_(None),
            )
            .group_by(documents.c.parse_run_id)
        )
        rows = self._engine.read(lambda connection: connection.execute(statement).all())
        return {row[0]: row[1] for row in rows}

    def record_all(self, parsed: Mapping[Held, Mapping[str, Any]], failed: Mapping[Held, ParseFailure]) -> set[Held]:
        """End held parse runs in one transaction, each guarded for itself.

        Args:
            parsed: what is said of those that are completed, with the names of :data:`PARSED`.
            failed: why the others failed.

        Returns:
            Those that were still held; the others are superseded.
        """
        rows = [(*held, *(parsed[held][name] for name in PARSED)) for held in sorted(parsed)]

        def transaction(connection: sa.Connection) -> set[Held]:
            ended = _complete(connection, rows) if rows else set[Held]()
            for held in sorted(failed):
                why = failed[held]
                if self.fail(connection, held, reason=why.reason, message=why.message, retryable=why.retryable):
                    ended.add(held)
            return ended

        return self._engine.write(transaction, Failpoint.COMMIT_PARSE)


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


def _complete(connection: sa.Connection, rows: Sequence[Sequence[Any]]) -> set[Held]:
    postgres = is_postgres(connection)
    arguments = row_set_arguments(COLUMNS, rows, postgres=postgres)
    return {Held(*row) for row in connection.execute(_completion(postgres), arguments)}


@lru_cache(2)
def _completion(postgres: bool) -> sa.Executable:  # noqa: FBT001 - cached by position
    """The guarded UPDATE: rows that are not held under the given generation are left as they are."""
    given = row_set(COLUMNS, postgres=postgres)
    return (
        sa.update(parse_runs)
        .where(
            PARSE.parse_run_id == given.c.row_id,
            PARSE.generation == given.c.generation,
            PARSE.status == literal(RowStatus.RUNNING),
        )
        .values(
            status=literal(RowStatus.COMPLETED),
            owner=sa.null(),
            lease_expires_ms=sa.null(),
            finished_ms=now_ms(),
            **{name: given.c[name] for name in PARSED},
        )
        .returning(PARSE.parse_run_id, PARSE.generation)
    )
