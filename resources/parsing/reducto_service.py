"""Reducto's API: upload, submit, look, search, cancel. Every outcome is a value. The only module that loads the SDK.

A submission is sent once, whatever comes back: the SDK's own repetition of one that timed out makes a second job, which
is paid for as well. Numbers are read from the answers' own digits, since the SDK makes floats of them.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, cast

import httpx
import reducto

from extraction_core.parse_jobs import JobAccepted, JobGone, JobRefused, JobSeen, JobUnclear, NoAnswer
from resources.parsing.reducto import OPTIONS
from resources.parsing.reducto_access import ReductoAccess
from resources.parsing.reducto_answer import read_answer
from resources.parsing.reducto_download import Links, trusted

CALL_TIMEOUT_S = 60.0
LOOK_TIMEOUT_S = 10.0
SEARCH_S = 25.0
"""In total; a search that takes longer is made again."""
CONNECT_TIMEOUT_S = 5.0
DIRECT_UPLOAD_BYTES = 100_000_000
"""The service's limit for an upload through itself; beyond it the bytes go to an address that it gives."""
UPLOAD_RETRIES = 2
BUSY_WAIT_S = 15.0
PAGE, MOST_PAGES = 500, 40
HIDDEN = "***"
LONGEST_MESSAGE = 300
ACCOUNT_STATUSES = frozenset({401, 402, 403, 404, 405})
"""Key, payment, address: on a submission they have nothing to do with the document."""
UNCLEAR_STATUSES = frozenset({408, 409})
BUSY = 429
GONE = 410
FIRST_SERVER_ERROR = 500
NONCE_NAME = "extraction_nonce"


