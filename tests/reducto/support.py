"""A workplace whose documents are parsed by the sandbox's Reducto, and the clock that its jobs live by."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from extraction_assets.workers.orders import Order
from extraction_core.failpoints import Failpoints, no_failpoints
from extraction_core.settings import Timing
from resources.ledger import Ledger
from resources.ledger.parse_jobs import OWNER
from resources.ledger.reservations import BATCH_LEASE_MS
from resources.ledger.tables import extraction_results, parse_runs, workers
from resources.output import ParsedStore
from sensors.parse_watch import look_after_parse_jobs
from tests import processes
from tests.factories import a_tools
from tests.workplace import TIMING, Workplace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.context import ForkServerProcess

    from extraction_core.collection import Collection

SETTLE_S = Timing().batch_settle_s
LONG_S = SETTLE_S + 120.0
"""Longer than the settle time and the longest submission: what is not in the list by then was not made."""
SUBMIT = "POST /parse_async"
LOOK = "GET /job/{id}"
NOTHING_SENT_TWICE = {"fault": None}


def pages(*texts: str) -> str:
    """Return a document that the sandbox parses into these pages."""
    return "\f".join(texts)


class ParsePlace(Workplace):
    """Runs document sets whose parser is the service."""

    def tools(self, failpoints: Failpoints = no_failpoints, **timing: float) -> Any:
        """Open tools that build their parse providers by name; close them after use."""
        return a_tools(self.home, self.database_url, failpoints=failpoints, **{**TIMING, **timing})

    def one(self, key: str = "dell/r700.md", content: str = "# R700\n\nModel: R700\n\nPrice USD: 1000\n") -> Collection:
        """Write one document and return its collection."""
        return self.collection({key: content}, parse="reducto")

    @property
    def job(self) -> dict[str, Any]:
        """The only parse run."""
        (row,) = self.books.parse_runs
        return row

    def later(self, seconds: float) -> None:
        """Let time go by for jobs too: the service's by its own clock, ours by moving what the ledger holds back."""
        super().later(seconds)
        moved = int(seconds * 1000)
        times = [column for column in parse_runs.c if column.name.endswith("_ms") and column.name != "finished_ms"]
        values = {column: sa.case((column > BATCH_LEASE_MS - 1, column), else_=column - moved) for column in times}
        self.books.ledger.engine.write(lambda connection: connection.execute(sa.update(parse_runs).values(values)))

    def expire_leases(self) -> None:
        """Let the lease of everything run out that a process held; a job's never does."""

        def transaction(connection: sa.Connection) -> None:
            for table in (extraction_results, parse_runs):
                held = sa.and_(table.c.lease_expires_ms.is_not(None), table.c.owner != OWNER)
                connection.execute(sa.update(table).where(held).values(lease_expires_ms=1))
            connection.execute(sa.update(workers).values(lease_expires_ms=1, beat_ms=1))

        self.books.ledger.engine.write(transaction)

    def look(self) -> list[str]:
        """Look at the jobs that are due, as the poller does. Returns what was found of each."""
        looked = look_after_parse_jobs(self.books.ledger, ParsedStore(self.home / "parsed"), settle_s=SETTLE_S)
        return [one.found for one in looked]

    def look_in_child(self, failpoints: Failpoints = no_failpoints) -> ForkServerProcess:
        """Start the same in a child process."""
        return processes.start(look_in_child, str(self.home), self.database_url, dict(os.environ), failpoints)

    def parse_only(self, collection: Collection) -> Any:
        """Run a pass that only parses."""
        return self.run(collection, Order(extract=False))

    def submits(self) -> list[dict[str, Any]]:
        """Return the submissions that reached the service."""
        return [one for one in self.sandbox.requests() if one["path"] == "/parse_async"]

    def assert_one_of_each(self, credits_used: str = "1.1") -> None:
        """One job was made, one parse is completed, one cost is known, and it is the service's."""
        books, row = self.sandbox.parse_jobs(), self.job
        assert [job["job_id"] for job in books["jobs"]] == [row["job_id"]]
        assert (row["status"], row["job_state"]) == ("completed", "completed")
        assert (row["job_pages"], f"{row['job_credits'].normalize():f}") == (books["pages"], credits_used)
        assert books["credits"] == credits_used


def look_in_child(home: str, database_url: str, environment: Mapping[str, str], failpoints: Failpoints) -> None:
    """Look at the jobs that are due, in this process."""
    os.environ.update(environment)
    with closing(Ledger(database_url, failpoints)) as ledger:
        look_after_parse_jobs(ledger, ParsedStore(Path(home) / "parsed", failpoints), settle_s=SETTLE_S)
