"""One claimed row from its parsed text to its end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from extraction_assets.workers.asking import Ready, attempt_plan
from extraction_assets.workers.loading import NotLoaded, load_document
from extraction_assets.workers.lost_texts import LostTexts
from extraction_assets.workers.pacer import Pacer
from extraction_assets.workers.row_end import RowEnd
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.slices import InThread
from extraction_assets.workers.steps import Derivation, Prepared, Steps
from extraction_assets.workers.tools import Tools
from extraction_core.calls import CallFailed, Provider
from extraction_core.causes import POLICIES, Cause, Remedy
from extraction_core.collection import Collection
from extraction_core.errors import OutputPathError, OutputStoreFullError
from extraction_core.failpoints import Failpoint
from extraction_core.pricing import cost_usd, token_usage
from extraction_core.retry import Requeue, StopLine
from resources.ledger.attempts import Answer, AttemptPlan, KeptAnswer, NotOpened, Opened, Order
from resources.ledger.claims import Claimed, Held

if TYPE_CHECKING:
    from extraction_assets.workers.extract_worker import StopSignal

log = logging.getLogger(__name__)

BUDGET_WAIT_S = 1.0


class LineStopped(Exception):  # noqa: N818 - an event, not an error
    """Nothing more should be claimed: the fault is the account's or the machine's, not the document's."""


@dataclass(frozen=True, kw_only=True)
class TaskContext:
    """What all rows of one worker share. ``answered`` is told of a row that needs no call any more."""

    tools: Tools
    session: WorkerSession
    collection: Collection
    provider: Provider
    pacer: Pacer
    stop: StopSignal
    in_thread: InThread
    steps: Steps
    lost_texts: LostTexts
    answered: Callable[[Held], None]


