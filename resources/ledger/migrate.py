"""Bringing a ledger to the newest schema: by itself, at start, under a lock.

Alembic keeps its version in a table of ours, so the ledger can share a database with Dagster's storage. On SQLite the
whole upgrade is one IMMEDIATE transaction; on PostgreSQL it holds an advisory lock, which is polled for and not waited
for, because a waiting transaction would block an index built concurrently. Almost always nothing is to be upgraded, so
that is found out without loading Alembic: a revision's file is named after it.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa

from extraction_core.errors import LedgerError, SchemaTooNewError
from resources.ledger.engine import LedgerEngine

MIGRATIONS = Path(__file__).parent / "migrations"
VERSION_TABLE = "extraction_alembic_version"
LOCK_KEY = 0x65787472  # "extr": any constant, the same in every version
LOCK_WAIT_S = 120.0
LOCK_POLL_S = 0.1


@lru_cache(maxsize=1)
def known_revisions() -> tuple[str, ...]:
    """Return the revisions that this version of the code knows, oldest first."""
    return tuple(sorted(file.name.partition("_")[0] for file in (MIGRATIONS / "versions").glob("[0-9]*_*.py")))


def upgrade(engine: LedgerEngine) -> str:
    """Upgrade to the newest schema and return its revision. Safe to call from any number of processes at once.

    Raises:
        SchemaTooNewError: a newer version of the code migrated the ledger.
        LedgerError: another process holds the lock for too long.
    """
    head = known_revisions()[-1]
    if _checked_revision(engine) == head:
        return head
    if engine.is_sqlite:
        engine.write(_upgrade_on)
    else:
        _upgrade_postgres(engine)
    return head


def current_revision(engine: LedgerEngine) -> str | None:
    """Return the revision of a ledger; None when it has no tables yet."""
    return engine.read(_revision)


def _checked_revision(engine: LedgerEngine) -> str | None:
    revision = current_revision(engine)
    if revision is not None and revision not in known_revisions():
        msg = (
            f"The ledger at {engine.url} has schema {revision}, which this version does not know. "
            "Install the version that migrated it, or a newer one."
        )
        raise SchemaTooNewError(msg)
    return revision


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    version = sa.table(VERSION_TABLE, sa.column("version_num", sa.String))
    return connection.execute(sa.select(version.c.version_num)).scalar()


def _upgrade_on(connection: sa.Connection) -> None:
    """Run what is missing in the connection's transaction."""
    # half a second to load, and almost never needed
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    if _revision(connection) == known_revisions()[-1]:  # somebody else was faster
        return
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _upgrade_postgres(engine: LedgerEngine) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    with engine.raw.connect() as holder:
        while not _try_lock(holder):
            if _checked_revision(engine) == known_revisions()[-1]:
                return
            if time.monotonic() > deadline:
                msg = f"Another process has migrated the ledger for {LOCK_WAIT_S:.0f} s now; end it, then start again."
                raise LedgerError(msg)
            time.sleep(LOCK_POLL_S)
        try:
            with engine.raw.begin() as connection:
                _upgrade_on(connection)
        finally:
            holder.execute(sa.text("SELECT pg_advisory_unlock(:key)"), {"key": LOCK_KEY})
            holder.commit()


def _try_lock(connection: sa.Connection) -> bool:
    locked = bool(connection.execute(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": LOCK_KEY}).scalar())
    connection.commit()
    return locked
