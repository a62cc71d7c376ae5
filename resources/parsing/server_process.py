"""The fork servers of one provider: started when first needed and after they died, stopped together.

They run in an environment of their own, without keys, proxies and a home folder, and in sessions of their own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from resources.parsing.limits import ParseLimits
from resources.parsing.wire import Readers

_IMPORT_ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.insert(0, sys.argv[1]); from resources.parsing.fork_server import main; main()"
_ENVIRONMENT = {
    "PATH": os.defpath,
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # On machines with many processors the libraries' threads alone would reserve the address space that is allowed.
    "MALLOC_ARENA_MAX": "2",
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "2",
}
"""All that the parsing processes see: no keys, no proxies, no home folder."""


class ForkServers:
    """Hands requests to the server that has the right readers. Thread-safe.

    Args:
        limits: of each child.
    """

    def __init__(self, limits: ParseLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: dict[Readers, _ServerProcess] = {}
        self._closed = False

    def request(self, readers: Readers, request: bytes, fds: Sequence[int]) -> None:
        """Ask for a child on these descriptors; see :mod:`resources.parsing.fork_server`.

        Raises:
            RuntimeError: the provider was closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the parse provider is closed")
            server = self._running.get(readers)
            if server is None or not server.request(request, fds):
                self._running[readers] = _ServerProcess(readers, self._limits)
                self._running[readers].request(request, fds)

    def close(self) -> None:
        """Kill what still runs. Safe to call twice."""
        with self._lock:
            self._closed = True
            servers = list(self._running.values())
            self._running.clear()
        for server in servers:
            server.stop()


class _ServerProcess:
    """A running fork server and our end of its control socket."""

    def __init__(self, readers: Readers, limits: ParseLimits) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            arguments = [str(_IMPORT_ROOT), readers.value, str(theirs.fileno()), json.dumps(limits.to_json())]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *arguments],
                env=_ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def request(self, request: bytes, fds: Sequence[int]) -> bool:
        """Ask for a child on these descriptors; false if the server is gone (it took nothing then)."""
        try:
            socket.send_fds(self._control, [request], fds)
        except OSError:
            self.stop()
            return False
        return True

    def stop(self) -> None:
        """Close the control socket, on which the server kills its children and ends; wait for it."""
        self._control.close()
        self._process.wait()
