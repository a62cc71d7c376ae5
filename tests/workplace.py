"""A place to run document sets: a home, a ledger, a sandbox, and the questions that tests ask of them afterwards.

Documents are parsed by the real provider; its server is started once for all tests of a process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import sqlalchemy as sa

from extraction_assets.workers.orders import Order, Report, Result
from extraction_assets.workers.prepare import scan
from extraction_assets.workers.set_run import SetRun
from extraction_assets.workers.tools import Tools
from extraction_core.failpoints import Failpoints, no_failpoints
from extraction_core.fingerprints import sha256_hex
from extraction_core.settings import Timing
from resources.ledger import Ledger
from resources.ledger.reservations import BATCH_LEASE_MS
from resources.ledger.tables import (
    attempts,
    documents,
    extraction_results,
    extraction_runs,
    message_batches,
    parse_runs,
    workers,
)
from resources.parsing import LocalParseProvider
from sensors.batch_watch import look_after_batches
from tests import processes
from tests.factories import a_collection, a_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal
    from multiprocessing.context import ForkServerProcess

    from extraction_core.collection import Collection
    from extraction_core.parsing import ParseProvider
    from tests.sandbox_server import SandboxServer

ON_ONE_DATABASE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For tests of what is decided before the ledger is asked: the other database would only repeat them."""

MOST_ROUNDS = 12
ROUND_S = 1000.0
"""Longer than the settle time of a reservation."""

TIMING = {
    "lease_s": 300.0,
    "heartbeat_s": 5.0,
    "request_timeout_s": 20.0,
    "retry_in_run_s": 60.0,
    "cancel_grace_s": 0.3,
}


class KeptOpen(LocalParseProvider):
    """A parse provider that outlives the set runs that use it."""

    def __exit__(self, *_: object) -> None:
        """Stay open: other tests go on with the same server."""


@dataclass(frozen=True, kw_only=True)
class ToolsOfTests(Tools):
    """Tools whose documents are parsed by a provider that is open already."""

    provider: ParseProvider

    def parse_provider(self, name: str) -> ParseProvider:
        """Return the open provider."""
        assert name == self.provider.name
        return self.provider


