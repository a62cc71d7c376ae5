"""What a run takes of its set: by each document's own past, its question and its edition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from extraction_core.states import Select
from tests.factories import (
    FOLDER,
    a_document,
    a_run,
    a_selection,
    a_set,
    answer,
    ask,
    claim,
    claim_one,
    fail,
    open_attempt,
)
from tests.ledger.support import (
    end,
    execute,
    rows,
)

if TYPE_CHECKING:
    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet

KEYS = [a_document(number).key for number in range(3)]


def taken(ledger: Ledger, document_set: DocumentSet, select: Select, *, max_attempts: int = 3) -> list[str]:
    """Return the keys that a new run with this selection takes; the run is cancelled at once."""
    run_id = a_run(ledger, document_set, select=select, max_attempts=max_attempts)
    keys = [row["document_key"] for row in rows(ledger, "extraction_results", f"run_id = {run_id}")]
    assert ledger.runs.get(run_id)["request_count"] == len(keys)
    ledger.results.request_cancel(run_id)
    ledger.finalize(run_id)
    return sorted(keys)


def test_pending_takes_what_has_no_completed_result_and_attempts_left(
    ledger: Ledger, document_set: DocumentSet
) -> None:
    end(ledger, document_set, "completed", "failed", "exhausted")
    assert taken(ledger, document_set, Select.PENDING) == KEYS[1:2]


def test_failed_takes_what_failed_last_and_has_attempts_left(ledger: Ledger) -> None:
    document_set = a_set(ledger, 3)
    end(ledger, document_set, "completed", "failed", "exhausted")
    ledger.documents.register("servers", [a_document(number) for number in range(4)])
    ask(ledger, document_set, "q")
    assert taken(ledger, document_set, Select.FAILED) == KEYS[1:2]


def test_failed_takes_nothing_that_was_cancelled_last(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "failed", "failed")
    assert taken(ledger, document_set, Select.FAILED) == KEYS[1:]
    assert taken(ledger, document_set, Select.FAILED) == []
    assert taken(ledger, document_set, Select.PENDING) == KEYS[1:]


def test_all_takes_every_present_document_in_a_new_edition(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "failed", "exhausted")
    assert taken(ledger, document_set, Select.ALL) == KEYS
    assert [row["edition"] for row in rows(ledger, "extraction_results")] == [0, 0, 0, 1, 1, 1]
    assert taken(ledger, document_set, Select.ALL) == KEYS
    assert [row["edition"] for row in rows(ledger, "extraction_results")][6:] == [2, 2, 2]


def test_a_new_edition_makes_an_exhausted_document_pending_again(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "completed", "exhausted")
    assert taken(ledger, document_set, Select.PENDING) == []
    taken(ledger, document_set, Select.ALL)
    assert taken(ledger, document_set, Select.PENDING) == KEYS[2:]
    assert [row["edition"] for row in rows(ledger, "extraction_results")][-1] == 1


def test_a_raised_cap_makes_an_exhausted_document_pending_again(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "completed", "exhausted")
    assert taken(ledger, document_set, Select.PENDING, max_attempts=4) == KEYS[2:]


def test_a_changed_question_makes_every_document_pending_again(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "failed", "exhausted")
    ask(ledger, document_set, "another question")
    assert taken(ledger, document_set, Select.PENDING) == KEYS
    assert taken(ledger, document_set, Select.FAILED) == []


def test_a_changed_document_is_pending_again_and_no_other(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "completed", "exhausted")
    ask(ledger, document_set, "other bytes", KEYS[2:])
    assert taken(ledger, document_set, Select.PENDING) == KEYS[2:]


def test_an_exhausted_document_with_a_kept_answer_is_pending(ledger: Ledger, document_set: DocumentSet) -> None:
    end(ledger, document_set, "completed", "completed", "exhausted")
    late = rows(ledger, "attempts")[-1]
    assert taken(ledger, document_set, Select.PENDING) == []
    kept = f"UPDATE attempts SET status = 'answered', response = '{{}}' WHERE attempt_id = {late['attempt_id']}"  # noqa: S608 - our number
    execute(ledger, kept)
    assert taken(ledger, document_set, Select.PENDING) == KEYS[2:]


def test_a_kept_answer_of_an_earlier_edition_makes_no_document_pending(
    ledger: Ledger, document_set: DocumentSet
) -> None:
    run_id = a_run(ledger, document_set, keys=KEYS[:1])
    late = open_attempt(ledger, held := claim_one(ledger, run_id))
    fail(ledger, held)
    ledger.finalize(run_id)
    run_id = a_run(ledger, document_set, select=Select.ALL, keys=KEYS[:1])
    held = claim_one(ledger, run_id)
    open_attempt(ledger, held)
    fail(ledger, held)
    ledger.finalize(run_id)
    answer(ledger, late)
    assert taken(ledger, document_set, Select.PENDING, max_attempts=1) == KEYS[1:]


def test_removed_documents_and_such_that_were_not_read_are_not_taken(ledger: Ledger, document_set: DocumentSet) -> None:
    ledger.documents.register("servers", [a_document(number) for number in (0, 1, 9)])
    assert taken(ledger, document_set, Select.ALL) == KEYS[:2]


def test_keys_limit_every_selection(ledger: Ledger, document_set: DocumentSet) -> None:
    run_id = a_run(ledger, document_set, select=Select.ALL, keys=[KEYS[1], "unknown"])
    assert [row["document_key"] for row in rows(ledger, "extraction_results", f"run_id = {run_id}")] == [KEYS[1]]


def test_documents_of_other_sets_are_not_taken(ledger: Ledger, document_set: DocumentSet) -> None:
    found = [a_document(number, folder=folder) for folder in (FOLDER, "server/hpe") for number in range(3)]
    ledger.documents.register("servers", found)
    for each in ledger.documents.sets("servers"):
        ask(ledger, each, "q")
    assert taken(ledger, document_set, Select.ALL) == KEYS


@pytest.mark.parametrize("select", [Select.PENDING, Select.FAILED, Select.ALL])
def test_what_a_selection_would_take_is_what_it_takes(
    ledger: Ledger, document_set: DocumentSet, select: Select
) -> None:
    end(ledger, document_set, "completed", "failed", "exhausted")
    announced = ledger.runs.selects(a_selection(document_set, select=select))
    assert announced == len(taken(ledger, document_set, select))


def test_a_document_whose_attempts_are_used_up_is_left_out_whatever_was_asked_anew_of_others(ledger: Ledger) -> None:
    mine, other = a_set(ledger, 1), a_set(ledger, 1, collection="others")
    held = claim_one(ledger, run_id := a_run(ledger, mine))
    open_attempt(ledger, held, max_attempts=1)
    fail(ledger, held)
    ledger.finalize(run_id)
    for select in (Select.ALL, Select.ALL):
        (held,) = claim(ledger, run_id := a_run(ledger, other, select=select))
        fail(ledger, held)
        ledger.finalize(run_id)
    assert ledger.runs.selects(a_selection(mine, max_attempts=1)) == 0
    assert ledger.runs.selects(a_selection(other, max_attempts=1)) == 1
