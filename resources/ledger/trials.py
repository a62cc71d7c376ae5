"""What a trial does to a ledger of its own: a witness that nobody can talk round, clock jumps, cut connections.

Nothing here is called in production. The witness is made of triggers of the database: they write down every statement
that sets the status of a row that had ended, or of an attempt that was answered, and every row that is taken from its
holder before the lease is over, whatever code sent it.
"""

from __future__ import annotations

import time

import sqlalchemy as sa

from resources.ledger.engine import LedgerEngine
from resources.ledger.reservations import BATCH_LEASE_MS
from resources.ledger.tables import document_sets, documents, extraction_results, message_batches, parse_runs, workers
from resources.ledger.types import now_ms

WITNESS = "witnessed"
TAKEN = "taken"
"""What the witness calls a row that was taken from a holder whose lease was not over."""
CLOCKS = (document_sets, documents, extraction_results, message_batches, parse_runs, workers)
_ENDED = "OLD.status IN ('completed', 'failed', 'cancelled')"
_HELD = "OLD.status = 'running' AND OLD.lease_expires_ms > {now}"
_GIVEN_AWAY = f"{_HELD} AND (NEW.reclaims > OLD.reclaims OR NEW.generation > OLD.generation)"
_WATCHED = (
    ("extraction_results", "extraction_results", "result_id", _ENDED),
    ("parse_runs", "parse_runs", "parse_run_id", _ENDED),
    ("attempts", "attempts", "attempt_id", "OLD.status = 'answered'"),
    (TAKEN, "extraction_results", "result_id", _GIVEN_AWAY),
)
"""What it is called, table, key, and when setting the status is against the rules."""


def install_witness(engine: LedgerEngine) -> None:
    """Let the database write down every change of a state that is final."""
    statements = [f"CREATE TABLE {WITNESS} (what TEXT NOT NULL, row_id BIGINT NOT NULL)"]
    now = engine.read(lambda connection: str(now_ms().compile(connection)))
    for what, table, key, rule in _WATCHED:
        insert, when = f"INSERT INTO {WITNESS} VALUES ('{what}', OLD.{key})", rule.format(now=now)  # noqa: S608 - constants
        trigger = f"CREATE TRIGGER {what}_witness AFTER UPDATE OF status ON {table} FOR EACH ROW WHEN ({when})"
        if engine.is_sqlite:
            statements.append(f"{trigger} BEGIN {insert}; END")
        else:
            body = f"BEGIN {insert}; RETURN NULL; END"
            statements.append(f"CREATE FUNCTION {what}_witness() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
            statements.append(f"{trigger} EXECUTE FUNCTION {what}_witness()")

    def transaction(connection: sa.Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    engine.write(transaction)


def witnessed(engine: LedgerEngine) -> dict[str, int]:
    """Return how often the final state of a row of each table was set again, and how often a row was ``taken``."""
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


def clock_ms(engine: LedgerEngine) -> int:
    """Return the database's clock, which the ledger's times are of; it may be another machine's."""
    return int(engine.read(lambda connection: connection.execute(sa.select(now_ms())).scalar_one()))


def wait_until_idle(engine: LedgerEngine) -> None:
    """Wait until no transaction of this process is under way: whoever is frozen in one holds up all others.

    When it returns no other thread of Python's has run since the look, nor will for some milliseconds.
    """
    pool = engine.raw.pool
    while isinstance(pool, sa.QueuePool):
        time.sleep(0.001)
        if not pool.checkedout():
            return


def cut_connections(engine: LedgerEngine) -> int:
    """End every other connection to a PostgreSQL ledger, whatever it is doing. Returns how many; 0 on SQLite."""
    if engine.is_sqlite:
        return 0
    statement = sa.text(
        "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return int(engine.read(lambda connection: connection.execute(statement).scalar_one()))
