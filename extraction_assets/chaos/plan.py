"""What goes wrong in a trial: how each process ends, and what happens beside it, all dealt from one seed.

Fates are dealt, not thrown: the first ones are those that a missing guard does not survive, then each hand holds every
telling failpoint. So a trial of twenty kills has met them all. The seed repeats the plan. It does not repeat the
operating system's scheduling, so a violation found with a seed may take a few tries to come again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from extraction_assets.chaos.storms import (
    Storm,
    draw_for_batches,
    draw_for_calls,
    lost_creates,
    revoked_key,
    slow_calls,
)
from extraction_core.failpoints import Failpoint

T = TypeVar("T")

OF_PARSING = (
    Failpoint.COMMIT_WORKER, Failpoint.COMMIT_DOCUMENTS, Failpoint.COMMIT_PARSE_ENQUEUE, Failpoint.COMMIT_PARSE_CLAIM,
    Failpoint.READ_SOURCE, Failpoint.WRITE_PARSED, Failpoint.COMMIT_PARSE,
)  # fmt: skip
OF_RUNS = (
    Failpoint.COMMIT_RUN_OPEN, Failpoint.COMMIT_ENQUEUE, Failpoint.COMMIT_SEAL, Failpoint.COMMIT_RECLAIM,
    Failpoint.COMMIT_CLAIM, Failpoint.WRITE_OUTPUT, Failpoint.SYNC_OUTPUT, Failpoint.COMMIT_FAIL,
    Failpoint.COMMIT_RELEASE, Failpoint.COMMIT_HEARTBEAT, Failpoint.COMMIT_FINALIZE,
)  # fmt: skip
OF_CALLS = (Failpoint.COMMIT_ATTEMPT_OPEN, Failpoint.CALL_PROVIDER)
OF_BATCHES = (
    Failpoint.COMMIT_BATCH_RESERVE, Failpoint.CREATE_BATCH, Failpoint.COMMIT_BATCH_ACCEPTED, Failpoint.COMMIT_BATCH_TAKE
)  # fmt: skip
OF_TICKS = (Failpoint.COMMIT_LAUNCH, Failpoint.COMMIT_RECLAIM, Failpoint.COMMIT_FINALIZE)
OF_BATCH_TICKS = (Failpoint.COMMIT_BATCH_LOOK, Failpoint.COMMIT_BATCH_ACCEPTED)

TELLING = (
    Failpoint.COMMIT_ATTEMPT_CLOSE, Failpoint.BEGIN_COMPLETE, Failpoint.REPLACE_OUTPUT, Failpoint.SYNC_FOLDER,
    Failpoint.COMMIT_COMPLETE,
)  # fmt: skip
TELLING_OF_CALLS = (*TELLING, Failpoint.PROVIDER_ANSWERED)
TELLING_OF_BATCHES = (*TELLING, Failpoint.BATCH_ACCEPTED, Failpoint.COMMIT_BATCH_SETTLE)
"""Between two things that must both happen or neither: in every hand."""

FROZEN_AT = (Failpoint.WRITE_OUTPUT, Failpoint.BEGIN_COMPLETE)
FROZEN_AT_CALLS = (*FROZEN_AT, Failpoint.CALL_PROVIDER, Failpoint.PROVIDER_ANSWERED)
FROZEN_AT_BATCHES = (*FROZEN_AT, Failpoint.CREATE_BATCH, Failpoint.BATCH_ACCEPTED)
"""Where whoever wakes up goes on with what is no longer his; within a transaction he would only hold up the others."""

PASSES = (1, 1, 1, 1, 2, 2, 3)
LONGEST_LIFE_S = 1.5
OTHERS, KILLED_LATER, FROZEN, SPARED, RIVALS = 4, 3, 2, 1, 3
"""What a hand holds beside the telling failpoints. A rival is a person who starts the same set at the same time."""
TICKS_THAT_DIE = 0.25
STORMS, CUTS, CRASHES, CALLERS = 0.5, 0.4, 0.1, 0.2
"""Launches that are followed, within ``LONGEST_LIFE_S``, by faults of the provider or the database, or the end of those
caller processes that run then."""
APART = 0.3
"""Workers whose calls a caller process makes. Each takes a second or two to start."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """How a process ends.

    Attributes:
        failpoint: it kills itself there, at pass ``on_pass``.
        freezes: it is only stopped there, until its leases are over and others have its work, and then goes on.
        kill_after_s: it is killed after so many seconds.
        apart: its calls are made by a caller process.
    """

    failpoint: Failpoint | None = None
    on_pass: int = 1
    freezes: bool = False
    kill_after_s: float | None = None
    apart: bool = False


UNHARMED = Fate()


class Mishap(StrEnum):
    """What harms everybody at once."""

    STORM = "storm"  # the provider: limits, overload, broken connections
    CUT = "cut"  # every connection to the database
    CRASH = "crash"  # the database server
    CALLERS = "callers"  # the caller processes, while their workers live on


@dataclass(frozen=True, kw_only=True)
class Ordeal:
    """What one launch goes through.

    Attributes:
        fate: how its process ends.
        rival: how that of its rival ends, if it has one.
        storm: the provider's faults from its beginning.
        mishaps: what harms everybody after it, and after how many seconds.
    """

    fate: Fate
    rival: Fate | None = None
    storm: Storm | None = None
    mishaps: Sequence[tuple[float, Mishap]] = ()


class Deck(Generic[T]):
    """Cards that are drawn one after another, and shuffled again when none is left."""

    def __init__(self, cards: Sequence[T], chance: random.Random) -> None:
        self._cards, self._chance = cards, chance
        self._left: list[T] = []

    def draw(self) -> T:
        """Take one."""
        if not self._left:
            self._left = self._chance.sample(self._cards, len(self._cards))
        return self._left.pop()


class Plan:
    """Deals ordeals, draws faults.

    Args:
        seed: of everything.
        mode: ``realtime`` or ``batch``.
    """

    def __init__(self, seed: int, mode: str) -> None:
        self.chance = random.Random(seed)
        self._by_batch = by_batch = mode == "batch"
        self._telling = TELLING_OF_BATCHES if by_batch else TELLING_OF_CALLS
        self._others = Deck((*OF_PARSING, *OF_RUNS, *(OF_BATCHES if by_batch else OF_CALLS)), self.chance)
        self._freezing = Deck(FROZEN_AT_BATCHES if by_batch else FROZEN_AT_CALLS, self.chance)
        self._of_ticks = (*OF_TICKS, *(OF_BATCH_TICKS if by_batch else ()))
        self._draw_storm = draw_for_batches if by_batch else draw_for_calls
        self._dealt = _opening_of_batches(self.chance) if by_batch else _opening_of_calls(self.chance)

    def launch(self) -> Ordeal:
        """Return what the next launch goes through: most die."""
        self._dealt = self._dealt or self._deal()
        return self._dealt.pop(0)

    def tick(self) -> Fate:
        """Return how a tick of the sensors ends: some die."""
        return self._at(self.chance.choice(self._of_ticks)) if self.chance.random() < TICKS_THAT_DIE else UNHARMED

    def storm(self) -> Storm:
        """Return the faults that the provider has next."""
        return self._draw_storm(self.chance)

    def _deal(self) -> list[Ordeal]:
        fates = [self._at(one) for one in self._telling]
        fates += [self._at(self._others.draw()) for _ in range(OTHERS)]
        fates += [Fate(kill_after_s=self.chance.uniform(0, LONGEST_LIFE_S)) for _ in range(KILLED_LATER)]
        fates += [replace(self._at(self._freezing.draw()), freezes=True) for _ in range(FROZEN)]
        fates += [UNHARMED] * SPARED
        rivals: list[Fate | None] = [*self.chance.sample(fates, RIVALS), *[None] * (len(fates) - RIVALS)]
        self.chance.shuffle(fates)
        self.chance.shuffle(rivals)
        if not self._by_batch:
            fates = [replace(fate, apart=self.chance.random() < APART) for fate in fates]
        pairs = zip(fates, rivals, strict=True)
        return [Ordeal(fate=fate, rival=rival, mishaps=self._mishaps()) for fate, rival in pairs]

    def _mishaps(self) -> list[tuple[float, Mishap]]:
        shares = {Mishap.STORM: STORMS, Mishap.CUT: CUTS, Mishap.CRASH: CRASHES, Mishap.CALLERS: CALLERS}
        return [
            (self.chance.uniform(0, LONGEST_LIFE_S), mishap)
            for mishap, share in shares.items()
            if self.chance.random() < share
        ]

    def _at(self, failpoint: Failpoint) -> Fate:
        return Fate(failpoint=failpoint, on_pass=self.chance.choice(PASSES))


def _opening_of_calls(chance: random.Random) -> list[Ordeal]:
    """Two who wake up late and two who die half-way, on a provider that is well; then two who end before their run."""
    late = [Fate(failpoint=at, freezes=True) for at in (Failpoint.BEGIN_COMPLETE, Failpoint.PROVIDER_ANSWERED)]
    torn = [Fate(failpoint=at) for at in (Failpoint.REPLACE_OUTPUT, Failpoint.COMMIT_COMPLETE)]
    first = [Ordeal(fate=fate) for fate in chance.sample([*late, *torn], 4)]
    shared = Ordeal(fate=UNHARMED, rival=UNHARMED, storm=slow_calls())
    stopped = Ordeal(fate=UNHARMED, storm=revoked_key())
    return [*first, *chance.sample([shared, stopped], 2)]


def _opening_of_batches(chance: random.Random) -> list[Ordeal]:
    """Batches that are made, listed late, and of which nobody was told: the sender dies, sleeps, or hears nothing."""
    fates = [Fate(failpoint=Failpoint.BATCH_ACCEPTED), Fate(failpoint=Failpoint.BATCH_ACCEPTED, freezes=True)]
    first, *others = [Ordeal(fate=fate) for fate in chance.sample([*fates, UNHARMED, UNHARMED], 4)]
    return [replace(first, storm=lost_creates()), *others]
