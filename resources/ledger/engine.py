"""One engine, two databases: how a transaction begins, waits and is tried again.

SQLite runs in WAL mode with ``BEGIN IMMEDIATE`` for every write, because the driver's own deferred BEGIN lets two
workers claim the same row; writers of one process also queue on a lock of ours, because SQLite's busy handler is
unfair. A transaction is given as a function, so that it can be run again as a whole after a deadlock or a lost
connection: every verb of the ledger is written to bear that.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import ConnectionPoolEntry

from extraction_core.errors import ConfigurationError
from extraction_core.failpoints import Failpoint, Failpoints, no_failpoints

T = TypeVar("T")
log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 60_000
RETRY_FOR_S = 90.0
FIRST_RETRY_S = 0.05
LONGEST_RETRY_S = 2.0
POOL_SIZE = 6

TRANSIENT_SQLSTATES = frozenset(
    {"40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "08000", "08003", "08006"}
)
"""Serialization failure, deadlock, too many connections, lock not available, shutdowns and lost connections."""


class LedgerEngine:
    """Runs functions in transactions on the ledger's database. Thread-safe.

    Attributes:
        url: the database's address with the password hidden.
        failpoints: called with a name right before the commit of that name.
    """

    def __init__(self, url: str, failpoints: Failpoints = no_failpoints) -> None:
        self.failpoints = failpoints
        self._engine = _make_engine(url)
        self.url = self._engine.url.render_as_string(hide_password=True)
        self._one_writer = threading.Lock() if self.is_sqlite else nullcontext()

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is SQLite."""
        return self._engine.dialect.name == "sqlite"

    @property
    def raw(self) -> sa.Engine:
        """The SQLAlchemy engine, for migrations."""
        return self._engine

    def write(self, transaction: Callable[[sa.Connection], T], at: Failpoint | None = None) -> T:
        """Run a transaction and commit it; run it again, as a whole, when the database asks for that.

        Args:
            transaction: the body; it may run more than once and must tell its own earlier commit from a loss.
            at: the failpoint right before the commit.
        """
        return self._retrying(lambda: self._write_once(transaction, at))

    def read(self, query: Callable[[sa.Connection], T]) -> T:
        """Run a query in a read transaction that takes no write lock."""
        return self._retrying(lambda: self._read_once(query))

    def close(self) -> None:
        """Close all pooled connections."""
        self._engine.dispose()

    def _write_once(self, transaction: Callable[[sa.Connection], T], at: Failpoint | None) -> T:
        with self._one_writer, self._engine.begin() as connection:
            result = transaction(connection)
            if at:
                self.failpoints(at)
            return result

    def _read_once(self, query: Callable[[sa.Connection], T]) -> T:
        with self._engine.connect().execution_options(sqlite_begin="DEFERRED") as connection, connection.begin():
            return query(connection)

    def _retrying(self, once: Callable[[], T]) -> T:
        give_up_at = time.monotonic() + RETRY_FOR_S
        wait_s, told = FIRST_RETRY_S, False
        while True:
            try:
                return once()
            except exc.DBAPIError as error:
                if not is_transient(error) or time.monotonic() > give_up_at:
                    raise
                if wait_s == LONGEST_RETRY_S and not told:  # longer than a passing lock: whoever waits should know
                    log.warning("the ledger at %s does not answer; trying for up to %.0f s", self.url, RETRY_FOR_S)
                    told = True
            time.sleep(wait_s * (0.5 + random.random() / 2))
            wait_s = min(wait_s * 2, LONGEST_RETRY_S)


def is_transient(error: exc.DBAPIError) -> bool:
    """Tell whether the same transaction may succeed when run again."""
    if error.connection_invalidated:
        return True
    if getattr(error.orig, "sqlstate", None) in TRANSIENT_SQLSTATES:
        return True
    text = str(error.orig).lower()
    return isinstance(error, exc.OperationalError) and any(
        sign in text
        for sign in ("database is locked", "connection refused", "connection failed", "server closed", "starting up")
    )


def _make_engine(url: str) -> sa.Engine:
    try:
        address = sa.make_url(url)
    except exc.ArgumentError as error:
        raise ConfigurationError(
            "EXTRACTION_LEDGER_URL",
            None,
            "is not a database address.",
            "Use sqlite:////absolute/path or postgresql://…",
        ) from error
    match address.get_backend_name():
        case "sqlite":
            return _make_sqlite_engine(address)
        case "postgresql":
            return sa.create_engine(
                address.set(drivername="postgresql+psycopg"), pool_size=POOL_SIZE, max_overflow=0, pool_pre_ping=True
            )
        case other:
            raise ConfigurationError(
                "EXTRACTION_LEDGER_URL", None, f"names the database {other!r}.", "Use SQLite or PostgreSQL."
            )


def _make_sqlite_engine(address: sa.URL) -> sa.Engine:
    if not address.database or not Path(address.database).is_absolute():
        raise ConfigurationError(
            "EXTRACTION_LEDGER_URL",
            None,
            "names no absolute file, so another working directory would be another ledger.",
            "Use sqlite:////absolute/path/ledger.db.",
        )
    Path(address.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(address, pool_size=POOL_SIZE, max_overflow=0)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver must emit no BEGIN of its own
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('sqlite_begin', 'IMMEDIATE')}")
