"""``extraction-assets sweep``: the same door from the terminal, which says what it launched and what it held back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from extraction_assets.cli import ExitCode, main
from extraction_assets.sweeping import launch_commands
from extraction_core.partitions import partition_key
from resources.ledger.tables import metadata
from tests.ledger.support import only_sqlite, rows
from tests.sensors.support import PARTITION_TAG, Status, unanswering

if TYPE_CHECKING:
    import dagster as dg

    from resources.ledger import Ledger

LONGEST_ARGUMENT = 128 * 1024
"""Bytes; see ``MAX_ARG_STRLEN`` in execve(2)."""

pytestmark = pytest.mark.usefixtures("environment", "instance")


def command(*arguments: str) -> str:
    """Run a command of the terminal that must end well; returns what it says."""
    ended = CliRunner().invoke(main, list(arguments))
    assert ended.exit_code == ExitCode.ALL_GOOD, ended.output
    return ended.stdout


def everything(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables."""
    return {table: rows(ledger, table) for table in metadata.tables}


@pytest.fixture
def keys(ledger: Ledger) -> dict[str, str]:
    """Folder -> partition key of the document sets of the invoices, which were scanned and never extracted."""
    command("scan", "--collection", "invoices")
    return {found.folder: found.partition_key for found in ledger.documents.sets("invoices")}


def test_a_dry_run_says_what_it_would_launch_and_changes_nothing(
    ledger: Ledger, keys: dict[str, str], instance: dg.DagsterInstance
) -> None:
    before = everything(ledger)
    said = command("sweep", "--collection", "invoices", "--dry-run").splitlines()
    assert said[0] == f"invoices: {len(keys)} launched, 0 held back (dry run: nothing was changed)"
    assert sorted(said[1:]) == sorted(f"  would launch {folder}" for folder in keys)
    assert everything(ledger) == before
    assert instance.get_runs() == []


def test_a_sweep_that_gets_no_answer_from_dagster_says_so_and_launches_nothing(
    ledger: Ledger, keys: dict[str, str], instance: dg.DagsterInstance
) -> None:
    before = everything(ledger)
    with unanswering(instance):
        said = command("sweep", "--collection", "invoices")
    for folder in keys:
        assert f"  held back {folder}: the check for runs in flight failed" in said
    assert everything(ledger) == before


def test_the_partitions_of_a_large_sweep_are_spread_over_command_lines_that_the_system_takes() -> None:
    keys = [partition_key(f"a folder with a name that is cut off somewhere {number}") for number in range(2500)]
    commands = list(launch_commands("servers_extraction", keys))
    lists = [command[command.index("--partitions") + 1] for command in commands]
    assert [key for listed in lists for key in listed.split(",")] == keys
    assert len(commands) == 3
    assert all(len(argument) < LONGEST_ARGUMENT for command in commands for argument in command)


def test_a_sweep_without_a_launch_has_no_command_line() -> None:
    assert list(launch_commands("servers_extraction", [])) == []


@only_sqlite
def test_a_sweep_queues_one_run_a_set_and_the_next_one_says_why_it_queues_none(
    keys: dict[str, str], instance: dg.DagsterInstance
) -> None:
    _, *said, queue = command("sweep", "--collection", "invoices").splitlines()
    assert queue.startswith(f"{len(keys)} runs are queued, the first for ")
    assert queue.endswith("no daemon is alive that would take them up")
    assert sorted(said) == sorted(f"  launched {folder}" for folder in keys)
    runs = instance.get_runs()
    assert {(run.status, run.tags["extraction/select"]) for run in runs} == {(Status.QUEUED, "due")}
    assert sorted(run.tags[PARTITION_TAG] for run in runs) == sorted(keys.values())
    (again,) = json.loads(command("sweep", "--collection", "invoices", "--json"))
    assert again["launched"] == []
    assert {held["partition_key"]: held["reason"] for held in again["held_back"]} == {
        run.tags[PARTITION_TAG]: f"in flight: Dagster run {run.run_id} (QUEUED)" for run in runs
    }
    assert len(instance.get_runs()) == len(runs)
