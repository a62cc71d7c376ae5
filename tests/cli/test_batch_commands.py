"""``extraction-assets batches``: what it lists, what it refuses, and that cancelling reaches the provider."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from extraction_assets.cli import main
from extraction_core.batches import BatchSeen, BatchState
from resources.extraction.access import access_from
from resources.extraction.batches import BatchProvider
from resources.ledger import Ledger
from resources.ledger.reservations import BatchOrder, PlannedRequest
from tests.factories import a_run, a_set, claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resources.ledger.claims import Held
    from tests.sandbox_server import SandboxServer

NONCE = "0123456789abcdef"
PARAMS = {"model": "claude-haiku-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The ledger that the commands read."""
    monkeypatch.setenv("EXTRACTION_HOME", str(tmp_path))
    monkeypatch.delenv("EXTRACTION_LEDGER_URL", raising=False)
    with closing(Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")) as ledger:
        yield ledger


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["batches", *arguments], catch_exceptions=False)


def a_batch(ledger: Ledger) -> Held:
    """Reserve a batch of the two documents of a set, and hold it."""
    run_id = a_run(ledger, a_set(ledger, 2, folder="server/dell", collection="servers"))
    requests = [
        PlannedRequest(held=held, model="m", max_output_tokens=1, reserved_usd=None, second_try=None)
        for held in claim(ledger, run_id, 2)
    ]
    order = BatchOrder(run_id=run_id, worker="w", nonce=NONCE, lease_s=300, max_attempts=3)
    held = ledger.batches.reserve(order, requests).batch
    assert held is not None
    return held


def submit(ledger: Ledger) -> str:
    """Reserve a batch, create it at the provider, store its id. Returns the id."""
    held = a_batch(ledger)
    with closing(BatchProvider(access_from())) as provider:
        seen = provider.create([{"custom_id": f"{NONCE}-{number}", "params": PARAMS} for number in (1, 2)])
    assert isinstance(seen, BatchSeen)
    assert ledger.batches.saw(held, seen, wait_s=60, overdue_s=3600)
    return seen.provider_id


def test_nothing_is_listed_while_nothing_is_open(ledger: Ledger) -> None:  # noqa: ARG001 - the place
    shown = run()
    assert (shown.exit_code, shown.stdout) == (0, "no message batch is open\n")
    assert json.loads(run("--json").stdout) == []


def test_an_open_batch_is_listed_with_state_counts_set_and_expiry(ledger: Ledger, sandbox: SandboxServer) -> None:
    sandbox.batch_seconds(None)
    name = submit(ledger)
    (line,) = run().stdout.splitlines()
    assert all(part in line for part in (name, "in_progress", "0/2 requests", "servers: server/dell", "expires 20"))
    (listed,) = json.loads(run("--json").stdout)
    assert (listed["provider_id"], listed["state"], listed["requests"]) == (name, "in_progress", 2)
    assert listed["counts"] == {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    assert listed["document_set"] == "server/dell"
    assert (listed["overdue"], listed["age_s"] < 100) == (False, True)


def test_cancelling_reaches_the_provider_at_once(ledger: Ledger, sandbox: SandboxServer) -> None:
    sandbox.batch_seconds(None)
    sandbox.cancel_seconds(None)
    name = submit(ledger)
    shown = run("cancel", name)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "canceling" in shown.stdout
    assert sandbox.batches()[0]["cancel_initiated_at"] is not None
    assert ledger.batches.listed(None, settled=False)[0]["state"] == BatchState.CANCELING


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("cancel", "99"), "there is no message batch '99'"),
        (("resubmit", "msgbatch_x"), "there is no message batch 'msgbatch_x'"),
        (("--collection", "other"), "there is no collection 'other'"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_so(ledger: Ledger, arguments: tuple[str, ...], told: str) -> None:  # noqa: ARG001 - the place
    shown = run(*arguments)
    assert shown.exit_code == 2
    assert told in shown.stderr


def test_what_is_not_lost_is_not_submitted_again(ledger: Ledger) -> None:
    a_batch(ledger)
    shown = run("resubmit", "1")
    assert (shown.exit_code, "not lost" in shown.stderr) == (2, True)
    assert ledger.batches.listed(None, settled=False)[0]["state"] == BatchState.RESERVED
