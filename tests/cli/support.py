"""Running a command, and a ledger for it to tell about."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner, Result

from extraction_assets.cli import main
from resources.ledger import Ledger
from resources.ledger.tables import metadata
from tests.factories import a_document, a_run, a_set, claim, end_as
from tests.ledger.support import rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resources.ledger.documents import DocumentSet


def run(*arguments: str) -> Result:
    """Run a command in this process; what it did not raise on purpose is the test's."""
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def end(ledger: Ledger, *endings: str, folder: str = "server/dell", collection: str = "servers") -> DocumentSet:
    """Register a set and end its documents, by key: completed, failed, exhausted (all attempts used) or pending."""
    document_set = a_set(ledger, len(endings), folder=folder, collection=collection)
    keys = [a_document(number, folder=folder).key for number, how in enumerate(endings) if how != "pending"]
    run_id = a_run(ledger, document_set, keys=keys)
    ended = [how for how in endings if how != "pending"]
    for held, ending in zip(claim(ledger, run_id, len(endings)), ended, strict=True):
        end_as(ledger, held, ending, cost_usd=Decimal("0.0012345"))
    ledger.finalize(run_id)
    return document_set


def sets_of(result: Result, collection: str) -> list[dict[str, Any]]:
    """Return the sets of a collection that `status --json` printed."""
    return next(one["sets"] for one in json.loads(result.stdout)["collections"] if one["collection"] == collection)


def everything(ledger: Ledger) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return every row of the ledger by table."""
    return {table: rows(ledger, table) for table in metadata.tables}
