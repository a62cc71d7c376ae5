"""Two who want one attempt, one run, one launch, one batch, one parse job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from extraction_core.batches import BatchState
from extraction_core.causes import Cause
from extraction_core.failpoints import Failpoint
from resources.ledger.attempts import NotOpened, Opened
from resources.ledger.claims import Held
from resources.ledger.completions import Completed
from tests.factories import (
    LEASE_S,
    a_plan,
    a_request,
    a_run,
    a_set,
    an_answer,
    an_output,
    claim,
    claim_one,
    claim_parses,
    complete,
    needed_parses,
    open_attempt,
    reserve,
)
from tests.ledger.support import a_batch, one_row, rows
from tests.races.contests import Contest, expire

if TYPE_CHECKING:
    from resources.ledger import Ledger


def open_and_open_the_last_attempt(ledger: Ledger) -> Contest:
    held = claim_one(ledger, a_run(ledger, documents=1))
    plans = [a_plan(), a_plan()]
    exhausted = NotOpened(cause=Cause.EXHAUSTED, message="1 of 1 attempts are used for this question")
    return Contest(
        at=Failpoint.COMMIT_ATTEMPT_OPEN,
        first=lambda one: one.attempts.open(held, plans[0], 1),
        second=lambda one: one.attempts.open(held, plans[1], 1),
        told=(Opened(attempt_id=1, counted=1), exhausted),
        after=lambda: [row["token"] for row in rows(ledger, "attempts")],
        leaves=[plans[0].token],
    )


def reclaim_and_open(ledger: Ledger) -> Contest:
    held = claim_one(ledger, run_id := a_run(ledger, documents=1))
    expire(ledger)
    return Contest(
        at=Failpoint.COMMIT_RECLAIM,
        first=lambda one: one.results.reclaim(run_id),
        second=lambda one: one.attempts.open(held, a_plan(), 3),
        told=(1, NotOpened(cause=None)),
        after=lambda: rows(ledger, "attempts"),
        leaves=[],
    )


def answer_and_answer(ledger: Ledger) -> Contest:
    attempt = open_attempt(ledger, claim_one(ledger, a_run(ledger, documents=1)))
    return Contest(
        at=Failpoint.COMMIT_ATTEMPT_CLOSE,
        first=lambda one: one.attempts.answered(attempt.token, an_answer(response="first")),
        second=lambda one: one.attempts.answered(attempt.token, an_answer(response="second")),
        told=(True, False),
        after=lambda: one_row(ledger, "attempts")["response"],
        leaves="first",
    )


def open_run_and_open_run(ledger: Ledger) -> Contest:
    request = a_request(a_set(ledger, 1))
    return Contest(
        at=Failpoint.COMMIT_RUN_OPEN,
        first=lambda one: one.runs.open_or_join(request).joined,
        second=lambda one: one.runs.open_or_join(request).joined,
        told=(False, True),
        after=lambda: len(rows(ledger, "extraction_runs")),
        leaves=1,
    )


def seal_and_seal(ledger: Ledger) -> Contest:
    run_id = a_run(ledger, documents=2, seal=False)
    return Contest(
        at=Failpoint.COMMIT_SEAL,
        first=lambda one: one.runs.seal(run_id),
        second=lambda one: one.runs.seal(run_id),
        told=(2, None),
        after=lambda: one_row(ledger, "extraction_runs")["request_count"],
        leaves=2,
    )


def finalize_and_finalize(ledger: Ledger) -> Contest:
    run_id = a_run(ledger, documents=1)
    complete(ledger, claim_one(ledger, run_id))
    return Contest(
        at=Failpoint.COMMIT_FINALIZE,
        first=lambda one: one.finalize(run_id) is not None,
        second=lambda one: one.finalize(run_id) is not None,
        told=(True, False),
        after=lambda: one_row(ledger, "extraction_runs")["status"],
        leaves="completed",
    )


def launch_and_launch(ledger: Ledger) -> Contest:
    set_id = a_set(ledger, 1).set_id
    return Contest(
        at=Failpoint.COMMIT_LAUNCH,
        first=lambda one: one.launches.take_lease(set_id, 0, 600),
        second=lambda one: one.launches.take_lease(set_id, 0, 600),
        told=(1, None),
        after=lambda: one_row(ledger, "document_sets")["launch_number"],
        leaves=1,
    )


def reserve_and_reserve(ledger: Ledger) -> Contest:
    run_id = a_run(ledger, documents=2)
    held = claim(ledger, run_id, 2)
    return Contest(
        at=Failpoint.COMMIT_BATCH_RESERVE,
        first=lambda one: reserve(one, run_id, held).covered,
        second=lambda one: reserve(one, run_id, held).covered,
        told=(held, ()),
        after=lambda: (len(rows(ledger, "message_batches")), len(rows(ledger, "attempts"))),
        leaves=(1, 2),
    )


def reclaim_and_reserve(ledger: Ledger) -> Contest:
    held = claim(ledger, run_id := a_run(ledger, documents=2), 2)
    expire(ledger)
    return Contest(
        at=Failpoint.COMMIT_RECLAIM,
        first=lambda one: one.results.reclaim(run_id),
        second=lambda one: reserve(one, run_id, held).covered,
        told=(2, ()),
        after=lambda: (rows(ledger, "message_batches"), rows(ledger, "attempts")),
        leaves=([], []),
    )


def take_and_take_a_batch(ledger: Ledger) -> Contest:
    batch = a_batch(ledger, state=BatchState.ENDED)
    return Contest(
        at=Failpoint.COMMIT_BATCH_TAKE,
        first=lambda one: one.batches.take(batch.batch_id, "first", LEASE_S, BatchState.ENDED),
        second=lambda one: one.batches.take(batch.batch_id, "second", LEASE_S, BatchState.ENDED),
        told=(Held(batch.batch_id, 2), None),
        after=lambda: batch.row["owner"],
        leaves="first",
    )


def collect_and_collect(ledger: Ledger) -> Contest:
    batch, published = a_batch(ledger, state=BatchState.ENDED), list[int]()
    done = [
        Completed(
            held=held,
            output=an_output(),
            attempt_id=attempt["attempt_id"],
            publish=lambda held=held: published.append(held.row_id),
        )
        for held, attempt in zip(batch.holds(), batch.attempts, strict=True)
    ]

    def collect(one: Ledger) -> set[Held]:
        with ThreadPoolExecutor(1) as threads:
            return one.results.record_all_completed(done, threads)

    return Contest(
        at=Failpoint.COMMIT_COMPLETE,
        first=collect,
        second=collect,
        told=({one.held for one in done}, set()),
        after=lambda: sorted(published),
        leaves=sorted(one.held.row_id for one in done),
    )


def begin_and_begin_a_parse_job(ledger: Ledger) -> Contest:
    (claimed,) = claim_parses(ledger, needed_parses(ledger, 1))
    return Contest(
        at=Failpoint.COMMIT_JOB_BEGIN,
        first=lambda one: one.parse_jobs.begin(claimed.held, "first", look_in_s=0, deadline_s=60),
        second=lambda one: one.parse_jobs.begin(claimed.held, "second", look_in_s=0, deadline_s=60),
        told=(Held(claimed.held.row_id, 2), None),
        after=lambda: one_row(ledger, "parse_runs")["job_nonce"],
        leaves="first",
    )


CONTESTS_OF_CALLS = [
    open_and_open_the_last_attempt,
    reclaim_and_open,
    answer_and_answer,
    open_run_and_open_run,
    seal_and_seal,
    finalize_and_finalize,
    launch_and_launch,
    reserve_and_reserve,
    reclaim_and_reserve,
    take_and_take_a_batch,
    collect_and_collect,
    begin_and_begin_a_parse_job,
]
