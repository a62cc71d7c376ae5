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


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place without collections whose databases are made."""
    place = Place(tmp_path_factory.mktemp("furnished"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        place.enter(monkeypatch)
        place.scan()
    return place


@pytest.fixture
def place(
    tmp_path: Path,
    furnished: Place,
    sandbox: SandboxServer,  # noqa: ARG001 - it leads the calls to itself
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    """An empty place, whose calls go to the sandbox."""
    place = Place(tmp_path, like=furnished)
    place.enter(monkeypatch)
    return place
