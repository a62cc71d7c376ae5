"""Signs of life: who works on a set, by the ledger's own beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.ledger.workers import WorkerIdentity
from tests.factories import LEASE_S, a_run, a_set, claim
from tests.ledger.support import execute, one_row, rows

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet


def identity(worker_id: str, dagster_run_id: str | None = None) -> WorkerIdentity:
    """Return who a worker is."""
    return WorkerIdentity(worker_id=worker_id, collection="servers", host="h", pid=1, dagster_run_id=dagster_run_id)


def test_a_worker_signs_on_once(ledger: Ledger, document_set: DocumentSet) -> None:
    ledger.workers.begin(identity("a", "run"), document_set.set_id, LEASE_S)
    before = one_row(ledger, "workers")
    ledger.workers.begin(identity("a", "run"), document_set.set_id, LEASE_S)
    assert one_row(ledger, "workers") == before
    assert before["lease_expires_ms"] == before["beat_ms"] + LEASE_S * 1000
    assert (before["dagster_run_id"], before["ended_ms"]) == ("run", None)


def test_a_beat_extends_the_lease_of_its_worker_only(ledger: Ledger, document_set: DocumentSet) -> None:
    for name in ("a", "b"):
        ledger.workers.begin(identity(name), document_set.set_id, LEASE_S)
    execute(ledger, "UPDATE workers SET lease_expires_ms = 1")
    ledger.workers.beat("a", LEASE_S)
    assert [row["lease_expires_ms"] > 1 for row in rows(ledger, "workers")] == [True, False]


def test_a_worker_that_left_does_not_beat_any_more(ledger: Ledger, document_set: DocumentSet) -> None:
    ledger.workers.begin(identity("a"), document_set.set_id, LEASE_S)
    ledger.workers.end("a")
    before = one_row(ledger, "workers")
    ledger.workers.beat("a", LEASE_S * 2)
    assert one_row(ledger, "workers") == before


def test_alive_is_who_has_a_lease_on_the_set_and_did_not_leave(ledger: Ledger, document_set: DocumentSet) -> None:
    elsewhere = a_set(ledger, 1, collection="other", folder="elsewhere")
    for name in ("me", "alive", "left", "dead"):
        ledger.workers.begin(identity(name), document_set.set_id, LEASE_S)
    ledger.workers.begin(identity("in dagster", "run"), document_set.set_id, LEASE_S)
    ledger.workers.begin(identity("elsewhere"), elsewhere.set_id, LEASE_S)
    ledger.workers.end("left")
    execute(ledger, "UPDATE workers SET lease_expires_ms = 1 WHERE worker_id = 'dead'")
    assert sorted(ledger.workers.others_alive(document_set.set_id, "me")) == ["alive", "run"]


def test_holders_are_those_who_hold_running_rows_of_a_run(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = a_run(ledger, document_set)
    ledger.workers.begin(identity("a", "run"), document_set.set_id, LEASE_S)
    claim(ledger, run_id, 2, worker="a")
    claim(ledger, run_id, 1, worker="unknown")
    holders = {each["holder"]: each for each in ledger.workers.holders(run_id)}
    assert {name: each["rows"] for name, each in holders.items()} == {"run": 2, "unknown": 1}
    assert holders["run"]["beat_age_ms"] >= 0
    assert holders["unknown"]["beat_age_ms"] is None
    assert 0 < holders["run"]["lease_left_ms"] <= LEASE_S * 1000
