"""Does each verb of the queue to a ledger and to its model, and holds what they say against each other."""

from __future__ import annotations

from concurrent.futures import Executor
from itertools import count
from typing import TYPE_CHECKING

import sqlalchemy as sa

from extraction_core.states import RunStatus, Select
from resources.ledger.claims import Held
from resources.ledger.tables import extraction_results
from tests.factories import a_request, a_selection, a_set
from tests.ledger.model import LEASE_S, Model
from tests.ledger.model_checks import look
from tests.ledger.model_rows import ModelRow, ModelRun
from tests.ledger.support import execute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.ledger import Ledger
    from resources.ledger.results import Failed

DOCUMENTS = 4
MAX_ATTEMPTS = 2
# No sum of jumps is near a sum of leases or waits: what is expired or due does not hang on how fast the machine is.
JUMP_S = 20_000.0
LONG_WAIT_S = 50_000.0

numbers = count()


class QueueDriver:
    """Runs and claims of one document set.

    Args:
        ledger: an open ledger.
        threads: put files in place.
    """

    def __init__(self, ledger: Ledger, threads: Executor) -> None:
        self.ledger, self.threads = ledger, threads
        self.set = a_set(ledger, DOCUMENTS, collection=f"example {next(numbers)}")
        documents = [row["document_id"] for row in ledger.documents.of_set(self.set.set_id)]
        self.model = Model(documents=documents, max_attempts=MAX_ATTEMPTS)
        self.claims: list[Held] = []
        """All that were ever made."""
        self.tokens: dict[int, str] = {}
        """Of all calls that were ever opened, by attempt."""

    def open_run(self, select: Select = Select.PENDING) -> int:
        """Open a run, or join the open one."""
        opened = self.ledger.runs.open_or_join(a_request(self.set, select=select))
        known = self.model.open_run()
        assert opened.joined is (known is not None)
        if known is None:
            self.model.runs[opened.run_id] = ModelRun(select=select)
        assert opened.run_id == self.model.open_run()
        return opened.run_id

    def fill(self, run_id: int) -> None:
        """Enqueue what a run selects."""
        expected = self.model.to_fill(run_id)
        selection = a_selection(self.set, select=self.model.runs[run_id].select, max_attempts=MAX_ATTEMPTS)
        assert self.ledger.runs.fill(run_id, selection) == len(expected)
        for result_id, row in look(self.ledger, self.set.collection).rows.items():
            if result_id not in self.model.rows:
                document = row["document_id"]
                self.model.rows[result_id] = ModelRow(run_id, document, expected.pop(document))
        assert expected == {}

    def seal(self, run_id: int) -> None:
        """Seal a run."""
        assert self.ledger.runs.seal(run_id) == self.model.seal(run_id)

    def finalize(self, run_id: int) -> None:
        """Close a run, if it may be."""
        closed = self.ledger.finalize(run_id)
        assert (closed is not None) is self.model.finalize(run_id)

    def request_cancel(self, run_id: int) -> None:
        """Ask to cancel a run."""
        assert self.ledger.results.request_cancel(run_id) == self.model.request_cancel(run_id)

    def claim(self, run_id: int, limit: int, worker: str = "ada") -> list[Held]:
        """Claim rows."""
        claimed = [one.held for one in self.ledger.results.claim(worker, run_id, limit, LEASE_S)]
        assert claimed == self.model.claim(worker, run_id, limit)
        self.claims.extend(claimed)
        return claimed

    def heartbeat(self, held: Sequence[Held]) -> None:
        """Extend leases."""
        assert self.ledger.results.heartbeat(held, LEASE_S) == self.model.heartbeat(held)

    def reclaim(self, run_id: int) -> None:
        """Take back what the dead hold."""
        assert self.ledger.results.reclaim(run_id) == self.model.reclaim(run_id)

    def release(self, held: Sequence[Held]) -> None:
        """Give rows back at once."""
        released = [one for one in sorted(held) if self.model.requeue(one, 0) is not None]
        assert self.ledger.results.release(held) == len(released)
        self.let_pass(1)

    def retry(self, held: Held, failed: Failed, wait_s: float = 0.0, *, refused: bool = False) -> None:
        """Give a row back for another try."""
        status = self.ledger.results.record_retry(held, failed, wait_s=wait_s, refused_to_serve=refused)
        assert status == self.model.requeue(held, wait_s, failed, refused=refused)
        self.let_pass(1)

    def let_pass(self, seconds: float) -> None:
        """Move time on, by moving the rows' times back."""
        self.model.now += seconds
        result, moved = extraction_results.c, int(seconds * 1000)
        back = {"due_ms": result.due_ms - moved, "lease_expires_ms": result.lease_expires_ms - moved}
        execute(self.ledger, sa.update(extraction_results).where(result.collection == self.set.collection).values(back))

    def closed_runs(self) -> list[int]:
        """Return the runs that were closed."""
        return [run_id for run_id, run in self.model.runs.items() if run.status is not RunStatus.OPEN]
