"""A real dagster-webserver, asked over HTTP what its pages ask it: GraphQL."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

START_S = 90.0
LOOK_EVERY_S = 0.1
ENDING_S = 15.0
DIRECT = build_opener(ProxyHandler({}))
BIN = Path(sys.executable).parent


class Webserver:
    """A running webserver.

    Args:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return the data of a GraphQL query that must not have errors."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = Request(f"{self.url}/graphql", data=body, headers={"content-type": "application/json"})
        with DIRECT.open(request, timeout=START_S) as answer:
            found = json.load(answer)
        assert "errors" not in found, found["errors"]
        return found["data"]


@contextmanager
def running_webserver(*workspace: str, cwd: Path, variables: Mapping[str, str], log: Path) -> Iterator[Webserver]:
    """Start a webserver on a free loopback port, wait until it answers, and stop it.

    Args:
        workspace: the options that name the code location, such as ``-w workspace.yaml``.
        cwd: where it is started.
        variables: its whole environment.
        log: the file for its output.
    """
    port = free_port()
    command = [str(BIN / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(port), *workspace]
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=cwd, env=dict(variables), stdout=output, stderr=output) as process,
    ):
        try:
            server = Webserver(f"http://127.0.0.1:{port}")
            _wait_until_it_answers(server, process, log)
            yield server
        finally:
            end(process)


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that we started: ask first, then kill."""
    process.terminate()
    try:
        process.wait(ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_it_answers(server: Webserver, process: subprocess.Popen[Any], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            server.ask("{ version }")
        except (URLError, ConnectionError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(LOOK_EVERY_S)
        else:
            return
