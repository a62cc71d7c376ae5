"""The states of a job in the ledger: only the declared moves happen, and whoever holds an older look moves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from extraction_core.parse_jobs import OPEN_JOB, PARSE_JOB_MOVES, JobFailed, JobResult, ParseJobState
from extraction_core.parsing import ParseFailureReason
from resources.ledger.claims import Held
from resources.ledger.parses import PARSED
from resources.ledger.tables import parse_runs
from tests.factories import LEASE_S, claim_parses, fingerprint, needed_parses
from tests.ledger.support import execute, one_row, rows, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet
    from resources.ledger.parse_jobs import ParseJobs
    from tests.conftest import MakeLedger

S = ParseJobState
RESULT = JobResult(data=b"{}", pages=2, credits_used=None)
FAILED = JobFailed(reason=ParseFailureReason.SERVICE_FAILED, message="m", retryable=False)
VALUES = {"markdown_sha256": fingerprint("markdown")}

VERBS: dict[str, Callable[[ParseJobs, Held], Any]] = {
    "begin": lambda jobs, held: jobs.begin(held, "n2", look_in_s=0, deadline_s=60),
    "accepted": lambda jobs, held: jobs.accepted(held, "job-2", wait_s=0),
    "not_made": lambda jobs, held: jobs.not_made(held, "none"),
    "fetched": lambda jobs, held: jobs.fetched(held, fingerprint("result"), RESULT),
    "completed": lambda jobs, held: jobs.completed(held, VALUES),
    "failed": lambda jobs, held: jobs.failed(held, FAILED),
    "expired": lambda jobs, held: jobs.expired(held, "gone"),
}
LEADS_TO = {
    "accepted": S.SUBMITTED,
    "fetched": S.FETCHED,
    "completed": S.COMPLETED,
    "failed": S.FAILED,
    "expired": S.EXPIRED,
}
PATHS: dict[ParseJobState, tuple[str, ...]] = {
    S.SUBMITTING: (),
    S.SUBMITTED: ("accepted",),
    S.FETCHED: ("accepted", "fetched"),
    S.COMPLETED: ("accepted", "fetched", "completed"),
    S.FAILED: ("accepted", "failed"),
    S.EXPIRED: ("accepted", "expired"),
}


def a_job(ledger: Ledger, state: ParseJobState = S.SUBMITTING) -> tuple[Held, DocumentSet]:
    """Return the hold on a job in a state, and the set whose document waits for it."""
    document_set = needed_parses(ledger, 1)
    (claim,) = claim_parses(ledger, document_set)
    held = ledger.parse_jobs.begin(claim.held, "n1", look_in_s=0, deadline_s=60)
    assert held
    for verb in PATHS[state]:
        assert VERBS[verb](ledger.parse_jobs, held)
    assert one_row(ledger, "parse_runs")["job_state"] == state
    return held, document_set


@pytest.mark.parametrize("state", ParseJobState)
def test_a_verb_moves_a_job_only_where_it_may_and_changes_nothing_else(ledger: Ledger, state: ParseJobState) -> None:
    held, _ = a_job(ledger, state)
    before = one_row(ledger, "parse_runs")
    for verb, act in VERBS.items():
        moved = bool(act(ledger.parse_jobs, held))
        after = one_row(ledger, "parse_runs")
        allowed = LEADS_TO.get(verb) in PARSE_JOB_MOVES[state] or (verb, state) == ("not_made", S.SUBMITTING)
        assert moved == allowed, verb
        assert allowed or after == before, verb
        execute(ledger, sa.update(parse_runs).values(before))


@pytest.mark.parametrize("state", sorted(OPEN_JOB))
def test_whoever_holds_an_older_look_moves_nothing(ledger: Ledger, state: ParseJobState) -> None:
    held, _ = a_job(ledger, state)
    execute(ledger, "UPDATE parse_runs SET due_ms = 0")
    assert ledger.parse_jobs.take(held.row_id, 0)
    before = one_row(ledger, "parse_runs")
    for verb, act in VERBS.items():
        assert not act(ledger.parse_jobs, held), verb
    assert one_row(ledger, "parse_runs") == before


def test_of_many_looks_at_one_moment_one_takes_the_job(make_ledger: MakeLedger) -> None:
    ledgers = [make_ledger() for _ in range(6)]
    held, _ = a_job(ledgers[0])
    taken = together(6, lambda number: ledgers[number].parse_jobs.take(held.row_id, LEASE_S))
    assert len([one for one in taken if one]) == 1


def test_a_job_is_out_of_reach_for_its_former_worker_and_for_every_reclaim(ledger: Ledger) -> None:
    held, document_set = a_job(ledger, S.SUBMITTED)
    before = one_row(ledger, "parse_runs")
    former = Held(held.row_id, held.generation - 1)
    assert ledger.parses.heartbeat([former], 0.0) == {}
    assert ledger.parses.release([former]) == 0
    assert ledger.parses.record_all({former: {**dict.fromkeys(PARSED), **VALUES}}, {}) == set()
    assert ledger.parses.reclaim(document_set.set_id) == 0
    assert claim_parses(ledger, document_set) == []
    assert one_row(ledger, "parse_runs") == before


def test_a_submission_whose_commit_was_not_acknowledged_is_begun_once(ledger: Ledger) -> None:
    document_set = needed_parses(ledger, 1)
    (claim,) = claim_parses(ledger, document_set)
    first = ledger.parse_jobs.begin(claim.held, "n1", look_in_s=0, deadline_s=60)
    assert first == ledger.parse_jobs.begin(claim.held, "n1", look_in_s=0, deadline_s=60)
    assert ledger.parse_jobs.begin(claim.held, "n2", look_in_s=0, deadline_s=60) is None


def test_the_documents_that_wait_for_a_job_stay_due_whatever_a_pass_settles(ledger: Ledger) -> None:
    _, document_set = a_job(ledger)
    ledger.launches.settle_marks(document_set.set_id)
    (document,) = rows(ledger, "documents")
    assert document["due_since_ms"] is not None
    assert document["next_retry_ms"] is not None


def test_a_state_that_contradicts_its_row_is_refused_by_the_database(ledger: Ledger) -> None:
    a_job(ledger, S.COMPLETED)
    with pytest.raises(sa.exc.IntegrityError):
        execute(ledger, "UPDATE parse_runs SET job_state = 'failed'")
