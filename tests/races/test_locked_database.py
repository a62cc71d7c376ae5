"""SQLite under several processes, a reader that never stops, and somebody's shell that holds the write lock.

The shell takes the lock when every worker has an answer in hand that is paid for and not yet kept. ``RACE_WORKERS=16
RACE_DOCUMENTS=2000 RACE_LOCK_S=20`` makes it the long run.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import sqlalchemy as sa

from extraction_assets.workers.orders import Order
from extraction_core.failpoints import Failpoint
from tests import processes
from tests.ledger.support import only_sqlite

if TYPE_CHECKING:
    import pytest

    from tests.workplace import Workplace

WORKERS = int(os.environ.get("RACE_WORKERS", "3"))
DOCUMENTS = int(os.environ.get("RACE_DOCUMENTS", "30"))
LOCKED_S = float(os.environ.get("RACE_LOCK_S", "0.5"))
TEXT = "Model: R770\n\nPrice USD: 1000\n"


class AnswersInHand(processes.Meeting):
    """Failpoints at which everybody waits, with a first answer in hand, until the lock is taken."""

    def __call__(self, name: Failpoint) -> None:
        """Tell that the answer has come, and wait."""
        if name == Failpoint.PROVIDER_ANSWERED and next(self._passes) == 0:
            self.meet()
            self.meet()

    def meet(self) -> None:
        """Wait until everybody is here."""
        self._barrier.wait(processes.WAIT_S)


@only_sqlite
def test_a_lock_that_is_held_for_long_delays_what_was_paid_for_and_costs_nothing(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "WAIT_S", 100.0 + DOCUMENTS)
    files = {f"dell/{number:04d}.txt": TEXT for number in range(DOCUMENTS)}
    collection = workplace.collection(files, concurrency=4)
    workplace.run(collection, Order(extract=False))
    meeting = AnswersInHand(WORKERS + 1)
    children = [workplace.child(collection, meeting) for _ in range(WORKERS)]

    meeting.meet()
    with closing(sqlite3.connect(sa.make_url(workplace.database_url).database or "", timeout=60)) as shell:
        shell.isolation_level = None
        shell.execute("BEGIN IMMEDIATE")
        meeting.meet()
        time.sleep(LOCKED_S)  # no waiting for anybody: this is the fault
        assert not [one for one in workplace.books.attempts if one["status"] == "answered"]
        shell.execute("ROLLBACK")
    while any(child.is_alive() for child in children):
        assert workplace.books.ledger.reports.sets(collection.name)
        children[0].join(0.05)

    assert [processes.end_of(child) for child in children] == [0] * WORKERS
    books, log = workplace.books, workplace.sandbox.requests()
    assert books.statuses() == {"completed": DOCUMENTS}
    called = sorted(request["request_id"] for request in log if request["path"] == "/v1/messages")
    assert called == sorted(attempt["request_id"] for attempt in books.attempts)
    assert len(called) == DOCUMENTS
    assert books.runs[0]["cost_usd"] == workplace.sandbox.billed_usd
    books.assert_settled()
