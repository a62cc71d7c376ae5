"""A PostgreSQL server for the tests, and the databases on it."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import sqlalchemy as sa

from extraction_assets.local_postgres import THROW_AWAY, NoPostgresError, running_local_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NoPostgresError", "PostgresServer", "running_postgres"]
URL_VARIABLE = "TEST_POSTGRES_URL"


class PostgresServer:
    """Creates and drops databases on a running server.

    Args:
        url: a database of the server on which databases may be created.
    """

    def __init__(self, url: str) -> None:
        self._url = sa.make_url(url).set(drivername="postgresql")

    def create(self) -> str:
        """Create a database and return its address."""
        name = f"test_{uuid.uuid4().hex}"
        self._run(f"CREATE DATABASE {name}")
        return self._url.set(database=name).render_as_string(hide_password=False)

    def empty(self, url: str, tables: Sequence[str]) -> None:
        """Take all rows out of tables and number new ones from 1; whoever is still connected is thrown out."""
        with psycopg.connect(url, autocommit=True) as connection:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            connection.execute(f"{others} AND pid <> pg_backend_pid()".encode())
            connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE".encode())

    def drop(self, url: str) -> None:
        """Drop a database, with whatever is still connected to it."""
        self._run(f"DROP DATABASE IF EXISTS {sa.make_url(url).database} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._url.render_as_string(hide_password=False), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Give the server that the environment names, or start one.

    Raises:
        NoPostgresError: there are no binaries, or they do not start.
    """
    if url := os.environ.get(URL_VARIABLE):
        yield PostgresServer(url)
        return
    with running_local_postgres(THROW_AWAY) as server:
        yield PostgresServer(server.url)