class ReductoService:
    """The API. Thread-safe; close it after use.

    Args:
        access: key and address.
        timeout_s: per read of an upload or a submission; a look has :data:`LOOK_TIMEOUT_S`.
        direct_upload_bytes: see :data:`DIRECT_UPLOAD_BYTES`.
        page: jobs a page of the list.
    """

    def __init__(
        self,
        access: ReductoAccess,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        direct_upload_bytes: int = DIRECT_UPLOAD_BYTES,
        page: int = PAGE,
    ) -> None:
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S)
        self._client = reducto.Reducto(
            api_key=access.api_key,
            base_url=access.base_url,
            max_retries=0,
            timeout=timeout,
            http_client=reducto.DefaultHttpxClient(verify=trusted(), timeout=timeout),
        )
        self._looking = self._client.with_options(timeout=httpx.Timeout(min(timeout_s, LOOK_TIMEOUT_S)))
        self._links = Links(timeout, plain_http=self._client.base_url.scheme == "http")
        self._direct_upload_bytes, self._page = direct_upload_bytes, page

    def upload(self, data: bytes, document_key: str) -> str | JobRefused:
        """Bring the bytes of a document to the service. Makes no job, so it may be repeated.

        Returns:
            The service's name for them; why they did not get there.
        """
        suffix = PurePosixPath(document_key).suffix.lstrip(".").lower()
        client = self._client.with_options(max_retries=UPLOAD_RETRIES)
        try:
            if len(data) <= self._direct_upload_bytes:
                made = client.upload(file=(f"document.{suffix or 'bin'}", data), extension=suffix or reducto.omit)
            else:
                made = client.upload(extension=suffix or reducto.omit)
                self._links.put(str(made.presigned_url), data)
            return str(made.file_id)
        except reducto.APIStatusError as error:
            return _refused(error)
        except Exception as error:  # noqa: BLE001 - no job was made, so whatever it was can be tried again
            return JobRefused(message=_text(error), wait_s=BUSY_WAIT_S)

    def submit(self, file_id: str, nonce: str) -> JobAccepted | JobRefused | JobUnclear:
        """Ask for a job, once. ``nonce`` stands in its metadata, so that it can be found by :meth:`find`."""
        try:
            made = self._client.parse.run_job(
                input=file_id, async_={"metadata": {NONCE_NAME: nonce}}, **cast("Any", OPTIONS)
            )
        except reducto.APIStatusError as error:
            unclear = error.status_code in UNCLEAR_STATUSES or error.status_code >= FIRST_SERVER_ERROR
            return JobUnclear(message=_text(error)) if unclear else _refused(error)
        except Exception as error:  # noqa: BLE001 - whatever it was: the job may be there
            if isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                return JobRefused(message=_text(error), wait_s=BUSY_WAIT_S)  # nothing was sent
            return JobUnclear(message=_text(error))
        job_id = cast("object", getattr(made, "job_id", None))  # a body that is no object comes back as it is
        if isinstance(job_id, str) and job_id:
            return JobAccepted(job_id=job_id)
        return JobUnclear(message="HTTP 200, but the body names no job")

    def look(self, job_id: str) -> JobSeen:
        """Look at a job once; the result of one that is done is fetched at once, since a link to it expires."""
        try:
            data = self._looking.job.with_raw_response.get(job_id).read()
        except reducto.APIStatusError as error:
            if error.status_code in {404, GONE}:
                return JobGone(message=_text(error), for_good=error.status_code == GONE)
            return NoAnswer(message=_text(error), retry_after_s=_retry_after_s(error))
        except Exception as error:  # noqa: BLE001 - a look that failed is made again
            return NoAnswer(message=_text(error))
        return read_answer(data, self._links)

    def find(self, nonce: str, since: datetime) -> str | None:
        """Search the list of jobs for a submission. Returns the job's id; None: there is none since that moment.

        Raises:
            Exception: the list could not be read to its end; nothing may be concluded from a part of it.
        """
        cursor: str | None = None
        deadline = time.monotonic() + SEARCH_S
        for _ in range(MOST_PAGES):
            page = self._looking.job.get_all(limit=self._page, cursor=cursor or reducto.omit)
            for job in page.jobs:
                if nonce in str(job.raw_config):
                    return job.job_id
            cursor = page.next_cursor
            if not cursor or not page.jobs or all(_made_before(job.created_at, since) for job in page.jobs):
                return None
            if time.monotonic() > deadline:
                break
        msg = f"the list of jobs since {since.isoformat()} has no end in sight"
        raise LookupError(msg)

    def cancel(self, job_id: str) -> None:
        """Ask the service to stop a job; whether it does makes no difference here."""
        try:
            self._looking.job.cancel(job_id)
        except reducto.ReductoError:
            return

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._links.close()


def _refused(error: reducto.APIStatusError) -> JobRefused:
    status = error.status_code
    busy = status in UNCLEAR_STATUSES or status == BUSY or status >= FIRST_SERVER_ERROR
    wait_s = (_retry_after_s(error) or BUSY_WAIT_S) if busy else None
    return JobRefused(message=_text(error), stop=status in ACCOUNT_STATUSES, wait_s=wait_s)


def _retry_after_s(error: reducto.APIStatusError) -> float | None:
    text = error.response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def _made_before(created_at: object, moment: datetime) -> bool:
    """Whether a job is older; a time that is missing or not one counts as young."""
    if not isinstance(created_at, datetime):
        return False
    return (created_at if created_at.tzinfo else created_at.replace(tzinfo=UTC)) < moment


def _text(error: Exception) -> str:
    """Return what the service said, on a line, without the key that the request carried: a server may echo it."""
    if not isinstance(error, reducto.APIStatusError):
        return f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]
    said = cast("dict[str, Any]", error.body) if isinstance(error.body, dict) else {}
    detail = said.get("message") or said.get("detail") or said.get("error") or error.message
    key = error.request.headers.get("authorization", "").removeprefix("Bearer ")
    text = f"HTTP {error.status_code}: {detail}"
    return (text.replace(key, HIDDEN) if key else text)[:LONGEST_MESSAGE]
