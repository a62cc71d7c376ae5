"""A parse worker's rows: how many are in hand, and what a slice that cannot be written costs."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers.orders import Order
from extraction_assets.workers.parse_rows import MOST_IN_HAND, Ended, ParseRows
from extraction_assets.workers.parse_worker import ParseWorker
from extraction_assets.workers.parsers import Parsers
from extraction_assets.workers.prepare import prepare_set, scan
from extraction_assets.workers.session import WorkerSession
from extraction_core.errors import OutputStoreError
from extraction_core.failpoints import Failpoint
from extraction_core.parsing import ParseFailure, ParseFailureReason
from tests.factories import fingerprint, needed_parses, some_files
from tests.workers.test_isolation import RaiseAt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extraction_assets.workers.parse_rows import Task
    from tests.workplace import Workplace

AT_ONCE = 2
NO = ParseFailure(reason=ParseFailureReason.CORRUPT, message="no")
PARSED = {
    "markdown_sha256": fingerprint("markdown"),
    "characters": 10,
    "page_count": 1,
    "media_type": "text/plain",
    "engine": "engine 1",
    "warnings": [],
}


@contextmanager
def rows_of(workplace: Workplace, documents: int) -> Iterator[ParseRows]:
    tools = workplace.tools()
    set_id = needed_parses(tools.ledger, documents).set_id
    session = WorkerSession(tools.ledger, tools.timing, collection="c", set_id=set_id, dagster_run_id=None)
    with session:
        yield ParseRows(tools, session, set_id, AT_ONCE)
    tools.close()


def failed(tasks: list[Task]) -> list[Ended]:
    return [Ended(claim=task.claim, outcome=NO) for task in tasks]


def test_rows_that_end_fast_are_claimed_in_larger_numbers_and_slow_ones_are_left_to_others(
    workplace: Workplace,
) -> None:
    with rows_of(workplace, 130) as parse_rows:
        sizes: list[int] = []
        tasks: list[Task] = []
        while sum(sizes) < 2 * MOST_IN_HAND - 2 * AT_ONCE:
            tasks = parse_rows.claim(0)
            sizes.append(len(tasks))
            assert parse_rows.claim(len(tasks) // 2 + 1) == []
            parse_rows.end(failed(tasks))
        assert sizes == [4, 8, 16, 32, MOST_IN_HAND]
        assert len(parse_rows.claim(MOST_IN_HAND // 2)) == 130 - sum(sizes)
        parse_rows.end(failed(tasks[:1]))
        assert parse_rows.claim(2 * AT_ONCE) == []


def test_a_row_that_cannot_be_written_costs_no_neighbour(workplace: Workplace) -> None:
    with rows_of(workplace, 3) as parse_rows:
        good, bad, other = parse_rows.claim(0)
        slice_ = [Ended(claim=good.claim, outcome=PARSED), Ended(claim=bad.claim, outcome={}), *failed([other])]
        with pytest.raises(KeyError):
            parse_rows.end(slice_)
    statuses = {row["parse_run_id"]: row["status"] for row in workplace.books.parse_runs}
    ids = [task.claim.held.row_id for task in (good, bad, other)]
    assert ["completed", "queued", "failed"] == [statuses[row_id] for row_id in ids]  # given back with the session


class HoldBack:
    """Failpoints that hold the second text back until it is let go."""

    def __init__(self) -> None:
        self._texts = itertools.count(1)
        self._let_go = threading.Event()

    def __call__(self, name: Failpoint) -> None:
        if name == Failpoint.WRITE_PARSED and next(self._texts) == 2:
            self._let_go.wait()

    def interrupt(self) -> None:
        """Let it go, and interrupt who is told of progress."""
        self._let_go.set()
        raise KeyboardInterrupt


def test_what_ends_while_the_worker_is_interrupted_is_written_down(workplace: Workplace) -> None:
    collection, hold_back = workplace.collection(some_files(3)), HoldBack()
    tools = workplace.tools(hold_back)
    set_id = scan(tools, collection).registration.sets[0].set_id
    session = WorkerSession(tools.ledger, tools.timing, collection="c", set_id=set_id, dagster_run_id=None)
    with session, Parsers(collection, tools.parse_provider) as parsers:
        prepare_set(tools, collection, tools.ledger.documents.sets(collection.name)[0], parsers, again=False)
        with pytest.raises(KeyboardInterrupt):
            ParseWorker(tools, session, collection, parsers, set_id).run(hold_back.interrupt)
    tools.close()
    assert completed(workplace) == stored(workplace)
    assert len(stored(workplace)) >= 2


def stored(workplace: Workplace) -> set[str]:
    return {path.stem for path in (workplace.home / "parsed").rglob("*.md")}


def completed(workplace: Workplace) -> set[str]:
    return {row["markdown_sha256"] for row in workplace.books.parse_runs if row["status"] == "completed"}


def test_a_text_that_cannot_be_stored_ends_the_pass_and_what_was_parsed_is_not_parsed_again(
    workplace: Workplace,
) -> None:
    files = some_files(6)
    collection = workplace.collection(files)
    full = RaiseAt(Failpoint.WRITE_PARSED, OutputStoreError("full"), on_pass=3)
    with pytest.raises(OutputStoreError, match="full"):
        workplace.run(collection, Order(extract=False), failpoints=full)
    assert completed(workplace) == stored(workplace)
    assert {row["status"] for row in workplace.books.parse_runs} == {"completed", "queued"}
    workplace.run(collection, Order(extract=False))
    assert ["completed"] * len(files) == [row["status"] for row in workplace.books.parse_runs]
