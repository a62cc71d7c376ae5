"""What all tests share: fresh databases of both kinds, ledgers on them, a sandbox.

Servers are started once per test process, when the first test needs them. A test that takes ``database_url`` runs
twice, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from extraction_core.failpoints import Failpoints, no_failpoints
from resources.ledger import Ledger
from resources.ledger.tables import metadata
from tests.postgres_server import NoPostgresError, PostgresServer, running_postgres
from tests.sandbox_server import SandboxServer, running_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of the hundreds of children compiles all modules anew
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)  # no certificates: every client would read all of the system's
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, where there is one; folders below are pytest's own
ROOM_BYTES = 8 << 30
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES:  # each commit on a disk is a wait for it
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

BOTH_DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


LONGEST = ("tests/e2e/test_demo.py", "tests/sensors/test_daemon.py")
"""Begun first: one of them begun last would be waited for by everybody."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first; each test process takes from the front of its share."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


class MakeLedger(Protocol):
    """Opens one more ledger on the test's database, as another process would; closed after the test."""

    def __call__(self, failpoints: Failpoints = no_failpoints) -> Ledger: ...


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test process. Without one: skipped on a desk, failed where CI is set."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgres())
        except NoPostgresError as error:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no PostgreSQL: {error}")
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """A migrated PostgreSQL database: emptied for every test, which is several times faster than a copy for each."""
    url = postgres_server.create()
    Ledger(url).close()
    yield url
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    Ledger(f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=BOTH_DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty ledger of the newest schema, of this test alone."""
    if request.param == "sqlite":
        path = tmp_path / "ledger.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    url: str = request.getfixturevalue("migrated_postgres")
    request.getfixturevalue("postgres_server").empty(url, list(metadata.tables))
    yield url


@pytest.fixture(params=BOTH_DATABASES)
def bare_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database without any table, for what migrations do."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture
def make_ledger(database_url: str) -> Iterator[MakeLedger]:
    """Open any number of ledgers on the test's database."""
    with ExitStack() as stack:

        def make(failpoints: Failpoints = no_failpoints) -> Ledger:
            ledger = Ledger(database_url, failpoints)
            stack.callback(ledger.close)
            return ledger

        yield make


@pytest.fixture
def ledger(make_ledger: MakeLedger) -> Ledger:
    """An open ledger."""
    return make_ledger()


@pytest.fixture(scope="session")
def sandbox_process() -> Iterator[SandboxServer]:
    """The sandbox of this test process."""
    with running_sandbox() as server:
        yield server


@pytest.fixture
def sandbox(sandbox_process: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    """A sandbox without log, bill or faults, and the environment that leads the client to it and nowhere else."""
    sandbox_process.reset()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", sandbox_process.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    yield sandbox_process
    sandbox_process.reset()
