"""A place of its own for every test of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dagster.support import Place

if TYPE_CHECKING:
    from tests.sandbox_server import SandboxServer


FOLDER = Path(__file__).parent
OF_DAGSTER = "ignore:The `__fields__` attribute is deprecated:pydantic.warnings.PydanticDeprecatedSince20"
"""Dagster 1.13 reads the fields of a resource by pydantic's old name."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this folder pass where Dagster itself uses something deprecated."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.filterwarnings(OF_DAGSTER))


@pytest.fixture
def place(tmp_path: Path, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> Place:  # noqa: ARG001 - leads calls
    """An empty place, whose calls go to the sandbox."""
    place = Place(tmp_path)
    place.enter(monkeypatch)
    return place
