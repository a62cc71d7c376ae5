"""Parsing what a set needs: claim, read, parse in a child process, store the Markdown, record.

A document that cannot be parsed is one failed row; the others go on. Rows that another worker holds are waited for,
since the set needs them too; should their lease run out, they are reclaimed and parsed here. What a service parses is
submitted and left: nobody waits for a job. Documents are worked on by threads, each to its file in the store; the rows
are claimed and ended by the calling thread, by the slice.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue

from extraction_assets.workers.originals import Originals
from extraction_assets.workers.parse_jobs import ParseSubmitter
from extraction_assets.workers.parse_rows import Ended, ParseRows, Task
from extraction_assets.workers.parsers import Parsers
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import Tools
from extraction_core.collection import Collection
from extraction_core.failpoints import Failpoint
from extraction_core.parsing import ParsedDocument, ParseFailure
from resources.ledger.parses import parsed_values
from resources.parsing import REDUCTO

LONGEST_IDLE_S = 1.0
SLICE_S = 0.5
"""From one writing to the next, unless nothing is left in hand: who is killed has so much parsed for nothing."""

Progress = Callable[[], None]
log = logging.getLogger(__name__)


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
        self._tools = tools
        self._originals = Originals(collection, parsers)
        self._parsers, self._set_id = parsers, set_id
        self._queue = tools.ledger.parses
        self._submitter = ParseSubmitter(tools)
        self._at_once = max(1, min(4, os.cpu_count() or 1))
        self._rows = ParseRows(tools, session, set_id, self._at_once)
        self._stop = threading.Event()
        self._finished = SimpleQueue[Ended | BaseException]()
        self._unwritten: list[Ended] = []
        self._in_hand = 0
        self._wrote_at = 0.0

    def run(self, progress: Progress) -> None:
        """Work until every parse run of the set is terminal or a service's job; ``progress`` is called every second.

        Raises:
            LineStopped: the parse service takes nothing.
        """
        pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="parse")
        try:
            while True:
                for task in self._rows.claim(self._in_hand):
                    self._in_hand += 1
                    pool.submit(self._work, task)
                if self._in_hand:
                    self._write_finished()
                elif self._is_finished():
                    return
                progress()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._submitter.close()
            self._write_rest()

    def _is_finished(self) -> bool:
        """Whether nothing of the set is left; otherwise wait a moment for what others hold or what is due later."""
        jobs = self._tools.ledger.parse_jobs.open_of_set(self._set_id)
        if self._queue.stats(self._set_id).active <= len(jobs):
            return True
        if not self._queue.reclaim(self._set_id):
            self._stop.wait(LONGEST_IDLE_S)
        return False

    def _write_finished(self) -> None:
        """Wait for documents and write their rows.

        Raises:
            Exception: what one of them raised; the others are written.
        """
        finished = self._next_slice()
        self._in_hand -= len(finished)
        self._unwritten += [one for one in finished if isinstance(one, Ended)]
        self._write()
        for fault in finished:
            if isinstance(fault, BaseException):
                raise fault

    def _next_slice(self) -> list[Ended | BaseException]:
        """Wait for a document, and for those that end while it is too early to write; whoever is alone waits not."""
        finished: list[Ended | BaseException] = []
        wait_s = LONGEST_IDLE_S
        with suppress(Empty):
            while len(finished) < self._in_hand and wait_s > 0:
                finished.append(self._finished.get(timeout=wait_s))
                wait_s = self._wrote_at + SLICE_S - time.monotonic()
        return finished

    def _write(self) -> None:
        """Write what was gathered; kept until then, since an interruption may come at any place of this thread."""
        if self._unwritten:
            self._rows.end(self._unwritten)
            self._unwritten = []
            self._wrote_at = time.monotonic()

    def _write_rest(self) -> None:
        """Write what ended while the worker was being stopped; what cannot be is given back with all that is held."""
        while not self._finished.empty():
            one = self._finished.get()
            self._unwritten += [one] if isinstance(one, Ended) else []
        try:
            self._write()
        except Exception:
            log.exception("documents that were parsed while the worker stopped are given back")

    def _work(self, task: Task) -> None:
        if self._stop.is_set():
            return
        try:
            self._finished.put(self._ended(task))
        except BaseException as error:  # noqa: BLE001 - raised by the thread that writes
            self._finished.put(error)

    def _ended(self, task: Task) -> Ended:
        outcome = self._submit(task) if task.claim.row["provider"] == REDUCTO else self._parse(task)
        if not isinstance(outcome, ParsedDocument):
            return Ended(claim=task.claim, outcome=outcome)
        digest = self._tools.parsed.put(task.claim.row["parse_key"], outcome)
        return Ended(claim=task.claim, outcome=parsed_values(outcome, digest))

    def _parse(self, task: Task) -> ParsedDocument | ParseFailure:
        self._tools.failpoints(Failpoint.READ_SOURCE)
        row = task.claim.row
        return self._originals.parse(task.document_key, row["content_hash"], self._parsers.named(row["provider"]))

    def _submit(self, task: Task) -> ParseFailure | None:
        """Read and submit; None when the row has ended, or is the job's. A line that stops leaves it to be released."""
        self._tools.failpoints(Failpoint.READ_SOURCE)
        data = self._originals.read(task.document_key, task.claim.row["content_hash"])
        return data if isinstance(data, ParseFailure) else self._submitter.submit(task.claim, data, task.document_key)
