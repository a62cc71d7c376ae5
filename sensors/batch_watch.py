"""Looking after open message batches: one bounded look each; adoption of batches whose id was never stored.

A reservation without an id is resolved only when its submitter's lease is over and the settle time has passed. The
provider's list is then searched for a batch of the same size whose results carry the reservation's nonce. Two listings
a settle time apart without a candidate mean that no batch was made, and its documents are submitted again, as a new
reservation. Loads no dagster: the terminal looks after batches too.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from extraction_core.batches import AT_PROVIDER, OVERDUE_S, BatchSeen, BatchState, nonce_of, read_result_line
from extraction_core.calls import CallFailed
from extraction_core.causes import Cause
from resources.extraction.access import access_from
from resources.ledger import Ledger
from resources.ledger.claims import Held

if TYPE_CHECKING:
    from resources.extraction.batches import BatchProvider

log = logging.getLogger(__name__)

MOST_LOOKS = 50
LOOK_SECONDS = 20.0
"""Well under Dagster's 60 s for a tick."""
LOOK_LEASE_S = 120.0
LOOK_EVERY_S = 30.0
LONGEST_WAIT_S = 600.0
AGAIN_S = 30.0
"""Until the next look after one that failed."""
CLOCK_SKEW = timedelta(minutes=10)
NOT_FOUND_GRACE_S = 3600.0
"""A batch that was created a moment ago may not be found yet; one that is not found for an hour is gone."""
CANCEL_DEADLINE_S = 3600.0
"""Cancelling takes seconds; a batch that has not ended an hour after it was asked never will."""
LINES_OF_A_CANDIDATE = 100
"""Read to find our nonce: every line of ours has it, but a line may be broken, or one that nobody asked for."""
LOOKS_WITHOUT_CANDIDATE = 2


@dataclass(frozen=True, kw_only=True)
class Looked:
    """One look: the batch as it was, and what was found, for the log."""

    batch: Mapping[str, Any]
    found: str

    def __str__(self) -> str:
        """Return one line."""
        return f"message batch {self.batch['provider_id'] or self.batch['batch_id']}: {self.found}"


class Match(StrEnum):
    """Whether a batch of the provider is the one that a reservation led to."""

    OURS = "ours"
    OTHER = "other"
    RUNNING = "running"  # its results cannot be read yet
    UNREADABLE = "unreadable"  # its results cannot be read any more
    UNANSWERED = "unanswered"  # the look failed


