"""The migration that brings message batches: a ledger that was filled before keeps every row, and takes batches."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from resources.ledger import Ledger
from resources.ledger.claims import Held
from resources.ledger.engine import LedgerEngine
from resources.ledger.migrate import MIGRATIONS, current_revision
from tests.factories import fingerprint, reserve

if TYPE_CHECKING:
    from tests.ledger.support import Row

FAR_MS = 9_000_000_000_000
QUESTION = {"input_fingerprint": fingerprint("input"), "edition": 0}
ROW = {"run_id": 1, "collection": "c", "reclaims": 0, "created_ms": 1, **QUESTION}
ATTEMPT = {"run_id": 1, "model": "m", "max_output_tokens": 9, "opened_ms": 1, **QUESTION}
FILLED: dict[str, list[Row]] = {
    "document_sets": [{"set_id": 1, "collection": "c", "partition_key": "p", "folder": "f", "created_ms": 1}],
    "documents": [
        {"document_id": number, "set_id": 1, "collection": "c", "document_key": f"f/{number}", "size_bytes": 1,
         "signature": "s", "registered_ms": 1}
        for number in (1, 2)
    ],
    "extraction_runs": [
        {"run_id": 1, "set_id": 1, "collection": "c", "selection": "pending", "sealed": True, "model": "m",
         "request_count": 2, "opened_ms": 1}
    ],
    "extraction_results": [
        {**ROW, "result_id": 1, "document_id": 1, "document_key": "f/1", "status": "completed", "finished_ms": 2,
         "generation": 1, "output_sha256": fingerprint("output"), "cost_usd": 5},
        {**ROW, "result_id": 2, "document_id": 2, "document_key": "f/2", "status": "running", "owner": "w",
         "generation": 3, "lease_expires_ms": FAR_MS, "cost_usd": None, "output_sha256": None},
    ],
    "attempts": [
        {**ATTEMPT, "token": "one", "result_id": 1, "document_id": 1, "status": "answered",
         "closed_ms": 2, "response": "{}", "cost_usd": 5},
        {**ATTEMPT, "token": "two", "result_id": 2, "document_id": 2, "status": "open"},
    ],
}  # fmt: skip


def migrate_to(engine: LedgerEngine, revision: str) -> None:
    """Bring an empty database to an earlier schema."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")

    def upgrade(connection: sa.Connection) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine.write(upgrade)


def fill(engine: LedgerEngine) -> None:
    """Write rows as the schema at hand has them."""

    def insert(connection: sa.Connection) -> None:
        for name, rows in FILLED.items():
            table = sa.Table(name, sa.MetaData(), autoload_with=connection, resolve_fks=False)
            for row in rows:
                connection.execute(sa.insert(table).values(row))

    engine.write(insert)


def content(engine: LedgerEngine) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of the tables that were filled, with the columns that the database has."""

    def select(connection: sa.Connection) -> dict[str, list[dict[str, Any]]]:
        tables = {name: sa.Table(name, sa.MetaData(), autoload_with=connection, resolve_fks=False) for name in FILLED}
        return {
            name: [dict(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()]
            for name, table in tables.items()
        }

    return engine.read(select)


def test_a_ledger_that_was_filled_before_keeps_its_rows_and_takes_batches(bare_database_url: str) -> None:
    with closing(LedgerEngine(bare_database_url)) as engine:
        migrate_to(engine, "0002")
        fill(engine)
        before = content(engine)
        assert [len(rows) for rows in before.values()] == [1, 2, 1, 2, 2]
        with closing(Ledger(bare_database_url)) as ledger:
            after = content(engine)
            new_columns = {"attempts": {"batch_id": None}}
            assert after == {
                name: [{**row, **new_columns.get(name, {})} for row in rows] for name, rows in before.items()
            }
            reservation = reserve(ledger, 1, [Held(2, 3)])
            assert reservation.covered == [Held(2, 3)]
            assert current_revision(engine) is not None
        assert [row["batch_id"] for row in content(engine)["attempts"]] == [None, None, 1]
