"""Four worker processes on one extraction run: each call is made once, and the work is shared evenly.

The documents are the same text under different names, so that one parsing serves all of them, and the time goes into what is
looked at here. ``RACE_DOCUMENTS=2000`` makes it the long run.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Order
from extraction_core.failpoints import Failpoint
from tests import processes
from tests.ledger.support import only_postgres

if TYPE_CHECKING:
    import pytest

    from tests.workplace import Workplace

WORKERS = 4
DOCUMENTS = int(os.environ.get("RACE_DOCUMENTS", "300"))
FAIR_SHARE = 0.1
TEXT = "Model: R770\n\nPrice USD: 1000\n"


class FirstClaim(processes.Meeting):
    """Failpoints at which the workers wait for each other with their first claims in hand, not yet committed."""

    def __call__(self, name: Failpoint) -> None:
        """Wait before the commit of the first claim."""
        if name == Failpoint.COMMIT_CLAIM and next(self._passes) == 0:
            self._barrier.wait(processes.WAIT_S)


@only_postgres
def test_four_processes_on_one_run_make_every_call_once_and_each_does_a_fair_share(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"dell/{number:04d}.txt": TEXT for number in range(DOCUMENTS)}
    collection = workplace.collection(files, concurrency=8)
    workplace.run(collection, Order(extract=False))
    meeting, children = FirstClaim(WORKERS), []
    for worker in range(WORKERS):
        monkeypatch.setenv("ANTHROPIC_API_KEY", f"key-of-worker-{worker}")  # the log tells by whose key a call was made
        children.append(workplace.child(collection, meeting))
    assert [processes.end_of(child) for child in children] == [0] * WORKERS

    log, books = workplace.sandbox.requests(), workplace.books
    assert books.statuses() == {"completed": DOCUMENTS}
    assert len(books.runs) == len(books.parse_runs) == 1
    called = sorted(request["request_id"] for request in log if request["path"] == "/v1/messages")
    assert called == sorted(attempt["request_id"] for attempt in books.attempts)
    assert len(called) == len({attempt["document_id"] for attempt in books.attempts}) == DOCUMENTS
    shares = Counter(request["api_key_fingerprint"] for request in log)
    assert len(shares) == WORKERS
    assert min(shares.values()) >= FAIR_SHARE * DOCUMENTS, shares
    assert books.runs[0]["cost_usd"] == workplace.sandbox.billed_usd
    books.assert_settled()
