"""A set in batch mode, in Dagster: the run that submits materializes nothing, the run that collects does."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from resources.environment import read_environment
from resources.ledger import Ledger
from sensors.batch_watch import look_after_batches
from tests.dagster.support import Place, documents, orchestrating

if TYPE_CHECKING:
    from tests.sandbox_server import SandboxServer


def test_submitting_is_green_and_observed_and_collecting_materializes(place: Place, sandbox: SandboxServer) -> None:
    place.add("bills", documents(3), mode="batch")
    with orchestrating(place) as dagster:
        submitted = dagster.launch("bills")
        (batch,) = sandbox.batches()
        observed = submitted.observed()["extractions"]
        assert submitted.succeeded
        assert "extractions" not in submitted.materialized()
        assert (observed["result"], observed["message_batch_requests"]) == ("submitted", 3)
        (record,) = observed["message_batches"].records
        assert (record.data["batch"], record.data["state"], record.data["requests"]) == (
            batch["id"],
            "in_progress",
            "3",
        )
        assert record.data["expires"]
        assert submitted.checks().get("all_documents_extracted") is None

        sandbox.advance(60)
        with closing(Ledger(read_environment().ledger_url)) as ledger:
            ledger.engine.write(lambda connection: connection.exec_driver_sql("UPDATE message_batches SET due_ms = 0"))
            assert len(look_after_batches(ledger, "bills", settle_s=900)) == 1
        collected = dagster.launch("bills")

    metadata = collected.materialized()["extractions"]
    assert (metadata["completed_count"], metadata["extraction_run_status"]) == (3, "completed")
    assert metadata["cost_usd_exact"] == str(sandbox.billed_usd) or metadata["cost_usd"] == float(sandbox.billed_usd)
    assert collected.checks()["all_documents_extracted"]
    assert place.states() == {key: ["completed"] for key in documents(3)}
