"""Extraction runs: every verb from every state; what may not happen changes no run, no row and no attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from extraction_core.states import RowStatus, RunStatus, Select
from resources.ledger.attempts import Opened
from resources.ledger.claims import Held
from tests.factories import (
    LEASE_S,
    a_failure,
    a_plan,
    a_request,
    a_run,
    a_selection,
    a_set,
    an_output,
    claim,
    claim_one,
    complete,
    fail,
    open_attempt,
)
from tests.ledger.support import Row, contents, execute, one_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet

TABLES = ("extraction_runs", "extraction_results", "attempts")
UNFINISHED, UNSEALED = "open, with an unfinished row", "open, not sealed"
READY = "open, sealed and finished"
CLOSED = [status.value for status in RunStatus if status is not RunStatus.OPEN]
STAGES = [UNFINISHED, UNSEALED, READY, *CLOSED]


def cancel(ledger: Ledger, held: Held) -> None:
    """End a claim cancelled."""
    assert ledger.results.record_cancelled(held, "cancelled")


ENDINGS: dict[str, tuple[Callable[[Ledger, Held], None], ...]] = {
    RunStatus.COMPLETED: (complete, complete),
    RunStatus.COMPLETED_WITH_ERRORS: (complete, fail),
    RunStatus.FAILED: (fail, fail),
    RunStatus.CANCELLED: (complete, cancel),
    UNFINISHED: (complete,),
    UNSEALED: (complete, fail),
    READY: (complete, fail),
}


def a_run_in(ledger: Ledger, document_set: DocumentSet, stage: str) -> list[Held]:
    """Bring the run with two of a set's three documents to a stage; returns its claims, all of which are over."""
    keys = [row["document_key"] for row in ledger.documents.of_set(document_set.set_id)][:2]
    run_id = a_run(ledger, document_set, keys=keys, seal=stage != UNSEALED)
    held = claim(ledger, run_id, len(ENDINGS[stage]))
    for one, end in zip(held, ENDINGS[stage], strict=True):
        end(ledger, one)
    if stage in CLOSED:
        assert ledger.finalize(run_id) is not None
    assert one_row(ledger, "extraction_runs")["status"] == (stage if stage in CLOSED else RunStatus.OPEN)
    return held


VERBS: dict[str, Callable[[Ledger, DocumentSet, Held], Any]] = {
    "fill": lambda ledger, of, _: ledger.runs.fill(1, a_selection(of, select=Select.ALL)),
    "seal": lambda ledger, _of, _: ledger.runs.seal(1),
    "finalize": lambda ledger, _of, _: ledger.finalize(1),
    "claim": lambda ledger, _of, _: ledger.results.claim("worker", 1, 3, LEASE_S),
    "request_cancel": lambda ledger, _of, _: any(ledger.results.request_cancel(1)),
    "reclaim": lambda ledger, _of, _: ledger.results.reclaim(1),
    "open_or_join, joined": lambda ledger, of, _: not ledger.runs.open_or_join(a_request(of)).joined,
    "heartbeat": lambda ledger, _of, held: ledger.results.heartbeat([held], LEASE_S),
    "release": lambda ledger, _of, held: ledger.results.release([held]),
    "complete": lambda ledger, _of, held: ledger.results.record_completed(held, an_output(), 9, lambda: None),
    "fail": lambda ledger, _of, held: ledger.results.record_failed(held, a_failure()),
    "open an attempt": lambda ledger, _of, held: isinstance(ledger.attempts.open(held, a_plan(), 9), Opened),
}
ALLOWED = {
    (UNFINISHED, "claim"),
    (UNFINISHED, "request_cancel"),
    (UNSEALED, "fill"),
    (UNSEALED, "seal"),
    (READY, "finalize"),
    *((status, "open_or_join, joined") for status in CLOSED),  # a new run; the closed one is left as it is
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_verb_moves_a_run_only_where_it_may_and_else_nothing_changes(ledger: Ledger, stage: str) -> None:
    document_set = a_set(ledger, 3)
    held = a_run_in(ledger, document_set, stage)
    for verb, act in VERBS.items():
        if (stage, verb) in ALLOWED:
            continue
        before = contents(ledger, *TABLES)
        assert not act(ledger, document_set, held[-1]), verb
        assert contents(ledger, *TABLES) == before, verb


@pytest.mark.parametrize(("stage", "verb"), sorted(ALLOWED))
def test_a_verb_that_may_move_a_run_does(ledger: Ledger, stage: str, verb: str) -> None:
    document_set = a_set(ledger, 3)
    held = a_run_in(ledger, document_set, stage)
    before = contents(ledger, *TABLES)
    assert VERBS[verb](ledger, document_set, held[-1])
    assert contents(ledger, *TABLES) != before
    if stage in CLOSED:
        assert contents(ledger, *TABLES)["extraction_runs"][0] == before["extraction_runs"][0]


BRINGS_TO: dict[RowStatus, Callable[[Ledger, Held], Any]] = {
    RowStatus.QUEUED: lambda ledger, held: ledger.results.release([held]),
    RowStatus.RUNNING: lambda _ledger, _held: None,
    RowStatus.COMPLETED: complete,
    RowStatus.FAILED: fail,
    RowStatus.CANCELLED: cancel,
}


@pytest.mark.parametrize("status", RowStatus)
def test_a_call_is_opened_for_a_running_row_and_for_no_other(ledger: Ledger, status: RowStatus) -> None:
    held = claim_one(ledger, a_run(ledger, documents=1))
    BRINGS_TO[status](ledger, held)
    before = contents(ledger, *TABLES)
    opened = ledger.attempts.open(held, a_plan(), 9)
    assert isinstance(opened, Opened) is (status is RowStatus.RUNNING)
    assert (contents(ledger, *TABLES) == before) is (status is not RowStatus.RUNNING)


@pytest.mark.parametrize("status", RowStatus)
def test_no_row_takes_a_call_or_an_end_from_the_claim_before(ledger: Ledger, status: RowStatus) -> None:
    stale = claim_one(ledger, a_run(ledger, documents=1))
    open_attempt(ledger, stale)
    execute(ledger, "UPDATE extraction_results SET lease_expires_ms = 1")
    ledger.results.reclaim(1)
    BRINGS_TO[status](ledger, claim_one(ledger, 1, worker="successor"))
    before: dict[str, list[Row]] = contents(ledger, *TABLES)
    for verb in ("heartbeat", "release", "complete", "fail", "open an attempt"):
        assert not VERBS[verb](ledger, a_set(ledger, 1), stale), verb
        assert contents(ledger, *TABLES) == before, verb
