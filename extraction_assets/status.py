"""What ``extraction-assets status`` shows, as values and as tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from extraction_core.causes import REMEDIES_FOR_A_PERSON, Cause
from extraction_core.collection import Collection
from resources.environment import Environment
from resources.ledger import Ledger

SET_COUNTS = ("documents", "completed", "failed", "cancelled", "active", "pending")
HEADINGS = ("docs", "done", "failed", "canc.", "active", "pend.")
DOCUMENT_FIELDS = ("document_key", "partition_key", "state", "reason", "message", "attempts", "output_path", "notes")
EXHAUSTED = "exhausted"
WIDTH_OF_A_FILE = 240


@dataclass(frozen=True, kw_only=True)
class CollectionStatus:
    """One collection: its sets and, if asked for, its documents, as the ledger has them."""

    name: str
    sets: Sequence[Mapping[str, Any]]
    documents: Sequence[Mapping[str, Any]] | None

    def total(self, count: str) -> int:
        """Return the sum of one count over all sets."""
        return sum(int(row[count]) for row in self.sets)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form; money is exact decimal strings."""
        sets = [
            {
                "partition_key": row["partition_key"],
                "folder": row["folder"],
                **{name: int(row[name]) for name in SET_COUNTS},
                "exhausted": int(row["exhausted"]),
                "calls": int(row["calls"]),
                "cost_usd": f"{Decimal(row['cost_usd']):f}",
                "calls_of_unknown_cost": int(row["unknown_cost_calls"]),
                "last_error": row["last_error"],
            }
            for row in self.sets
        ]
        shown: dict[str, Any] = {"collection": self.name, "sets": sets}
        if self.documents is not None:
            shown["documents"] = [
                {
                    **{name: row[name] for name in DOCUMENT_FIELDS},
                    "cost_usd": None if row["cost_usd"] is None else f"{row['cost_usd']:f}",
                    "remedy": remedy(row),
                }
                for row in self.documents
            ]
        return shown


@dataclass(frozen=True, kw_only=True)
class Status:
    """Where the state is, and every collection's."""

    home: str
    ledger_url: str
    collections: Sequence[CollectionStatus]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form."""
        return {
            "home": self.home,
            "ledger": self.ledger_url,
            "collections": [collection.as_json() for collection in self.collections],
        }


def collect_status(collections: Sequence[Collection], environment: Environment, *, documents: bool) -> Status:
    """Read the status of some collections from the ledger."""
    ledger = Ledger(environment.ledger_url)
    try:
        return Status(
            home=str(environment.home),
            ledger_url=ledger.engine.url,
            collections=[_status_of(ledger, collection, documents=documents) for collection in collections],
        )
    finally:
        ledger.close()


def remedy(row: Mapping[str, Any]) -> str | None:
    """Return what a person can do about a failed document."""
    if row["state"] == EXHAUSTED:
        return REMEDIES_FOR_A_PERSON[Cause.EXHAUSTED]
    return REMEDIES_FOR_A_PERSON.get(row["reason"]) if row["reason"] else None


def print_sets(status: CollectionStatus) -> None:
    """Print the table of a collection's sets; the partition key, which the command lines want, below the folder."""
    table = Table(title=status.name, title_justify="left", title_style="bold", box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("set", min_width=22)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("cost, $", justify="right", no_wrap=True)
    table.add_column("last error")
    for row in status.sets:
        unknown = f"\n+ {row['unknown_cost_calls']} unknown" if row["unknown_cost_calls"] else ""
        counts = [str(row[name]) for name in SET_COUNTS]
        if row["exhausted"]:
            counts[SET_COUNTS.index("failed")] += f"\n{row['exhausted']} exh."
        cost = f"{Decimal(row['cost_usd']):f}{unknown}"
        name = f"{escape(row['folder'])}\n[dim]{row['partition_key']}[/dim]"
        table.add_row(name, *counts, cost, escape(row["last_error"] or ""))
    _console().print(table)


def print_documents(status: CollectionStatus) -> None:
    """Print the table of a collection's documents."""
    table = Table(title=status.name, box=box.SIMPLE)
    table.add_column("document", overflow="fold")  # a key that is cut cannot be used
    for heading in ("state", "cause", "message", "remedy", "tries", "cost, $"):
        table.add_column(heading)
    for row in status.documents or ():
        cost = "" if row["cost_usd"] is None else f"{row['cost_usd']:f}"
        table.add_row(
            escape(row["document_key"]),
            row["state"],
            row["reason"] or "",
            escape(row["message"] or ""),
            remedy(row) or "",
            str(row["attempts"]),
            cost,
        )
    _console().print(table)


def _console() -> Console:
    """Return a console as wide as the terminal; a file or a pipe has no width that lines should be cut to."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH_OF_A_FILE)


def _status_of(ledger: Ledger, collection: Collection, *, documents: bool) -> CollectionStatus:
    max_attempts = collection.settings.max_attempts
    rows = (
        [_with_exhausted(row, max_attempts) for row in ledger.reports.documents(collection.name)] if documents else None
    )
    exhausted = ledger.reports.exhausted(collection.name, max_attempts)
    sets = [{**row, "exhausted": exhausted.get(row["set_id"], 0)} for row in ledger.reports.sets(collection.name)]
    return CollectionStatus(name=collection.name, sets=sets, documents=rows)


def _with_exhausted(row: Mapping[str, Any], max_attempts: int) -> Mapping[str, Any]:
    """Call a failed document whose attempts are used up by that name: nothing but a person picks it again."""
    if row["state"] == "failed" and row["attempts"] >= max_attempts:
        return {**row, "state": EXHAUSTED}
    return row
