"""Where a trial takes place: a folder, a collection whose documents are written when needed, a Dagster storage."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from extraction_assets.chaos.lives import Lives
from extraction_assets.workers.prepare import scan
from extraction_assets.workers.tools import build_tools
from extraction_core.collection import Collection, CollectionFile
from extraction_core.settings import Timing
from resources.environment import HOME_VARIABLE, LEDGER_VARIABLE, Environment

NAME = "chaos"
SETS = 8
MOST_ATTEMPTS = 20
CALLS_IN_FLIGHT = 4
TIMING = Timing(lease_s=2.0, heartbeat_s=0.25, request_timeout_s=1.5, retry_in_run_s=2.0, cancel_grace_s=0.3)
"""As short as the rule between them allows: whoever dies is missed soon."""
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": ["model", "price_usd"],
    "properties": {
        "model": {"type": "string", "minLength": 1, "description": "Name of the model."},
        "price_usd": {"type": "number", "minimum": 0, "description": "List price in US dollars."},
    },
}
INSTRUCTIONS = "Extract the model and its list price."


@dataclass(frozen=True, kw_only=True)
class Place:
    """What every process of a trial is told.

    Attributes:
        folder: holds documents, results, the log of the processes and, if it is SQLite, the ledger.
        provider_url: the sandbox.
    """

    folder: Path
    ledger_url: str
    mode: str
    provider_url: str

    @property
    def environment(self) -> Environment:
        """Places and times."""
        return Environment(home=self.folder / "home", ledger_url=self.ledger_url, timing=TIMING)

    @property
    def log(self) -> Path:
        """What the processes say."""
        return self.folder / "processes.log"

    @property
    def lives(self) -> Lives:
        """Who was frozen, and who ended in order."""
        return Lives(self.folder / "lives.jsonl")

    @property
    def source(self) -> Path:
        """The documents."""
        return self.folder / "documents"

    def collection(self) -> Collection:
        """Return the collection."""
        settings: dict[str, Any] = {
            "source": str(self.source),
            "mode": self.mode,
            "max_attempts": MOST_ATTEMPTS,
            "concurrency": CALLS_IN_FLIGHT,
        }
        return Collection(
            name=NAME,
            settings=CollectionFile(**settings),
            source=str(self.source),
            schema=SCHEMA,
            instructions=INSTRUCTIONS,
            defs_file=str(self.folder / "defs.yaml"),
        )

    def dagster(self) -> dg.DagsterInstance:
        """Open the trial's Dagster storage. Close it after use."""
        (self.folder / "dagster").mkdir(parents=True, exist_ok=True)
        return dg.DagsterInstance.local_temp(str(self.folder / "dagster"))

    def enter(self) -> None:
        """Let this process be told by its environment where everything is."""
        os.environ.update(
            {
                HOME_VARIABLE: str(self.environment.home),
                LEDGER_VARIABLE: self.ledger_url,
                "ANTHROPIC_BASE_URL": self.provider_url,
            }
        )
        self.lives.begin()

    def add_documents(self, first: int, count: int) -> None:
        """Write documents and register them, as the inbox does."""
        for number in range(first, first + count):
            path = self.source / f"set-{number % SETS}" / f"{number:06d}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# Server C{number}\n\nModel: C{number}\n\nPrice USD: {1000 + number}\n", "utf-8")
        tools = build_tools(self.environment)
        try:
            scan(tools, self.collection())
        finally:
            tools.close()
