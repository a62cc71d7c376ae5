"""What a trial changes in its own process is put back after each test: environment and signal handlers."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

CHANGED = ("EXTRACTION_HOME", "EXTRACTION_LEDGER_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A trial leads its process to the sandbox, and a command listens to being asked to end."""
    for name in CHANGED:
        monkeypatch.setenv(name, "")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
