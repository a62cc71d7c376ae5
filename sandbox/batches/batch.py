"""One batch: what was sent, where it stands at a moment of the clock, and what came of it.

Nothing runs while a batch is open. Its requests count as processed one by one, in the order they were sent, over
`batch_seconds`; where that stood when it was cancelled or expired decides which requests have a message.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sandbox.body import JsonObject
from sandbox.charge import BatchedRequest
from sandbox.clock import timestamp

EXPIRES_AFTER = timedelta(hours=24)
ARCHIVED_AFTER = timedelta(days=29)  # after creation
OUTCOMES = ("succeeded", "errored", "canceled", "expired")

Sent = tuple[str, JsonObject]  # custom_id and params


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one request: its record for the bill, and its line of the results, with the line end."""

    request: BatchedRequest
    line: bytes


@dataclass(slots=True)
class Batch:
    """A batch; `sent` is emptied and `results` is filled, in the order of the requests, when it ends.

    `batch_seconds` None means that it only ever expires, `cancel_seconds` None that it stays in `canceling`.
    """

    id: str
    version: str
    created_at: datetime
    custom_ids: Sequence[str]
    batch_seconds: float | None
    cancel_seconds: float | None = None
    found_at: datetime | None = None
    listed_at: datetime | None = None
    cancel_initiated_at: datetime | None = None
    ended_at: datetime | None = None
    deleted: bool = False
    sent: list[Sent] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    @property
    def names(self) -> str:
        """The ids by which a fault can be meant for this batch, one a line."""
        return "\n".join((self.id, *self.custom_ids))

    @property
    def expires_at(self) -> datetime:
        """When it ends at the latest, unless it is cancelled."""
        return self.created_at + EXPIRES_AFTER

    @property
    def due_at(self) -> datetime | None:
        """When it ends, as things stand; None for a cancel that goes on for ever."""
        if self.cancel_initiated_at is not None:
            return None if self.cancel_seconds is None else _later(self.cancel_initiated_at, self.cancel_seconds)
        if self.batch_seconds is None:
            return self.expires_at
        return min(_later(self.created_at, self.batch_seconds), self.expires_at)

    @property
    def processed(self) -> int:
        """How many requests are processed by the time it ends; the rest is canceled or expired."""
        stopped_at = self.cancel_initiated_at or self.expires_at
        if self.batch_seconds is None:
            return 0
        if _later(self.created_at, self.batch_seconds) <= stopped_at:
            return len(self.custom_ids)
        return int(len(self.custom_ids) * ((stopped_at - self.created_at).total_seconds() / self.batch_seconds))

    @property
    def status(self) -> str:
        """The `processing_status`."""
        if self.ended_at is not None:
            return "ended"
        return "in_progress" if self.cancel_initiated_at is None else "canceling"

    def archived_at(self, now: datetime) -> datetime | None:
        """Return when the results went, or None while they are there or yet to come."""
        archived = self.created_at + ARCHIVED_AFTER
        return archived if self.ended_at is not None and now >= archived else None

    def end(self, results: list[Result]) -> None:
        """Take the results."""
        self.ended_at = self.due_at
        self.results = results
        self.sent = []

    def counts(self) -> JsonObject:
        """Return `request_counts`: all `processing` until the batch has ended, an unknown type as `errored`."""
        types = Counter(result.request.result_type for result in self.results)
        known = {outcome: types[outcome] for outcome in OUTCOMES}
        known["errored"] += types.total() - sum(known.values())
        return {"processing": 0 if self.ended_at else len(self.custom_ids), **known}

    def body(self, now: datetime, origin: str) -> JsonObject:
        """Return the batch as the API shows it; `origin` is scheme and host of the results' address."""
        archived_at = self.archived_at(now)
        has_results = self.ended_at is not None and archived_at is None
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": self.status,
            "request_counts": self.counts(),
            "created_at": timestamp(self.created_at),
            "expires_at": timestamp(self.expires_at),
            "ended_at": timestamp(self.ended_at),
            "cancel_initiated_at": timestamp(self.cancel_initiated_at),
            "archived_at": timestamp(archived_at),
            "results_url": f"{origin}/v1/messages/batches/{self.id}/results" if has_results else None,
        }


def _later(moment: datetime, seconds: float) -> datetime:
    return moment + timedelta(seconds=seconds)
