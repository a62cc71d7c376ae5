"""A place of its own for one measured extraction: documents, a collection, a home, a Dagster instance.

Documents are parsed beforehand by a run of their own, because what is compared with the project gets its prompts ready
made. The measured run is the command that a person would type, in a process of its own.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from benchmarks.child import PROJECT_ROOT, Run, run_child
from benchmarks.location import COLLECTIONS_VARIABLE
from extraction_assets.collections import load_collections
from extraction_assets.partitions import add_document_sets
from extraction_assets.workers.prepare import scan
from extraction_assets.workers.tools import Tools, build_tools
from extraction_core.collection import Collection
from extraction_core.errors import LedgerInvariantError
from resources.environment import read_environment

NAME = "bench"
FILES_A_FOLDER = 1_000
DEPTH = 1
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["model", "price_usd"],
    "properties": {
        "model": {"type": "string", "minLength": 1, "description": "Name of the model."},
        "price_usd": {"type": "number", "minimum": 0, "description": "List price in US dollars."},
        "height": {"type": "string", "description": "Height in rack units, such as 2U."},
    },
}
INSTRUCTIONS = "Extract the server's model name, its list price in US dollars and its height."


def document_text(number: int) -> str:
    """Return a short document; no two are equal, or they would be parsed once."""
    return (
        f"# PowerEdge R{number}\n\nA two-socket server for virtual machines and databases.\n\n"
        f"| Field | Value |\n|---|---|\n| Model | PowerEdge R{number} |\n| Height | 2U |\n"
        f"| Memory | 32 DIMMs, DDR5 |\n| Price USD | {10_000 + number}.50 |\n"
    )


class Place:
    """Everything that one extraction needs, below one folder.

    Args:
        folder: empty.
        documents: how many.
        concurrency: calls in flight.
        ledger_url: an empty database; SQLite in the folder by default.
    """

    def __init__(self, folder: Path, documents: int, *, concurrency: int = 32, ledger_url: str | None = None) -> None:
        self.folder, self.documents = folder, documents
        self.source, self.dagster_home = folder / "docs", folder / "dagster"
        self._write(concurrency)
        self.variables = {
            "DAGSTER_HOME": str(self.dagster_home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "EXTRACTION_HOME": str(folder / "home"),
            COLLECTIONS_VARIABLE: str(folder / "collections"),
            **({"EXTRACTION_LEDGER_URL": ledger_url} if ledger_url else {}),
        }
        self.collection: Collection = load_collections(folder / "collections")[0]
        self._partition = self._register()

    def materialize(self, asset: str, provider_url: str = "") -> Run:
        """Materialize ``parsed_documents`` or ``extractions`` of the one document set, as a person would."""
        command = [
            sys.executable, "-m", "dagster", "asset", "materialize", "-m", "benchmarks.location",
            "--select", f"key:{NAME}/{asset}", "--partition", self._partition,
        ]  # fmt: skip
        provider = {"ANTHROPIC_BASE_URL": provider_url, "ANTHROPIC_API_KEY": "k"} if provider_url else {}
        return run_child(command, self.variables | provider)

    def tools(self) -> Tools:
        """Open ledger and stores in this process; close them after use."""
        return build_tools(read_environment(self.variables))

    def check_all_extracted(self) -> None:
        """Raise unless every document has a result and its file.

        Raises:
            LedgerInvariantError: what was measured was not the whole work.
        """
        tools = self.tools()
        run = tools.ledger.runs.get(1)
        tools.close()
        files = sum(1 for _ in (self.folder / "home" / "outputs").rglob("extraction.json"))
        if run is None or run["completed_count"] != self.documents or files != self.documents:
            raise LedgerInvariantError(f"not everything was extracted: {files} files, {run}")

    def last_result_at(self) -> float:
        """Return when the newest result was written, in seconds since 1970."""
        return max(path.stat().st_mtime for path in (self.folder / "home" / "outputs").rglob("extraction.json"))

    def event_log_rows(self) -> int:
        """Return how many rows Dagster's event log holds of all runs, the list of the runs aside."""
        files = [path for path in (self.dagster_home / "history" / "runs").glob("*.db") if path.stem != "index"]
        return sum(map(_count_events, files))

    def _write(self, concurrency: int) -> None:
        for number in range(self.documents):
            path = self.source / "all" / f"folder-{number // FILES_A_FOLDER:03}" / f"doc-{number:06}.md"
            if number % FILES_A_FOLDER == 0:
                path.parent.mkdir(parents=True)
            path.write_text(document_text(number), encoding="utf-8")
        defs = self.folder / "collections" / NAME
        defs.mkdir(parents=True)
        attributes = {
            "source": str(self.source),
            "partition_by": {"directory": DEPTH},
            "concurrency": concurrency,
        }
        kind = "extraction_assets.components.DocumentCollection"
        (defs / "defs.yaml").write_text(yaml.safe_dump({"type": kind, "attributes": attributes}))
        (defs / "schema.json").write_text(json.dumps(SCHEMA))
        (defs / "instructions.md").write_text(INSTRUCTIONS)
        self.dagster_home.mkdir()
        shutil.copy(PROJECT_ROOT / "dagster.yaml", self.dagster_home)

    def _register(self) -> str:
        """Scan, and make the one partition known to Dagster. Returns its key."""
        tools = self.tools()
        registered = scan(tools, self.collection).registration
        tools.close()
        (key,) = (item.partition_key for item in registered.sets)
        with dg.DagsterInstance.from_config(str(self.dagster_home)) as instance:
            add_document_sets(instance, NAME, [key])
        return key


def _count_events(file: Path) -> int:
    with sqlite3.connect(file) as connection:
        return int(connection.execute("SELECT count(*) FROM event_logs").fetchone()[0])
