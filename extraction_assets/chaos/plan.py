"""What goes wrong in a trial: how each process ends, what the provider does, all drawn from one seed.

The seed repeats the plan. It does not repeat the operating system's scheduling, so a violation found with a seed may
take a few tries to come again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from extraction_core.failpoints import Failpoint

OF_PARSING = (
    Failpoint.COMMIT_WORKER, Failpoint.COMMIT_DOCUMENTS, Failpoint.COMMIT_PARSE_ENQUEUE, Failpoint.COMMIT_PARSE_CLAIM,
    Failpoint.READ_SOURCE, Failpoint.WRITE_PARSED, Failpoint.COMMIT_PARSE,
)  # fmt: skip
OF_RUNS = (
    Failpoint.COMMIT_RUN_OPEN, Failpoint.COMMIT_ENQUEUE, Failpoint.COMMIT_SEAL, Failpoint.COMMIT_RECLAIM,
    Failpoint.COMMIT_CLAIM, Failpoint.COMMIT_ATTEMPT_CLOSE, Failpoint.WRITE_OUTPUT, Failpoint.SYNC_OUTPUT,
    Failpoint.BEGIN_COMPLETE, Failpoint.REPLACE_OUTPUT, Failpoint.SYNC_FOLDER, Failpoint.COMMIT_COMPLETE,
    Failpoint.COMMIT_FAIL, Failpoint.COMMIT_RELEASE, Failpoint.COMMIT_HEARTBEAT, Failpoint.COMMIT_FINALIZE,
)  # fmt: skip
OF_CALLS = (Failpoint.COMMIT_ATTEMPT_OPEN, Failpoint.CALL_PROVIDER, Failpoint.PROVIDER_ANSWERED)
OF_BATCHES = (
    Failpoint.COMMIT_BATCH_RESERVE, Failpoint.CREATE_BATCH, Failpoint.BATCH_ACCEPTED, Failpoint.COMMIT_BATCH_ACCEPTED,
    Failpoint.COMMIT_BATCH_TAKE, Failpoint.COMMIT_BATCH_SETTLE,
)  # fmt: skip
OF_TICKS = (Failpoint.COMMIT_LAUNCH, Failpoint.COMMIT_RECLAIM, Failpoint.COMMIT_FINALIZE)
OF_BATCH_TICKS = (Failpoint.COMMIT_BATCH_LOOK, Failpoint.COMMIT_BATCH_ACCEPTED)

TELLING = (
    Failpoint.PROVIDER_ANSWERED, Failpoint.COMMIT_ATTEMPT_CLOSE, Failpoint.BEGIN_COMPLETE, Failpoint.REPLACE_OUTPUT,
    Failpoint.SYNC_FOLDER, Failpoint.COMMIT_COMPLETE, Failpoint.BATCH_ACCEPTED,
)  # fmt: skip
"""Between two things that must both happen or neither: drawn twice as often again."""

FROZEN_AT = (
    Failpoint.CALL_PROVIDER, Failpoint.PROVIDER_ANSWERED, Failpoint.WRITE_OUTPUT, Failpoint.BEGIN_COMPLETE,
    Failpoint.CREATE_BATCH, Failpoint.BATCH_ACCEPTED,
)  # fmt: skip
"""Where whoever wakes up goes on with what is no longer his; within a transaction he would only hold up the others."""

PASSES = (1, 1, 1, 1, 2, 2, 3)
LONGEST_LIFE_S = 1.5
AT_A_FAILPOINT, KILLED_LATER, FROZEN = 0.50, 0.25, 0.20
"""Shares of the workers' fates; the rest is spared."""
TICKS_THAT_DIE = 0.25
RIVALS = 0.15
"""Launches that get a rival: a person who starts the same set at the same time."""
STORMS, CUTS, CRASHES = 0.5, 0.4, 0.1
"""Launches that are followed, within ``LONGEST_LIFE_S``, by faults of the provider or the database."""

