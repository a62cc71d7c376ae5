"""A ledger with one run of queued results, and workers that take them through claim and completion.

Every row has an answered attempt already: what is measured is the queue, and a completion names the attempt that it
follows from.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from resources.ledger import Ledger
from resources.ledger.claims import Claimed
from resources.ledger.completions import Completed, Output
from resources.ledger.tables import attempts, document_sets, documents, extraction_results, extraction_runs

LEASE_S = 300.0
SLICE = 1_000
PLACERS = 2


def populate(ledger: Ledger, count: int, *, answered: bool) -> int:
    """Write one sealed run of so many queued rows. Returns its id.

    Args:
        ledger: an empty ledger.
        count: documents.
        answered: whether each row has an answered attempt, numbered as the row is.
    """
    document_set = {"collection": "bench", "partition_key": "all", "folder": "all", "created_ms": 0}
    run = {"set_id": 1, "collection": "bench", "selection": "pending", "model": "m", "opened_ms": 0}

    def transaction(connection: sa.Connection) -> None:
        connection.execute(sa.insert(document_sets).values(**document_set))
        connection.execute(sa.insert(extraction_runs).values(**run, sealed=True, request_count=count))
        for first in range(0, count, SLICE):
            numbers = range(first, min(first + SLICE, count))
            connection.execute(sa.insert(documents), list(map(_document, numbers)))
            connection.execute(sa.insert(extraction_results), list(map(_result, numbers)))
            if answered:
                connection.execute(sa.insert(attempts), list(map(_attempt, numbers)))

    ledger.engine.write(transaction)
    if not ledger.engine.is_sqlite:
        with ledger.engine.raw.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE"))
    return 1


class LifecycleWorkers:
    """Workers on one populated ledger, which is closed at the end.

    Args:
        url: an empty database.
        count: rows.
    """

    def __init__(self, url: str, count: int) -> None:
        self._ledger = Ledger(url)
        self._run_id = populate(self._ledger, count, answered=True)
        self._placers = ThreadPoolExecutor(PLACERS)

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the ledger."""
        self._placers.shutdown()
        self._ledger.close()

    def worker(self, number: int) -> Callable[[int], int]:
        """Return what claims and completes up to a limit; it returns how many there were."""

        def take(limit: int) -> int:
            claimed = self._ledger.results.claim(f"worker-{number}", self._run_id, limit, LEASE_S)
            if limit == 1:
                return sum(map(self._complete, claimed))
            return len(self._ledger.results.record_all_completed(list(map(_completed, claimed)), self._placers))

        return take

    def _complete(self, claim: Claimed) -> bool:
        done = _completed(claim)
        return self._ledger.results.record_completed(done.held, done.output, done.attempt_id, done.publish)


def _completed(claim: Claimed) -> Completed:
    key = claim.row["document_key"]
    output = Output(path=f"bench/{key}/extraction.json", sha256="0" * 64, size_bytes=64, notes=())
    return Completed(held=claim.held, output=output, attempt_id=claim.held.row_id, publish=_nothing)


def _nothing() -> None:
    """Put no file in place: the floor and the peers have none."""


def _document(number: int) -> dict[str, Any]:
    found = {"set_id": 1, "collection": "bench", "size_bytes": 1, "signature": "s", "registered_ms": 0}
    return {**found, "document_key": document_key(number)}


def _result(number: int) -> dict[str, Any]:
    row = {"run_id": 1, "collection": "bench", "edition": 0, "created_ms": 0}
    question = {"document_id": number + 1, "input_fingerprint": f"f{number}"}
    return {**row, **question, "document_key": document_key(number)}


def _attempt(number: int) -> dict[str, Any]:
    question = {"document_id": number + 1, "input_fingerprint": f"f{number}", "edition": 0}
    call = {"token": f"t{number}", "model": "m", "max_output_tokens": 1, "opened_ms": 0, "closed_ms": 0}
    answer = {"status": "answered", "response": "{}", "cost_usd": 0}
    return {"result_id": number + 1, "run_id": 1, **question, **call, **answer}


def document_key(number: int) -> str:
    """Return the key of a document; a thousand share a folder."""
    return f"folder-{number // SLICE:03}/doc-{number:06}.txt"
