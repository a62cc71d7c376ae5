"""One pass over an extraction run with message batches: collect what has ended, submit what is due, and leave.

Nobody waits for a batch: the provider may take a day. What is at the provider is looked at by the batch poller, which
asks for the next pass when there is something to collect.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from extraction_assets.workers.batch_collect import BatchCollector
from extraction_assets.workers.batch_submit import BatchSubmitter
from extraction_assets.workers.document_task import LineStopped
from extraction_assets.workers.extract_worker import Ending, ExtractOutcome, StopSignal
from extraction_assets.workers.lost_texts import LostTexts
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.batches import UNSETTLED
from extraction_core.collection import Collection
from extraction_core.errors import OutputStoreFullError
from resources.extraction.access import Access
from resources.extraction.batches import BatchProvider

LONGEST_IDLE_S = 2.0


class BatchPass:
    """Works on one extraction run until what is left is at the provider.

    Args:
        tools: the resources.
        session: the worker's life.
        collection: the collection.
        access: how to reach the provider.
        run_id: the extraction run.
        stop: asks to end early.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what a worker is made of
        self,
        tools: Tools,
        session: WorkerSession,
        collection: Collection,
        access: Access,
        run_id: int,
        stop: StopSignal,
    ) -> None:
        self._tools, self._session, self._collection = tools, session, collection
        self._access, self._run_id, self._stop = access, run_id, stop
        self._woken = threading.Event()

    def collect(self) -> ExtractOutcome | None:
        """Collect what has ended, whatever the collection's mode is now. Returns how the pass ended, if it did."""
        try:
            with closing(BatchProvider(self._access)) as provider:
                self._collect(provider)
        except (LineStopped, OutputStoreFullError) as stopped:
            return ExtractOutcome(ending=Ending.LINE_STOPPED, reason=str(stopped))
        return None

    def run(self) -> ExtractOutcome:
        """Collect and submit. Every row that was claimed has ended, is covered by a batch, or was given back."""
        self._stop.connect(self._woken.set)
        create_timeout_s = self._tools.timing.request_timeout_s
        try:
            with closing(BatchProvider(self._access, create_timeout_s=create_timeout_s)) as provider:
                return self._work(provider)
        except (LineStopped, OutputStoreFullError) as stopped:
            return ExtractOutcome(ending=Ending.LINE_STOPPED, reason=str(stopped))
        finally:
            self._stop.connect(lambda: None)

    def _work(self, provider: BatchProvider) -> ExtractOutcome:
        with closing(LostTexts(self._tools, self._collection)) as lost_texts:
            submitter = BatchSubmitter(
                self._tools, self._session, self._collection, self._run_id, provider, lost_texts, self._is_stopped
            )
            while not self._is_stopped():
                self._collect(provider)
                submitter.run()
                if not self._is_stopped() and (outcome := self._look_at_rest()):
                    return outcome
        return ExtractOutcome(ending=Ending.STOPPED, reason=str(self._stop.why))

    def _collect(self, provider: BatchProvider) -> None:
        collector = BatchCollector(self._tools, self._session, self._collection, provider, self._is_stopped)
        collector.run(self._run_id)
        if collector.line_stopped:
            raise LineStopped(collector.line_stopped)

    def _look_at_rest(self) -> ExtractOutcome | None:
        """Nothing more can be submitted now: leave what is at the provider or held by others, or wait for what is due.

        A row that is due soon is waited for only when nothing is at the provider; else the next pass takes it.
        """
        ledger = self._tools.ledger
        if batches := ledger.batches.of_run(self._run_id, *UNSETTLED):
            return ExtractOutcome(ending=Ending.SUBMITTED, reason=", ".join(map(describe, batches)))
        stats = ledger.results.stats(self._run_id)
        if not stats.active:
            return ExtractOutcome(ending=Ending.FINISHED)
        if stats.next_due_in_ms is not None:
            self._woken.wait(min(max(stats.next_due_in_ms / 1000, 0.01), LONGEST_IDLE_S))
            return None
        if ledger.results.reclaim(self._run_id):
            return None
        holders = tuple(row["holder"] for row in ledger.workers.holders(self._run_id))
        return ExtractOutcome(ending=Ending.HELD_BY_OTHERS, holders=holders)

    def _is_stopped(self) -> bool:
        return self._stop.why is not None


def describe(batch: Mapping[str, Any]) -> str:
    """Return one phrase on a batch for people."""
    name = batch["provider_id"] or f"reservation {batch['batch_id']}"
    until = f", expires {batch['expires_at']}" if batch["expires_at"] else ""
    return f"message batch {name} ({batch['state']}, {batch['request_count']} requests{until})"
