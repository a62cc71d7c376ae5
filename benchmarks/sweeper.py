"""What a sweeper tick and an inbox tick cost: they should grow with what is due, not with what is stored.

Two ledgers on PostgreSQL hold 100,000 and 1,000,000 results, and in both 1,000 documents in 10 sets are due. Ticks
on the two alternate, so that a change of the machine's speed meets both. The inbox looks at unchanged files.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import sqlalchemy as sa

from benchmarks.postgres import PostgresServer, running_postgres
from benchmarks.report import show, summary, timed
from extraction_assets.sensor_targets import sensor_target
from extraction_core.collection import Collection, CollectionFile
from extraction_core.errors import LedgerInvariantError
from resources.ledger import Ledger
from sensors.document_inbox import look_at_source
from sensors.sweep import Sweep
from sensors.target import SensorTarget

DUE_DOCUMENTS = 1_000
DUE_SETS = 10
DOCUMENTS_A_SET = 1_000
FILES_A_FOLDER = 1_000

POPULATE = """
INSERT INTO document_sets (collection, partition_key, folder, created_ms, question)
  SELECT 'bench', 'set-' || s, 'set-' || s, 0, :question FROM generate_series(1, :sets) s;
INSERT INTO documents (set_id, collection, document_key, size_bytes, signature, read_signature, content_hash,
                       input_fingerprint, registered_ms)
  SELECT (d - 1) / :per_set + 1, 'bench', 'doc-' || d, 1, 's', 's', 'h', 'f' || d, 0 FROM generate_series(1, :rows) d;
INSERT INTO extraction_runs (set_id, collection, status, selection, sealed, model, request_count, completed_count,
                             failed_count, cancelled_count, cost_usd, unknown_cost_count, opened_ms, closed_ms)
  SELECT s, 'bench', 'completed', 'pending', true, 'm', :per_set, :per_set, 0, 0, 0, 0, 0, 1
  FROM generate_series(1, :sets) s;
INSERT INTO extraction_results (run_id, document_id, collection, document_key, input_fingerprint, edition, status,
                                output_sha256, created_ms, finished_ms)
  SELECT (d - 1) / :per_set + 1, d, 'bench', 'doc-' || d, 'f' || d, 0, 'completed', 'x', 0, 1
  FROM generate_series(1, :rows) d;
UPDATE documents SET next_retry_ms = 1 WHERE set_id <= :due_sets AND document_id % (:per_set / (:due / :due_sets)) = 0;
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="ticks on each ledger (default: %(default)s)")
    parser.add_argument("--files", type=int, default=100_000, help="files of the inbox (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sweeper-")))
        server = stack.enter_context(running_postgres())
        instance = stack.enter_context(dg.DagsterInstance.ephemeral())
        target = sensor_target(_collection(folder))
        small, large = (_populated(server, target, rows) for rows in (100_000, 1_000_000))
        ticks: dict[str, list[float]] = {"100,000 results": [], "1,000,000 results": []}
        for _ in range(options.rounds):
            ticks["100,000 results"].append(_tick(small, instance, target))
            ticks["1,000,000 results"].append(_tick(large, instance, target))
        inbox = _inbox(server, target, Path(target.collection.source), options.files, options.rounds)
    rows = {f"sweeper tick, {name}": summary(times) for name, times in ticks.items()}
    rows |= {f"inbox tick, {options.files} files: {name}": summary(times) for name, times in inbox.items()}
    ratio = rows["sweeper tick, 1,000,000 results"]["median_ms"] / rows["sweeper tick, 100,000 results"]["median_ms"]
    inbox_ratio = summary(inbox["unchanged"])["median_ms"] / summary(inbox["listing alone"])["median_ms"]
    figures = {"tick_ratio_1m_over_100k": round(ratio, 3), "inbox_ratio_to_listing": round(inbox_ratio, 3)}
    rows["ratio, ten times as much stored"] = {"tick": figures["tick_ratio_1m_over_100k"]}
    rows["ratio, unchanged inbox over its listing"] = {"tick": figures["inbox_ratio_to_listing"]}
    show("Sweeper and inbox on PostgreSQL; 1,000 documents in 10 sets are due", rows, figures, as_json=options.json)


def _collection(folder: Path) -> Collection:
    source = folder / "source"
    source.mkdir()
    settings = CollectionFile.model_validate({"source": str(source), "partition_by": {"directory": 1}})
    return Collection(
        name="bench",
        settings=settings,
        source=str(source),
        schema={"type": "object", "properties": {"a": {"type": "string"}}},
        instructions="",
        defs_file="benchmarks",
    )


def _populated(server: PostgresServer, target: SensorTarget, rows: int) -> Ledger:
    ledger = Ledger(server.create())
    values = {
        "question": target.question(),
        "rows": rows,
        "sets": rows // DOCUMENTS_A_SET,
        "per_set": DOCUMENTS_A_SET,
        "due_sets": DUE_SETS,
        "due": DUE_DOCUMENTS,
    }
    with ledger.engine.raw.begin() as connection:
        for statement in POPULATE.split(";\n"):
            if statement.strip():
                used = {name: value for name, value in values.items() if f":{name}" in statement}
                connection.execute(sa.text(statement), used)
    with ledger.engine.raw.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))
    return ledger


def _tick(ledger: Ledger, instance: dg.DagsterInstance, target: SensorTarget) -> float:
    """Time one whole tick that launches every due set, then take the launches back."""
    launched = 0

    def tick() -> None:
        nonlocal launched
        launched = len(Sweep(ledger, instance, target).run().launches)

    seconds = timed(tick)
    if launched != DUE_SETS:
        msg = f"a tick launched {launched} sets instead of {DUE_SETS}"
        raise LedgerInvariantError(msg)
    with ledger.engine.raw.begin() as connection:
        connection.execute(sa.text("UPDATE document_sets SET launch_lease_expires_ms = NULL"))
    return seconds


def _inbox(
    server: PostgresServer, target: SensorTarget, source: Path, files: int, rounds: int
) -> dict[str, list[float]]:
    """Time the inbox on unchanged files against the listing of the same folder alone."""
    for number in range(files):
        folder = source / f"folder-{number // FILES_A_FOLDER:04d}"
        if number % FILES_A_FOLDER == 0:
            folder.mkdir()
        (folder / f"doc-{number:06d}.txt").write_text(f"Total: {number}")
    ledger = Ledger(server.create())
    look_at_source(ledger, target, settle_s=0)
    times: dict[str, list[float]] = {"unchanged": [], "listing alone": []}
    for _ in range(rounds):
        times["unchanged"].append(timed(lambda: look_at_source(ledger, target, settle_s=0)))
        times["listing alone"].append(timed(lambda: _list(source)))
    shutil.rmtree(source)
    return times


def _list(source: Path) -> int:
    return sum(path.stat().st_size for path in source.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
