"""``extraction-assets status``: the ledger's own counts and money, for people and for scripts."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resources.ledger import Ledger
from tests.cli.support import end, everything, run, sets_of
from tests.ledger.support import rows

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("endings", "code"),
    [
        pytest.param((), 3, id="nothing is registered"),
        pytest.param(("failed", "exhausted"), 3, id="all failed"),
        pytest.param(("completed", "failed", "pending"), 1, id="some failed"),
        pytest.param(("completed", "pending"), 0, id="none failed"),
    ],
)
def test_the_exit_code_of_status_tells_how_the_documents_ended(
    ledger: Ledger, endings: Sequence[str], code: int
) -> None:
    if endings:
        end(ledger, *endings)
    assert run("status", "--collection", "servers").exit_code == code


def test_a_collection_in_which_all_failed_beside_one_in_which_none_did_is_some_failed(ledger: Ledger) -> None:
    end(ledger, "failed")
    end(ledger, "completed", collection="invoices", folder="2026/01")
    codes = [run("status", "--collection", name).exit_code for name in ("servers", "invoices")]
    assert (*codes, run("status").exit_code) == (3, 0, 1)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", ["scan", "status", "sweep"])
def test_an_unknown_collection_is_refused_with_the_known_ones(command: str) -> None:
    result = run(command, "--collection", "contracts")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: --collection: there is no collection 'contracts'. The collections are: invoices, servers.\n"
    )


def test_counts_and_money_of_status_are_the_ledgers(ledger: Ledger) -> None:
    dell = end(ledger, "completed", "completed", "failed", "exhausted", "pending")
    january = end(ledger, "completed", collection="invoices", folder="2026/01")
    costs = [row["cost_usd"] for row in rows(ledger, "attempts") if row["cost_usd"] is not None]

    result = run("status", "--json")

    (servers,), (invoices,) = sets_of(result, "servers"), sets_of(result, "invoices")
    assert servers == {
        "partition_key": dell.partition_key,
        "folder": "server/dell",
        "documents": 5,
        "completed": 2,
        "failed": 2,
        "cancelled": 0,
        "active": 0,
        "pending": 1,
        "exhausted": 1,
        "calls": 5,
        "cost_usd": "0.002469",
        "calls_of_unknown_cost": 3,
        "last_error": "server/dell/00003.pdf: refused",
    }
    assert (invoices["partition_key"], invoices["completed"], invoices["calls"]) == (january.partition_key, 1, 1)
    assert Decimal(servers["cost_usd"]) + Decimal(invoices["cost_usd"]) == sum(costs)
    assert servers["calls"] + invoices["calls"] == len(rows(ledger, "attempts"))
    assert servers["documents"] + invoices["documents"] == len(rows(ledger, "documents"))


def test_status_lists_documents_with_state_cause_and_remedy(ledger: Ledger) -> None:
    end(ledger, "completed", "failed", "exhausted", "pending")
    result = run("status", "--documents", "--json", "--collection", "servers")
    (collection,) = json.loads(result.stdout)["collections"]
    found = [(one["document_key"], one["state"], one["reason"], one["attempts"]) for one in collection["documents"]]
    assert found == [
        ("server/dell/00000.pdf", "completed", None, 1),
        ("server/dell/00001.pdf", "failed", "refused", 0),
        ("server/dell/00002.pdf", "exhausted", "refused", 3),
        ("server/dell/00003.pdf", "pending", None, 0),
    ]
    remedies = [one["remedy"] for one in collection["documents"]]
    assert [remedy and remedy.partition(";")[0] for remedy in remedies] == [
        None,
        "The model declines this document",
        "All attempts are used",
        None,
    ]
    assert [one["cost_usd"] for one in collection["documents"]] == ["0.0012345", None, None, None]


def test_status_begins_with_home_and_ledger(home: Path) -> None:
    result = run("status")
    assert result.stdout.splitlines()[0] == f"home {home}, ledger sqlite:///{home}/ledger.db"


def test_status_shows_people_what_scripts_are_told(ledger: Ledger) -> None:
    document_set = end(ledger, "completed", "failed", "exhausted")
    shown = run("status", "--documents", "--collection", "servers").stdout
    line = next(line for line in shown.splitlines() if line.split()[:1] == ["server/dell"])
    assert line.split()[1:8] == ["3", "1", "2", "0", "0", "0", "0.0012345"]
    assert document_set.partition_key in shown
    assert "1 exh." in shown
    assert "+ 3 unknown" in shown
    states = {
        line.split()[0]: line.split()[1] for line in shown.splitlines() if ".pdf " in line and line.startswith(" ")
    }
    assert states["server/dell/00002.pdf"] == "exhausted"


def test_status_warns_on_stderr_when_nothing_is_launched_by_itself_and_tells_scripts(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(ledger, "completed")
    result = run("status", "--json", "--collection", "servers")
    (warning,) = json.loads(result.stdout)["dagster"]["warnings"]
    assert (result.exit_code, result.stderr) == (0, f"warning: {warning}\n")
    assert warning.startswith("no Dagster has run at")
    monkeypatch.delenv("DAGSTER_HOME")
    result = run("status", "--json", "--collection", "servers")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["dagster"]["home"] is None


def test_status_changes_nothing(ledger: Ledger) -> None:
    end(ledger, "completed", "failed", "pending")
    before = everything(ledger)
    run("status", "--documents")
    assert everything(ledger) == before
