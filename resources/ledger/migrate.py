"""Bringing a ledger to the newest schema: by itself, at start, under a lock.

Alembic keeps its version in a table of ours, so the ledger can share a database with Dagster's storage. On SQLite the
whole upgrade is one IMMEDIATE transaction; on PostgreSQL it holds an advisory lock, which is polled for and not waited
for, because a waiting transaction would block an index built concurrently.
"""

from __future__ import annotations

import time
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from extraction_core.errors import LedgerError, SchemaTooNewError
from resources.ledger.engine import LedgerEngine

VERSION_TABLE = "extraction_alembic_version"
LOCK_KEY = 0x65787472  # "extr": any constant, the same in every version
LOCK_WAIT_S = 120.0
LOCK_POLL_S = 0.1


def upgrade(engine: LedgerEngine) -> str:
    """Upgrade to the newest schema and return its revision. Safe to call from any number of processes at once."""
    config = _config()
    script = ScriptDirectory.from_config(config)
    head = script.get_current_head() or ""
    if _checked_revision(engine, script) == head:
        return head
    if engine.is_sqlite:
        engine.write(lambda connection: _run(config, connection, head))
    else:
        _upgrade_postgres(engine, config, script, head)
    return head


def current_revision(engine: LedgerEngine) -> str | None:
    """Return the revision of a ledger; None when it has no tables yet."""
    return engine.read(_revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _checked_revision(engine: LedgerEngine, script: ScriptDirectory) -> str | None:
    revision = current_revision(engine)
    if revision is not None and revision not in {known.revision for known in script.walk_revisions()}:
        msg = (
            f"The ledger at {engine.url} has schema {revision}, which this version does not know. "
            "Install the version that migrated it, or a newer one."
        )
        raise SchemaTooNewError(msg)
    return revision


def _revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _run(config: Config, connection: sa.Connection, head: str) -> None:
    if _revision(connection) == head:  # somebody else was faster
        return
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _upgrade_postgres(engine: LedgerEngine, config: Config, script: ScriptDirectory, head: str) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    with engine.raw.connect() as holder:
        while not _try_lock(holder):
            if _checked_revision(engine, script) == head:
                return
            if time.monotonic() > deadline:
                msg = f"Another process has migrated the ledger for {LOCK_WAIT_S:.0f} s now; end it, then start again."
                raise LedgerError(msg)
            time.sleep(LOCK_POLL_S)
        try:
            with engine.raw.begin() as connection:
                _run(config, connection, head)
        finally:
            holder.execute(sa.text("SELECT pg_advisory_unlock(:key)"), {"key": LOCK_KEY})
            holder.commit()


def _try_lock(connection: sa.Connection) -> bool:
    locked = bool(connection.execute(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": LOCK_KEY}).scalar())
    connection.commit()
    return locked
