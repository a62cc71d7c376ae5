"""How the tests of the ledger look at rows, race threads and stage a lost lease."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from extraction_core.batches import BatchState
from resources.ledger.claims import Held
from resources.ledger.tables import metadata
from resources.ledger.types import now_ms
from tests.factories import LEASE_S, a_failure, a_look, a_run, claim, claim_one, end_as, fingerprint, reserve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from extraction_core.failpoints import Failpoint
    from resources.ledger import Ledger
    from resources.ledger.documents import DocumentSet
    from resources.ledger.group_commit import GroupCommit
    from resources.ledger.queue import WorkQueue

T = TypeVar("T")
PATIENCE_S = 30.0

Row = dict[str, Any]

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
only_postgres = pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)

BATCH_TABLES = ("message_batches", "extraction_results", "attempts", "extraction_runs", "documents")

COMPLETED_VALUES = {
    "extraction_results": {"output_sha256": fingerprint("output")},
    "parse_runs": {"markdown_sha256": fingerprint("markdown")},
}

SETTLE_S = 900.0
SOON_MS = 60_000
"""More than any test takes."""


def together(count: int, action: Callable[[int], T]) -> list[T]:
    """Run an action on so many threads that all start at one moment; returns what each returned, by number."""
    barrier = threading.Barrier(count, timeout=PATIENCE_S)

    def one(number: int) -> T:
        barrier.wait()
        return action(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@contextmanager
def in_background(action: Callable[[], T]) -> Iterator[Future[T]]:
    """Run an action on a thread of its own; its result must be asked for."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(action)


class HoldAt:
    """Failpoints that stop at the first of the named ones until :meth:`go_on`, once."""

    def __init__(self, *names: Failpoint) -> None:
        self._names, self._reached, self._go_on = names, threading.Event(), threading.Event()

    def __call__(self, name: Failpoint) -> None:
        if name in self._names and not self._reached.is_set():
            self._reached.set()
            assert self._go_on.wait(PATIENCE_S)

    def wait(self) -> None:
        """Block until the failpoint is reached."""
        assert self._reached.wait(PATIENCE_S)

    def go_on(self) -> None:
        """Let the one who waits there go on."""
        self._go_on.set()


def wait_until_blocked(postgres_url: str, *, at_least: int = 1, unless: Future[Any] | None = None) -> None:
    """Block until so many connections of the database wait for others' locks (PostgreSQL), or a future is done."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    deadline = monotonic() + PATIENCE_S
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        while connection.execute(f"SELECT ({waiting}) < %s", [at_least]).fetchone() == (True,):
            if unless and unless.done():
                return
            assert monotonic() < deadline, "nobody waits"


def wait_for_company(group: GroupCommit[Any, Any], count: int) -> None:
    """Block until so many calls wait for the next transaction."""
    deadline = monotonic() + PATIENCE_S
    while group.waiting < count:
        assert monotonic() < deadline, "nobody waits"
        sleep(0)


def end(ledger: Ledger, document_set: DocumentSet, *endings: str) -> None:
    """Run over the set and end its documents, by key: completed, failed, exhausted (all attempts used)."""
    run_id = a_run(ledger, document_set)
    for held, ending in zip(claim(ledger, run_id, 3), endings, strict=True):
        end_as(ledger, held, ending)
    ledger.finalize(run_id)


def claim_anew(ledger: Ledger, held: Held) -> Held:
    """Let the lease of a claim run out; return its successor's claim."""
    execute(ledger, f"UPDATE extraction_results SET lease_expires_ms = 1 WHERE result_id = {held.row_id}")  # noqa: S608 - our number
    run_id = ledger.results.get(held.row_id)["run_id"]
    ledger.results.reclaim(run_id)
    return claim_one(ledger, run_id, worker="successor")


def driver_errors(*ledgers: Ledger) -> list[str]:
    """Return a list that fills with every error of the databases' drivers from now on, retried ones included."""
    errors: list[str] = []
    for ledger in ledgers:
        event.listen(ledger.engine.raw, "handle_error", lambda context: errors.append(str(context.original_exception)))
    return errors


def execute(ledger: Ledger, statement: sa.Executable | str) -> None:
    """Run a statement past the ledger's own verbs."""
    text = sa.text(statement) if isinstance(statement, str) else statement
    ledger.engine.write(lambda connection: connection.execute(text))


def rows(ledger: Ledger, table: str, where: str = "1 = 1") -> list[Row]:
    """Return whole rows of a table, by primary key."""
    source = metadata.tables[table]
    statement = sa.select(source).where(sa.text(where)).order_by(*source.primary_key.columns)
    return [dict(row) for row in ledger.engine.read(lambda connection: connection.execute(statement).mappings().all())]


def one_row(ledger: Ledger, table: str, where: str = "1 = 1") -> Row:
    """Return the only row of a table that fits."""
    (row,) = rows(ledger, table, where)
    return row


def contents(ledger: Ledger, *tables: str) -> dict[str, list[Row]]:
    """Return all rows of tables, to be compared: those of batches and what they cover unless told otherwise."""
    return {name: rows(ledger, name) for name in tables or BATCH_TABLES}


def database_now_ms(ledger: Ledger) -> int:
    """Return the database's clock."""
    return ledger.engine.read(lambda connection: connection.execute(sa.select(now_ms())).scalar_one())


