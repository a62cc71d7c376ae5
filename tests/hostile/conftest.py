"""A database at the other end of a line that can be cut, and a workplace on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from resources.ledger.tables import metadata
from tests.hostile.line import Line, a_line_to
from tests.resources.conftest import small_disk
from tests.workplace import KeptOpen, Workplace
from tests.workplace_fixtures import parser, workplace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres_server import PostgresServer
    from tests.sandbox_server import SandboxServer

__all__ = ["parser", "small_disk", "workplace"]


@pytest.fixture
def line(migrated_postgres: str, postgres_server: PostgresServer) -> Iterator[Line]:
    """The line to an empty PostgreSQL ledger."""
    postgres_server.empty(migrated_postgres, list(metadata.tables))
    with a_line_to(sa.make_url(migrated_postgres)) as line:
        yield line


@pytest.fixture
def far_workplace(tmp_path: Path, line: Line, sandbox: SandboxServer, parser: KeptOpen) -> Iterator[Workplace]:
    """A workplace whose ledger is at the other end of the line."""
    with Workplace(tmp_path, line.url, sandbox, parser) as place:
        yield place
