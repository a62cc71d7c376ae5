"""Submitting parse runs to a parse service: everything about a job is committed before the service hears of it.

The bytes are uploaded first, which makes no job and may be repeated. A job is then asked for once; whatever is not
clear afterwards is left to be found by its nonce (see :mod:`sensors.parse_watch`). Nobody waits for a job.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from extraction_assets.workers.document_task import LineStopped
from extraction_assets.workers.tools import Tools
from extraction_core.batches import new_nonce
from extraction_core.failpoints import Failpoint
from extraction_core.parse_jobs import (
    JOB_DEADLINE_S,
    MOST_RETURNS,
    SUBMIT_S,
    JobAccepted,
    JobFailed,
    JobRefused,
    JobUnclear,
    ParseJobState,
)
from extraction_core.parsing import ParseFailure, ParseFailureReason
from resources.ledger.claims import Claimed, Held
from resources.parsing.reducto_access import reducto_access_from
from resources.parsing.reducto_client import open_reducto
from sensors.parse_watch import LOOK_EVERY_S

if TYPE_CHECKING:
    from resources.parsing.reducto_service import ReductoService

log = logging.getLogger(__name__)

STALE_S = 20.0
"""A process that stood still for so long between its commit and its call does not make the call any more."""


class ParseSubmitter:
    """Submits claimed parse runs. Thread-safe; the service is reached with the first one. Close it after use.

    Args:
        tools: the resources.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._jobs = tools.ledger.parse_jobs
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._opened: ReductoService | None = None

    def submit(self, claim: Claimed, data: bytes, document_key: str) -> ParseFailure | None:
        """Submit the bytes of a claimed parse run.

        Returns:
            Why no job was asked for; None when the row belongs to the job, has ended, or is queued again.

        Raises:
            LineStopped: the service takes no job at all: key, payment, address.
            ConfigurationError: there is no key, or the SDK is not installed.
        """
        service = self._service()
        if claim.row["reclaims"] >= MOST_RETURNS:
            message = f"given back {MOST_RETURNS} times: {claim.row['message'] or 'its worker died'}"
            return ParseFailure(reason=ParseFailureReason.SERVICE_BUSY, message=message)
        uploaded = service.upload(data, document_key)
        if isinstance(uploaded, JobRefused):
            return _not_uploaded(uploaded)
        begun_at, nonce = time.monotonic(), new_nonce()
        held = self._jobs.begin(claim.held, nonce, look_in_s=SUBMIT_S, deadline_s=JOB_DEADLINE_S)
        if held is None:
            log.info("the parse run of %s is superseded: its lease was lost", document_key)
        elif time.monotonic() - begun_at > STALE_S:
            self._jobs.not_made(held, "not sent: the process stood still")
        else:
            self._ask(service, held, uploaded, nonce)
        return None

    def close(self) -> None:
        """Close the connections, if there are any."""
        self._open.close()

    def _ask(self, service: ReductoService, held: Held, file_id: str, nonce: str) -> None:
        self._tools.failpoints(Failpoint.CREATE_JOB)
        outcome = service.submit(file_id, nonce)
        self._tools.failpoints(Failpoint.JOB_ACCEPTED)
        match outcome:
            case JobAccepted(job_id=job_id):
                self._jobs.accepted(held, job_id, wait_s=LOOK_EVERY_S)
            case JobUnclear(message=message):
                log.warning("it is not known whether a parse job was made (%s): it is searched for", message)
                self._jobs.put_back(held, ParseJobState.SUBMITTING, LOOK_EVERY_S, message)
            case JobRefused(stop=True, message=message):
                self._jobs.not_made(held, message)
                raise LineStopped(f"the parse service takes no job: {message}")
            case JobRefused(wait_s=None, message=message):
                reason = ParseFailureReason.SERVICE_FAILED
                self._jobs.failed(held, JobFailed(reason=reason, message=message, retryable=False))
            case JobRefused(wait_s=wait_s, message=message):
                self._jobs.not_made(held, message, wait_s=wait_s or 0.0, again=True)

    def _service(self) -> ReductoService:
        with self._lock:
            if self._opened is None:
                self._opened = self._open.enter_context(open_reducto(reducto_access_from()))
            return self._opened


def _not_uploaded(refused: JobRefused) -> ParseFailure:
    if refused.stop:
        raise LineStopped(f"the parse service takes no document: {refused.message}")
    busy = refused.wait_s is not None
    reason = ParseFailureReason.SERVICE_BUSY if busy else ParseFailureReason.SERVICE_FAILED
    return ParseFailure(reason=reason, message=f"not uploaded: {refused.message}")
