"""What is asked of a trial, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """What is asked of a trial.

    Attributes:
        documents: how many documents there are at first; as many are added whenever all are done before enough died.
        ledger: ``sqlite``, ``postgres`` (a server of the trial's own), or the address of an empty database.
    """

    kills: int
    seed: int
    ledger: str
    mode: str
    documents: int


@dataclass(kw_only=True)
class Tally:
    """What went wrong, counted. ``restarts`` are processes started after the first ones died."""

    kills: int = 0
    restarts: int = 0
    frozen: int = 0
    rivals: int = 0
    storms: int = 0
    callers_killed: int = 0
    connections_cut: int = 0
    database_crashes: int = 0
    clock_jumps: int = 0
    faulty_exits: int = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a trial. ``found`` are the proof's figures; ``folder`` is where everything is to be seen."""

    options: TrialOptions
    documents: int
    tally: Tally
    found: dict[str, Any]
    seconds: float
    folder: Path
    ledger_url: str = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-compatible form, every count at the top."""
        return {
            **asdict(self.options),
            **asdict(self.tally),
            "documents": self.documents,
            **self.found,
            "seconds": round(self.seconds, 1),
        }
