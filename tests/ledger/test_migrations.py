"""The schema: made by migrations, equal to the tables in code, upgraded once however many processes start."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from extraction_core.errors import LedgerError, SchemaTooNewError
from resources.ledger import Ledger
from resources.ledger.engine import LedgerEngine
from resources.ledger.migrate import LOCK_KEY, VERSION_TABLE, current_revision
from resources.ledger.tables import metadata
from tests.factories import a_run
from tests.ledger.support import PATIENCE_S, in_background, rows, together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres_server import PostgresServer

PROJECT_ROOT = Path(__file__).resolve().parents[2]

OPEN_IN_EIGHT_PROCESSES = """
import os, sys, traceback
from resources.ledger import Ledger

wait_here, start = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if not child:
        os.close(start)
        os.read(wait_here, 1)  # returns when the parent closes its end, in all children at one moment
        try:
            Ledger(sys.argv[1]).close()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(start)
print([os.waitpid(child, 0)[1] for child in children])
"""


@pytest.fixture
def declared_url(bare_database_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A second database of the same kind, with the tables as the code declares them."""
    if bare_database_url.startswith("sqlite"):
        make(url := f"sqlite:///{tmp_path / 'declared.db'}")
        yield url
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create()
    make(url)
    yield url
    server.drop(url)


def make(url: str) -> None:
    """Create the declared tables."""
    with closing(LedgerEngine(url)) as engine:
        engine.write(metadata.create_all)


def migrated(url: str) -> LedgerEngine:
    """Migrate a database; returns an engine on it."""
    Ledger(url).close()
    return LedgerEngine(url)


def schema_of(engine: LedgerEngine) -> dict[str, Any]:
    """Return all that a database knows of its tables, apart from their indexes, without the order of columns."""

    def query(connection: sa.Connection) -> dict[str, Any]:
        inspector = sa.inspect(connection)
        return {
            table: {
                "columns": sorted(str(sorted(column.items())) for column in inspector.get_columns(table)),
                "checks": sorted(
                    (str(each["name"]), each["sqltext"]) for each in inspector.get_check_constraints(table)
                ),
                "unique": sorted(str(each["column_names"]) for each in inspector.get_unique_constraints(table)),
                "keys": sorted(str(each) for each in inspector.get_foreign_keys(table)),
                "primary": str(inspector.get_pk_constraint(table)),
            }
            for table in sorted(set(inspector.get_table_names()) - {VERSION_TABLE})
        }

    return engine.read(query)


def indexes_of(engine: LedgerEngine) -> dict[str, str]:
    """Return the definition of every index, its predicate included, in one spelling."""
    listing = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        if engine.is_sqlite
        else f"SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> '{VERSION_TABLE}'"  # noqa: S608 - a constant
    )
    found = engine.read(lambda connection: connection.execute(sa.text(listing)).all())
    return {name: re.sub(r"\s+", " ", text) for name, text in found}


def tables_of(engine: LedgerEngine) -> set[str]:
    """Return the names of all tables."""
    return engine.read(lambda connection: set(sa.inspect(connection).get_table_names()))


def test_migrations_lead_to_the_tables_that_the_code_declares(bare_database_url: str, declared_url: str) -> None:
    with closing(migrated(bare_database_url)) as engine, closing(LedgerEngine(declared_url)) as declared:
        assert schema_of(engine) == schema_of(declared)


def test_migrations_lead_to_the_indexes_that_the_code_declares(bare_database_url: str, declared_url: str) -> None:
    with closing(migrated(bare_database_url)) as engine, closing(LedgerEngine(declared_url)) as declared:
        assert indexes_of(engine) == indexes_of(declared)
        assert "WHERE" in indexes_of(engine)["ux_extraction_results_active"]


def test_nothing_is_left_for_a_new_migration_to_do(bare_database_url: str) -> None:
    options = {"version_table": VERSION_TABLE, "compare_type": True}

    def differences(connection: sa.Connection) -> list[Any]:
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    with closing(migrated(bare_database_url)) as engine:
        assert engine.read(differences) == []


