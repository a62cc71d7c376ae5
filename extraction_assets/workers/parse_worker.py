"""Parsing what a set needs: claim, read, parse in a child process, store the Markdown, record.

A document that cannot be parsed is one failed row; the others go on. Rows that another worker holds are waited for,
since the set needs them too; should their lease run out, they are reclaimed and parsed here. What a service parses is
submitted and left: nobody waits for a job.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from extraction_assets.workers.originals import Originals
from extraction_assets.workers.parse_jobs import ParseSubmitter
from extraction_assets.workers.parsers import Parsers
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.failpoints import Failpoint
from extraction_core.parsing import ParsedDocument, ParseFailure
from resources.ledger.parses import parsed_values
from resources.ledger.queue import Claimed
from resources.parsing import REDUCTO

LONGEST_IDLE_S = 1.0

Progress = Callable[[], None]


class ParseWorker:
    """Parses the queued parse runs of one document set.

    Args:
        tools: the resources.
        session: the worker's life.
        collection: the collection, whose source is read.
        parsers: the parse providers.
        set_id: the document set.
    """

    def __init__(
        self, tools: Tools, session: WorkerSession, collection: Collection, parsers: Parsers, set_id: int
    ) -> None:
        self._tools, self._session = tools, session
        self._originals = Originals(collection, parsers)
        self._parsers, self._set_id = parsers, set_id
        self._queue = tools.ledger.parses
        self._submitter = ParseSubmitter(tools)
        self._at_once = max(1, min(4, os.cpu_count() or 1))
        self._stop = threading.Event()

    def run(self, progress: Progress) -> None:
        """Work until every parse run of the set is terminal or a service's job; ``progress`` is called every second.

        Raises:
            LineStopped: the parse service takes nothing.
        """
        pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="parse")
        running: set[Future[None]] = set()
        try:
            while True:
                claimed = self._claim(self._at_once * 2 - len(running))
                running |= {pool.submit(self._work, claim) for claim in claimed}
                if running:
                    done, running = wait(running, timeout=LONGEST_IDLE_S, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                elif self._is_finished():
                    return
                progress()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._submitter.close()

    def _claim(self, limit: int) -> list[Claimed]:
        if limit <= 0:
            return []
        claimed = self._queue.claim(self._session.worker_id, self._set_id, limit, self._tools.timing.lease_s)
        for claim in claimed:
            self._session.hold(self._queue, claim.held)
        return claimed

    def _is_finished(self) -> bool:
        """Whether nothing of the set is left; otherwise wait a moment for what others hold or what is due later."""
        jobs = self._tools.ledger.parse_jobs.open_of_set(self._set_id)
        if self._queue.stats(self._set_id).active <= len(jobs):
            return True
        if not self._queue.reclaim(self._set_id):
            self._stop.wait(LONGEST_IDLE_S)
        return False

    def _work(self, claim: Claimed) -> None:
        if self._stop.is_set():
            return
        outcome = self._submit(claim) if claim.row["provider"] == REDUCTO else self._parse(claim)
        held, parse_key = claim.held, claim.row["parse_key"]
        if isinstance(outcome, ParseFailure):
            self._queue.record_failed(held, reason=outcome.reason, message=outcome.message, retryable=outcome.retryable)
        elif outcome:
            digest = self._tools.parsed.put(parse_key, outcome)
            self._queue.record_parsed(held, parsed_values(outcome, digest))
        self._session.drop(self._queue, held)

    def _parse(self, claim: Claimed) -> ParsedDocument | ParseFailure:
        key = self._own_key(claim)
        self._tools.failpoints(Failpoint.READ_SOURCE)
        return self._originals.parse(key, claim.row["content_hash"], self._parsers.named(claim.row["provider"]))

    def _submit(self, claim: Claimed) -> ParseFailure | None:
        """Read and submit; None when the row has ended, or is the job's. A line that stops leaves it to be released."""
        key = self._own_key(claim)
        self._tools.failpoints(Failpoint.READ_SOURCE)
        data = self._originals.read(key, claim.row["content_hash"])
        return data if isinstance(data, ParseFailure) else self._submitter.submit(claim, data, key)

    def _own_key(self, claim: Claimed) -> str:
        """The row may be another set's with the same bytes, so this set's own document is read."""
        own_key = self._tools.ledger.documents.key_that_needs(self._set_id, claim.held.row_id)
        return own_key or claim.row["document_key"]
