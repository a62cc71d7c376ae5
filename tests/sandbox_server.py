"""The sandbox as its own process, and the few requests by which a test scripts it and reads its books."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT_ROOT = Path(__file__).resolve().parents[1]
WAIT_S = 100.0
DIRECT = build_opener(ProxyHandler({}))


class SandboxServer:
    """A running sandbox.

    Args:
        url: its address, as a client's base URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def requests(self, *, bodies: bool = False) -> list[dict[str, Any]]:
        """Return the log of all requests to the provider's endpoints, in order of arrival."""
        return self._ask("GET", "requests", bodies="1" if bodies else "0")["requests"]

    def bill(self) -> dict[str, Any]:
        """Return the totals of what was billed: ``cost_usd`` (a string), ``calls``, tokens by kind, ``by_model``."""
        return self._ask("GET", "bill")

    @property
    def billed_usd(self) -> Decimal:
        """What was billed in all."""
        return Decimal(self.bill()["cost_usd"])

    def faults(self, faults: list[dict[str, Any]]) -> None:
        """Add scripted faults; the first one that matches a request applies."""
        self._ask("POST", "faults", {"faults": faults})

    def forget_faults(self) -> None:
        """Remove the faults that were scripted; what is held stays held."""
        self._ask("DELETE", "faults")

    def hold(self, name: str, **options: Any) -> None:
        """Hold back answers under a name until :meth:`release`; one answer unless ``times`` says otherwise."""
        self.faults([{"kind": "hold", "name": name, **options}])

    def wait_until_held(self, name: str, at_least: int = 1) -> None:
        """Block until so many answers are held under a name."""
        found = self._ask("GET", "held", name=name, at_least=str(at_least), timeout=str(WAIT_S))
        assert found["reached"], f"only {found['held']} are held"

    def release(self, name: str) -> int:
        """Let the answers go that are held under a name now; returns how many."""
        return self._ask("POST", "release", {"name": name})["released"]

    def batches(self) -> list[dict[str, Any]]:
        """Return every batch that was accepted, oldest first, deleted ones too, each with its ``requests``."""
        return self._ask("GET", "batches")["batches"]

    def parse_jobs(self) -> dict[str, Any]:
        """Return the books of the parse service: ``jobs`` oldest first, ``uploads``, ``pages``, ``credits``."""
        return self._ask("GET", "reducto")

    def parse_seconds(self, seconds: float | None) -> None:
        """Set how long a parse job takes that is made from now on; None: it never ends."""
        self._ask("POST", "reducto", {"parse_seconds": seconds})

    def advance(self, seconds: float) -> None:
        """Move the clock of the batches forward."""
        self._ask("POST", "clock", {"advance_s": seconds})

    def batch_seconds(self, seconds: float | None) -> None:
        """Set how long a batch takes that is created from now on; None: it only ever expires."""
        self._ask("POST", "batches", {"batch_seconds": seconds})

    def cancel_seconds(self, seconds: float | None) -> None:
        """Set how long a batch that is cancelled from now on stays in ``canceling``; None: for ever."""
        self._ask("POST", "batches", {"cancel_seconds": seconds})

    def reset(self) -> None:
        """Forget faults, held answers, log, bill, prompt cache, batches and what their clock was moved by."""
        self.forget_faults()
        for name in self._ask("GET", "held")["held"]:
            self.release(name)
        for what in ("batches", "reducto", "requests", "cache"):
            self._ask("DELETE", what)

    def _ask(self, method: str, what: str, body: dict[str, Any] | None = None, **query: str) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/_sandbox/{what}?{urlencode(query)}", data=data, method=method)
        with DIRECT.open(request, timeout=2 * WAIT_S) as response:
            return json.load(response)


@contextmanager
def running_sandbox() -> Iterator[SandboxServer]:
    """Start a sandbox on a free port, and stop it."""
    command = [sys.executable, "-m", "sandbox", "--port", "0"]
    with subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield SandboxServer(process.stdout.readline().split()[-1])
        finally:
            process.terminate()
