"""A worker's life: registered before its first step, beating on a thread of its own until it leaves.

The thread extends the leases of everything that is held, so neither a slow call nor a busy event loop loses a claim.
A worker whose beat was not acknowledged for two thirds of the lease opens no new call: by then its rows may be
somebody else's soon.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from types import TracebackType
from typing import Self

from extraction_core.settings import Timing
from resources.ledger import Ledger
from resources.ledger.claims import Held
from resources.ledger.queue import WorkQueue
from resources.ledger.workers import WorkerIdentity

log = logging.getLogger(__name__)


class WorkerSession:
    """One worker of one document set. Use as a context manager.

    Args:
        ledger: the ledger.
        timing: lease and heartbeat.
        collection: the collection's name.
        set_id: the document set.
        dagster_run_id: the Dagster run that this work belongs to, if any.
    """

    def __init__(
        self, ledger: Ledger, timing: Timing, *, collection: str, set_id: int, dagster_run_id: str | None
    ) -> None:
        self.identity = WorkerIdentity(
            worker_id=str(uuid.uuid4()),
            collection=collection,
            host=socket.gethostname(),
            pid=os.getpid(),
            dagster_run_id=dagster_run_id,
        )
        self._ledger, self._timing, self._set_id = ledger, timing, set_id
        self._lock = threading.Lock()
        self._held: dict[WorkQueue, set[Held]] = {}
        self._cancelled: set[Held] = set()
        self._acknowledged = time.monotonic()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_left, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        """Register and begin to beat."""
        self._ledger.workers.begin(self.identity, self._set_id, self._timing.lease_s)
        self._acknowledged = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give back what is still held, stop beating, sign off."""
        self._leave.set()
        self._thread.join()
        self.release_all()
        self._ledger.workers.end(self.identity.worker_id)

    @property
    def worker_id(self) -> str:
        """The id that claims are made under."""
        return self.identity.worker_id

    @property
    def is_fresh(self) -> bool:
        """Whether the last acknowledged beat is young enough to begin something that costs money."""
        return time.monotonic() - self._acknowledged < self._timing.fresh_s

    def hold(self, queue: WorkQueue, held: Held) -> None:
        """Begin to extend the lease of a claimed row."""
        with self._lock:
            self._held.setdefault(queue, set()).add(held)

    def drop(self, queue: WorkQueue, held: Held) -> None:
        """Stop extending the lease of a row that ended or was given back."""
        with self._lock:
            self._held.get(queue, set()).discard(held)
            self._cancelled.discard(held)

    def is_cancelled(self, held: Held) -> bool:
        """Whether a held row was asked to cancel, as far as the last beat knows."""
        return held in self._cancelled

    def release_all(self) -> None:
        """Give back every held row; one that was asked to cancel ends cancelled."""
        for queue, held in self._snapshot().items():
            queue.release(held)
            for claim in held:
                self.drop(queue, claim)

    def beat(self) -> None:
        """Beat once: the worker's row, then the leases of what it holds."""
        before = time.monotonic()
        self._ledger.workers.beat(self.worker_id, self._timing.lease_s)
        for queue, held in self._snapshot().items():
            owned = queue.heartbeat(sorted(held), self._timing.lease_s)
            with self._lock:
                self._cancelled |= {claim for claim in held if owned.get(claim.row_id)}
                lost = {claim for claim in held if claim.row_id not in owned} & self._held[queue]
                self._held[queue] -= lost
            for claim in lost:
                log.info("row %s is superseded: its lease was lost", claim.row_id)
        self._acknowledged = before

    def _snapshot(self) -> dict[WorkQueue, set[Held]]:
        with self._lock:
            return {queue: set(held) for queue, held in self._held.items() if held}

    def _beat_until_left(self) -> None:
        while not self._leave.wait(self._timing.heartbeat_s):
            try:
                self.beat()
            except Exception:  # a missed beat must not end the beating; freshness tells the rest
                log.exception("the heartbeat was not acknowledged")
