"""Both work queues, so that a test of the verbs runs on each; a set; a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from resources.ledger.tables import extraction_results, parse_runs
from tests.factories import a_run, a_set, claim_one, needed_parses
from tests.ledger.support import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from resources.ledger import Ledger
    from resources.ledger.claims import Held
    from resources.ledger.documents import DocumentSet


@pytest.fixture(params=["extraction_results", "parse_runs"])
def make_line(request: pytest.FixtureRequest, ledger: Ledger) -> Callable[[int], Line]:
    """Make a queue with so many queued rows: extraction results of a run, or parse runs that a set needs."""

    def make(number: int) -> Line:
        if request.param == "parse_runs":
            scope = needed_parses(ledger, number).set_id
            return Line(ledger=ledger, queue=ledger.parses, table=parse_runs, scope=scope)
        return Line(
            ledger=ledger, queue=ledger.results, table=extraction_results, scope=a_run(ledger, documents=number)
        )

    return make


@pytest.fixture
def line(make_line: Callable[[int], Line]) -> Line:
    """A queue of three rows."""
    return make_line(3)


@pytest.fixture
def document_set(ledger: Ledger) -> DocumentSet:
    """A set of three documents."""
    return a_set(ledger, 3)


@pytest.fixture
def held(ledger: Ledger) -> Held:
    """The claim of the only result of a run."""
    return claim_one(ledger, a_run(ledger, documents=1))
