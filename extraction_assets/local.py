"""What runs beside Dagster on one's own machine: a home for its instance, and the sandbox when there is no key."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resources.environment import PROJECT_ROOT, Environment

ENDING_S = 10.0


def prepare_dagster_home(environment: Environment) -> Path:
    """Make ``<home>/dagster`` with the project's ``dagster.yaml`` and return it. An own DAGSTER_HOME is respected."""
    own = os.environ.get("DAGSTER_HOME")
    if own:
        return Path(own)
    home = environment.home / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PROJECT_ROOT / "dagster.yaml", home / "dagster.yaml")
    return home


def needs_sandbox() -> bool:
    """Whether neither a key nor an address of a server is given."""
    return not any(os.environ.get(name) for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"))


@contextmanager
def running_sandbox(environment: Environment, port: int = 0) -> Iterator[str]:
    """Run the sandbox on loopback; its request log, and so its bill, go on from run to run. Yields its address."""
    log = environment.home / "sandbox" / "requests.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "sandbox", "--port", str(port), "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT_ROOT) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                msg = f"the sandbox did not start (exit code {process.wait()})"
                raise RuntimeError(msg)
            yield line.split()[-1]
        finally:
            end(process)


@contextmanager
def running_daemon(variables: dict[str, str], log: Path) -> Iterator[None]:
    """Run a Dagster daemon for the project's workspace; its output goes to a file."""
    command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(PROJECT_ROOT / "workspace.yaml")]
    with (
        log.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=PROJECT_ROOT, env=variables) as process,
    ):
        try:
            yield
        finally:
            end(process)


def end_on_terminate() -> None:
    """Let a request to terminate end this process as Ctrl-C does, so that what it started is ended too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with it ignored


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a process that we started: ask first, then kill."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
