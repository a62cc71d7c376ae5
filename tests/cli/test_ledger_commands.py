"""``extraction-assets migrate``, ``sweep`` and ``retry``: what they change, what they refuse, what they tell."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from extraction_core.states import Select
from resources.ledger import Ledger
from resources.ledger.migrate import known_revisions
from tests.cli.support import end, everything, run
from tests.factories import a_run
from tests.ledger.support import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.ledger.documents import DocumentSet

# migrate


def test_migrate_makes_the_ledger_and_tells_its_revision(
    bare_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTRACTION_LEDGER_URL", bare_database_url)
    result = run("migrate", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["revision"] == known_revisions()[-1]
    with closing(Ledger(bare_database_url)) as ledger:
        assert rows(ledger, "documents") == []


def test_migrate_tells_people_where_the_ledger_is(home: Path) -> None:
    assert run("migrate").stdout == f"sqlite:///{home}/ledger.db is at revision {known_revisions()[-1]}\n"


def test_a_ledger_of_a_newer_version_is_refused(ledger: Ledger) -> None:
    statement = sa.text("UPDATE extraction_alembic_version SET version_num = '9999'")
    ledger.engine.write(lambda connection: connection.execute(statement))
    result = run("migrate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "has schema 9999, which this version does not know. Install" in result.stderr


# sweep


def test_a_dry_sweep_says_what_would_be_launched_and_changes_no_row(ledger: Ledger) -> None:
    run("scan", "--collection", "servers")
    before = everything(ledger)

    result = run("sweep", "--dry-run", "--collection", "servers")

    assert result.exit_code == 0
    assert result.stderr.startswith("warning: no Dagster daemon is alive")
    first, *launches = result.stdout.splitlines()
    assert first.startswith("servers: 8 launched, 0 held back")
    assert launches == [f"  would launch {one['folder']}" for one in before["document_sets"]]
    assert everything(ledger) == before


def test_a_dry_sweep_tells_scripts_the_partitions(ledger: Ledger) -> None:
    run("scan", "--collection", "invoices")
    (swept,) = json.loads(run("sweep", "--dry-run", "--collection", "invoices", "--json").stdout)
    assert (swept["collection"], swept["dry_run"], swept["held_back"]) == ("invoices", True, [])
    assert swept["launched"] == [one["partition_key"] for one in rows(ledger, "document_sets")]


# retry


def selectable(ledger: Ledger, document_set: DocumentSet, select: Select) -> list[str]:
    """Return the documents that a run with this selection takes."""
    run_id = a_run(ledger, document_set, select=select)
    return [row["document_key"] for row in rows(ledger, "extraction_results", f"run_id = {run_id}")]


def test_retry_of_an_unknown_document_is_wrong_use_and_names_it(ledger: Ledger) -> None:
    end(ledger, "failed")
    result = run("retry", "--collection", "servers", "--documents", "no/such.pdf")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "no such document in servers: no/such.pdf\n"


def test_retry_marks_the_known_documents_beside_an_unknown_one(ledger: Ledger) -> None:
    end(ledger, "failed")
    key = "server/dell/00000.pdf"
    result = run("retry", "--collection", "servers", "--documents", key, "--documents", "no/such.pdf")
    assert (result.exit_code, result.stdout) == (2, f"due: {key}\n")
    (document,) = rows(ledger, "documents")
    assert document["due_since_ms"] is not None


def test_retry_makes_a_failed_document_due_and_no_other(ledger: Ledger) -> None:
    document_set = end(ledger, "failed", "failed")
    key = "server/dell/00001.pdf"
    result = run("retry", "--collection", "servers", "--documents", key)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"due: {key}\n", "")
    assert selectable(ledger, document_set, Select.DUE) == [key]


@pytest.mark.parametrize(("options", "taken"), [((), []), (("--reset-attempts",), ["server/dell/00001.pdf"])])
def test_only_a_reset_leads_past_the_cap_of_attempts(
    ledger: Ledger, options: Sequence[str], taken: Sequence[str]
) -> None:
    document_set = end(ledger, "completed", "exhausted")
    result = run("retry", "--collection", "servers", "--documents", "server/dell/00001.pdf", *options)
    assert result.exit_code == 0
    assert selectable(ledger, document_set, Select.PENDING) == taken
