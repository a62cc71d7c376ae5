"""Two versions of the code on one ledger: the older one stops with one clear line and changes nothing."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from extraction_assets.assets.document_set import build_document_set_assets
from extraction_assets.cli import main
from extraction_assets.jobs import build_extraction_job
from extraction_assets.partitions import document_sets
from extraction_assets.sensor_targets import sensor_target
from extraction_core.errors import SchemaTooNewError
from resources.configurable import ExtractionEnvironment
from resources.ledger.engine import LedgerEngine
from resources.ledger.migrate import VERSION_TABLE
from sensors.document_inbox import build_document_inbox
from sensors.retry_sweeper import build_retry_sweeper
from tests.factories import a_collection

if TYPE_CHECKING:
    from collections.abc import Callable

    from extraction_core.collection import Collection

REFUSED = "has schema 9999, which this version does not know. Install the version that migrated it, or a newer one."
COMMANDS = (
    ["scan"], ["status"], ["sweep"], ["sweep", "--dry-run"], ["retry", "--collection", "servers", "--documents", "a"],
    ["batches"], ["batches", "cancel", "1"], ["batches", "resubmit", "1"], ["migrate"],
)  # fmt: skip
WITHOUT_LEDGER = {"sandbox", "chaos"}
"""A server, and a trial on a ledger of its own."""
PROJECT_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def newer_ledger(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger that a newer version has migrated, which the environment names."""
    home, dagster_home = tmp_path / "home", tmp_path / "dagster"
    home.mkdir()
    dagster_home.mkdir()
    shutil.copy(PROJECT_ROOT / "dagster.yaml", dagster_home)
    shutil.copy(sqlite_template, home / "ledger.db")
    with closing(LedgerEngine(f"sqlite:///{home / 'ledger.db'}")) as engine:
        version = sa.table(VERSION_TABLE, sa.column("version_num"))
        engine.write(lambda connection: connection.execute(sa.update(version).values(version_num="9999")))
    monkeypatch.setenv("EXTRACTION_HOME", str(home))
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home))
    monkeypatch.delenv("EXTRACTION_LEDGER_URL", raising=False)
    return home / "ledger.db"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_works_on_a_ledger_of_a_newer_version(newer_ledger: Path, command: list[str]) -> None:
    before = newer_ledger.read_bytes()
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: The ledger at sqlite:///{newer_ledger} {REFUSED}\n"
    assert newer_ledger.read_bytes() == before


def test_every_command_that_opens_the_ledger_is_tried_above() -> None:
    assert {command[0] for command in COMMANDS} | WITHOUT_LEDGER == set(main.commands)


@pytest.mark.parametrize("build", [build_retry_sweeper, build_document_inbox])
@pytest.mark.usefixtures("newer_ledger")
def test_no_sensor_launches_anything_on_a_ledger_of_a_newer_version(
    tmp_path: Path, build: Callable[..., dg.SensorDefinition]
) -> None:
    collection = a_collection(tmp_path / "docs")
    sensor = build(sensor_target(collection), build_extraction_job(collection))
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(SchemaTooNewError, match="has schema 9999"):
        sensor(dg.build_sensor_context(instance=instance))


@pytest.mark.filterwarnings("ignore:The `__fields__` attribute is deprecated")
@pytest.mark.usefixtures("newer_ledger")
def test_a_dagster_run_on_a_ledger_of_a_newer_version_fails_and_says_why(tmp_path: Path) -> None:
    collection: Collection = a_collection(tmp_path / "docs")
    assets = build_document_set_assets(collection)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(str(document_sets(collection.name).name), ["dell-1"])
        resources = {"extraction": ExtractionEnvironment()}
        result = dg.materialize(
            [assets], partition_key="dell-1", instance=instance, resources=resources, raise_on_error=False
        )
        (failed,) = result.get_step_failure_events()
    assert REFUSED in str(failed.step_failure_data.error)
