"""The steps of a row that are done for many rows at once: each is one transaction per slice.

What is sliced is how the ledger is written to, never in which order: a row's attempt is committed before its call, its
answer before anything is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from extraction_assets.workers.asking import Ready, RequestSize
from extraction_assets.workers.loading import NotLoaded
from extraction_assets.workers.row_end import RowEnd
from extraction_assets.workers.slices import InThread, Slices
from extraction_assets.workers.tools import Tools
from extraction_core.calls import CallFailed
from extraction_core.shares import SHARES, in_shares
from resources.ledger.attempts import Answer, AttemptPlan, Opening, Order
from resources.recorder import Recording

DISK_THREADS = SHARES
"""Files read, written and synced at a time: each waits for the disk."""
PREPARED_AT_ONCE = 8
"""Requests may be megabytes: the first calls should not wait until the last ones are made."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request that may be sent, how large it is, and what is written down of its attempt."""

    ready: Ready
    size: RequestSize
    plan: AttemptPlan


Preparation = Callable[[], Prepared | NotLoaded]
"""Makes a request; may take a while."""


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """A kept answer from which file and row are to be made."""

    end: RowEnd
    attempt_id: int
    body: str


class Steps:
    """The sliced steps of one event loop; close them when nothing asks any more.

    Attributes:
        prepare: makes requests.
        open: opens attempts.
        keep: keeps answers, by the tokens of their attempts.
        derive: judges kept answers, writes files and rows; gives back why one cannot be used.
    """

    def __init__(self, tools: Tools, max_attempts: int, in_thread: InThread) -> None:
        self._tools, self._max_attempts = tools, max_attempts
        self._disk_threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self.prepare = Slices[Preparation, Prepared | NotLoaded](
            self._prepare, in_thread, PREPARED_AT_ONCE, may_be_dropped=True
        )
        self.open = Slices[Order, Opening](self._open, in_thread, may_be_dropped=True)
        self.keep = Slices[tuple[str, Answer], None](self._keep, in_thread)
        self.derive = Slices[Derivation, CallFailed | None](self._derive, in_thread)

    async def close(self) -> None:
        """Wait for what was asked for and not waited for: an answer that was paid for is kept whoever was cut off."""
        for one in (self.prepare, self.open, self.keep, self.derive):
            await one.drain()
        self._disk_threads.shutdown()

    def _prepare(self, preparations: Sequence[Preparation]) -> list[Prepared | NotLoaded | Exception]:
        def make(one: Preparation) -> Prepared | NotLoaded | Exception:
            try:
                return one()
            except Exception as error:  # noqa: BLE001 - raised where it was asked for
                return error

        return in_shares(self._disk_threads, make, preparations)  # an original may be far away, or to be parsed again

    def _open(self, orders: Sequence[Order]) -> list[Opening]:
        return self._tools.ledger.attempts.open_all(orders, self._max_attempts)

    def _keep(self, answers: Sequence[tuple[str, Answer]]) -> list[None]:
        self._tools.ledger.attempts.answered_all(dict(answers))
        return [None] * len(answers)

    def _derive(self, derivations: Sequence[Derivation]) -> list[CallFailed | Exception | None]:
        """Judge, then write the good ones together.

        Raises:
            OutputStoreError: a file could not be put in place; nothing was changed.
        """
        judged = [one.end.judge(one.attempt_id, one.body) for one in derivations]
        good = [one for one in judged if isinstance(one, Recording)]
        at_fault = self._tools.recorder.record_all(good, self._disk_threads) if good else {}
        return [at_fault.get(one.held) if isinstance(one, Recording) else one for one in judged]
