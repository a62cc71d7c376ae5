"""Message batches as rows: which are due, open, ended, listed, found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from extraction_core.batches import UNSETTLED, BatchState
from tests.factories import (
    COLLECTION,
    a_look,
    a_run,
    claim,
    reserve,
)
from tests.ledger.support import (
    a_batch,
    database_now_ms,
    execute,
    one_row,
    take,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger


@pytest.fixture
def batches(ledger: Ledger) -> dict[str, int]:
    """Batches of one run, numbered from 1, in several states: their numbers by name."""
    names = ("free", "not due", "held", "ended", "ended later", "lost")
    run_id = a_run(ledger, documents=len(names))
    for name, claimed in zip(names, claim(ledger, run_id, len(names)), strict=True):
        held = reserve(ledger, run_id, [claimed]).batch
        assert held is not None
        state = BatchState.ENDED if name.startswith("ended") else BatchState.IN_PROGRESS
        assert ledger.batches.saw(held, a_look(state, provider_id=name), wait_s=0, overdue_s=1000)
    found = {name: number for number, name in enumerate(names, 1)}
    later = f"UPDATE message_batches SET due_ms = due_ms + 1000000 WHERE batch_id IN ({found['not due']}, {found['ended later']})"  # noqa: S608 - our numbers
    execute(ledger, later)
    take(ledger, found["held"])
    assert ledger.batches.lose(take(ledger, found["lost"]), "gone")
    return found


def numbers(found: list[Any]) -> list[int]:
    """Return the numbers of batches."""
    return [row["batch_id"] for row in found]


def test_a_look_is_due_at_batches_that_are_free_and_whose_time_has_come(
    ledger: Ledger, batches: dict[str, int]
) -> None:
    execute(ledger, f"UPDATE message_batches SET due_ms = 0 WHERE batch_id = {batches['ended']}")  # noqa: S608 - our number
    assert numbers(ledger.batches.due(COLLECTION, 1)) == [batches["free"]]  # an ended one does not take its place
    assert numbers(ledger.batches.due(COLLECTION, 9)) == [batches["free"]]
    assert ledger.batches.due("another", 9) == []
    execute(ledger, f"UPDATE message_batches SET due_ms = 5 WHERE batch_id = {batches['not due']}")  # noqa: S608 - our number
    assert numbers(ledger.batches.due(COLLECTION, 9)) == [batches["not due"], batches["free"]]


def test_a_collecting_run_is_for_ended_batches_that_are_free_and_due(ledger: Ledger, batches: dict[str, int]) -> None:
    assert numbers(ledger.batches.to_collect(COLLECTION)) == [batches["ended"]]
    assert ledger.batches.to_collect("another") == []
    take(ledger, batches["ended"])
    assert ledger.batches.to_collect(COLLECTION) == []


def test_batches_of_a_set_and_of_a_run_are_found_by_whether_the_provider_is_at_work(
    ledger: Ledger, batches: dict[str, int]
) -> None:
    at_work = [batches[name] for name in ("free", "not due", "held")]
    assert numbers(ledger.batches.open_of_set(1)) == at_work
    assert ledger.batches.open_of_set(2) == []
    assert numbers(ledger.batches.of_run(1, *UNSETTLED)) == [*at_work, batches["ended"], batches["ended later"]]
    assert numbers(ledger.batches.of_run(1, BatchState.LOST)) == [batches["lost"]]
    assert ledger.batches.of_run(2, *BatchState) == []


def test_the_list_shows_open_batches_oldest_first_and_settled_ones_if_asked(
    ledger: Ledger, batches: dict[str, int]
) -> None:
    changes = f"overdue_ms = CASE batch_id WHEN {batches['ended']} THEN overdue_ms ELSE 1 END"
    execute(ledger, f"UPDATE message_batches SET created_ms = created_ms - 90000, {changes}")  # noqa: S608 - our number
    listed = ledger.batches.listed(COLLECTION, settled=False)
    assert numbers(listed) == sorted(set(batches.values()) - {batches["lost"]})
    assert [bool(row["overdue"]) for row in listed] == [True, True, True, False, True]
    assert all(90 <= row["age_s"] < 150 for row in listed)
    document_set = one_row(ledger, "document_sets")
    assert (listed[0]["partition_key"], listed[0]["folder"]) == (document_set["partition_key"], document_set["folder"])
    everything = ledger.batches.listed(None, settled=True)
    assert numbers(everything) == sorted(batches.values())
    assert not everything[-1]["overdue"]  # what is settled is late no more
    assert ledger.batches.listed("another", settled=True) == []


def test_a_batch_is_found_by_its_number_or_by_its_id_at_the_provider(ledger: Ledger, batches: dict[str, int]) -> None:
    names = {"1": 1, "ended": batches["ended"], str(batches["ended"]): batches["ended"]}
    names |= dict.fromkeys(("99", "", "none", "9" * 40, "-1", "1 OR 1"))
    found = {name: ledger.batches.find(name) for name in names}
    assert {name: row and row["batch_id"] for name, row in found.items()} == names


def test_the_age_of_an_acceptance_and_lateness_are_told_by_the_database(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    assert ledger.batches.accepted_s_ago(batch.batch_id) == 0
    assert not ledger.batches.is_overdue(batch.batch_id)
    assert batch.see(batch.submitter, BatchState.IN_PROGRESS)
    assert not ledger.batches.is_overdue(batch.batch_id)
    batch.set(accepted_ms=batch.row["accepted_ms"] - 90_000, overdue_ms=database_now_ms(ledger) - 1)
    assert 90 <= ledger.batches.accepted_s_ago(batch.batch_id) < 150
    assert ledger.batches.is_overdue(batch.batch_id)