def test_a_database_without_tables_has_no_revision_and_then_the_newest(bare_database_url: str) -> None:
    with closing(LedgerEngine(bare_database_url)) as engine:
        assert current_revision(engine) is None
        Ledger(bare_database_url).close()
        newest = max(path.name[:4] for path in (PROJECT_ROOT / "resources/ledger/migrations/versions").glob("0*.py"))
        assert current_revision(engine) == newest


def test_opening_a_migrated_ledger_again_changes_nothing(bare_database_url: str) -> None:
    with closing(Ledger(bare_database_url)) as ledger:
        a_run(ledger)
        before = schema_of(ledger.engine), indexes_of(ledger.engine), rows(ledger, "extraction_results")
        Ledger(bare_database_url).close()
        assert (schema_of(ledger.engine), indexes_of(ledger.engine), rows(ledger, "extraction_results")) == before


def test_eight_threads_that_open_a_fresh_ledger_at_one_moment_all_come_up(bare_database_url: str) -> None:
    together(8, lambda _: Ledger(bare_database_url).close())
    with closing(LedgerEngine(bare_database_url)) as engine:
        assert tables_of(engine) == {*metadata.tables, VERSION_TABLE}


def test_eight_processes_that_open_a_fresh_ledger_at_one_moment_all_come_up(bare_database_url: str) -> None:
    command = [sys.executable, "-c", OPEN_IN_EIGHT_PROCESSES, bare_database_url]
    ended = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == (f"{[0] * 8}\n", "")
    with closing(LedgerEngine(bare_database_url)) as engine:
        assert tables_of(engine) == {*metadata.tables, VERSION_TABLE}


def test_a_ledger_of_a_newer_version_is_refused_by_the_name_of_its_schema(bare_database_url: str) -> None:
    with closing(migrated(bare_database_url)) as engine:
        engine.write(lambda connection: connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")))  # noqa: S608 - a constant
        before = schema_of(engine)
        with pytest.raises(SchemaTooNewError, match="has schema 9999, which this version does not know"):
            Ledger(bare_database_url)
        assert (current_revision(engine), schema_of(engine)) == ("9999", before)


def test_a_migration_that_fails_leaves_nothing_behind(bare_database_url: str) -> None:
    with closing(LedgerEngine(bare_database_url)) as engine:
        engine.write(lambda connection: connection.execute(sa.text("CREATE TABLE attempts (in_the_way INTEGER)")))
        with pytest.raises(LedgerError, match="already exists"):
            Ledger(bare_database_url)
        assert tables_of(engine) == {"attempts"}
        engine.write(lambda connection: connection.execute(sa.text("DROP TABLE attempts")))
        Ledger(bare_database_url).close()
        assert tables_of(engine) == {*metadata.tables, VERSION_TABLE}


@pytest.mark.parametrize("bare_database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_migration_waits_for_the_one_that_is_under_way(bare_database_url: str) -> None:
    polled = (
        "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%pg_try_advisory_lock%'"
    )
    polled += " AND datname = current_database()"
    with psycopg.connect(bare_database_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK_KEY])
        with in_background(lambda: Ledger(bare_database_url).close()) as opening:
            deadline = monotonic() + PATIENCE_S
            while other.execute(polled.encode()).fetchone() == (0,):
                assert monotonic() < deadline
            assert other.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
            other.execute("SELECT pg_advisory_unlock(%s)", [LOCK_KEY])
            opening.result()
        assert other.execute("SELECT to_regclass('attempts') IS NOT NULL").fetchone() == (True,)


def test_a_ledger_can_share_a_database_with_other_tables(bare_database_url: str) -> None:
    with closing(LedgerEngine(bare_database_url)) as engine:
        others = ("CREATE TABLE runs (id INTEGER)", "CREATE TABLE alembic_version (version_num VARCHAR(32))",
                  "INSERT INTO alembic_version VALUES ('of somebody else')")  # fmt: skip
        engine.write(lambda connection: [connection.execute(sa.text(statement)) for statement in others])
        Ledger(bare_database_url).close()
        version = engine.read(lambda connection: connection.execute(sa.text("SELECT * FROM alembic_version")).scalar())
        assert version == "of somebody else"
        assert tables_of(engine) == {*metadata.tables, VERSION_TABLE, "runs", "alembic_version"}
