"""Compiled statements are shared by the ledgers of a process, and only by those of one kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import CacheStats

from resources.ledger.statements import MOST, CompiledStatements

if TYPE_CHECKING:
    from tests.conftest import MakeLedger


def test_what_one_ledger_compiled_the_next_one_does_not_compile_again(make_ledger: MakeLedger) -> None:
    found: list[tuple[CacheStats, int]] = []
    for number in (7, 8):
        ledger, hits = make_ledger(), []
        event.listen(
            ledger.engine.raw,
            "before_cursor_execute",
            lambda *of, hits=hits: hits.append(of[4].cache_hit),
        )
        query = sa.select(sa.literal(number).label(f"only_here_on_{ledger.engine.raw.dialect.name}"))
        answer = ledger.engine.read(lambda connection, query=query: connection.execute(query).scalar_one())
        found.append((hits[-1], answer))
    assert found == [(CacheStats.CACHE_MISS, 7), (CacheStats.CACHE_HIT, 8)]


def test_statements_for_another_kind_or_version_of_database_are_others() -> None:
    statements = CompiledStatements()
    old, new, other_kind = sqlite.dialect(), sqlite.dialect(), postgresql.dialect()
    old.server_version_info, new.server_version_info, other_kind.server_version_info = (3, 30), (3, 50), (3, 30)
    statements[old, "query"] = "for the old one"
    assert statements.get((old, "query")) == "for the old one"
    others: list[Any] = [new, other_kind]
    assert [statements.get((other, "query")) for other in others] == [None, None]


def test_no_more_statements_are_kept_than_an_engine_keeps_by_itself() -> None:
    statements, dialect = CompiledStatements(), sqlite.dialect()
    for number in range(MOST + 1):
        statements[dialect, number] = number
    assert len(statements) <= MOST
    assert statements.get((dialect, MOST)) == MOST
