"""A ledger from before the rule of one active result per document is put in order when it is opened."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from resources.ledger import Ledger
from resources.ledger.engine import LedgerEngine
from resources.ledger.migrate import MIGRATIONS
from resources.ledger.tables import document_sets, documents, extraction_results, extraction_runs
from resources.ledger.types import now_ms
from tests.factories import claim_one, complete, fingerprint
from tests.ledger.support import one_row, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = (1, 2, 3)
LONG_S = 600_000


def at_revision(engine: LedgerEngine, revision: str) -> None:
    """Migrate an empty database up to a revision."""

    def upgrade(connection: sa.Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine.write(upgrade)


class OldLedger:
    """A ledger of revision 0001 in which documents are active in several runs at once, one run for each set.

    A document comes into two runs when the rule that groups documents into sets is changed while they are open.
    """

    def __init__(self, engine: LedgerEngine) -> None:
        self._engine = engine
        self._now_ms = engine.read(lambda connection: connection.execute(sa.select(now_ms())).scalar_one())
        for number in RUNS:
            self._insert(
                document_sets,
                set_id=number,
                collection="servers",
                partition_key=f"k{number}",
                folder=f"f{number}",
                created_ms=1,
            )
            self._insert(
                extraction_runs,
                run_id=number,
                set_id=number,
                collection="servers",
                selection="pending",
                model="m",
                opened_ms=1,
                sealed=True,
                sealed_ms=1,
                request_count=0,
            )

    def document(self, name: str, *, asked: bool = True) -> int:
        """Register a document, which was read unless told otherwise. Returns its id."""
        found = fingerprint(name) if asked else None
        return self._insert(
            documents, set_id=1, collection="servers", document_key=name, size_bytes=1, signature="1", read_signature="1",
            content_hash=found, input_fingerprint=found, registered_ms=1,
        )  # fmt: skip

    def result(self, document_id: int, name: str, run_id: int, *, lease_s: float | None = None, **changes: Any) -> int:
        """Add a row to a run: queued, or running with a lease that has so many seconds left. Returns its id."""
        values: dict[str, Any] = {
            "run_id": run_id, "document_id": document_id, "collection": "servers", "document_key": name,
            "input_fingerprint": fingerprint(name), "edition": 0, "created_ms": 1, "status": "queued",
        }  # fmt: skip
        if lease_s is not None:
            values |= {"status": "running", "owner": "w", "lease_expires_ms": self._now_ms + int(lease_s * 1000)}
        run = extraction_runs.c
        self._execute(
            sa.update(extraction_runs).where(run.run_id == run_id).values(request_count=run.request_count + 1)
        )
        return self._insert(extraction_results, **{**values, **changes})

    def _insert(self, table: sa.Table, **values: Any) -> int:
        key = next(iter(table.primary_key.columns))
        return self._engine.write(
            lambda connection: connection.execute(sa.insert(table).values(**values).returning(key)).scalar_one()
        )

    def _execute(self, statement: sa.Executable) -> None:
        self._engine.write(lambda connection: connection.execute(statement))


@pytest.fixture
def engine(bare_database_url: str) -> Iterator[LedgerEngine]:
    """A database of revision 0001 without rows."""
    with closing(LedgerEngine(bare_database_url)) as engine:
        at_revision(engine, "0001")
        yield engine


@pytest.fixture
def old(engine: LedgerEngine) -> OldLedger:
    """Its rows."""
    return OldLedger(engine)


def states(ledger: Ledger, document_id: int) -> list[tuple[str, str | None]]:
    """Status and reason of a document's results, oldest first."""
    return [
        (row["status"], row["reason"]) for row in rows(ledger, "extraction_results", f"document_id = {document_id}")
    ]


def test_of_several_active_results_the_one_that_is_worked_on_stays_and_else_the_newest(
    old: OldLedger, bare_database_url: str
) -> None:
    worked_on, abandoned, waiting, alone, done = (old.document(name) for name in "abcde")
    old.result(worked_on, "a", 1)
    old.result(worked_on, "a", 2, lease_s=LONG_S)
    old.result(worked_on, "a", 3)
    old.result(abandoned, "b", 1, lease_s=-LONG_S)
    old.result(abandoned, "b", 2)
    old.result(waiting, "c", 1)
    old.result(waiting, "c", 3)
    old.result(alone, "d", 1, lease_s=-LONG_S)
    old.result(done, "e", 1, status="completed", finished_ms=1, output_sha256=fingerprint("file"))
    old.result(done, "e", 2)
    with closing(Ledger(bare_database_url)) as ledger:
        duplicate = ("cancelled", "duplicate")
        assert states(ledger, worked_on) == [duplicate, ("running", None), duplicate]
        assert states(ledger, abandoned) == [duplicate, ("queued", None)]
        assert states(ledger, waiting) == [duplicate, ("queued", None)]
        assert states(ledger, alone) == [("running", None)]
        assert states(ledger, done) == [("completed", None), ("queued", None)]


def test_afterwards_the_database_refuses_a_second_active_result(old: OldLedger, bare_database_url: str) -> None:
    document = old.document("a")
    old.result(document, "a", 1)
    old.result(document, "a", 2)
    Ledger(bare_database_url).close()
    with pytest.raises(sa.exc.IntegrityError, match=r"ux_extraction_results_active|document_id"):
        old.result(document, "a", 3)


def test_runs_that_lost_rows_this_way_close_with_counts_that_balance(old: OldLedger, bare_database_url: str) -> None:
    for name in "abc":
        document = old.document(name)
        for run_id in (1, 2):
            old.result(document, name, run_id)
    old.result(old.document("d"), "d", 1)
    with closing(Ledger(bare_database_url)) as ledger:
        for run_id, left in ((1, 1), (2, 3)):
            for _ in range(left):
                complete(ledger, claim_one(ledger, run_id))
            assert ledger.finalize(run_id)
        first, second = (one_row(ledger, "extraction_runs", f"run_id = {run_id}") for run_id in (1, 2))
    counts = ("request_count", "completed_count", "failed_count", "cancelled_count")
    assert [first[name] for name in counts] == [4, 1, 0, 3]
    assert [second[name] for name in counts] == [3, 3, 0, 0]


def test_documents_that_were_never_asked_for_are_due_and_no_others(old: OldLedger, bare_database_url: str) -> None:
    old.result(old.document("asked"), "asked", 1)
    old.document("never asked")
    old.document("never read", asked=False)
    with closing(Ledger(bare_database_url)) as ledger:
        due = [row["document_key"] for row in rows(ledger, "documents", "due_since_ms IS NOT NULL")]
    assert due == ["never asked", "never read"]
