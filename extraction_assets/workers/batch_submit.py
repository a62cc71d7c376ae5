"""Submitting: due rows become message batches, each reserved in the ledger before the provider hears of it.

Rows are claimed, loaded and measured one by one, so a bad document is one failed row and no part of a batch. A batch is
sent once; whatever is not clear afterwards is left to be adopted (see :mod:`sensors.batch_watch`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extraction_assets.workers.asking import Ready
from extraction_assets.workers.document_task import LineStopped
from extraction_assets.workers.loading import NotLoaded, load_document
from extraction_assets.workers.lost_texts import LostTexts
from extraction_assets.workers.row_end import RowEnd
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.batches import OVERDUE_S, BatchSeen, BatchState, custom_id, new_nonce
from extraction_core.calls import CallFailed
from extraction_core.causes import POLICIES, Cause, Remedy
from extraction_core.collection import MB, Collection
from extraction_core.errors import ConfigurationError
from extraction_core.failpoints import Failpoint
from extraction_core.retry import GiveUp, RetryRules, StopLine
from resources.extraction.batches import BatchProvider, CreateRefused, CreateUnclear
from resources.ledger.claims import Claimed, Held
from resources.ledger.reservations import BatchOrder, PlannedRequest, Reservation

log = logging.getLogger(__name__)

SLICE = 200
FIRST_LOOK_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A claimed row and the request that it becomes."""

    claim: Claimed
    end: RowEnd
    ready: Ready
    size_bytes: int

    @property
    def params(self) -> Mapping[str, Any]:
        """The request itself."""
        return self.ready.request

    def planned(self) -> PlannedRequest:
        """Return what the ledger writes down of it."""
        return PlannedRequest(
            held=self.claim.held,
            model=self.params["model"],
            max_output_tokens=self.params["max_tokens"],
            reserved_usd=self.ready.most_it_can_cost(batch=True),
            second_try=self.end.asking.second_try,
        )


