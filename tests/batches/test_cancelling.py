"""Cancelling: the provider is told, what it had done is kept and paid for, the rest ends cancelled and stays so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from extraction_assets.batches import cancel_batch, list_batches, resubmit_batch
from extraction_assets.workers.orders import Order, Result
from extraction_core.errors import DocumentExtractionError
from extraction_core.states import Select
from resources.environment import Environment
from tests.batches.support import CREATE, RESULTS, assert_each_document_was_billed_once, our_batches, our_requests
from tests.factories import some_files
from tests.workers.test_interruption import interrupt
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 10


def environment(workplace: Workplace) -> Environment:
    tools = workplace.tools()
    tools.close()
    return Environment(home=workplace.home, ledger_url=workplace.database_url, timing=tools.timing)


def test_a_batch_is_cancelled_half_way_and_what_was_done_is_kept_and_paid(workplace: Workplace) -> None:
    workplace.sandbox.batch_seconds(100)
    workplace.sandbox.cancel_seconds(20)
    collection = workplace.collection(some_files(DOCUMENTS), mode="batch")
    workplace.run(collection)
    workplace.later(45)
    found = cancel_batch(environment(workplace), workplace.books.batches[0]["provider_id"])
    assert found == "canceling, 0 of 10 requests done"

    report = workplace.finish(collection)

    assert report.run is not None
    done = sum(request["billed_times"] for request in our_requests(workplace.sandbox))
    assert 0 < done < DOCUMENTS
    assert (report.run["completed_count"], report.run["cancelled_count"]) == (done, DOCUMENTS - done)
    assert report.run["status"] == "cancelled"
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    workplace.books.assert_settled()
    due = workplace.run(collection, Order(select=Select.DUE))
    assert (due.result, len(our_batches(workplace.sandbox))) == (Result.NOTHING_TO_DO, 1)


def test_a_run_that_a_person_cancels_cancels_its_batches_too(workplace: Workplace) -> None:
    workplace.sandbox.batch_seconds(None)
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.books.ledger.results.request_cancel(workplace.books.runs[0]["run_id"])
    workplace.watch(collection)
    assert our_batches(workplace.sandbox)[0]["cancel_initiated_at"] is not None
    report = workplace.finish(collection)
    assert report.run is not None
    assert (report.run["status"], report.run["cancelled_count"]) == ("cancelled", 3)


def test_a_batch_that_never_leaves_canceling_has_a_deadline_and_is_reported(workplace: Workplace) -> None:
    workplace.sandbox.batch_seconds(None)
    workplace.sandbox.faults([{"kind": "canceling_for_ever"}])
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    cancel_batch(environment(workplace), "1")
    for _ in range(3):
        workplace.later(1000)
        assert workplace.watch(collection) == ["canceling, 0 of 3 requests done"]
    workplace.later(1000)
    (found,) = workplace.watch(collection)
    assert found.startswith("lost: it has not ended long after it was cancelled")
    (run,) = workplace.books.runs
    assert (run["status"], run["cancelled_count"], run["unknown_cost_count"]) == ("cancelled", 3, 3)
    (listed,) = list_batches(environment(workplace), None, settled=False)
    assert (listed.as_json()["state"], listed.is_open) == ("lost", False)


def test_a_reservation_is_cancelled_as_soon_as_it_is_found(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "drop", "when": "after", "path": CREATE}])
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    assert "as soon as it is found" in cancel_batch(environment(workplace), "1")
    report = workplace.finish(collection)
    assert report.run is not None
    assert report.run["completed_count"] == 3  # it had ended by then, so everything is paid for, and kept


@ON_ONE_DATABASE
def test_an_interruption_while_a_batch_is_sent_ends_soon_and_the_batch_is_found_again(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "hold", "name": "sent", "path": CREATE}])
    collection = workplace.collection(mode="batch")
    child = workplace.child(collection, heartbeat_s=0.1)
    workplace.sandbox.wait_until_held("sent")
    interrupt(child)
    assert [batch["state"] for batch in workplace.books.batches] == ["reserved"]
    workplace.sandbox.release("sent")
    assert workplace.finish(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 3)


@ON_ONE_DATABASE
def test_a_person_who_cancels_the_run_while_a_batch_is_sent_has_it_cancelled_as_soon_as_it_is_found(
    workplace: Workplace,
) -> None:
    workplace.sandbox.faults([{"kind": "hold", "name": "sent", "path": CREATE}])
    collection = workplace.collection(mode="batch")
    child = workplace.child(collection, cancelled=True, heartbeat_s=0.1)
    workplace.sandbox.wait_until_held("sent")
    interrupt(child)
    (batch,) = workplace.books.batches
    assert (batch["state"], bool(batch["cancel_requested"])) == ("reserved", True)
    assert all(row["cancel_requested"] for row in workplace.books.results)
    workplace.sandbox.release("sent")
    workplace.finish(collection)
    assert workplace.books.statuses() == {"completed": 3}  # the provider was done by then: paid for, and kept
    assert_each_document_was_billed_once(workplace, 3)


@ON_ONE_DATABASE
def test_an_interruption_while_collecting_gives_the_batch_back(workplace: Workplace) -> None:
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.later(60)
    workplace.watch(collection)
    workplace.sandbox.faults([{"kind": "pause", "lines": 1, "name": "half way", "path": RESULTS}])
    child = workplace.child(collection, heartbeat_s=0.1)
    workplace.sandbox.wait_until_held("half way")
    interrupt(child)
    assert [(batch["state"], batch["status"]) for batch in workplace.books.batches] == [("ended", "queued")]
    workplace.sandbox.release("half way")
    assert workplace.run(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 3)


def test_what_is_not_at_the_provider_cannot_be_cancelled(workplace: Workplace) -> None:
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.finish(collection)
    with pytest.raises(DocumentExtractionError, match="is collected: there is nothing to cancel"):
        cancel_batch(environment(workplace), "1")
    with pytest.raises(DocumentExtractionError, match="there is no message batch 'msgbatch_other'"):
        cancel_batch(environment(workplace), "msgbatch_other")


def test_only_what_is_lost_is_submitted_again_and_only_when_a_person_says_so(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "drop", "when": "after", "path": CREATE}])
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    with pytest.raises(DocumentExtractionError, match="not lost"):
        resubmit_batch(environment(workplace), "1")
    workplace.later(30 * 86_400)
    workplace.watch(collection)
    assert workplace.run(collection, Order(select=Select.DUE)).result is Result.NOTHING_TO_DO

    assert resubmit_batch(environment(workplace), "1") == sorted(some_files(3))

    assert workplace.run(collection, Order(select=Select.DUE)).result is Result.SUBMITTED
    assert workplace.finish(collection).result is Result.CLOSED
    assert workplace.books.statuses() == {"completed": 3, "failed": 3}
