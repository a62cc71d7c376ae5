"""The fixtures that lead to a workplace, for the folders whose tests run document sets: their conftest imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workplace import KeptOpen, Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_server import SandboxServer


@pytest.fixture(scope="session")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptOpen]:
    """A parse provider whose server is up, for all tests of this process."""
    provider = KeptOpen(scratch_folder=tmp_path_factory.mktemp("scratch"))
    provider.parse(b"text", "first.txt")
    yield provider
    provider.close()


@pytest.fixture
def workplace(tmp_path: Path, database_url: str, sandbox: SandboxServer, parser: KeptOpen) -> Iterator[Workplace]:
    """A home, a ledger and a sandbox."""
    with Workplace(tmp_path, database_url, sandbox, parser) as place:
        yield place
