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

from extraction_core.errors import ConfigurationError, LedgerError
from extraction_core.failpoints import Failpoint, Failpoints, no_failpoints
from resources.ledger.statements import CompiledStatements

T = TypeVar("T")
log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 60_000
RETRY_FOR_S = 90.0
FIRST_RETRY_S = 0.05
LONGEST_RETRY_S = 2.0
POOL_SIZE = 6
COMPILED = {"compiled_cache": CompiledStatements()}

TRANSIENT_SQLSTATES = frozenset(
    {"40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "08000", "08003", "08006"}
)
"""Serialization failure, deadlock, too many connections, lock not available, shutdowns and lost connections."""
DISK_FULL = "53100"
SIGNS_OF_A_PASSING_FAULT = (
    "database is locked", "connection refused", "connection failed", "server closed", "starting up",
    "timeout expired", "temporary failure in name resolution",
)  # fmt: skip
SIGNS_OF_A_REFUSAL = ("authentication failed", "no pg_hba.conf entry", "does not exist", "permission denied")
"""Of a connection that failed: asking again for a minute and a half would be refused each time."""
WHILE_CONNECTING = {
    "connect_timeout": 10,
    "keepalives_idle": 60,
    "keepalives_interval": 15,
    "keepalives_count": 4,
    "tcp_user_timeout": 60_000,
}
"""libpq's own settings, which the address may override: a firewall that drops a line without a word is noticed within a
minute or two, where the system alone would wait for a quarter of an hour and longer."""


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
            except (exc.DBAPIError, exc.TimeoutError) as error:
                if is_full(error):
                    msg = (
                        f"The ledger at {self.url} takes nothing any more: its disk is full. Make room, then run again."
                    )
                    raise LedgerError(msg) from error
                if not is_transient(error) or time.monotonic() > give_up_at:
                    raise
                if wait_s == LONGEST_RETRY_S and not told:  # longer than a passing lock: whoever waits should know
                    log.warning("the ledger at %s does not answer; trying for up to %.0f s", self.url, RETRY_FOR_S)
                    told = True
            time.sleep(wait_s * (0.5 + random.random() / 2))
            wait_s = min(wait_s * 2, LONGEST_RETRY_S)


def is_transient(error: exc.DBAPIError | exc.TimeoutError) -> bool:
    """Tell whether the same transaction may succeed when run again."""
    if isinstance(
        error, exc.TimeoutError
    ):  # all connections of the pool are in use, by those who wait for the database
        return True
    if error.connection_invalidated:
        return True
    if getattr(error.orig, "sqlstate", None) in TRANSIENT_SQLSTATES:
        return True
    text = str(error.orig).lower()
    if not isinstance(error, exc.OperationalError) or any(sign in text for sign in SIGNS_OF_A_REFUSAL):
        return False
    return any(sign in text for sign in SIGNS_OF_A_PASSING_FAULT)


def is_of_the_database(error: Exception) -> bool:
    """Tell whether what a transaction raised at last would be met by every other one now."""
    return isinstance(error, LedgerError) or (
        isinstance(error, exc.DBAPIError | exc.TimeoutError) and is_transient(error)
    )


def is_full(error: exc.DBAPIError | exc.TimeoutError) -> bool:
    """Tell whether the database has no room left."""
    if isinstance(error, exc.TimeoutError):
        return False
    return getattr(error.orig, "sqlstate", None) == DISK_FULL or "database or disk is full" in str(error.orig)


def _make_engine(url: str) -> sa.Engine:
    address = _parsed(url)
    match address.get_backend_name():
        case "sqlite":
            return _make_sqlite_engine(address)
        case "postgresql":
            # no ping before each transaction: one that finds its connection dead is run again on a new one
            return sa.create_engine(
                address.set(drivername="postgresql+psycopg"),
                pool_size=POOL_SIZE,
                max_overflow=0,
                connect_args={name: value for name, value in WHILE_CONNECTING.items() if name not in address.query},
                execution_options=COMPILED,
            )
        case other:
            raise ConfigurationError(
                "EXTRACTION_LEDGER_URL", None, f"names the database {other!r}.", "Use SQLite or PostgreSQL."
            )


def _parsed(url: str) -> sa.URL:
    """Parse an address. What is wrong with it is told without its text, which may hold a password."""
    try:
        address = sa.make_url(url)
    except (exc.ArgumentError, ValueError):  # the latter for a port that is no number
        problem, remedy = "is not a database address.", "Use sqlite:////absolute/path or postgresql://…"
        raise ConfigurationError("EXTRACTION_LEDGER_URL", None, problem, remedy) from None
    if "@" in (address.host or ""):
        problem, remedy = "has more than one @ before the host.", "Write an @ of the password as %40."
        raise ConfigurationError("EXTRACTION_LEDGER_URL", None, problem, remedy)
    if "password" in address.query:  # libpq takes it there too; where it belongs it is hidden whenever it is shown
        password = address.query["password"]
        address = address.difference_update_query(["password"])
        address = address.set(password=password if isinstance(password, str) else password[-1])
    return address


def _make_sqlite_engine(address: sa.URL) -> sa.Engine:
    if not address.database or not Path(address.database).is_absolute():
        raise ConfigurationError(
            "EXTRACTION_LEDGER_URL",
            None,
            "names no absolute file, so another working directory would be another ledger.",
            "Use sqlite:////absolute/path/ledger.db.",
        )
    Path(address.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(address, pool_size=POOL_SIZE, max_overflow=0, execution_options=COMPILED)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver must emit no BEGIN of its own
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('sqlite_begin', 'IMMEDIATE')}")