@dataclass(frozen=True, kw_only=True)
class Line:
    """One of the two work queues, filled with rows of one scope."""

    ledger: Ledger
    queue: WorkQueue
    table: sa.Table
    scope: int

    @property
    def key(self) -> sa.Column[int]:
        """The primary key of the table."""
        return next(iter(self.table.primary_key.columns))

    def claim(self, limit: int = 1, worker: str = "worker") -> list[Held]:
        """Claim rows."""
        return [item.held for item in self.queue.claim(worker, self.scope, limit, LEASE_S)]

    def claim_one(self, worker: str = "worker") -> Held:
        """Claim one row."""
        (held,) = self.claim(worker=worker)
        return held

    def row(self, row_id: int) -> Row:
        """Return one row."""
        return one_row(self.ledger, self.table.name, f"{self.key.name} = {row_id}")

    def rows(self) -> list[Row]:
        """Return all rows."""
        return rows(self.ledger, self.table.name)

    def set(self, row_id: int, **values: Any) -> None:
        """Change columns of a row past the verbs."""
        execute(self.ledger, sa.update(self.table).where(self.key == row_id).values(**values))

    def expire(self, held: Held) -> None:
        """Let a claim's lease have run out."""
        self.set(held.row_id, lease_expires_ms=1)

    def lose(self, held: Held, to: str = "successor") -> Held:
        """Let a claim's lease run out and another worker claim the row."""
        self.expire(held)
        assert self.queue.reclaim(self.scope) == 1
        self.set(held.row_id, due_ms=0)
        successor = self.claim_one(worker=to)
        assert successor.row_id == held.row_id
        return successor

    def complete(self, held: Held) -> bool:
        """End a row completed."""
        values = COMPLETED_VALUES[self.table.name]
        return self.ledger.engine.write(lambda connection: self.queue.complete(connection, held, values))

    def fail(self, held: Held) -> str | None:
        """End a row failed."""
        return self.ledger.engine.write(
            lambda connection: self.queue.fail(connection, held, reason="refused", message="no", retryable=False)
        )

    def requeue(self, held: Held, wait_s: float = 0.0) -> str | None:
        """Give a row back."""
        return self.ledger.engine.write(lambda connection: self.queue.requeue(connection, held, wait_s=wait_s))

    def heartbeat(self, *held: Held) -> dict[int, bool]:
        """Extend leases."""
        return self.queue.heartbeat(held, LEASE_S)


@dataclass(frozen=True, kw_only=True)
class StagedBatch:
    """A message batch that covers the rows of a run."""

    ledger: Ledger
    run_id: int
    claims: list[Held]
    """The worker's claims, which the batch has taken over."""
    submitter: Held
    nonce: str

    @property
    def batch_id(self) -> int:
        """Its number."""
        return self.submitter.row_id

    @property
    def row(self) -> Row:
        """Its row."""
        return one_row(self.ledger, "message_batches", f"batch_id = {self.batch_id}")

    @property
    def covered(self) -> list[Row]:
        """The rows that were handed to it, whatever became of them."""
        ids = ", ".join(str(claim.row_id) for claim in self.claims)
        return rows(self.ledger, "extraction_results", f"result_id IN ({ids})")

    @property
    def attempts(self) -> list[Row]:
        """The attempts of its requests."""
        return rows(self.ledger, "attempts", f"batch_id = {self.batch_id}")

    def holds(self) -> list[Held]:
        """Return the rows as a collector holds them."""
        return [Held(row["result_id"], row["generation"]) for row in self.covered]

    def set(self, **values: Any) -> None:
        """Change columns of the batch past the verbs."""
        table = metadata.tables["message_batches"]
        execute(self.ledger, sa.update(table).where(table.c.batch_id == self.batch_id).values(**values))

    def take(self, worker: str = "poller") -> Held:
        """Hold it, in whatever state; it must be free."""
        held = self.ledger.batches.take(self.batch_id, worker, LEASE_S, *BatchState)
        assert held is not None
        return held

    def see(self, held: Held, state: BatchState, **changes: Any) -> bool:
        """Keep what a look showed."""
        seen = a_look(state, **{"provider_id": f"msgbatch_{self.batch_id}", **changes})
        return self.ledger.batches.saw(held, seen, wait_s=0, overdue_s=3600)

    def lose_hold(self, held: Held) -> Held:
        """Let the lease of a hold run out and a poller take the batch; returns the poller's hold."""
        self.set(lease_expires_ms=1)
        assert self.ledger.batches.reclaim_abandoned(self.row["collection"], 0) == 1
        taken = self.take()
        assert taken.generation == held.generation + 1
        return taken


def a_batch(ledger: Ledger, documents: int = 2, *, state: BatchState = BatchState.RESERVED) -> StagedBatch:
    """Reserve a batch for all documents of a run and bring it into an unsettled state; one not reserved is not held."""
    run_id = a_run(ledger, documents=documents)
    claims = claim(ledger, run_id, documents)
    reservation = reserve(ledger, run_id, claims)
    assert reservation.batch is not None
    batch = StagedBatch(
        ledger=ledger, run_id=run_id, claims=claims, submitter=reservation.batch, nonce=reservation.nonce
    )
    if state is not BatchState.RESERVED:
        assert batch.see(batch.submitter, state)
    return batch


def end_covered(batch: StagedBatch) -> None:
    """Let every covered row end failed, as a collector does."""
    for held in batch.holds():
        assert batch.ledger.results.record_failed(held, a_failure())


def ask_to_cancel(batch: StagedBatch) -> None:
    """Ask to cancel, whatever the answer."""
    batch.ledger.batches.ask_to_cancel(batch.batch_id)


def take(ledger: Ledger, batch_id: int) -> Held:
    """Hold a batch."""
    held = ledger.batches.take(batch_id, "poller", LEASE_S, *BatchState)
    assert held is not None
    return held