class DocumentTask:
    """Carries one claimed row to its end, or back to the queue."""

    def __init__(self, context: TaskContext, claim: Claimed) -> None:
        self._context, self._claim, self._held, self._row = context, claim, claim.held, claim.row
        self._tools, self._collection = context.tools, context.collection
        self._end = RowEnd(context.tools, context.collection, claim.held, claim.row)

    async def run(self) -> None:
        """Do it. Bad documents, answers and calls become rows; a defect of ours becomes this row's failure alone.

        Raises:
            LineStopped: the row should be given back as it is.
        """
        try:
            await self._extract()
        except LineStopped:
            raise
        except OutputStoreFullError as error:
            raise LineStopped(str(error)) from error
        except OutputPathError as error:
            await self._give_up(Cause.OUTPUT_NOT_WRITTEN, str(error))
        except Exception as error:  # the worker's edge: an unknown defect must cost one row, not its neighbours
            log.exception("%s failed", self._row["document_key"])
            await self._give_up(Cause.WORKER_ERROR, f"{type(error).__name__}: {error}", next_retry_s=60.0)

    async def _extract(self) -> None:
        prepared = await self._context.steps.prepare.ask(self._prepare)
        if isinstance(prepared, NotLoaded):
            await self._end_unloaded(prepared)
            return
        if not await self._fits(prepared) or not await self._may_call():
            return
        opened = await self._context.steps.open.ask(Order(held=self._held, plan=prepared.plan))
        match opened:
            case Opened():
                await self._call(prepared.ready, prepared.plan, opened.attempt_id)
            case KeptAnswer():
                self._context.answered(self._held)
                await self._derive(opened.attempt_id, opened.response)
            case NotOpened(cause=None):
                log.info("%s is superseded", self._row["document_key"])
            case NotOpened(cause=cause, message=message, wait=wait):
                if wait:
                    await self._requeue(cause or Cause.COST_LIMIT, message, BUDGET_WAIT_S)
                else:
                    await self._give_up(cause or Cause.COST_LIMIT, message)

    def _prepare(self) -> Prepared | NotLoaded:
        """Load what is shown, and make and measure its request. Blocks."""
        loaded = load_document(self._tools, self._context.lost_texts, self._row["document_key"], self._row["parse"])
        if isinstance(loaded, NotLoaded):
            return loaded
        ready = self._end.asking.build(loaded)
        return Prepared(ready=ready, size=ready.size(), plan=attempt_plan(ready))

    async def _end_unloaded(self, unloaded: NotLoaded) -> None:
        if unloaded.wait_s is not None:
            await self._requeue(unloaded.reason, unloaded.message, unloaded.wait_s)
        else:
            await self._give_up(unloaded.reason, unloaded.message, next_retry_s=unloaded.next_retry_s)

    async def _fits(self, prepared: Prepared) -> bool:
        """Fail a document that exceeds the provider's limits before any call, with sizes."""
        size, request = prepared.size, prepared.ready.request
        counted = await self._context.provider.count_tokens(request) if size.in_doubt else None
        problem = size.problem(counted)
        if problem:
            await self._give_up(Cause.TOO_LONG, problem)
        return problem is None

    async def _may_call(self) -> bool:
        """Wait for the common pace. False when the row was put off or given back."""
        pacer, session = self._context.pacer, self._context.session
        while not self._context.stop.why:
            if session.is_cancelled(self._held):
                break
            if put_off := pacer.put_off:
                await self._give_up(put_off.cause, "the provider does not serve for now", next_retry_s=put_off.wait_s)
                return False
            if not pacer.pause_s and session.is_fresh:
                return True
            await asyncio.sleep(max(pacer.pause_s, 0.05) * (1 + random.random() / 20))
        await self._give_back()
        return False

    async def _call(self, ready: Ready, plan: AttemptPlan, attempt_id: int) -> None:
        asked_at, ticket = datetime.now(UTC), self._context.pacer.begin_call()
        self._tools.failpoints(Failpoint.CALL_PROVIDER)
        try:
            outcome = await self._context.provider.call(ready.request)
        except asyncio.CancelledError:
            message = "the call was cut off when its worker was stopped"
            self._tools.ledger.attempts.abandoned(attempt_id, plan.token, cause=Cause.CONNECTION_LOST, message=message)
            raise
        if isinstance(outcome, CallFailed):
            await self._context.in_thread(lambda: self._close_failed(attempt_id, plan.token, outcome))
            await self._settle(outcome, ticket)
            return
        self._tools.failpoints(Failpoint.PROVIDER_ANSWERED)
        self._context.answered(self._held)
        usage, served_model = token_usage(outcome.message), outcome.message.get("model")
        answer = Answer(
            response=outcome.body,
            request_id=outcome.request_id,
            served_model=served_model,
            stop_reason=outcome.message.get("stop_reason"),
            usage=usage,
            cost_usd=cost_usd(str(served_model), usage, at=asked_at, batch=False) if usage else None,
        )
        await self._context.steps.keep.ask((plan.token, answer))
        self._context.pacer.served()
        await self._derive(attempt_id, outcome.body)

    def _close_failed(self, attempt_id: int, token: str, failed: CallFailed) -> None:
        attempts, policy = self._tools.ledger.attempts, POLICIES[failed.cause]
        if policy.cost_known:
            attempts.failed(
                attempt_id,
                token,
                cause=failed.cause,
                message=failed.message,
                counted=policy.counted,
                request_id=failed.request_id,
            )
        else:
            attempts.abandoned(attempt_id, token, cause=failed.cause, message=failed.message)

    async def _derive(self, attempt_id: int, body: str) -> None:
        """Judge the kept answer and write what follows: file and row, or the reason why not."""
        if self._context.session.is_cancelled(self._held) or self._context.stop.why == "cancelled":
            await self._give_back()
            return
        derivation = Derivation(end=self._end, attempt_id=attempt_id, body=body)
        if rejected := await self._context.steps.derive.ask(derivation):
            await self._settle(rejected, None, judged=attempt_id)

    async def _settle(self, failed: CallFailed, ticket: int | None, judged: int | None = None) -> None:
        """Decide what follows from a failed try, and carry it out."""
        decision = await self._context.in_thread(lambda: self._end.decide(failed))
        if POLICIES[failed.cause].remedy is Remedy.WAIT and ticket is not None:
            wait_s = decision.wait_s if isinstance(decision, Requeue) else getattr(decision, "next_retry_s", 0.0) or 0.0
            self._context.pacer.refused(ticket, failed.cause, wait_s)
        if isinstance(decision, StopLine):
            raise LineStopped(f"{failed.cause}: {failed.message}")
        await self._context.in_thread(lambda: self._end.carry_out(decision, failed, judged))

    async def _give_up(self, reason: str, message: str, *, next_retry_s: float | None = None) -> None:
        await self._context.in_thread(lambda: self._end.give_up(reason, message, next_retry_s=next_retry_s))

    async def _requeue(self, reason: str, message: str, wait_s: float) -> None:
        await self._context.in_thread(lambda: self._end.requeue(reason, message, wait_s))

    async def _give_back(self) -> None:
        await self._context.in_thread(lambda: self._tools.ledger.results.release([self._held]))