class BatchWatch:
    """Looks after the open batches of one collection.

    Args:
        ledger: the ledger.
        collection: the collection's name.
        provider: the Message Batches API.
        watcher: the name under which batches are held during a look.
        settle_s: see :attr:`extraction_core.settings.Timing.batch_settle_s`.
    """

    def __init__(
        self, ledger: Ledger, collection: str, provider: BatchProvider, watcher: str, *, settle_s: float
    ) -> None:
        self._ledger, self._collection, self._provider = ledger, collection, provider
        self._watcher, self._settle_s = watcher, settle_s
        self._batches = ledger.batches

    def look(self, *, most: int, seconds: float) -> list[Looked]:
        """Look at the open batches that are due, at most so many and not longer than ``seconds``."""
        deadline = time.monotonic() + seconds
        looked: list[Looked] = []
        for batch in self._batches.due(self._collection, most):
            if time.monotonic() > deadline:
                break
            if found := self.look_at(batch):
                looked.append(Looked(batch=batch, found=found))
        return looked

    def look_at(self, batch: Mapping[str, Any]) -> str | None:
        """Look at one open batch. Returns what was found; None when somebody else holds it.

        A look that fails is made again later; it never keeps the other batches from being looked at.
        """
        held = self._batches.take(batch["batch_id"], self._watcher, LOOK_LEASE_S, *AT_PROVIDER)
        if held is None:
            return None
        try:
            found = self._resolve(batch, held) if batch["provider_id"] is None else self._poll(batch, held)
        except Exception as error:  # whatever it was: the others go on, and this one is looked at again
            log.exception("message batch %s could not be looked at", batch["batch_id"])
            self._batches.put_back(held, AGAIN_S, message=f"{type(error).__name__}: {error}")
            found = f"the look failed: {type(error).__name__}: {error}"
        self._ledger.finalize(batch["run_id"])
        return found

    def _poll(self, batch: Mapping[str, Any], held: Held) -> str:
        wanted = batch["cancel_requested"] and batch["state"] == BatchState.IN_PROGRESS
        provider_id = batch["provider_id"]
        seen = self._provider.cancel(provider_id) if wanted else self._provider.retrieve(provider_id)
        if isinstance(seen, BatchSeen):
            return self._keep(batch, held, seen)
        if isinstance(seen, CallFailed):
            self._batches.put_back(held, seen.retry_after_s or AGAIN_S, message=seen.message)
            return f"no answer: {seen.message}"
        if self._batches.accepted_s_ago(batch["batch_id"]) < NOT_FOUND_GRACE_S:
            self._batches.put_back(held, AGAIN_S, message="not found at the provider yet")
            return "not found yet"
        return self._lose(held, f"the provider does not know it any more ({seen.message})")

    def _keep(self, batch: Mapping[str, Any], held: Held, seen: BatchSeen) -> str:
        """Write down what was seen; a batch that will never end, or whose results are gone, is lost."""
        if seen.results_gone:
            return self._lose(held, "its results are gone: the provider keeps them for 29 days after creation")
        if seen.state is not BatchState.ENDED and self._batches.is_overdue(batch["batch_id"]):
            what = "it was cancelled" if seen.state is BatchState.CANCELING else "it was created"
            return self._lose(held, f"it has not ended long after {what}; the provider says {seen.state}")
        wait_s = min(seen.retry_after_s or LOOK_EVERY_S, LONGEST_WAIT_S)
        begins = seen.state is BatchState.CANCELING and batch["state"] != BatchState.CANCELING
        if not self._batches.saw(
            held, seen, wait_s=wait_s, overdue_s=CANCEL_DEADLINE_S if begins else OVERDUE_S, anew=begins
        ):
            self._batches.put_back(held, wait_s)  # what the provider says contradicts what it said before
            return f"superseded: it was {batch['state']}, and now the provider says {seen.state}"
        done = seen.request_count - seen.counts.get("processing", 0)
        return f"{seen.state}, {done} of {seen.request_count} requests done"

    def _lose(self, held: Held, message: str) -> str:
        self._batches.lose(held, message)
        log.warning("message batch %s is lost: %s", held.row_id, message)
        return f"lost: {message}"

    def _resolve(self, batch: Mapping[str, Any], held: Held) -> str:
        """Find out whether a reservation led to a batch."""
        reserved_at = datetime.fromtimestamp(batch["created_ms"] / 1000, UTC)
        candidates = [
            seen
            for seen in self._provider.created_since(reserved_at - CLOCK_SKEW)
            if seen.request_count == batch["request_count"] and self._batches.find(seen.provider_id) is None
        ]
        matches = {Match.OTHER}
        for seen in candidates:
            match = self._match(seen, batch["nonce"])
            if match is Match.OURS:
                adopted = self._batches.saw(held, seen, wait_s=LOOK_EVERY_S, overdue_s=OVERDUE_S)
                log.info("message batch %s was found: it is %s", batch["batch_id"], seen.provider_id)
                return f"adopted as {seen.provider_id}" if adopted else "superseded"
            matches.add(match)
        if matches & {Match.RUNNING, Match.UNANSWERED}:
            self._batches.put_back(held, LOOK_EVERY_S, message="waits for batches of the same size to end")
            return "waits for batches of the same size to end, to see whether one of them is it"
        if Match.UNREADABLE in matches:
            return self._lose(held, "a batch of the same size can no longer be read, so it may be this one")
        return self._without_candidate(batch, held)

    def _without_candidate(self, batch: Mapping[str, Any], held: Held) -> str:
        if batch["looks"] + 1 >= LOOKS_WITHOUT_CANDIDATE:
            self._batches.void(held, Cause.CONNECTION_LOST, "the provider's list shows that no batch was made")
            return "no batch was made; its documents go back to the queue"
        self._batches.put_back(held, self._settle_s, message="not in the provider's list so far", looked=True)
        return "not in the provider's list so far"

    def _match(self, seen: BatchSeen, nonce: str) -> Match:
        """Read the first lines of a candidate's results: every custom id holds the nonce of its reservation."""
        from resources.extraction.batches import ResultsUnreadable  # noqa: PLC0415 - loads the SDK, as the provider did

        if seen.state is not BatchState.ENDED:
            return Match.RUNNING
        try:
            with self._provider.result_lines(seen.provider_id) as lines:
                first = list(islice(lines, LINES_OF_A_CANDIDATE))
        except ResultsUnreadable as error:
            return Match.UNREADABLE if error.gone else Match.UNANSWERED
        if any(nonce_of(line) == nonce for line in first):
            return Match.OURS
        return Match.OTHER if any(map(read_result_line, first)) else Match.UNANSWERED


def look_after_batches(
    ledger: Ledger, collection: str, *, settle_s: float, seconds: float = LOOK_SECONDS
) -> list[Looked]:
    """Look at the open batches of a collection that are due.

    Raises:
        ConfigurationError: there are some, but neither a key nor an address to reach the provider.
    """
    ledger.batches.reclaim_abandoned(collection, settle_s)
    if not ledger.batches.due(collection, 1):
        return []
    from resources.extraction.batches import BatchProvider  # noqa: PLC0415 - loads the SDK, which takes seconds

    provider = BatchProvider(access_from())
    try:
        watcher = f"poller {socket.gethostname()} {os.getpid()}"
        watch = BatchWatch(ledger, collection, provider, watcher, settle_s=settle_s)
        return watch.look(most=MOST_LOOKS, seconds=seconds)
    finally:
        provider.close()