CREATE, RESULTS, RETRIEVE = (
    "POST /v1/messages/batches", "GET /v1/messages/batches/{id}/results", "GET /v1/messages/batches/{id}"
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Fate:
    """How a process ends.

    Attributes:
        failpoint: it kills itself there, at pass ``on_pass``.
        freezes: it is only stopped there, until its leases are over and others have its work, and then goes on.
        kill_after_s: it is killed after so many seconds.
    """

    failpoint: Failpoint | None = None
    on_pass: int = 1
    freezes: bool = False
    kill_after_s: float | None = None


UNHARMED = Fate()


class Mishap(StrEnum):
    """What harms everybody at once."""

    STORM = "storm"  # the provider: limits, overload, broken connections
    CUT = "cut"  # every connection to the database
    CRASH = "crash"  # the database server


class Plan:
    """Draws fates and faults.

    Args:
        seed: of all draws.
        mode: ``realtime`` or ``batch``.
    """

    def __init__(self, seed: int, mode: str) -> None:
        self.chance = random.Random(seed)
        by_batch = mode == "batch"
        self._of_workers = (*OF_PARSING, *OF_RUNS, *(OF_BATCHES if by_batch else OF_CALLS), *TELLING, *TELLING)
        self._freezing = FROZEN_AT[2:] if by_batch else FROZEN_AT[:4]
        self._of_ticks = (*OF_TICKS, *(OF_BATCH_TICKS if by_batch else ()))
        self._storms = _batch_storms if by_batch else _call_storms

    def worker(self) -> Fate:
        """Return how a worker ends: most die."""
        draw = self.chance.random()
        if draw < AT_A_FAILPOINT:
            return self._at(self._of_workers)
        if draw < AT_A_FAILPOINT + KILLED_LATER:
            return Fate(kill_after_s=self.chance.uniform(0, LONGEST_LIFE_S))
        if draw < AT_A_FAILPOINT + KILLED_LATER + FROZEN:
            return replace(self._at(self._freezing), freezes=True)
        return UNHARMED

    def tick(self) -> Fate:
        """Return how a tick of the sensors ends: some die."""
        return self._at(self._of_ticks) if self.chance.random() < TICKS_THAT_DIE else UNHARMED

    def has_rival(self) -> bool:
        """Whether a launch gets a rival."""
        return self.chance.random() < RIVALS

    def mishaps(self) -> list[tuple[float, Mishap]]:
        """Return what happens after a launch that harms everybody, and after how many seconds."""
        shares = {Mishap.STORM: STORMS, Mishap.CUT: CUTS, Mishap.CRASH: CRASHES}
        return [
            (self.chance.uniform(0, LONGEST_LIFE_S), mishap)
            for mishap, share in shares.items()
            if self.chance.random() < share
        ]

    def storm(self) -> list[dict[str, Any]]:
        """Return the faults that the provider has next."""
        return self._storms(self.chance)

    def _at(self, failpoints: Sequence[Failpoint]) -> Fate:
        return Fate(failpoint=self.chance.choice(failpoints), on_pass=self.chance.choice(PASSES))


def _call_storms(chance: random.Random) -> list[dict[str, Any]]:
    """Rate limits, overload, broken connections, answers that come late or are cut."""
    served_later = {"headers": {"retry-after": "0.1"}, "times": chance.randint(3, 12)}
    return chance.choice(
        [
            [{"kind": "status", "status": 429, **served_later}],
            [{"kind": "status", "status": 529, "times": chance.randint(1, 5)}],
            [{"kind": "status", "status": 500, "times": chance.randint(1, 2)}],
            [{"kind": "drop", "when": when, "how": how} for when in ("before", "after") for how in ("fin", "reset")],
            [{"kind": "drop", "when": "mid_body"}],
            [{"kind": "slow", "seconds": seconds, "times": 3} for seconds in (0.3, 1.0)],
            [{"kind": "slow", "seconds": 4.0}],
        ]
    )


def _batch_storms(chance: random.Random) -> list[dict[str, Any]]:
    """The same for the endpoints of batches: creates whose outcome is unclear, lists that lag, results that are cut."""
    lines = chance.randint(0, 5)
    return chance.choice(
        [
            [{"kind": "drop", "when": chance.choice(["before", "after"]), "path": CREATE}],
            [{"kind": "status", "status": 500, "when": "after", "path": CREATE}],
            [{"kind": "status", "status": 529, "path": CREATE}],
            [{"kind": "found_late", "seconds": 100}, {"kind": "listed_late", "seconds": 300}],
            [{"kind": "cut", "lines": lines, "how": how} for how in ("line_end", "mid_line")],
            [{"kind": "cut", "lines": lines, "how": how} for how in ("fin", "reset")],
            [{"kind": "duplicate_lines", "count": 3}],
            [{"kind": "status", "status": status, "path": RETRIEVE} for status in (429, 529, 500)],
        ]
    )
