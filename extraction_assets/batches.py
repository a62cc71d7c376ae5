"""``batches``: message batches for the terminal: what is open, cancel one, ask again for what a lost one held."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from extraction_core.batches import AT_PROVIDER, BatchState
from extraction_core.errors import DocumentExtractionError
from resources.environment import Environment
from resources.extraction.access import access_from
from resources.ledger import Ledger
from resources.ledger.batches import COUNTS

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


@dataclass(frozen=True)
class ListedBatch:
    """One message batch as the terminal shows it."""

    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The provider's id, or the number of the reservation."""
        return self.row["provider_id"] or f"reservation {self.row['batch_id']}"

    @property
    def is_open(self) -> bool:
        """Whether something is still to come of it."""
        return self.row["finished_ms"] is None

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form."""
        row = self.row
        return {
            "batch_id": row["batch_id"],
            "provider_id": row["provider_id"],
            "collection": row["collection"],
            "document_set": row["folder"],
            "partition_key": row["partition_key"],
            "state": row["state"],
            "requests": row["request_count"],
            "counts": {name: row[name] for name in COUNTS},
            "age_s": int(row["age_s"]),
            "expires_at": row["expires_at"],
            "cancel_requested": bool(row["cancel_requested"]),
            "overdue": bool(row["overdue"]),
            "message": row["message"],
        }

    def __str__(self) -> str:
        """Return one line."""
        row = self.row
        done = sum(row[name] for name in COUNTS if name != "processing")
        marks = [f"expires {row['expires_at']}"] if row["expires_at"] and row["state"] in AT_PROVIDER else []
        marks += ["OVERDUE"] if row["overdue"] else []
        marks += ["cancel asked"] if row["cancel_requested"] and row["state"] != BatchState.COLLECTED else []
        marks += [row["message"]] if row["message"] else []
        progress = f"{done}/{row['request_count']} requests"
        where = f"{row['collection']}: {row['folder']}  {self.name}"
        line = f"{row['batch_id']:>5}  {age(row['age_s']):>6}  {row['state']:<11}  {progress}  {where}"
        return line + "".join(f"; {mark}" for mark in marks)


def age(seconds: float) -> str:
    """Return an age in its largest unit: ``12s``, ``5m``, ``3h``, ``2d``."""
    for unit, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "m")):
        if seconds >= unit:
            return f"{int(seconds // unit)}{name}"
    return f"{int(max(seconds, 0))}s"


def list_batches(environment: Environment, collection: str | None, *, settled: bool) -> list[ListedBatch]:
    """Return message batches, oldest first; those that are settled only if asked for, lost ones always."""
    with _ledger(environment) as ledger:
        rows = ledger.batches.listed(collection, settled=True)
    open_or_lost = [row for row in rows if row["finished_ms"] is None or row["state"] == BatchState.LOST]
    return [ListedBatch(row) for row in (rows if settled else open_or_lost)]


def cancel_batch(environment: Environment, name: str) -> str:
    """Cancel a batch at the provider, at once if it can be reached. Returns what was found.

    Raises:
        DocumentExtractionError: there is no such batch, or the provider is not at work on it any more.
    """
    with _ledger(environment) as ledger:
        batch = _found(ledger, name)
        if not ledger.batches.ask_to_cancel(batch["batch_id"]):
            raise DocumentExtractionError(f"message batch {name} is {batch['state']}: there is nothing to cancel.")
        batch = _found(ledger, name)
        if batch["provider_id"] is None:
            return "its id is not known yet: it is cancelled as soon as it is found"
        from resources.extraction.batches import BatchProvider  # noqa: PLC0415 - loads the SDK, which takes seconds
        from sensors.batch_watch import BatchWatch  # noqa: PLC0415 - goes with it

        with closing(BatchProvider(access_from())) as provider:
            watcher = f"terminal {socket.gethostname()} {os.getpid()}"
            settle_s = environment.timing.batch_settle_s
            watch = BatchWatch(ledger, batch["collection"], provider, watcher, settle_s=settle_s)
            return (
                watch.look_at(batch) or "the batch poller is looking at it right now and cancels it with its next look"
            )


def resubmit_batch(environment: Environment, name: str) -> Sequence[str]:
    """Make the documents of a lost batch due again. Returns their keys.

    Their attempts stay counted: one that has none left needs ``retry --reset-attempts``.

    Raises:
        DocumentExtractionError: there is no such batch, or it is not lost.
    """
    with _ledger(environment) as ledger:
        batch = _found(ledger, name)
        if batch["state"] != BatchState.LOST:
            raise DocumentExtractionError(
                f"message batch {name} is {batch['state']}, not lost: submitting it again would pay for it twice."
            )
        keys = ledger.batch_requests.lost_documents(batch["batch_id"])
        return sorted(ledger.launches.ask_again(batch["set_id"], keys, reset=False))


def _found(ledger: Ledger, name: str) -> Mapping[str, Any]:
    batch = ledger.batches.find(name)
    if batch is None:
        raise DocumentExtractionError(
            f"there is no message batch {name!r}; `extraction-assets batches --all` lists them."
        )
    return batch


@contextmanager
def _ledger(environment: Environment) -> Iterator[Ledger]:
    with closing(Ledger(environment.ledger_url)) as ledger:
        yield ledger
