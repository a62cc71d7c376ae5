"""A process is killed at every step of a batch, with decoys of the same size in the account; another one goes on.

Whatever the place: each request is billed once, each row is terminal once, and the run closes with counts that add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers.orders import Order
from extraction_core.failpoints import Failpoint
from tests import processes
from tests.batches.support import add_decoys, assert_each_document_was_billed_once, our_batches
from tests.factories import some_files
from tests.processes import KillAt

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 4


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where the process dies: at which pass of the failpoint, and whether it was to collect or to submit."""

    on_pass: int = 1
    collecting: bool = False


SUBMITTING: dict[str, tuple[Failpoint, Scene]] = {
    "before it is reserved": (Failpoint.COMMIT_BATCH_RESERVE, Scene()),
    "before it is sent": (Failpoint.CREATE_BATCH, Scene()),
    "after it was accepted": (Failpoint.BATCH_ACCEPTED, Scene()),
    "before its id is stored": (Failpoint.COMMIT_BATCH_ACCEPTED, Scene()),
}
COLLECTING: dict[str, tuple[Failpoint, Scene]] = {
    "before it is taken": (Failpoint.COMMIT_BATCH_TAKE, Scene(collecting=True)),
    "before its answers are kept": (Failpoint.COMMIT_ATTEMPT_CLOSE, Scene(collecting=True)),
    "at its first result": (Failpoint.REPLACE_OUTPUT, Scene(collecting=True)),
    "at half of its results": (Failpoint.REPLACE_OUTPUT, Scene(collecting=True, on_pass=DOCUMENTS // 2)),
    "at its last result but one": (Failpoint.REPLACE_OUTPUT, Scene(collecting=True, on_pass=DOCUMENTS - 1)),
    "before its results are committed": (Failpoint.COMMIT_COMPLETE, Scene(collecting=True)),
    "before it is settled": (Failpoint.COMMIT_BATCH_SETTLE, Scene(collecting=True)),
    "before its run is closed": (Failpoint.COMMIT_FINALIZE, Scene(collecting=True)),
}
SCENES = {**SUBMITTING, **COLLECTING}


@pytest.mark.parametrize("name", SCENES)
def test_a_process_killed_at_any_step_of_a_batch_pays_for_nothing_again(workplace: Workplace, name: str) -> None:
    failpoint, scene = SCENES[name]
    collection = workplace.collection(some_files(DOCUMENTS), mode="batch")
    add_decoys(workplace.sandbox, DOCUMENTS)
    workplace.run(collection, Order(extract=False))
    if scene.collecting:
        workplace.run(collection)
        workplace.later(60)
        workplace.watch(collection)
    child = workplace.child(collection, KillAt(failpoint, scene.on_pass))
    assert processes.end_of(child) == -9
    written = workplace.books.files()

    report = workplace.finish(collection)

    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", DOCUMENTS)
    assert report.run["request_count"] == DOCUMENTS
    assert workplace.books.statuses() == {"completed": DOCUMENTS}
    assert_each_document_was_billed_once(workplace, DOCUMENTS)
    assert len(our_batches(workplace.sandbox)) == 1
    assert report.run["cost_usd"] == sum(row["cost_usd"] for row in workplace.books.results)
    completed = {row["output_path"] for row in workplace.books.results}
    assert {path: content for path, (_, content) in written.items()}.items() <= {
        path: content for path, (_, content) in workplace.books.files().items()
    }.items()
    assert completed == set(workplace.books.files())
    workplace.books.assert_settled()


@pytest.mark.parametrize("failpoint", [Failpoint.COMMIT_BATCH_LOOK, Failpoint.COMMIT_BATCH_ACCEPTED])
def test_a_poller_killed_in_the_middle_of_a_look_holds_nothing_up(workplace: Workplace, failpoint: Failpoint) -> None:
    workplace.sandbox.faults([{"kind": "found_late", "seconds": 100, "path": "POST /v1/messages/batches"}])
    collection = workplace.collection(some_files(DOCUMENTS), mode="batch")
    workplace.run(collection)
    workplace.later(60 if failpoint is Failpoint.COMMIT_BATCH_LOOK else 200)
    assert processes.end_of(workplace.watching_child(collection, KillAt(failpoint))) == -9
    assert [batch["status"] for batch in workplace.books.batches] == ["running"]
    report = workplace.finish(collection)
    assert report.run is not None
    assert report.run["completed_count"] == DOCUMENTS
    assert_each_document_was_billed_once(workplace, DOCUMENTS)
