"""All batches of one server: they are accepted here, end when somebody looks, and are found and listed."""

import asyncio
import secrets
from datetime import datetime, timedelta
from http import HTTPStatus

from sandbox.batches.batch import Batch, Sent
from sandbox.batches.processing import process
from sandbox.batches.store import BatchStore
from sandbox.clock import Clock
from sandbox.errors import ApiError, refuse
from sandbox.faults import FaultBook
from sandbox.log import RequestLog
from sandbox.usage import PromptCache

LOGGED_AT_ONCE = 1_000


class BatchBook:
    """The batches, oldest first, their clock, and how long they take.

    `batch_seconds` goes for batches that are created from now on, `cancel_seconds` for cancels; None means never.
    """

    def __init__(
        self, log: RequestLog, faults: FaultBook, cache: PromptCache, store: BatchStore, batch_seconds: float | None
    ) -> None:
        """Go on with the batches in the store."""
        self.clock = Clock()
        self.clock.advance(store.load_offset())
        self.batches = {batch.id: batch for batch in store.load()}
        self.batch_seconds = self._usual_batch_seconds = batch_seconds
        self.cancel_seconds: float | None = 0.0
        self._log, self._faults, self._cache, self._store = log, faults, cache, store
        self._endings: dict[str, asyncio.Task[None]] = {}
        self._bill_what_a_crash_left_out()

    async def accept(self, version: str, sent: list[Sent], found_late: float = 0, listed_late: float = 0) -> Batch:
        """Create a batch; the last two are the seconds until it can be found and is listed."""
        now = self.clock.now()
        batch = Batch(
            id=f"msgbatch_01{secrets.token_hex(11)}",
            version=version,
            created_at=now,
            custom_ids=[custom_id for custom_id, _ in sent],
            batch_seconds=self.batch_seconds,
            found_at=now + timedelta(seconds=found_late),
            listed_at=now + timedelta(seconds=listed_late),
            sent=sent,
        )
        self.batches[batch.id] = batch
        await asyncio.to_thread(self._store.keep, batch)
        return batch

    def find(self, batch_id: str) -> Batch:
        """Return a batch; raise `ApiError` (404) when there is none, or none yet."""
        batch = self.batches.get(batch_id)
        if batch is None or batch.deleted or _before(self.clock.now(), batch.found_at):
            raise ApiError(HTTPStatus.NOT_FOUND, not_found(batch_id))
        return batch

    def cancel(self, batch: Batch, *, for_ever: bool) -> None:
        """Begin to cancel; a batch that has ended, or is being cancelled, stays as it is."""
        if batch.status == "in_progress" and batch.id not in self._endings:
            batch.cancel_initiated_at = self.clock.now()
            batch.cancel_seconds = None if for_ever else self.cancel_seconds
            self._store.update(batch)

    def delete(self, batch: Batch) -> None:
        """Take it out of the account; the bill and the books of the sandbox keep it."""
        if batch.status != "ended":
            refuse("In progress batches cannot be deleted. Consider canceling the batch instead.")
        batch.deleted = True
        self._store.update(batch)

    def page(self, limit: int, after_id: str | None, before_id: str | None) -> tuple[list[Batch], bool]:
        """Return a page of the list, newest first, and whether there is more in that direction.

        Raises:
            ApiError: 404, when the cursor is no batch.

        """
        newest_first = list(reversed(self.batches.values()))
        cursor = after_id or before_id
        if cursor is not None:
            if cursor not in self.batches:
                raise ApiError(HTTPStatus.NOT_FOUND, not_found(cursor))
            position = newest_first.index(self.batches[cursor])
            newest_first = newest_first[position + 1 :] if after_id else newest_first[:position]
        now = self.clock.now()
        listed = [batch for batch in newest_first if not batch.deleted and not _before(now, batch.listed_at)]
        page = listed[-limit:] if before_id else listed[:limit]
        return page, len(listed) > limit

    async def settle(self, patience: float | None = None) -> None:
        """End all batches that are due; after `patience` seconds the rest of the work goes on in the background."""
        now = self.clock.now()
        for batch in self.batches.values():
            is_due = batch.ended_at is None and batch.due_at is not None and batch.due_at <= now
            if is_due and batch.id not in self._endings:
                self._endings[batch.id] = asyncio.create_task(self._end(batch))
        if self._endings:
            done, _ = await asyncio.wait(self._endings.values(), timeout=patience)
            for task in done:
                if not task.cancelled():
                    task.result()

    async def _end(self, batch: Batch) -> None:
        try:
            results = await process(batch, self._faults, self._cache)
            await asyncio.to_thread(self._store.keep_results, batch.id, results)
            batch.end(results)
            self._store.update(batch)
            for start in range(0, len(results), LOGGED_AT_ONCE):
                self._log.add_batched(result.request for result in results[start : start + LOGGED_AT_ONCE])
                await asyncio.sleep(0)
        finally:
            self._endings.pop(batch.id, None)

    def _bill_what_a_crash_left_out(self) -> None:
        """Add requests to the log that were processed when an earlier server was killed before it had logged them."""
        logged = {(request.batch_id, request.custom_id) for request in self._log.batched}
        known = [result.request for batch in self.batches.values() for result in batch.results]
        self._log.add_batched(one for one in known if (one.batch_id, one.custom_id) not in logged)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.clock.advance(seconds)
        self._store.keep_offset(self.clock.offset_s)

    def forget(self) -> None:
        """Drop all batches and return to real time and the usual durations."""
        self.stop()
        self.batches.clear()
        self.batch_seconds, self.cancel_seconds = self._usual_batch_seconds, 0.0
        self.clock.reset()
        self._store.clear()

    def stop(self) -> None:
        """Leave what is about to end as it was before."""
        for task in self._endings.values():
            task.cancel()
        self._endings.clear()


def not_found(batch_id: str) -> str:
    """Return what the API says of a batch it does not know."""
    return f"Message Batch {batch_id} not found."


def _before(now: datetime, moment: datetime | None) -> bool:
    return moment is not None and now < moment
