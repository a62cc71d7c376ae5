"""Extracting one run in the collection's mode: call by call, or by message batches."""

from __future__ import annotations

import asyncio

from extraction_assets.workers.extract_worker import ExtractOutcome, ExtractWorker, StopSignal
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.batches import BatchState
from extraction_core.calls import Provider
from extraction_core.collection import Collection
from extraction_core.collector import pass_seldom
from extraction_core.settings import CallerUse
from resources.extraction.access import Access
from resources.extraction.sdk import load_sdk

MANY_IN_FLIGHT, MANY_DOCUMENTS = 100, 1_000
"""Fewer calls at a time leave the worker's interpreter idle; fewer documents end before a second one has loaded."""


def extract(  # noqa: PLR0913, PLR0917 - what a worker is made of
    tools: Tools, session: WorkerSession, collection: Collection, access: Access, run_id: int, stop: StopSignal
) -> ExtractOutcome:
    """Work on an extraction run until nothing of it is left for this worker.

    A batch that has ended is collected in any mode: a collection that was switched to ``realtime`` meanwhile has paid
    for its results all the same.
    """
    by_batch = collection.settings.mode == "batch"
    if by_batch or tools.ledger.batches.of_run(run_id, BatchState.ENDED):
        load_sdk()  # takes seconds: only who calls pays for it
        from extraction_assets.workers.batch_pass import BatchPass  # noqa: PLC0415

        batch_pass = BatchPass(tools, session, collection, access, run_id, stop)
        if by_batch:
            return batch_pass.run()
        if stopped := batch_pass.collect():
            return stopped

    async def call_by_call() -> ExtractOutcome:
        provider = await _provider(access, tools, collection, run_id)
        return await ExtractWorker(tools, session, collection, provider, run_id, stop).run()

    return asyncio.run(call_by_call())


async def _provider(access: Access, tools: Tools, collection: Collection, run_id: int) -> Provider:
    settings, timeout_s = collection.settings, tools.timing.request_timeout_s
    documents = tools.ledger.results.stats(run_id).active
    if calls_apart(tools.environment.caller_process, in_flight=settings.concurrency, documents=documents):
        from resources.extraction.caller_process import CallerProcess  # noqa: PLC0415 - one of the two

        pass_seldom()
        caller = CallerProcess(access, calls_in_flight=settings.concurrency, request_timeout_s=timeout_s)
        await caller.start()
        return caller
    load_sdk()
    from resources.extraction.realtime import RealtimeProvider  # noqa: PLC0415 - as above

    return RealtimeProvider(access, calls_in_flight=settings.concurrency, request_timeout_s=timeout_s)


def calls_apart(use: CallerUse, *, in_flight: int, documents: int) -> bool:
    """Whether calls are made by a caller process: where so many are in flight that it is worth its start.

    Args:
        use: what was set.
        in_flight: calls at a time.
        documents: of the run that are unfinished.
    """
    if use is CallerUse.AUTO:
        return in_flight >= MANY_IN_FLIGHT and documents >= MANY_DOCUMENTS
    return use is CallerUse.ALWAYS
