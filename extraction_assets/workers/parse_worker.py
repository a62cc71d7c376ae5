"""Parsing what a set needs: claim, read, parse in a child process, store the Markdown, record.

A document that cannot be parsed is one failed row; the others go on. Rows that another worker holds are waited for,
since the set needs them too; should their lease run out, they are reclaimed and parsed here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from extraction_assets.workers.prepare import source_of
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.failpoints import Failpoint
from extraction_core.fingerprints import sha256_hex
from extraction_core.parsing import ParsedDocument, ParseFailure, ParseFailureReason, ParseProvider
from resources.ledger.queue import Claimed
from resources.source import DocumentSource

LONGEST_IDLE_S = 1.0

Progress = Callable[[], None]


class ParseWorker:
    """Parses the queued parse runs of one document set.

    Args:
        tools: the resources.
        session: the worker's life.
        collection: the collection, whose source is read.
        provider: the parse provider.
        set_id: the document set.
    """

    def __init__(
        self, tools: Tools, session: WorkerSession, collection: Collection, provider: ParseProvider, set_id: int
    ) -> None:
        self._tools, self._session, self._collection = tools, session, collection
        self._provider, self._set_id = provider, set_id
        self._queue = tools.ledger.parses
        self._at_once = max(1, min(4, os.cpu_count() or 1))
        self._stop = threading.Event()

    def run(self, progress: Progress) -> None:
        """Work until every parse run of the set is terminal. ``progress`` is called at least every second."""
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

    def _claim(self, limit: int) -> list[Claimed]:
        if limit <= 0:
            return []
        claimed = self._queue.claim(self._session.worker_id, self._set_id, limit, self._tools.timing.lease_s)
        for claim in claimed:
            self._session.hold(self._queue, claim.held)
        return claimed

    def _is_finished(self) -> bool:
        """Whether nothing of the set is left; otherwise wait a moment for what others hold or what is due later."""
        stats = self._queue.stats(self._set_id)
        if not stats.active:
            return True
        if not self._queue.reclaim(self._set_id):
            self._stop.wait(LONGEST_IDLE_S)
        return False

    def _work(self, claim: Claimed) -> None:
        if self._stop.is_set():
            return
        outcome = self._parse(claim)
        held, parse_key = claim.held, claim.row["parse_key"]
        if isinstance(outcome, ParseFailure):
            self._queue.record_failed(held, reason=outcome.reason, message=outcome.message, retryable=outcome.retryable)
        else:
            digest = self._tools.parsed.put(parse_key, outcome)
            self._queue.record_parsed(
                held,
                {
                    "markdown_sha256": digest,
                    "characters": len(outcome.markdown),
                    "page_count": len(outcome.pages),
                    "media_type": outcome.media_type,
                    "engine": f"{outcome.engine} {outcome.engine_version}",
                    "warnings": list(outcome.warnings),
                },
            )
        self._session.drop(self._queue, held)

    def _parse(self, claim: Claimed) -> ParsedDocument | ParseFailure:
        """Read and parse. The row may come from another collection with the same bytes, so its own source is read."""
        key, source = claim.row["document_key"], self._source(claim.row["source"])
        self._tools.failpoints(Failpoint.READ_SOURCE)
        try:
            data = source.read(key)
        except OSError as error:
            reason = ParseFailureReason.SOURCE_MISSING
            return ParseFailure(reason=reason, message=f"{key} cannot be read: {error.strerror or error}")
        if sha256_hex(data) != claim.row["content_hash"]:
            reason = ParseFailureReason.SOURCE_CHANGED
            return ParseFailure(reason=reason, message=f"{key} changed after it was looked at; launch again")
        return self._provider.parse(data, key)

    def _source(self, url: str) -> DocumentSource:
        return source_of(self._collection) if url == self._collection.source else DocumentSource(url, ["**/*"], [])
