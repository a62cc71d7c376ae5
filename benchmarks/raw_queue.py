"""The floor of a work queue: one table and two statements per lifecycle, by the driver alone, without fencing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import psycopg

Take = Callable[[int], int]
"""Claims up to so many jobs and completes them; returns how many there were."""

TABLE = "CREATE TABLE job (id BIGINT PRIMARY KEY, status TEXT NOT NULL DEFAULT 'queued', owner TEXT)"
INDEX = "CREATE INDEX job_queued ON job (id) WHERE status = 'queued'"
CLAIM = """
WITH chosen AS MATERIALIZED
  (SELECT id FROM job WHERE status = 'queued' ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
UPDATE job SET status = 'running', owner = %s FROM chosen WHERE job.id = chosen.id RETURNING job.id
"""
COMPLETE = "UPDATE job SET status = 'completed', owner = NULL WHERE id = ANY(%s) AND status = 'running'"
SQLITE_CLAIM = """
UPDATE job SET status = 'running', owner = ?
WHERE id IN (SELECT id FROM job WHERE status = 'queued' ORDER BY id LIMIT ?) RETURNING id
"""
SQLITE_COMPLETE = "UPDATE job SET status = 'completed', owner = NULL WHERE id = ? AND status = 'running'"


def fill_postgres(url: str, jobs: int) -> None:
    """Make the table and its jobs."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        connection.execute(INDEX)
        connection.execute("INSERT INTO job (id) SELECT * FROM generate_series(1, %s)", (jobs,))
        connection.execute("ANALYZE job")


def postgres_worker(url: str) -> Take:
    """Return a worker with a connection of its own; each statement is a transaction."""
    connection = psycopg.connect(url, autocommit=True)

    def take(limit: int) -> int:
        ids = [row[0] for row in connection.execute(CLAIM, (limit, "worker"), prepare=True)]
        if ids:
            connection.execute(COMPLETE, (ids,), prepare=True)
        else:
            connection.close()
        return len(ids)

    return take


def fill_sqlite(file: Path, jobs: int) -> None:
    """Make the table and its jobs."""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(TABLE)
        connection.execute(INDEX)
        connection.executemany("INSERT INTO job (id) VALUES (?)", ((number,) for number in range(jobs)))


def sqlite_worker(file: Path) -> Take:
    """Return a worker with a connection of its own that commits as durably as the ledger does."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=60, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")

    def write(statements: Iterable[Callable[[], object]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            statement()
        connection.execute("COMMIT")

    def take(limit: int) -> int:
        ids: list[tuple[int]] = []
        write([lambda: ids.extend(connection.execute(SQLITE_CLAIM, ("worker", limit)).fetchall())])
        if ids:
            write([lambda: connection.executemany(SQLITE_COMPLETE, ids)])
        else:
            connection.close()
        return len(ids)

    return take
