"""A ledger under watch by sensors, a Dagster instance of its own, and a workplace for what really runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from extraction_assets.sensor_targets import sensor_target
from tests.dagster.support import Place
from tests.factories import a_collection
from tests.sensors.support import PROJECT_ROOT, Watch, forget_everything
from tests.workplace_fixtures import parser, workplace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resources.ledger import Ledger
    from tests.sandbox_server import SandboxServer

__all__ = ["parser", "workplace"]
FOLDER = Path(__file__).parent
OF_DAGSTER = "ignore:The `__fields__` attribute is deprecated:pydantic.warnings.PydanticDeprecatedSince20"
"""Dagster 1.13 reads the fields of a resource by pydantic's old name."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this folder pass where Dagster itself uses something deprecated."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.filterwarnings(OF_DAGSTER))


@pytest.fixture(scope="session")
def dagster_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of this test process: making its databases takes seconds."""
    home = tmp_path_factory.mktemp("dagster")
    shutil.copy(PROJECT_ROOT / "dagster.yaml", home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


@pytest.fixture
def instance(dagster_process: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """A Dagster instance without runs and partitions, which the environment names."""
    monkeypatch.setenv("DAGSTER_HOME", dagster_process.root_directory)
    yield dagster_process
    forget_everything(dagster_process)


@pytest.fixture
def environment(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sensors and commands read of the environment leads to this test's ledger."""
    monkeypatch.setenv("EXTRACTION_LEDGER_URL", database_url)
    monkeypatch.setenv("EXTRACTION_HOME", str(tmp_path / "home"))


@pytest.fixture
def watch(ledger: Ledger, instance: dg.DagsterInstance, tmp_path: Path, environment: None) -> Watch:  # noqa: ARG001 - read by what is watched
    """One collection, whose document sets a test registers and whose Dagster runs it makes up."""
    return Watch(ledger, instance, sensor_target(a_collection(tmp_path / "docs", {})))


@pytest.fixture
def place(
    tmp_path: Path,
    sandbox: SandboxServer,  # noqa: ARG001 - leads calls
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    """Collections of their own, on the Dagster instance of this test process."""
    (tmp_path / "place").mkdir()
    place = Place(tmp_path / "place")
    place.enter(monkeypatch)
    monkeypatch.setenv("DAGSTER_HOME", instance.root_directory)
    return place