class BatchSubmitter:
    """Submits what is due of one extraction run.

    Args:
        tools: the resources.
        session: the worker's life.
        collection: the collection.
        run_id: the extraction run.
        provider: the Message Batches API.
        lost_texts: restores parsed text that is gone.
        stopped: tells whether to end early.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a worker is made of
        self,
        tools: Tools,
        session: WorkerSession,
        collection: Collection,
        run_id: int,
        provider: BatchProvider,
        lost_texts: LostTexts,
        stopped: Callable[[], bool],
    ) -> None:
        self._tools, self._session, self._collection, self._run_id = tools, session, collection, run_id
        self._provider, self._lost_texts, self._stopped = provider, lost_texts, stopped
        self._queue, self._batches = tools.ledger.results, tools.ledger.batches
        self._most_requests = collection.settings.max_batch_requests
        self._most_bytes = collection.settings.max_batch_mb * MB
        self._left_over: list[Prepared] = []
        self._validated = False
        self._over_budget = False
        self._too_large: set[int] = set()

    def run(self) -> int:
        """Submit everything that is due. Returns how many batches were sent.

        Raises:
            LineStopped: the account or the server takes no batch; rows are back in the queue.
            ConfigurationError: the server has no message batches.
        """
        sent = 0
        try:
            while not (self._stopped() or self._over_budget) and (part := self._gather()):
                sent += self._send(part)
        finally:
            self._session.release_all()
        return sent

    def _gather(self) -> list[Prepared]:
        """Claim and prepare rows until a batch is full or nothing is due."""
        part, self._left_over = self._left_over, []
        size = sum(one.size_bytes for one in part)
        while len(part) < self._most_requests and not self._stopped():
            wanted = min(SLICE, self._most_requests - len(part))
            lease_s = self._tools.timing.lease_s
            claims = self._queue.claim(self._session.worker_id, self._run_id, wanted, lease_s)
            for claim in claims:
                self._session.hold(self._queue, claim.held)
            for place, claim in enumerate(claims, start=1):
                if ready := self._prepare(claim):
                    size += ready.size_bytes
                    (self._left_over if size > self._most_bytes and part else part).append(ready)
                if self._left_over:  # the others may be as large: they are not loaded before there is room for them
                    self._give_back(claims[place:])
                    return part
            if not claims:
                return part
        return part

    def _give_back(self, claims: Sequence[Claimed]) -> None:
        self._queue.release([claim.held for claim in claims])
        for claim in claims:
            self._session.drop(self._queue, claim.held)

    def _prepare(self, claim: Claimed) -> Prepared | None:
        """Return a row's request; None when the row ended or waits to be parsed. A defect of ours is one failed row."""
        end = RowEnd(self._tools, self._collection, claim.held, claim.row)
        ready = None
        with end.edge():
            ready = self._build(claim, end)
        if ready is None:
            self._session.drop(self._queue, claim.held)
        return ready

    def _build(self, claim: Claimed, end: RowEnd) -> Prepared | None:
        loaded = load_document(self._tools, self._lost_texts, claim.row["document_key"], claim.row["parse"])
        if isinstance(loaded, NotLoaded):
            if loaded.wait_s is not None:
                end.requeue(loaded.reason, loaded.message, loaded.wait_s)
            else:
                end.give_up(loaded.reason, loaded.message, next_retry_s=loaded.next_retry_s)
            return None
        ready = end.asking.build(loaded, batch=True)
        size = ready.size()
        problem = size.problem()
        if problem is None and claim.held.row_id in self._too_large:
            problem = f"too long: the provider refuses a batch of this request alone ({size.request_bytes} bytes)"
        if problem:
            end.give_up(Cause.TOO_LONG, problem)
            return None
        return Prepared(claim=claim, end=end, ready=ready, size_bytes=size.request_bytes)

    def _send(self, part: list[Prepared]) -> bool:
        """Reserve a batch and send it. False when nothing of it was left to send."""
        if not self._validated:
            part = self._validate(part)
        nonce = new_nonce()
        order = BatchOrder(
            run_id=self._run_id,
            worker=self._session.worker_id,
            nonce=nonce,
            lease_s=self._tools.timing.lease_s,
            max_attempts=self._collection.settings.max_attempts,
        )
        by_row = {one.claim.held: one for one in part}
        reservation = self._batches.reserve(order, [one.planned() for one in part])
        if reservation.batch:
            self._session.hold(self._batches, reservation.batch)
        self._end_uncovered(reservation, by_row)
        for held in by_row:
            self._session.drop(self._queue, held)
        if reservation.batch is None:
            return False
        self._create(reservation.batch, nonce, [by_row[held] for held in reservation.covered])
        self._session.drop(self._batches, reservation.batch)
        return True

    def _validate(self, part: list[Prepared]) -> list[Prepared]:
        """Have one request checked first, since the provider checks a batch's only later, each on its own.

        A request that is refused is one bad document if another one passes, and a broken collection if not.
        """
        refused: CallFailed | None = None
        for place, one in enumerate(part[:2]):
            failed = self._provider.validate(one.params)
            if failed is not None and POLICIES[failed.cause].remedy is Remedy.STOP:
                raise LineStopped(f"{failed.cause}: {failed.message}")
            if failed is None or POLICIES[failed.cause].remedy is not Remedy.FINAL:
                self._validated = True
                self._refuse(part[:place], refused)
                return part[place:]
            refused = refused or failed
        if len(part) > 1 and refused:
            raise LineStopped(f"the provider refuses the requests of this collection: {refused.message}")
        self._refuse(part, refused)
        return []

    def _refuse(self, prepared: Sequence[Prepared], failed: CallFailed | None) -> None:
        for one in prepared:
            one.end.give_up(Cause.INVALID_REQUEST, failed.message if failed else "refused when it was checked")
            self._session.drop(self._queue, one.claim.held)

    def _end_uncovered(self, reservation: Reservation, by_row: Mapping[Held, Prepared]) -> None:
        """Derive from answers that are kept already; end what may not be asked any more; give back what must wait."""
        most = self._collection.settings.max_attempts
        for held, (attempt_id, body) in reservation.kept.items():
            with by_row[held].end.edge():
                derive_or_decide(by_row[held].end, attempt_id, body)
        for held, counted in reservation.exhausted.items():
            message = f"{counted} of {most} attempts are used for this question"
            by_row[held].end.give_up(Cause.EXHAUSTED, message)
        if not reservation.over_budget:
            return
        self._over_budget = True
        open_batches = self._batches.of_run(
            self._run_id, BatchState.RESERVED, BatchState.IN_PROGRESS, BatchState.CANCELING, BatchState.ENDED
        )
        if open_batches:  # what they turn out to cost may leave room
            self._queue.release(reservation.over_budget)
            return
        for held in reservation.over_budget:
            limit = self._collection.max_cost_usd
            message = f"${reservation.spent_usd:f} spent or reserved, limit ${limit:f} for the run"
            by_row[held].end.give_up(Cause.COST_LIMIT, message)

    def _create(self, batch: Held, nonce: str, covered: Sequence[Prepared]) -> None:
        """Send a reserved batch, once."""
        requests = [
            {"custom_id": custom_id(nonce, one.claim.held.row_id), "params": dict(one.params)} for one in covered
        ]
        if not self._session.is_fresh:  # the lease may be over: whoever resolves the reservation must be right
            self._batches.void(batch, Cause.WORKER_ERROR, "not sent: the submitter lost touch with the ledger")
            raise LineStopped("the ledger did not acknowledge the heartbeat in time")
        self._tools.failpoints(Failpoint.CREATE_BATCH)
        outcome = self._provider.create(requests)
        self._tools.failpoints(Failpoint.BATCH_ACCEPTED)
        match outcome:
            case BatchSeen():
                self._batches.saw(batch, outcome, wait_s=FIRST_LOOK_S, overdue_s=OVERDUE_S)
                log.info("message batch %s: %s requests", outcome.provider_id, len(requests))
            case CreateUnclear(failed=failed):
                message = f"it is not known whether the provider accepted it: {failed.message}"
                self._batches.put_back(batch, self._tools.timing.batch_settle_s, message=message)
                log.warning("message batch %s: %s", batch.row_id, message)
            case CreateRefused():
                self._batches.void(batch, outcome.failed.cause, outcome.failed.message)
                self._after_refusal(outcome, covered)

    def _after_refusal(self, refused: CreateRefused, covered: Sequence[Prepared]) -> None:
        """A batch that is too large is made smaller; any other refusal is not about its documents."""
        if refused.unsupported:
            raise ConfigurationError(
                self._collection.defs_file,
                "mode",
                f"is batch, but the server has no message batches ({refused.failed.message}).",
                "Set `mode: realtime`.",
            )
        if refused.failed.cause is not Cause.REQUEST_TOO_LARGE:
            raise LineStopped(f"{refused.failed.cause}: {refused.failed.message}")
        if len(covered) == 1:
            self._too_large.add(covered[0].claim.held.row_id)
        self._most_requests = max(1, len(covered) // 2)


def derive_or_decide(end: RowEnd, attempt_id: int, body: str) -> str | None:
    """Derive from a kept answer, or carry out what follows from its being unusable.

    Returns:
        Why nothing more should be asked, when the cause is the account's; the row is then back in the queue.
    """
    rejected = end.derive(attempt_id, body)
    return settle(end, rejected, judged=attempt_id) if rejected else None


def settle(end: RowEnd, failed: CallFailed, judged: int | None = None) -> str | None:
    """Decide and carry out what follows from a failed try; see :func:`derive_or_decide`."""
    decision = end.decide(failed)
    if isinstance(decision, StopLine) and end.refusals + 1 >= RetryRules().max_refusals_to_serve:
        decision = GiveUp(next_retry_s=None)  # each time a person was told; a batch of it is not made for ever
    if isinstance(decision, StopLine):
        end.requeue(failed.cause, failed.message, 0.0, judged=judged, refused=True)
        return f"{failed.cause}: {failed.message}"
    end.carry_out(decision, failed, judged)
    return None
