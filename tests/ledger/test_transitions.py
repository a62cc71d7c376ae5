"""Which moves of a row and of an attempt are possible at all: every verb from every state, on both databases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from extraction_core.causes import Cause
from extraction_core.states import ATTEMPT_MOVES, ROW_MOVES, TERMINAL_ROW, AttemptStatus, RowStatus, RunStatus, Select
from resources.ledger.claims import Held
from resources.ledger.tables import metadata
from tests.factories import (
    LEASE_S,
    a_failure,
    a_run,
    an_answer,
    an_output,
    answer,
    claim_one,
    complete,
    fail,
    open_attempt,
)
from tests.ledger.support import Line, Row, execute, one_row, rows, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from tests.conftest import MakeLedger


def _reclaim(line: Line, _held: Held) -> int:
    return line.queue.reclaim(line.scope)


def _reclaim_expired(line: Line, held: Held) -> int:
    if line.row(held.row_id)["status"] == "running":
        line.expire(held)
    return line.queue.reclaim(line.scope)


VERBS: dict[str, Callable[[Line, Held], Any]] = {
    "claim": lambda line, _: line.queue.claim("other", line.scope, 1, LEASE_S),
    "heartbeat": lambda line, held: line.heartbeat(held),
    "complete": lambda line, held: line.complete(held),
    "fail": lambda line, held: line.fail(held),
    "requeue": lambda line, held: line.requeue(held),
    "release": lambda line, held: line.queue.release([held]),
    "reclaim": _reclaim,
    "reclaim after the lease ran out": _reclaim_expired,
    "request_cancel": lambda line, _: line.queue.request_cancel(line.scope),
}

BRINGS_TO: dict[RowStatus, Callable[[Line, Held], Any]] = {
    RowStatus.RUNNING: lambda _line, _held: None,
    RowStatus.QUEUED: lambda line, held: line.requeue(held),
    RowStatus.COMPLETED: lambda line, held: line.complete(held),
    RowStatus.FAILED: lambda line, held: line.fail(held),
    RowStatus.CANCELLED: lambda line, held: (line.queue.request_cancel(line.scope), line.fail(held)),
}


@dataclass(frozen=True)
class Effect:
    """What a verb may do from a state: the state it leads to, or a change of the row without one."""

    to: RowStatus
    still: bool = False


EFFECTS: dict[tuple[RowStatus, str], Effect] = {
    (RowStatus.QUEUED, "claim"): Effect(RowStatus.RUNNING),
    (RowStatus.QUEUED, "request_cancel"): Effect(RowStatus.CANCELLED),
    (RowStatus.RUNNING, "heartbeat"): Effect(RowStatus.RUNNING, still=True),
    (RowStatus.RUNNING, "request_cancel"): Effect(RowStatus.RUNNING, still=True),
    (RowStatus.RUNNING, "complete"): Effect(RowStatus.COMPLETED),
    (RowStatus.RUNNING, "fail"): Effect(RowStatus.FAILED),
    (RowStatus.RUNNING, "requeue"): Effect(RowStatus.QUEUED),
    (RowStatus.RUNNING, "release"): Effect(RowStatus.QUEUED),
    (RowStatus.RUNNING, "reclaim after the lease ran out"): Effect(RowStatus.QUEUED),
}
"""All that may happen; every other pair of state and verb leaves the row as it is, in every column."""


def a_row_in(line: Line, status: RowStatus) -> Held:
    """Bring the only row of a queue into a state; returns the last claim of it, whose generation the row still has."""
    held = line.claim_one()
    BRINGS_TO[status](line, held)
    row = line.row(held.row_id)
    assert (row["status"], row["generation"]) == (status, held.generation)
    return held


@pytest.mark.parametrize("status", RowStatus)
def test_a_verb_moves_a_row_only_where_it_may_and_changes_nothing_else(
    make_line: Callable[[int], Line], status: RowStatus
) -> None:
    line = make_line(1)
    held = a_row_in(line, status)
    original = line.row(held.row_id)
    for verb, act in VERBS.items():
        line.set(held.row_id, **original)
        act(line, held)
        after = line.row(held.row_id)
        effect = EFFECTS.get((status, verb))
        if effect is None:
            assert after == original, verb
        else:
            assert after["status"] == effect.to, verb
            assert after != original, verb


def test_the_moves_that_verbs_make_are_those_of_the_state_table() -> None:
    moves = {status: {effect.to for (source, _), effect in EFFECTS.items() if source is status and not effect.still}
             for status in RowStatus}  # fmt: skip
    moves[RowStatus.RUNNING].add(RowStatus.CANCELLED)  # by every way back of a row that was asked to cancel
    assert moves == {status: set(targets) for status, targets in ROW_MOVES.items()}
    assert {status for status, targets in ROW_MOVES.items() if not targets} == TERMINAL_ROW


ATTEMPT_CLOSERS: dict[AttemptStatus, Callable[[Ledger, int, str], bool]] = {
    AttemptStatus.ANSWERED: lambda ledger, _attempt_id, token: ledger.attempts.answered(
        token, an_answer(response="late")
    ),
    AttemptStatus.FAILED: lambda ledger, attempt_id, token: ledger.attempts.failed(
        attempt_id, token, cause=Cause.RATE_LIMITED, message="late", counted=False, request_id="late"
    ),
    AttemptStatus.ABANDONED: lambda ledger, attempt_id, token: ledger.attempts.abandoned(
        attempt_id, token, cause=Cause.TIMEOUT, message="late"
    ),
}


@pytest.mark.parametrize("target", ATTEMPT_CLOSERS)
@pytest.mark.parametrize("source", AttemptStatus)
def test_an_attempt_moves_only_where_it_may(ledger: Ledger, source: AttemptStatus, target: AttemptStatus) -> None:
    attempt = open_attempt(ledger, claim_one(ledger, a_run(ledger, documents=1)))
    if source is not AttemptStatus.OPEN:
        assert ATTEMPT_CLOSERS[source](ledger, attempt.attempt_id, attempt.token)
    before = one_row(ledger, "attempts")
    moved = ATTEMPT_CLOSERS[target](ledger, attempt.attempt_id, attempt.token)
    after = one_row(ledger, "attempts")
    assert moved is (target in ATTEMPT_MOVES[source])
    assert after["status"] == (target if moved else source)
    assert (after != before) is moved


@pytest.mark.parametrize("target", ATTEMPT_CLOSERS)
def test_an_attempt_is_closed_by_its_own_token_only(ledger: Ledger, target: AttemptStatus) -> None:
    attempt = open_attempt(ledger, claim_one(ledger, a_run(ledger, documents=1)))
    before = one_row(ledger, "attempts")
    assert not ATTEMPT_CLOSERS[target](ledger, attempt.attempt_id, "another token")
    assert one_row(ledger, "attempts") == before


def test_an_abandoned_attempt_becomes_answered_once(ledger: Ledger) -> None:
    attempt = open_attempt(ledger, claim_one(ledger, a_run(ledger, documents=1)))
    ledger.attempts.abandoned(attempt.attempt_id, attempt.token, cause=Cause.TIMEOUT, message="no answer")
    answer(ledger, attempt, response="first")
    kept = one_row(ledger, "attempts")
    assert not ledger.attempts.answered(attempt.token, an_answer(response="second"))
    assert one_row(ledger, "attempts") == kept
    assert kept["response"] == "first"


def test_of_many_late_answers_to_one_attempt_one_is_kept(ledger: Ledger, make_ledger: MakeLedger) -> None:
    attempt = open_attempt(ledger, claim_one(ledger, a_run(ledger, documents=1)))
    ledgers = [make_ledger() for _ in range(6)]
    kept = together(
        6, lambda number: ledgers[number].attempts.answered(
            attempt.token, an_answer(response=f"answer {number}")
        )
    )  # fmt: skip
    assert sorted(kept) == [False] * 5 + [True]
    assert one_row(ledger, "attempts")["response"] == f"answer {kept.index(True)}"


def test_a_failure_never_overwrites_a_completed_result(ledger: Ledger) -> None:
    held = claim_one(ledger, a_run(ledger, documents=1))
    complete(ledger, held)
    before = rows(ledger, "extraction_results"), rows(ledger, "documents"), rows(ledger, "attempts")
    late = a_failure(attempt_id=1, next_retry_s=10.0)
    assert ledger.results.record_failed(held, late) is None
    assert ledger.results.record_retry(held, late, wait_s=0, refused_to_serve=True) is None
    assert (rows(ledger, "extraction_results"), rows(ledger, "documents"), rows(ledger, "attempts")) == before


def test_a_completion_never_overwrites_a_failed_result_or_its_file(ledger: Ledger) -> None:
    held = claim_one(ledger, a_run(ledger, documents=1))
    attempt = open_attempt(ledger, held)
    answer(ledger, attempt)
    fail(ledger, held)
    before = one_row(ledger, "extraction_results")
    published: list[str] = []
    assert not ledger.results.record_completed(held, an_output(), attempt.attempt_id, lambda: published.append("file"))
    assert (one_row(ledger, "extraction_results"), published) == (before, [])


BROKEN_ROWS: dict[str, Row] = {
    "running without an owner": {"status": "running", "lease_expires_ms": 1},
    "running without a lease": {"status": "running", "owner": "worker"},
    "queued with an owner": {"owner": "worker"},
    "queued with a lease": {"lease_expires_ms": 1},
    "failed without an end": {"status": "failed"},
    "queued with an end": {"finished_ms": 1},
    "an unknown state": {"status": "sleeping"},
}


def test_the_database_refuses_a_row_that_contradicts_itself(line: Line) -> None:
    before = line.rows()
    accepted = []
    for contradiction, values in BROKEN_ROWS.items():
        try:
            line.set(before[0][line.key.name], **values)
        except sa.exc.IntegrityError:
            continue
        accepted.append(contradiction)
    assert (accepted, line.rows()) == ([], before)


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("extraction_results", "UPDATE extraction_results SET status = 'completed', finished_ms = 1"),
        ("attempts", "UPDATE attempts SET status = 'answered', closed_ms = 1"),
        ("attempts", "UPDATE attempts SET status = 'failed'"),
        ("attempts", "UPDATE attempts SET closed_ms = 1"),
        ("extraction_runs", ("UPDATE extraction_runs SET status = 'completed', completed_count = 2, failed_count = 0, "
         "cancelled_count = 0")),
    ],
    ids=["completed without a file", "answered without an answer", "closed without an end", "open with an end",
         "closed out of balance"],
)  # fmt: skip
def test_the_database_refuses_an_ending_that_contradicts_itself(ledger: Ledger, table: str, statement: str) -> None:
    open_attempt(ledger, claim_one(ledger, a_run(ledger, documents=1)))
    before = rows(ledger, table)
    with pytest.raises(sa.exc.IntegrityError, match=r"(?i)check"):
        execute(ledger, statement)
    assert rows(ledger, table) == before


@pytest.mark.parametrize(
    ("table", "column", "states"),
    [
        ("parse_runs", "status", RowStatus),
        ("extraction_results", "status", RowStatus),
        ("attempts", "status", AttemptStatus),
        ("extraction_runs", "status", RunStatus),
        ("extraction_runs", "selection", Select),
    ],
)
def test_the_states_that_the_database_allows_are_those_of_the_code(
    ledger: Ledger, table: str, column: str, states: type[RowStatus]
) -> None:
    allowed = check_texts(ledger, table)[f"ck_{table}_{column}"]
    assert set(re.findall(r"'(\w+)'", allowed)) == {state.value for state in states}


def test_the_database_has_every_check_that_the_tables_declare(ledger: Ledger) -> None:
    declared = {
        name: {str(check.name) for check in table.constraints if isinstance(check, sa.CheckConstraint)}
        for name, table in metadata.tables.items()
    }
    assert {name: set(check_texts(ledger, name)) for name in metadata.tables} == declared


def check_texts(ledger: Ledger, table: str) -> dict[str, str]:
    """Return the CHECK constraints of a table by name, as the database has them."""
    with ledger.engine.raw.connect() as connection:
        return {str(check["name"]): check["sqltext"] for check in sa.inspect(connection).get_check_constraints(table)}
