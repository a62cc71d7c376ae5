"""A second producer that meets an active document: of another set, it leaves the document and says so."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Order, Result
from extraction_assets.workers.prepare import scan
from extraction_assets.workers.set_run import SetRun
from tests.factories import some_files
from tests.ledger.support import in_background

if TYPE_CHECKING:
    from extraction_core.collection import Collection
    from tests.sandbox_server import SandboxServer
    from tests.workplace import Workplace


def test_documents_that_are_active_in_another_set_are_left_to_it_and_not_asked_for_again(
    workplace: Workplace, sandbox: SandboxServer
) -> None:
    before = workplace.collection(some_files(3), partition_by={"directory": 0})
    after = workplace.collection(some_files(0), partition_by={"directory": 1})
    sandbox.hold("calls", times=3)
    with in_background(lambda: workplace.run(before)) as running:
        sandbox.wait_until_held("calls", 3)
        result, said = run_set(workplace, after, "dell")
        sandbox.release("calls")
        assert running.result().result is Result.CLOSED
    assert result is Result.CLOSED
    assert "left 3 documents to another extraction run, which is at work on them" in said
    assert [(run["request_count"], run["completed_count"]) for run in workplace.books.runs] == [(3, 3), (0, 0)]
    assert run_set(workplace, after, "dell")[0] is Result.NOTHING_TO_DO
    assert len(workplace.calls()) == 3


def run_set(workplace: Workplace, collection: Collection, folder: str) -> tuple[Result, list[str]]:
    """Register a collection and run one of its sets. Returns how that ended, and what it said."""
    said: list[str] = []
    with closing(workplace.tools()) as tools:
        scan(tools, collection)
        document_set = next(one for one in tools.ledger.documents.sets(collection.name) if one.folder == folder)
        return SetRun(tools, collection, document_set, Order(), said.append).run().result, said
