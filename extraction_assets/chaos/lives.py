"""Which processes of a trial were frozen, where and when, and which of them came to their end all the same.

Written by the processes themselves, outside the worker's code. A process is known by its key, which the provider's log
shows as a fingerprint; so it can be told what the provider answered to a process before it was frozen.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEY_VARIABLE = "ANTHROPIC_API_KEY"
FINGERPRINT_DIGITS = 12
"""Of the sandbox's log."""


@dataclass(frozen=True, kw_only=True)
class Sleep:
    """A process was frozen at ``failpoint``: since when, by its own clock, and until when, by the ledger's."""

    key_fingerprint: str
    failpoint: str
    begun_s: float
    woke_ms: int


class Lives:
    """A file with a line for each process that is frozen, for each that wakes up, and for each that ends in order.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @staticmethod
    def begin() -> None:
        """Give this process a key of its own."""
        os.environ[KEY_VARIABLE] = f"process-{uuid.uuid4()}"

    def freezes(self) -> float:
        """Write down that this process is about to be frozen. Returns when, in seconds after 1970."""
        self._write({"frozen": True})
        return time.time()

    def wakes(self, failpoint: str, begun_s: float, woke_ms: int) -> None:
        """Write down that this process was frozen and is awake."""
        self._write({"failpoint": failpoint, "begun_s": begun_s, "woke_ms": woke_ms})

    def ends(self) -> None:
        """Write down that this process did what it was started for."""
        self._write({"ended": True})

    @property
    def frozen(self) -> int:
        """How many were frozen."""
        return sum("frozen" in row for row in self._rows())

    def recovered(self) -> list[Sleep]:
        """Return the sleep of those who woke up and ended in order."""
        rows = self._rows()
        ended = {row["key"] for row in rows if "ended" in row}
        return [
            Sleep(
                key_fingerprint=row["key"],
                failpoint=row["failpoint"],
                begun_s=row["begun_s"],
                woke_ms=row["woke_ms"],
            )
            for row in rows
            if "woke_ms" in row and row["key"] in ended
        ]

    def _write(self, row: dict[str, Any]) -> None:
        fingerprint = hashlib.sha256(os.environ[KEY_VARIABLE].encode()).hexdigest()[:FINGERPRINT_DIGITS]
        with self._path.open("a") as file:
            file.write(json.dumps({"key": fingerprint, **row}) + "\n")

    def _rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []
