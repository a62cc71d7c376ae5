"""``extraction-assets sweep``: the same door from the terminal, which says what it launched and what it held back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from extraction_assets.cli import ExitCode, main
from resources.ledger.tables import metadata
from tests.ledger.support import only_sqlite, rows
from tests.sensors.support import PARTITION_TAG, Status, unanswering

if TYPE_CHECKING:
    import dagster as dg

    from resources.ledger import Ledger

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
def folder(ledger: Ledger) -> str:
    """The folder of the only document set of the invoices, which were scanned and never extracted."""
    command("scan", "--collection", "invoices")
    (document_set,) = ledger.documents.sets("invoices")
    return document_set.folder


def test_a_dry_run_says_what_it_would_launch_and_changes_nothing(
    ledger: Ledger, folder: str, instance: dg.DagsterInstance
) -> None:
    before = everything(ledger)
    said = command("sweep", "--collection", "invoices", "--dry-run")
    assert said == f"invoices: 1 launched, 0 held back\n  would launch {folder}\n"
    assert everything(ledger) == before
    assert instance.get_runs() == []


def test_a_sweep_that_gets_no_answer_from_dagster_says_so_and_launches_nothing(
    ledger: Ledger, folder: str, instance: dg.DagsterInstance
) -> None:
    before = everything(ledger)
    with unanswering(instance):
        said = command("sweep", "--collection", "invoices")
    assert f"held back {folder}: the check for runs in flight failed" in said
    assert everything(ledger) == before


@only_sqlite
def test_a_sweep_queues_one_run_a_set_and_the_next_one_says_why_it_queues_none(
    ledger: Ledger, folder: str, instance: dg.DagsterInstance
) -> None:
    assert command("sweep", "--collection", "invoices") == f"invoices: 1 launched, 0 held back\n  launched {folder}\n"
    (run,) = instance.get_runs()
    (document_set,) = ledger.documents.sets("invoices")
    assert (run.status, run.tags[PARTITION_TAG]) == (Status.QUEUED, document_set.partition_key)
    assert run.tags["extraction/select"] == "due"
    (again,) = json.loads(command("sweep", "--collection", "invoices", "--json"))
    assert again["launched"] == []
    assert again["held_back"] == [
        {
            "partition_key": document_set.partition_key,
            "reason": f"in flight: Dagster run {run.run_id} (QUEUED)",
        }
    ]
    assert len(instance.get_runs()) == 1
