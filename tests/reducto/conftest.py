"""The workplace of this folder's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resources.parsing import ReductoParseProvider
from tests.reducto.support import ParsePlace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_server import SandboxServer


@pytest.fixture
def reducto(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> SandboxServer:
    """The sandbox, and the environment that leads Reducto's SDK to it and nowhere else."""
    monkeypatch.setenv("REDUCTO_BASE_URL", sandbox.url)
    monkeypatch.setenv("REDUCTO_API_KEY", "parse-key")
    return sandbox


@pytest.fixture
def place(tmp_path: Path, database_url: str, reducto: SandboxServer) -> Iterator[ParsePlace]:
    """A home, a ledger and a sandbox."""
    with ParsePlace(tmp_path, database_url, reducto, ReductoParseProvider()) as opened:
        yield opened  # type: ignore[misc]
