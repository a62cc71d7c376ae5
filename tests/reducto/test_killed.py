"""A process is killed at every commit, call and file operation of a job; the next ones bring it to its end, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from extraction_core.failpoints import Failpoint
from tests import processes
from tests.processes import KillAt
from tests.reducto.support import LONG_S

if TYPE_CHECKING:
    from tests.reducto.support import ParsePlace

MOST_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class JobScene:
    """What it takes to pass a failpoint.

    Attributes:
        looking: whether the process that dies looks at a job; otherwise it submits one.
        parse_seconds: how long the service takes.
    """

    looking: bool = True
    parse_seconds: float = 0.0


JOB_SCENES: dict[Failpoint, JobScene] = {
    Failpoint.COMMIT_JOB_BEGIN: JobScene(looking=False),
    Failpoint.CREATE_JOB: JobScene(looking=False),
    Failpoint.JOB_ACCEPTED: JobScene(looking=False),
    Failpoint.COMMIT_JOB_ACCEPTED: JobScene(looking=False),
    Failpoint.COMMIT_JOB_TAKE: JobScene(),
    Failpoint.COMMIT_JOB_LOOK: JobScene(parse_seconds=100),
    Failpoint.WRITE_JOB_RESULT: JobScene(),
    Failpoint.COMMIT_JOB_FETCHED: JobScene(),
    Failpoint.COMMIT_JOB_END: JobScene(),
}


@pytest.mark.parametrize("failpoint", JOB_SCENES)
def test_a_process_killed_at_a_failpoint_makes_no_second_job(place: ParsePlace, failpoint: Failpoint) -> None:
    scene, collection = JOB_SCENES[failpoint], place.one()
    place.sandbox.parse_seconds(scene.parse_seconds)
    if scene.looking:
        place.parse_only(collection)
        place.later(10)
        child = place.look_in_child(KillAt(failpoint))
    else:
        child = place.child(collection, KillAt(failpoint))
    assert processes.end_of(child) == -9
    assert len(place.submits()) == (failpoint not in {Failpoint.COMMIT_JOB_BEGIN, Failpoint.CREATE_JOB})

    place.expire_leases()
    for _ in range(MOST_ROUNDS):
        place.later(LONG_S)
        place.look()
        if place.job["status"] == "completed":
            break
        place.parse_only(collection)

    assert len(place.submits()) == 1
    place.assert_one_of_each()
    assert place.books.temp_files() == []
