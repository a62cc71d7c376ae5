"""Extracting one run in the collection's mode: call by call, or by message batches."""

from __future__ import annotations

import asyncio

from extraction_assets.workers.extract_worker import ExtractOutcome, ExtractWorker, StopSignal
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.batches import BatchState
from extraction_core.collection import Collection
from resources.extraction.access import Access
from resources.extraction.sdk import load_sdk


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
        load_sdk()
        from resources.extraction.realtime import RealtimeProvider  # noqa: PLC0415 - as above

        provider = RealtimeProvider(
            access,
            calls_in_flight=collection.settings.concurrency,
            request_timeout_s=tools.timing.request_timeout_s,
        )
        return await ExtractWorker(tools, session, collection, provider, run_id, stop).run()

    return asyncio.run(call_by_call())
