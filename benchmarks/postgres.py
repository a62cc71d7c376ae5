"""Databases on a PostgreSQL server of one's own, as durable as it is by default: commits wait for the disk."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy as sa
from psycopg import sql

from extraction_assets.local_postgres import running_local_postgres


class PostgresServer:
    """Creates databases on a running server.

    Args:
        url: a database of the server on which databases may be created.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def create(self) -> str:
        """Create a database and return its address."""
        name = f"bench_{uuid.uuid4().hex}"
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return sa.make_url(self._url).set(database=name).render_as_string(hide_password=False)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start a server and stop it at the end.

    Raises:
        NoPostgresError: there are no binaries, or they do not start.
    """
    with running_local_postgres() as server:
        yield PostgresServer(server.url)
