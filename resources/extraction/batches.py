"""Message batches at the provider: create, look, list, cancel, read results. Every outcome is a value.

A create has three: made, refused, and *unclear*. After an unclear one the provider may have accepted the batch, so it
is never simply repeated.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlsplit

import anthropic
import httpx2
from anthropic.types.messages import MessageBatch

from extraction_core.batches import BatchSeen, BatchState
from extraction_core.calls import CallFailed
from extraction_core.causes import Cause
from resources.extraction.access import Access
from resources.extraction.client import build_batch_client
from resources.extraction.result_lines import split_lines
from resources.extraction.translation import retry_after_s, translate

LOOK_TIMEOUT_S = 15.0
PAGE = 100
MOST_PAGES = 200
CHUNK = 1 << 18
UNSUPPORTED_STATUSES = frozenset({404, 405, 501})
UNCLEAR_STATUSES = frozenset({408, 409, 429})
FIRST_SERVER_ERROR = 500
STATES: Mapping[str, BatchState] = {
    "in_progress": BatchState.IN_PROGRESS,
    "canceling": BatchState.CANCELING,
    "ended": BatchState.ENDED,
}


@dataclass(frozen=True, kw_only=True)
class CreateRefused:
    """No batch was made. ``unsupported``: the server has no message batches at all."""

    failed: CallFailed
    unsupported: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateUnclear:
    """Whether a batch was made is not known."""

    failed: CallFailed


@dataclass(frozen=True, kw_only=True)
class BatchNotFound:
    """The provider does not know the batch, or not yet."""

    message: str


class ResultsUnreadable(Exception):  # noqa: N818 - an outcome of reading, handled where results are read
    """The results cannot be read, for now or (``gone``) for ever."""

    def __init__(self, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class BatchProvider:
    """The Message Batches API. Close it after use.

    Args:
        access: credentials and address.
        timeout_s: per read of a look.
        create_timeout_s: how long the answer to a create may take after up to 256 MB were sent.
    """

    def __init__(
        self, access: Access, *, timeout_s: float = LOOK_TIMEOUT_S, create_timeout_s: float = LOOK_TIMEOUT_S
    ) -> None:
        self._client = build_batch_client(access, request_timeout_s=timeout_s)
        self._create_timeout_s = create_timeout_s
        self._batches = self._client.messages.batches

    def create(self, requests: Sequence[Mapping[str, Any]]) -> BatchSeen | CreateRefused | CreateUnclear:
        """Create a batch from mappings with ``custom_id`` and ``params``. Sent once, whatever comes back."""
        try:
            made = self._batches.create(requests=cast("Any", requests), timeout=self._create_timeout_s)
        except UnicodeEncodeError as error:
            return CreateRefused(failed=translate(error))
        except anthropic.APIStatusError as error:
            return _classified(error)
        except Exception as error:  # noqa: BLE001 - whatever it was: the batch may be there
            return CreateUnclear(failed=_failed(error))
        if not isinstance(cast("object", made), MessageBatch) or not cast("str | None", made.id):
            message = "HTTP 200, but the body is not a batch"
            return CreateUnclear(failed=CallFailed(cause=Cause.UNREADABLE_RESPONSE, message=message))
        return _seen(made)

    def validate(self, request: Mapping[str, Any]) -> CallFailed | None:
        """Have one request checked without paying for it; None when it is good, or cannot be checked there."""
        asked = {name: value for name, value in request.items() if name != "max_tokens"}
        try:
            self._client.messages.count_tokens(**asked)
        except anthropic.APIStatusError as error:
            unsupported = error.status_code in UNSUPPORTED_STATUSES and not _is_about_model(error)
            return None if unsupported else translate(error)
        except UnicodeEncodeError as error:
            return translate(error)
        except Exception:  # noqa: BLE001 - a check that cannot be made must not keep the batch from being sent
            return None
        return None

    def retrieve(self, provider_id: str) -> BatchSeen | BatchNotFound | CallFailed:
        """Look at one batch."""
        try:
            raw = self._batches.with_raw_response.retrieve(provider_id)
            batch = raw.parse()
        except anthropic.NotFoundError as error:
            return BatchNotFound(message=_failed(error).message)
        except Exception as error:  # noqa: BLE001 - a look that failed is made again
            return _failed(error)
        return _seen(batch, retry_after_s(raw.headers.get("retry-after")))

    def cancel(self, provider_id: str) -> BatchSeen | BatchNotFound | CallFailed:
        """Ask the provider to cancel a batch."""
        try:
            return _seen(self._batches.cancel(provider_id))
        except anthropic.NotFoundError as error:
            return BatchNotFound(message=_failed(error).message)
        except Exception as error:  # noqa: BLE001 - asked again at the next look
            return _failed(error)

    def created_since(self, moment: datetime) -> list[BatchSeen]:
        """List the batches that were created at or after a moment of the provider's clock, newest first.

        Raises:
            Exception: the list could not be read to its end; nothing may be concluded from a part of it.
        """
        found: list[BatchSeen] = []
        known: set[str] = set()
        after: str | None = None
        for _ in range(MOST_PAGES):
            page = self._batches.list(limit=PAGE, after_id=after or anthropic.omit)
            new = [batch for batch in page.data if batch.id not in known]
            known |= {batch.id for batch in new}
            found += [_seen(batch) for batch in new if batch.created_at >= moment]
            older = any(batch.created_at < moment for batch in new)
            if older or not page.has_more or not new:  # nothing new: a server that ignores the cursor
                return found
            after = page.last_id
        msg = f"more than {MOST_PAGES * PAGE} batches since {moment.isoformat()}"
        raise ResultsUnreadable(msg)

    @contextmanager
    def result_lines(self, provider_id: str) -> Generator[Iterator[bytes]]:
        """Open the results of an ended batch, line by line.

        Raises:
            ResultsUnreadable: they cannot be read, or were cut off in the middle.
        """
        try:
            self._check_results(provider_id)
            with self._batches.with_streaming_response.results(provider_id) as response:
                yield _translated(split_lines(response.iter_bytes(CHUNK)))
        except ResultsUnreadable:
            raise
        except anthropic.NotFoundError as error:
            raise ResultsUnreadable(_failed(error).message, gone=True) from error
        except (anthropic.AnthropicError, httpx2.HTTPError) as error:
            raise ResultsUnreadable(_failed(error).message) from error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _check_results(self, provider_id: str) -> None:
        """The SDK sends the key wherever ``results_url`` points: only our own server may get it."""
        batch = self._batches.retrieve(provider_id)
        if not batch.results_url:
            gone = batch.archived_at is not None
            why = "the provider has deleted them, 29 days after creation" if gone else "there are none yet"
            msg = f"the results of {provider_id} cannot be read: {why}"
            raise ResultsUnreadable(msg, gone=gone)
        ours, theirs = urlsplit(str(self._client.base_url)), urlsplit(batch.results_url)
        if theirs.netloc and theirs.netloc != ours.netloc:
            msg = f"the results of {provider_id} are at {theirs.netloc}: the key is sent to {ours.netloc} only"
            raise ResultsUnreadable(msg)


def _translated(lines: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from lines
    except (httpx2.HTTPError, ValueError) as error:
        msg = f"the results were cut off: {_failed(error).message}"
        raise ResultsUnreadable(msg) from error


def _classified(error: anthropic.APIStatusError) -> CreateRefused | CreateUnclear:
    failed, status = translate(error), error.status_code
    if status in UNSUPPORTED_STATUSES:
        return CreateRefused(failed=failed, unsupported=True)
    if status in UNCLEAR_STATUSES or status >= FIRST_SERVER_ERROR:
        return CreateUnclear(failed=failed)
    return CreateRefused(failed=failed)


def _failed(error: Exception) -> CallFailed:
    try:
        return translate(error)
    except Exception as other:  # noqa: BLE001 - not one of the SDK's: a broken body, a broken stream
        return CallFailed(cause=Cause.CONNECTION_LOST, message=f"{type(other).__name__}: {other}"[:500])


def _is_about_model(error: anthropic.APIStatusError) -> bool:
    return translate(error).cause is Cause.MODEL_NOT_FOUND


def _seen(batch: MessageBatch, retry_after: float | None = None) -> BatchSeen:
    counts = batch.request_counts
    return BatchSeen(
        provider_id=batch.id,
        state=STATES.get(batch.processing_status, BatchState.IN_PROGRESS),
        counts={
            "processing": counts.processing,
            "succeeded": counts.succeeded,
            "errored": counts.errored,
            "canceled": counts.canceled,
            "expired": counts.expired,
        },
        created_at=batch.created_at.isoformat(),
        expires_at=batch.expires_at.isoformat(),
        results_gone=batch.archived_at is not None,
        retry_after_s=retry_after,
    )
