"""Looking after parse jobs: one bounded look each; a search for those whose id was never stored.

A look at a job that is done fetches its result at once, keeps the bytes, and then makes the Markdown from them: each
step is a write of its own that names the state it expects, so whatever dies, the next look goes on from what was
committed, and a look that comes late changes nothing. A submission without an id is searched for in the service's list
by its nonce; only two listings without it, a settle time apart and that long after the last possible sending, mean that
no job was made. Loads no dagster: a pass over a set looks as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from extraction_core.parse_jobs import (
    MOST_RETURNS,
    SUBMIT_S,
    JobFailed,
    JobGone,
    JobResult,
    JobRunning,
    NoAnswer,
    ParseJobState,
)
from extraction_core.parsing import ParsedDocument
from resources.ledger import Ledger
from resources.ledger.claims import Claimed, Held
from resources.ledger.parses import parsed_values
from resources.output import ParsedStore
from resources.parsing.reducto_access import reducto_access_from
from resources.parsing.reducto_result import read_result

if TYPE_CHECKING:
    from resources.parsing.reducto_service import ReductoService

log = logging.getLogger(__name__)

MOST_LOOKS = 50
LOOK_SECONDS = 15.0
"""Dagster gives a tick 60 s: the last look, begun just in time, may take a call and a fetch more."""
LOOK_LEASE_S = 120.0
LOOK_EVERY_S = 5.0
LONGEST_WAIT_S = 30.0
AGAIN_S = 30.0
"""Until the next look after one that failed."""
NOT_FOUND_GRACE_S = 600.0
"""A job that was made a moment ago may not be found yet."""
UNREACHABLE_S = 26 * 3600.0
"""Results are kept for a day: a job that nobody could ask about for longer is lost."""
CLOCK_SKEW = timedelta(minutes=10)
LOOKS_WITHOUT_JOB = 2


@dataclass(frozen=True, kw_only=True)
class Looked:
    """One look: the job as it was, and what was found, for the log."""

    job: Mapping[str, Any]
    found: str

    def __str__(self) -> str:
        """Return one line."""
        return f"parse job of {self.job['document_key']} ({self.job['job_id'] or self.job['job_nonce']}): {self.found}"


def look_after_parse_jobs(
    ledger: Ledger, parsed: ParsedStore, *, settle_s: float, most: int = MOST_LOOKS, seconds: float = LOOK_SECONDS
) -> list[Looked]:
    """Look at the parse jobs that are due, whichever collection they are of.

    Raises:
        ConfigurationError: there are some, but no key to reach the service, or its SDK is not installed.
    """
    if not ledger.parse_jobs.due(1):
        return []
    from resources.parsing.reducto_client import open_reducto  # noqa: PLC0415 - loads the SDK, which takes a while

    with open_reducto(reducto_access_from()) as service:
        return ParseWatch(ledger, parsed, service, settle_s=settle_s).look(most=most, seconds=seconds)


class ParseWatch:
    """Looks after open parse jobs.

    Args:
        ledger: the ledger.
        parsed: where results and Markdown are kept.
        service: the parse service.
        settle_s: see :attr:`extraction_core.settings.Timing.batch_settle_s`.
    """

    def __init__(self, ledger: Ledger, parsed: ParsedStore, service: ReductoService, *, settle_s: float) -> None:
        self._jobs, self._parsed, self._service, self._settle_s = ledger.parse_jobs, parsed, service, settle_s

    def look(self, *, most: int, seconds: float) -> list[Looked]:
        """Look at the jobs that are due, at most so many and not longer than ``seconds``."""
        deadline = time.monotonic() + seconds
        looked: list[Looked] = []
        for job in self._jobs.due(most):
            if time.monotonic() > deadline:
                break
            if found := self.look_at(job["parse_run_id"]):
                looked.append(Looked(job=job, found=found))
        return looked

    def look_at(self, parse_run_id: int) -> str | None:
        """Look at one job. Returns what was found; None when somebody else looks at it, or it has ended.

        A look that fails is made again later; it never keeps the other jobs from being looked at.
        """
        taken = self._jobs.take(parse_run_id, LOOK_LEASE_S)
        if taken is None:
            return None
        try:
            return self._step(taken)
        except Exception as error:  # whatever it was: the others go on, and this one is looked at again
            log.exception("the parse job of %s could not be looked at", taken.row["document_key"])
            problem = f"the look failed: {type(error).__name__}: {error}"
            self._wait(taken, AGAIN_S, problem)
            return problem

    def _step(self, taken: Claimed) -> str:
        match ParseJobState(taken.row["job_state"]):
            case ParseJobState.SUBMITTING:
                return self._search(taken)
            case ParseJobState.FETCHED:
                return self._finish(taken.held, taken.row, taken.row["job_result_sha256"])
            case _:
                return self._poll(taken)

    def _search(self, taken: Claimed) -> str:
        """Find out whether a submission led to a job."""
        row, held = taken.row, taken.held
        submitted_at = datetime.fromtimestamp(row["job_submitted_ms"] / 1000, UTC)
        job_id = self._service.find(row["job_nonce"], submitted_at - CLOCK_SKEW)
        if job_id:
            self._jobs.accepted(held, job_id, wait_s=0.0)
            log.info("the parse job of %s was found: it is %s", row["document_key"], job_id)
            return f"found as {job_id}"
        settles_in_s = SUBMIT_S + self._settle_s - float(row["age_s"])
        if settles_in_s > 0:
            self._wait(taken, min(LONGEST_WAIT_S, settles_in_s), "not in the service's list so far")
            return "not in the service's list so far"
        if row["job_looks"] + 1 < LOOKS_WITHOUT_JOB:
            self._wait(taken, self._settle_s, "not in the service's list", looked=True)
            return "not in the service's list"
        return self._give_back(taken)

    def _give_back(self, taken: Claimed) -> str:
        if taken.row["reclaims"] >= MOST_RETURNS:
            return self._expire(taken, f"{MOST_RETURNS} submissions led to no job")
        self._jobs.not_made(taken.held, "the service's list shows that no job was made", again=True)
        return "no job was made; the document goes back to the queue"

    def _poll(self, taken: Claimed) -> str:
        seen = self._service.look(taken.row["job_id"])
        match seen:
            case JobResult():
                return self._fetch(taken, seen)
            case JobFailed():
                return f"failed: {seen.message}" if self._jobs.failed(taken.held, seen) else "superseded"
            case _:
                return self._go_on(taken, seen, float(taken.row["age_s"]))

    def _go_on(self, taken: Claimed, seen: JobRunning | JobGone | NoAnswer, age_s: float) -> str:
        """Nothing has come of a job so far: look again later, or give it up."""
        match seen:
            case JobRunning(status=status) if taken.row["overdue"]:
                self._service.cancel(taken.row["job_id"])
                return self._expire(taken, f"not done by its deadline; the service says {status}")
            case JobRunning(status=status):
                wait_s, found = min(max(LOOK_EVERY_S, age_s / 10), LONGEST_WAIT_S), f"the service says {status}"
            case JobGone(for_good=False) if age_s < NOT_FOUND_GRACE_S:
                wait_s, found = AGAIN_S, "not found at the service yet"
            case JobGone(message=message):
                return self._expire(taken, f"the service does not know it any more ({message})")
            case NoAnswer(message=message) if age_s > UNREACHABLE_S:
                return self._expire(taken, f"no answer for a day ({message})")
            case NoAnswer(message=message, retry_after_s=retry_after_s):
                wait_s, found = retry_after_s or AGAIN_S, f"no answer: {message}"
        self._wait(taken, wait_s, found)
        return found

    def _fetch(self, taken: Claimed, result: JobResult) -> str:
        """Keep the bytes before anything is made of them."""
        digest = self._parsed.keep_result(result.data)
        if not self._jobs.fetched(taken.held, digest, result):
            return "superseded"
        return self._finish(taken.held, taken.row, digest)

    def _finish(self, held: Held, row: Mapping[str, Any], digest: str) -> str:
        """Make the Markdown of a fetched result: a pure function of the kept bytes, so twice is once."""
        data = self._parsed.result(digest)
        if data is None:
            self._jobs.expired(held, "the kept result is gone from the home")
            return "the kept result is gone"
        parsed = read_result(data, row["document_key"])
        if isinstance(parsed, ParsedDocument):
            values = parsed_values(parsed, self._parsed.put(row["parse_key"], parsed))
            return f"completed, {len(parsed.pages)} pages" if self._jobs.completed(held, values) else "superseded"
        failed = JobFailed(reason=parsed.reason, message=parsed.message, retryable=False)
        return f"failed: {parsed.message}" if self._jobs.failed(held, failed) else "superseded"

    def _expire(self, taken: Claimed, message: str) -> str:
        log.warning("the parse job of %s is given up: %s", taken.row["document_key"], message)
        return f"expired: {message}" if self._jobs.expired(taken.held, message) else "superseded"

    def _wait(self, taken: Claimed, wait_s: float, message: str, *, looked: bool = False) -> None:
        self._jobs.put_back(taken.held, ParseJobState(taken.row["job_state"]), wait_s, message, looked=looked)
