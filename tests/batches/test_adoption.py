"""Unclear creates: the provider may have accepted a batch whose id was never stored. It is found, or sent once more."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.workers.orders import Result
from extraction_core.failpoints import Failpoint
from tests.batches.support import CREATE, RESULTS, add_decoys, assert_each_document_was_billed_once, our_batches
from tests.workplace import ROUND_S

if TYPE_CHECKING:
    from tests.workplace import Workplace

ACCEPTED = [
    pytest.param({"kind": "status", "status": 500, "when": "after"}, id="answers 500"),
    pytest.param({"kind": "status", "status": 409, "when": "after"}, id="answers 409"),
    pytest.param({"kind": "status", "status": 429, "when": "after"}, id="answers 429"),
    pytest.param({"kind": "drop", "when": "after", "how": "reset"}, id="resets"),
    pytest.param({"kind": "drop", "when": "mid_body", "how": "fin"}, id="cuts its answer"),
]
STALLS = {"kind": "hold", "name": "for ever"}
NEVER_SENT = {"kind": "drop", "when": "before", "how": "reset"}


def fault_at_create(workplace: Workplace, *faults: dict[str, Any]) -> None:
    workplace.sandbox.faults([{**fault, "path": CREATE} for fault in faults])


@pytest.mark.parametrize("fault", ACCEPTED)
def test_a_batch_that_was_accepted_unheard_is_found_among_decoys_and_not_made_again(
    workplace: Workplace, fault: dict[str, Any]
) -> None:
    add_decoys(workplace.sandbox, 3)
    fault_at_create(workplace, fault)
    collection = workplace.collection(mode="batch")
    report = workplace.run(collection)
    assert report.result is Result.SUBMITTED
    assert [batch["state"] for batch in workplace.books.batches] == ["reserved"]

    assert workplace.finish(collection).result is Result.CLOSED

    (batch,) = our_batches(workplace.sandbox)
    assert [(row["provider_id"], row["state"]) for row in workplace.books.batches] == [(batch["id"], "collected")]
    assert_each_document_was_billed_once(workplace, 3)
    workplace.books.assert_settled()


def test_a_create_that_is_never_answered_ends_with_its_time_limit(workplace: Workplace) -> None:
    fault_at_create(workplace, STALLS)
    collection = workplace.collection(mode="batch")
    report = workplace.run(collection, request_timeout_s=0.5)
    assert report.result is Result.SUBMITTED
    assert [batch["state"] for batch in workplace.books.batches] == ["reserved"]
    assert workplace.finish(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 3)


class Fail:
    """Failpoints that raise where the provider has just accepted a batch."""

    def __call__(self, name: Failpoint) -> None:
        """Raise there."""
        if name is Failpoint.BATCH_ACCEPTED:
            raise OSError


def test_a_submitter_that_fails_after_the_create_leaves_the_settle_time_as_it_was(workplace: Workplace) -> None:
    fault_at_create(workplace, {"kind": "listed_late", "seconds": 60})
    collection = workplace.collection(mode="batch")
    with pytest.raises(OSError):  # noqa: PT011 - raised by the failpoint above
        workplace.run(collection, failpoints=Fail())
    assert [batch["state"] for batch in workplace.books.batches] == ["reserved"]
    assert workplace.watch(collection) == []
    assert workplace.finish(collection).result is Result.CLOSED
    assert len(our_batches(workplace.sandbox)) == 1
    assert [batch["looks"] for batch in workplace.books.batches] == [0]


def test_nothing_is_concluded_before_the_settle_time(workplace: Workplace) -> None:
    fault_at_create(workplace, NEVER_SENT)
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    listings = len([call for call in workplace.sandbox.requests() if call["method"] == "GET"])
    workplace.later(600)
    assert workplace.watch(collection) == []
    assert workplace.run(collection).result is Result.SUBMITTED
    assert len([call for call in workplace.sandbox.requests() if call["method"] == "GET"]) == listings
    assert our_batches(workplace.sandbox) == []


def test_a_batch_that_was_never_made_is_submitted_again_after_two_listings_that_show_decoys_alone(
    workplace: Workplace,
) -> None:
    add_decoys(workplace.sandbox, 3)
    fault_at_create(workplace, NEVER_SENT)
    collection = workplace.collection(mode="batch", max_attempts=1)
    workplace.run(collection)
    workplace.later(ROUND_S)
    assert workplace.watch(collection) == ["not in the provider's list so far"]
    workplace.run(collection)
    assert our_batches(workplace.sandbox) == []

    assert workplace.finish(collection).result is Result.CLOSED

    assert [batch["state"] for batch in workplace.books.batches] == ["void", "collected"]
    assert len({batch["nonce"] for batch in workplace.books.batches}) == 2
    assert_each_document_was_billed_once(workplace, 3)
    refused = [row for row in workplace.books.attempts if row["status"] == "failed"]
    assert [(row["counted"], row["cost_usd"]) for row in refused] == [(False, Decimal(0))] * 3


def test_a_batch_that_the_list_shows_late_is_not_submitted_twice(workplace: Workplace) -> None:
    fault_at_create(workplace, {"kind": "listed_late", "seconds": ROUND_S + 60}, {"kind": "drop", "when": "after"})
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.later(ROUND_S)
    assert workplace.watch(collection) == ["not in the provider's list so far"]
    assert workplace.finish(collection).result is Result.CLOSED
    assert len(our_batches(workplace.sandbox)) == 1
    assert_each_document_was_billed_once(workplace, 3)


def test_a_candidate_that_is_still_running_is_waited_for(workplace: Workplace) -> None:
    workplace.sandbox.batch_seconds(5 * ROUND_S)
    fault_at_create(workplace, {"kind": "drop", "when": "after"})
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    for _ in range(3):
        workplace.later(ROUND_S)
        assert ["waits for batches of the same size" in found for found in workplace.watch(collection)] == [True]
    assert [batch["state"] for batch in workplace.books.batches] == ["reserved"]
    assert workplace.finish(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 3)


def test_a_candidate_that_can_no_longer_be_read_makes_the_reservation_lost(workplace: Workplace) -> None:
    fault_at_create(workplace, {"kind": "drop", "when": "after"})
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.later(30 * 86_400)
    (found,) = workplace.watch(collection)
    assert found.startswith("lost: ")
    assert workplace.books.statuses() == {"failed": 3}
    assert {row["reason"] for row in workplace.books.results} == {"batch_lost"}
    assert [(row["status"], row["cost_usd"]) for row in workplace.books.attempts] == [("abandoned", None)] * 3
    (run,) = workplace.books.runs
    assert (run["status"], run["failed_count"], run["unknown_cost_count"]) == ("failed", 3, 3)
    assert len(our_batches(workplace.sandbox)) == 1


@pytest.mark.parametrize(
    "fault",
    [{"kind": "broken_line", "lines": 0}, {"kind": "cut", "lines": 0, "how": "line_end"}],
    ids=["begins with a broken line", "is cut before its first line"],
)
def test_a_candidate_whose_results_come_damaged_is_not_taken_for_another(
    workplace: Workplace, fault: dict[str, Any]
) -> None:
    fault_at_create(workplace, {"kind": "drop", "when": "after"})
    workplace.sandbox.faults([{**fault, "path": RESULTS, "times": 2}])
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    assert workplace.finish(collection).result is Result.CLOSED
    assert len(our_batches(workplace.sandbox)) == 1
    assert [batch["state"] for batch in workplace.books.batches] == ["collected"]
    assert_each_document_was_billed_once(workplace, 3)


def test_a_list_that_cannot_be_read_concludes_nothing(workplace: Workplace) -> None:
    fault_at_create(workplace, {"kind": "drop", "when": "after"})
    workplace.sandbox.faults([{"kind": "status", "status": 500, "path": "GET /v1/messages/batches"}])
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.later(ROUND_S)
    assert ["the look failed" in found for found in workplace.watch(collection)] == [True]
    assert [(batch["state"], batch["looks"]) for batch in workplace.books.batches] == [("reserved", 0)]
    assert workplace.finish(collection).result is Result.CLOSED
    assert len(our_batches(workplace.sandbox)) == 1


def test_a_new_batch_may_not_be_found_at_first(workplace: Workplace) -> None:
    fault_at_create(workplace, {"kind": "found_late", "seconds": 60})
    collection = workplace.collection(mode="batch")
    workplace.run(collection)
    workplace.later(30)
    assert workplace.watch(collection) == ["not found yet"]
    assert workplace.finish(collection).result is Result.CLOSED
    assert_each_document_was_billed_once(workplace, 3)
