"""What a trial does to a ledger of its own: a witness that nobody can talk round, clock jumps, cut connections.

Nothing here is called in production. The witness is a trigger of the database: it writes down every statement that
sets the status of a row that had ended, or of an attempt that was answered, whatever code sent it.
"""

from __future__ import annotations

import sqlalchemy as sa

from resources.ledger.engine import LedgerEngine
from resources.ledger.reservations import BATCH_LEASE_MS
from resources.ledger.tables import document_sets, documents, extraction_results, message_batches, parse_runs, workers

WITNESS = "witnessed"
CLOCKS = (document_sets, documents, extraction_results, message_batches, parse_runs, workers)
_ENDED = "OLD.status IN ('completed', 'failed', 'cancelled')"
_WATCHED = (
    ("extraction_results", "result_id", _ENDED),
    ("parse_runs", "parse_run_id", _ENDED),
    ("attempts", "attempt_id", "OLD.status = 'answered'"),
)
"""Table, key, and the old states whose change is against the rules."""


def install_witness(engine: LedgerEngine) -> None:
    """Let the database write down every change of a state that is final."""
    statements = [f"CREATE TABLE {WITNESS} (what TEXT NOT NULL, row_id BIGINT NOT NULL)"]
    for table, key, when in _WATCHED:
        insert = f"INSERT INTO {WITNESS} VALUES ('{table}', OLD.{key})"  # noqa: S608 - of the constants above
        trigger = f"CREATE TRIGGER {table}_witness AFTER UPDATE OF status ON {table} FOR EACH ROW WHEN ({when})"
        if engine.is_sqlite:
            statements.append(f"{trigger} BEGIN {insert}; END")
        else:
            body = f"BEGIN {insert}; RETURN NULL; END"
            statements.append(f"CREATE FUNCTION {table}_witness() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
            statements.append(f"{trigger} EXECUTE FUNCTION {table}_witness()")

    def transaction(connection: sa.Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    engine.write(transaction)


def witnessed(engine: LedgerEngine) -> dict[str, int]:
    """Return how often the final state of a row of each table was set again."""
    statement = sa.text(f"SELECT what, count(*) FROM {WITNESS} GROUP BY what")  # noqa: S608 - a constant
    rows = engine.read(lambda connection: connection.execute(statement).all())
    return {row[0]: int(row[1]) for row in rows}


def move_time(engine: LedgerEngine, seconds: float) -> None:
    """Let every lease, due time and age be so much further on, as if the database's clock had jumped.

    Must be called while no worker is alive: it would lose its leases.
    """
    moved = int(seconds * 1000)

    def transaction(connection: sa.Connection) -> None:
        for table in CLOCKS:
            times = [column for column in table.c if column.name.endswith("_ms") and column.name != "finished_ms"]
            for_ever = BATCH_LEASE_MS - 1
            values = {column: sa.case((column > for_ever, column), else_=column - moved) for column in times}
            connection.execute(sa.update(table).values(values))

    engine.write(transaction)


def cut_connections(engine: LedgerEngine) -> int:
    """End every other connection to a PostgreSQL ledger, whatever it is doing. Returns how many; 0 on SQLite."""
    if engine.is_sqlite:
        return 0
    statement = sa.text(
        "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return int(engine.read(lambda connection: connection.execute(statement).scalar_one()))
