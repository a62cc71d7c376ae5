"""A process is killed at every commit, provider call and file operation; the next one brings the run to its end.

Whatever the place: every document is completed once, an answer that was kept is never paid for again, every call is
in the ledger, every file is what its row says, nothing is left lying about, and the run closes with its sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.workers.orders import Order
from extraction_core.failpoints import Failpoint
from tests import processes
from tests.crash.test_every_batch_failpoint import SCENES as BATCH_SCENES
from tests.factories import some_files
from tests.processes import KillAt
from tests.reducto.test_killed import JOB_SCENES

if TYPE_CHECKING:
    from tests.workplace import Workplace

DOCUMENTS = 3


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What it takes to pass a failpoint.

    Attributes:
        on_pass: the pass at which the process dies.
        faults: of the provider, for the first process only.
        parse: whether the process that dies also parses; otherwise the documents were parsed before.
        lost: how many calls are made whose answer the ledger never sees; None: those that were in the air.
    """

    on_pass: int = 2
    faults: tuple[dict[str, Any], ...] = ()
    parse: bool = False
    lost: int | None = 0


PASSING = {"kind": "status", "status": 529, "headers": {"retry-after": "0.01"}}
ACCOUNT = {"kind": "status", "status": 401}
SLOW = {"kind": "slow", "seconds": 1.0}

SCENES: dict[Failpoint, Scene] = {
    Failpoint.COMMIT_WORKER: Scene(on_pass=1, parse=True),
    Failpoint.COMMIT_LAUNCH: Scene(on_pass=1, parse=True),
    Failpoint.COMMIT_DOCUMENTS: Scene(on_pass=3, parse=True),
    Failpoint.COMMIT_PARSE_ENQUEUE: Scene(on_pass=1, parse=True),
    Failpoint.COMMIT_PARSE_CLAIM: Scene(on_pass=1, parse=True),
    Failpoint.READ_SOURCE: Scene(on_pass=5, parse=True),
    Failpoint.WRITE_PARSED: Scene(parse=True),
    Failpoint.COMMIT_PARSE: Scene(parse=True),
    Failpoint.COMMIT_RUN_OPEN: Scene(on_pass=1),
    Failpoint.COMMIT_ENQUEUE: Scene(on_pass=1),
    Failpoint.COMMIT_SEAL: Scene(on_pass=1),
    Failpoint.COMMIT_RECLAIM: Scene(on_pass=1),
    Failpoint.COMMIT_CLAIM: Scene(),
    Failpoint.COMMIT_ATTEMPT_OPEN: Scene(),
    Failpoint.CALL_PROVIDER: Scene(),
    Failpoint.PROVIDER_ANSWERED: Scene(lost=1),
    Failpoint.COMMIT_ATTEMPT_CLOSE: Scene(lost=1),
    Failpoint.WRITE_OUTPUT: Scene(),
    Failpoint.SYNC_OUTPUT: Scene(),
    Failpoint.BEGIN_COMPLETE: Scene(),
    Failpoint.REPLACE_OUTPUT: Scene(),
    Failpoint.SYNC_FOLDER: Scene(),
    Failpoint.COMMIT_COMPLETE: Scene(),
    Failpoint.COMMIT_FAIL: Scene(on_pass=1, faults=(PASSING,)),
    Failpoint.COMMIT_RELEASE: Scene(on_pass=1, faults=(ACCOUNT,)),
    Failpoint.COMMIT_HEARTBEAT: Scene(on_pass=1, faults=(SLOW,), lost=None),
    Failpoint.COMMIT_FINALIZE: Scene(on_pass=1),
}


def test_every_failpoint_has_its_scene() -> None:
    of_batches = {failpoint for failpoint, _ in BATCH_SCENES.values()} | {Failpoint.COMMIT_BATCH_LOOK}
    assert set(SCENES) | of_batches | set(JOB_SCENES) == set(Failpoint)


@pytest.mark.parametrize("failpoint", SCENES)
def test_a_process_killed_at_a_failpoint_loses_and_repeats_nothing(workplace: Workplace, failpoint: Failpoint) -> None:
    scene, sandbox, books = SCENES[failpoint], workplace.sandbox, workplace.books
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=1, max_attempts=2)
    if not scene.parse:
        workplace.run(collection, Order(extract=False))
    sandbox.faults(list(scene.faults))
    child = workplace.child(collection, KillAt(failpoint, scene.on_pass), heartbeat_s=0.1)
    assert processes.end_of(child) == -9
    unserved = len([call for call in workplace.calls() if call["status"] in (401, 529)])
    in_the_air = len([call for call in workplace.calls() if call["status"] is None])
    lost = in_the_air if scene.lost is None else scene.lost

    workplace.expire_leases()
    report = workplace.run(collection)

    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", DOCUMENTS)
    assert books.statuses() == {"completed": DOCUMENTS}
    calls = workplace.calls()
    assert len(calls) == DOCUMENTS + lost + unserved
    answered = [attempt for attempt in books.attempts if attempt["status"] == "answered"]
    assert [DOCUMENTS, DOCUMENTS] == [len(answered), len({attempt["result_id"] for attempt in answered})]
    assert {call["request_id"] for call in calls} >= {attempt["request_id"] for attempt in answered}
    assert len(books.attempts) >= len(calls)
    assert report.run["cost_usd"] == sum(attempt["cost_usd"] for attempt in answered)
    if not lost:
        assert report.run["cost_usd"] == sandbox.billed_usd
    assert report.run["unknown_cost_count"] == len([row for row in books.attempts if row["status"] == "abandoned"])
    assert len(books.files()) == DOCUMENTS
    books.assert_settled()