class Books:
    """What the ledger and the folder of results say, read only.

    Args:
        ledger: an open ledger.
        home: the home of the files.
    """

    def __init__(self, ledger: Ledger, home: Path) -> None:
        self.ledger, self.home = ledger, home

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        """Return all rows of a table, in the order of their primary key."""
        statement = sa.select(table).order_by(*table.primary_key)
        return self.ledger.engine.read(
            lambda connection: [dict(row) for row in connection.execute(statement).mappings()]
        )

    @property
    def results(self) -> list[dict[str, Any]]:
        """All extraction results."""
        return self.rows(extraction_results)

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """All attempts."""
        return self.rows(attempts)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """All extraction runs."""
        return self.rows(extraction_runs)

    @property
    def documents(self) -> list[dict[str, Any]]:
        """All documents."""
        return self.rows(documents)

    @property
    def parse_runs(self) -> list[dict[str, Any]]:
        """All parse runs."""
        return self.rows(parse_runs)

    @property
    def workers(self) -> list[dict[str, Any]]:
        """All workers."""
        return self.rows(workers)

    @property
    def batches(self) -> list[dict[str, Any]]:
        """All message batches."""
        return self.rows(message_batches)

    def statuses(self) -> dict[str, int]:
        """Return how many extraction results are in each status."""
        found = [row["status"] for row in self.results]
        return {status: found.count(status) for status in sorted(set(found))}

    def result(self, document_key: str) -> dict[str, Any]:
        """Return the newest result of a document."""
        return [row for row in self.results if row["document_key"].endswith(document_key)][-1]

    def output(self, document_key: str) -> Path:
        """Return where a document's result stands."""
        return self.home / "outputs" / self.result(document_key)["output_path"]

    @property
    def known_cost(self) -> Decimal:
        """The sum of all known costs."""
        return self.ledger.reports.total_usage()["cost_usd"]

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Return time and content of every result on disk, by its path."""
        found = sorted((self.home / "outputs").rglob("extraction.json"))
        return {
            path.relative_to(self.home / "outputs").as_posix(): (path.stat().st_mtime_ns, path.read_bytes())
            for path in found
        }

    def temp_files(self) -> list[Path]:
        """Return what writers left behind."""
        return list(self.home.rglob(".t-*"))

    def assert_settled(self) -> None:
        """Every run is closed with counts and sums that fit its rows, and every file is what its row says."""
        for run in self.runs:
            mine = [row["status"] for row in self.results if row["run_id"] == run["run_id"]]
            spent = [row["cost_usd"] for row in self.attempts if row["run_id"] == run["run_id"]]
            assert run["status"] != "open"
            assert len(mine) == run["request_count"]
            for status in ("completed", "failed", "cancelled"):
                assert mine.count(status) == run[f"{status}_count"]
            assert sum(cost for cost in spent if cost is not None) == run["cost_usd"]
            assert spent.count(None) == run["unknown_cost_count"]
        newest = {row["output_path"]: row["output_sha256"] for row in self.results if row["status"] == "completed"}
        assert newest == {path: self._sha256(path) for path in self.files()}
        assert self.temp_files() == []

    def _sha256(self, path: str) -> str:
        return sha256_hex((self.home / "outputs" / path).read_bytes())


class Workplace:
    """Runs document sets as the assets do, and opens the books.

    Args:
        folder: for documents and home.
        database_url: an empty ledger of the newest schema.
        sandbox: the provider.
        parser: an open parse provider.
    """

    def __init__(self, folder: Path, database_url: str, sandbox: SandboxServer, parser: ParseProvider) -> None:
        self.folder, self.database_url, self.sandbox, self._parser = folder, database_url, sandbox, parser
        self.home, self.source = folder / "home", folder / "docs"
        self.said: list[str] = []
        self.books = Books(self.tools().ledger, self.home)

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the books."""
        self.books.ledger.close()

    def collection(self, files: Mapping[str, str | bytes] | None = None, **changes: Any) -> Collection:
        """Write documents (three by default, none if ``files`` is empty) and return a collection of them."""
        return a_collection(self.source, files, **changes)

    def tools(self, failpoints: Failpoints = no_failpoints, **timing: float) -> ToolsOfTests:
        """Open tools; close them after use."""
        opened = a_tools(self.home, self.database_url, failpoints=failpoints, **{**TIMING, **timing})
        return ToolsOfTests(**vars(opened), provider=self._parser)

    def run(
        self,
        collection: Collection,
        order: Order | None = None,
        *,
        failpoints: Failpoints = no_failpoints,
        **timing: float,
    ) -> Report:
        """Run the one document set of a collection, as a process of its own would."""
        tools = self.tools(failpoints, **timing)
        try:
            return set_run(tools, collection, order or Order(), self.said.append).run()
        finally:
            tools.close()

    def child(
        self,
        collection: Collection,
        failpoints: Failpoints = no_failpoints,
        *,
        cancelled: bool = False,
        **timing: float,
    ) -> ForkServerProcess:
        """Start the same in a child process.

        Args:
            collection: what to run.
            failpoints: a function or object of a module, since it is pickled.
            cancelled: what the child is told when it asks whether a person cancelled it.
            timing: times that differ from the usual ones.
        """
        arguments = (str(self.home), self.database_url, dict(os.environ), collection, failpoints, cancelled)
        return processes.start(run_in_child, *arguments, {**TIMING, **timing})

    def watching_child(self, collection: Collection, failpoints: Failpoints) -> ForkServerProcess:
        """Start a look after the batches that are due in a child process."""
        return processes.start(watch_in_child, self.database_url, dict(os.environ), collection.name, failpoints)

    def expire_leases(self) -> None:
        """Let every lease run out, as if the clock had gone on and nobody had beaten."""

        def transaction(connection: sa.Connection) -> None:
            for table in (extraction_results, parse_runs):
                connection.execute(
                    sa.update(table).where(table.c.lease_expires_ms.is_not(None)).values(lease_expires_ms=1)
                )
            connection.execute(sa.update(workers).values(lease_expires_ms=1, beat_ms=1))

        self.books.ledger.engine.write(transaction)

    def later(self, seconds: float) -> None:
        """Let time go by: for the provider's batches by its own clock, in the ledger by moving what it holds back."""
        self.sandbox.advance(seconds)
        moved = int(seconds * 1000)

        def transaction(connection: sa.Connection) -> None:
            for table in (extraction_results, message_batches, workers, documents):
                times = [column for column in table.c if column.name.endswith("_ms") and column.name != "finished_ms"]
                values = {
                    column: sa.case((column > BATCH_LEASE_MS - 1, column), else_=column - moved) for column in times
                }
                connection.execute(sa.update(table).values(values))

        self.books.ledger.engine.write(transaction)

    def watch(self, collection: Collection) -> list[str]:
        """Look after the batches that are due, as the poller does. Returns what was found of each."""
        looked = look_after_batches(self.books.ledger, collection.name, settle_s=Timing().batch_settle_s)
        return [one.found for one in looked]

    def finish(self, collection: Collection, **timing: float) -> Report:
        """Let time go by, look after batches and run, again and again, until the extraction run is closed."""
        for _ in range(MOST_ROUNDS):
            self.later(ROUND_S)
            self.watch(collection)
            report = self.run(collection, **timing)
            if report.result is not Result.SUBMITTED:
                return report
        message = f"still not closed after {MOST_ROUNDS} rounds: {self.books.batches}"
        raise AssertionError(message)

    def calls(self) -> list[dict[str, Any]]:
        """Return the requests for messages, in order of arrival."""
        return [request for request in self.sandbox.requests(bodies=True) if request["path"] == "/v1/messages"]


def run_in_child(  # noqa: PLR0917 - by position, as a child's arguments are
    home: str,
    database_url: str,
    environment: Mapping[str, str],
    collection: Collection,
    failpoints: Failpoints,
    cancelled: bool,  # noqa: FBT001 - the same
    timing: Mapping[str, float],
) -> None:
    """Run the one document set of a collection in this process."""
    os.environ.update(environment)
    tools = a_tools(Path(home), database_url, failpoints=failpoints, **timing)
    set_run(tools, collection, Order(is_cancelled=lambda: cancelled), lambda _line: None).run()
    tools.close()


def watch_in_child(database_url: str, environment: Mapping[str, str], collection: str, failpoints: Failpoints) -> None:
    """Look after a collection's batches in this process."""
    os.environ.update(environment)
    look_after_batches(Ledger(database_url, failpoints), collection, settle_s=Timing().batch_settle_s)


def set_run(tools: Tools, collection: Collection, order: Order, say: Callable[[str], None]) -> SetRun:
    """Register a collection that has one document set, and return a pass over it."""
    scan(tools, collection)
    (document_set,) = tools.ledger.documents.sets(collection.name)
    return SetRun(tools, collection, document_set, order, say)
