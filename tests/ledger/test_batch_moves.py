"""Message batches as rows: which moves are possible, and which rows the database refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from extraction_core.batches import BATCH_MOVES, UNSETTLED, BatchState
from extraction_core.causes import Cause
from extraction_core.states import RowStatus
from resources.ledger.claims import Held
from tests.factories import (
    COLLECTION,
    LEASE_S,
    a_look,
    a_run,
    a_set,
    claim,
    reserve,
)
from tests.ledger.support import (
    SETTLE_S,
    StagedBatch,
    a_batch,
    contents,
    end_covered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from tests.ledger.support import Row


@dataclass(frozen=True)
class Verb:
    """A verb that moves a batch, and where to."""

    to: BatchState
    act: Callable[[StagedBatch, Held], bool]


def _sees(state: BatchState) -> Verb:
    return Verb(state, lambda batch, held: batch.see(held, state))


VERBS: dict[str, Verb] = {
    "saw in_progress": _sees(BatchState.IN_PROGRESS),
    "saw canceling": _sees(BatchState.CANCELING),
    "saw ended": _sees(BatchState.ENDED),
    "void": Verb(BatchState.VOID, lambda batch, held: batch.ledger.batches.void(held, Cause.OVERLOADED, "no")),
    "lose": Verb(BatchState.LOST, lambda batch, held: batch.ledger.batches.lose(held, "gone")),
    "collected": Verb(BatchState.COLLECTED, lambda batch, held: batch.ledger.batches.collected(held, None)),
}
SEEN_AGAIN = {BatchState.IN_PROGRESS, BatchState.CANCELING, BatchState.ENDED}


def a_batch_in(ledger: Ledger, state: BatchState) -> tuple[StagedBatch, Held]:
    """Bring a batch, whose rows have ended, into a state, by the verbs; returns the last hold on it."""
    batch = a_batch(ledger, 1)
    end_covered(batch)
    held = batch.submitter
    if state is BatchState.COLLECTED:
        assert VERBS["saw ended"].act(batch, held)
        held = batch.take()
    reach = next((verb for verb in VERBS.values() if verb.to is state), None)
    if reach:
        assert reach.act(batch, held)
    if state in UNSETTLED and state is not BatchState.RESERVED:
        held = batch.take()
    assert batch.row["state"] == state
    return batch, held


@pytest.mark.parametrize("state", BatchState)
def test_a_held_batch_moves_only_where_it_may_and_else_nothing_changes(ledger: Ledger, state: BatchState) -> None:
    batch, held = a_batch_in(ledger, state)
    original = batch.row
    for name, verb in VERBS.items():
        batch.set(**original)
        before = contents(ledger)
        moved = verb.act(batch, held)
        assert moved is (verb.to in BATCH_MOVES[state] or verb.to is state in SEEN_AGAIN), name
        if moved:
            assert batch.row["state"] == verb.to, name
        else:
            assert contents(ledger) == before, name


def test_the_moves_that_verbs_make_reach_every_state_of_the_table() -> None:
    reached = {verb.to for verb in VERBS.values()} | {BatchState.RESERVED}
    assert reached == set(BatchState)
    assert set().union(*BATCH_MOVES.values()) == reached - {BatchState.RESERVED}


@pytest.mark.parametrize(
    ("state", "loss"), [(BatchState.RESERVED, "taken"), (BatchState.RESERVED, "reclaimed"), (BatchState.ENDED, "taken")]
)
def test_whoever_lost_the_hold_is_superseded_and_changes_nothing(ledger: Ledger, state: BatchState, loss: str) -> None:
    batch, held = a_batch_in(ledger, state)
    if loss == "taken":
        batch.lose_hold(held)
    else:
        batch.set(lease_expires_ms=1)
        assert ledger.batches.reclaim_abandoned(COLLECTION, SETTLE_S) == 1
    before = contents(ledger)
    late: dict[str, Callable[[], Any]] = {
        **{name: lambda verb=verb: verb.act(batch, held) for name, verb in VERBS.items()},
        "put_back": lambda: ledger.batches.put_back(held, 0, message="late", looked=True),
        "release": lambda: ledger.batches.release([held]),
        "heartbeat": lambda: ledger.batches.heartbeat([held], LEASE_S),
    }
    for name, act in late.items():
        assert not act(), name
        assert contents(ledger) == before, name


def test_a_late_submitter_does_not_overwrite_the_batch_that_was_adopted(ledger: Ledger) -> None:
    batch = a_batch(ledger)
    adopter = batch.lose_hold(batch.submitter)
    assert batch.see(adopter, BatchState.IN_PROGRESS, provider_id="msgbatch_adopted")
    before = contents(ledger)
    assert not batch.see(batch.submitter, BatchState.IN_PROGRESS, provider_id="msgbatch_late")
    assert not ledger.batches.void(batch.submitter, Cause.INVALID_REQUEST, "late")
    assert contents(ledger) == before
    assert batch.row["provider_id"] == "msgbatch_adopted"


NONSENSE: dict[str, Row] = {
    "an unknown state": {"state": "sleeping"},
    "in progress without an id": {"state": "in_progress", "provider_id": None},
    "ended without an id": {"state": "ended", "provider_id": None},
    "collected without an end": {"state": "collected"},
    "lost without an end": {"state": "lost"},
    "void without an end": {"state": "void"},
    "an end without being settled": {"finished_ms": 1},
    "ended as a row but not as a batch": {"status": "completed", "finished_ms": 1},
    "settled as a batch but not as a row": {"state": "lost", "finished_ms": 1},
    "held by nobody": {"status": "running", "lease_expires_ms": 1},
    "free with an owner": {"owner": "w"},
    "the id of another batch": {"provider_id": "msgbatch_other"},
    "the nonce of another batch": {"nonce": "0123456789abcdef"},
}


def test_the_database_refuses_a_batch_that_contradicts_itself(ledger: Ledger) -> None:
    other = a_run(ledger, a_set(ledger, 1, folder="elsewhere"))
    held = reserve(ledger, other, claim(ledger, other, 1), nonce="0123456789abcdef").batch
    assert held is not None
    assert ledger.batches.saw(held, a_look(provider_id="msgbatch_other"), wait_s=0, overdue_s=1)
    batch = a_batch(ledger, state=BatchState.IN_PROGRESS)
    before = batch.row
    accepted: list[str] = []
    for contradiction, values in NONSENSE.items():
        try:
            batch.set(**values)
        except IntegrityError:
            continue
        accepted.append(contradiction)
    assert (accepted, batch.row) == ([], before)


@pytest.mark.parametrize(("column", "states"), [("state", BatchState), ("status", RowStatus)])
def test_the_states_that_the_database_allows_are_those_of_the_code(
    ledger: Ledger, column: str, states: type[BatchState]
) -> None:
    with ledger.engine.raw.connect() as connection:
        checks = sa.inspect(connection).get_check_constraints("message_batches")
    (allowed,) = [str(check["sqltext"]) for check in checks if check["name"] == f"ck_message_batches_{column}"]
    assert set(re.findall(r"'(\w+)'", allowed)) == {state.value for state in states}


@pytest.mark.parametrize("state", sorted(set(BatchState) - UNSETTLED))
def test_a_settled_batch_is_out_of_reach_of_every_verb(ledger: Ledger, state: BatchState) -> None:
    batch, held = a_batch_in(ledger, state)
    late: dict[str, Callable[[], Any]] = {
        "take": lambda: ledger.batches.take(batch.batch_id, "worker", LEASE_S, *BatchState),
        "claim": lambda: ledger.batches.claim("worker", batch.run_id, 1, LEASE_S),
        "put_back": lambda: ledger.batches.put_back(held, 0),
        "release": lambda: ledger.batches.release([held]),
        "heartbeat": lambda: ledger.batches.heartbeat([held], LEASE_S),
        "reclaim_abandoned": lambda: ledger.batches.reclaim_abandoned(COLLECTION, SETTLE_S),
        "ask_to_cancel": lambda: ledger.batches.ask_to_cancel(batch.batch_id),
    }
    before = contents(ledger)
    for name, act in late.items():
        assert not act(), name
        assert contents(ledger) == before, name
