"""What collecting a message batch costs: results per second and memory, against the floor of doing it without a ledger.

A server of its own serves one ended batch. The floor downloads the same bytes, parses every line and writes the same
files as durably, and keeps no books. Each collection runs in a fresh process, so that its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from benchmarks.postgres import running_postgres
from benchmarks.report import show, timed
from extraction_assets.workers.batch_collect import RECORDERS, BatchCollector
from extraction_assets.workers.session import WorkerSession
from extraction_assets.workers.tools import build_tools
from extraction_core.batches import BatchSeen, BatchState, custom_id, new_nonce
from extraction_core.collection import Collection, CollectionFile
from extraction_core.errors import LedgerInvariantError
from extraction_core.result_document import canonical_json
from extraction_core.settings import Timing
from resources.environment import Environment
from resources.extraction.access import Access
from resources.extraction.batches import BatchProvider
from resources.ledger import Ledger
from resources.ledger.reservations import BatchOrder, PlannedRequest
from resources.ledger.tables import document_sets, documents, extraction_results, extraction_runs
from resources.output import atomic_write

PROVIDER_ID = "msgbatch_benchmark"
PROSE = "A line of text that a real answer might quote from its document. " * 34
"""Makes a line about 2.5 KB, so that 100,000 of them are the 250 MB that the provider allows."""
SLICE = 5_000
SAMPLE_S = 0.02
SERVER = """
import http.server, json, os, sys
batch, results = sys.argv[1], sys.argv[2]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        path = results if self.path.endswith("/results") else batch
        self.send_response(200)
        self.send_header("content-type", "application/x-jsonl" if path is results else "application/json")
        self.send_header("content-length", str(os.path.getsize(path)))
        self.end_headers()
        with open(path, "rb") as file:
            while data := file.read(1 << 20):
                self.wfile.write(data)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=100_000, help="results of the batch (default: %(default)s)")
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--child", nargs=3, metavar=("WHAT", "FOLDER", "LEDGER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_child(*options.child)))
        return
    rows: dict[str, dict[str, Any]] = {}
    for database in options.databases:
        rows |= _compared(database, options.results)
    figures: dict[str, Any] = {
        f"{name}_ratio_to_floor": rows[f"collecting, {name}"]["ratio_to_floor"] for name in options.databases
    }
    figures["most_memory_above_idle_mb"] = max(row.get("memory_above_idle_mb", 0) for row in rows.values())
    show(f"Collecting a message batch of {options.results} results", rows, figures, as_json=options.json)


def _compared(database: str, count: int) -> dict[str, dict[str, Any]]:
    """Collect once and do the floor once, side by side, on one database."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-collect-")))
        url = f"sqlite:///{folder / 'ledger.db'}"
        if database == "postgres":
            url = stack.enter_context(running_postgres()).create()
        _prepare(folder, url, count)
        floor = _run_child("floor", folder, url)
        collected = _run_child("collect", folder, url)
    megabytes = round(collected["bytes"] / 1e6, 1)
    return {
        f"floor, {database}": {"results_per_s": round(count / floor["seconds"], 1), "megabytes": megabytes},
        f"collecting, {database}": {
            "results_per_s": round(count / collected["seconds"], 1),
            "ratio_to_floor": round(floor["seconds"] / collected["seconds"], 3),
            "memory_above_idle_mb": collected["memory_mb"],
        },
    }


def _run_child(what: str, folder: Path, url: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.batch_collect", "--child", what, str(folder), url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _child(what: str, folder: str, url: str) -> dict[str, Any]:
    with _serving(Path(folder)) as address:
        provider = BatchProvider(Access(api_key="k", auth_token=None, base_url=address))
        work = _floor if what == "floor" else _collecting
        ready = work(Path(folder), url, provider)
        with _watched_memory() as memory:
            seconds = timed(ready)
        provider.close()
    size = (Path(folder) / "results.jsonl").stat().st_size
    return {"seconds": seconds, "memory_mb": round((max(memory) - memory[0]) / 1e6, 1), "bytes": size}


@contextmanager
def _watched_memory() -> Iterator[list[int]]:
    """Sample this process's memory while the block runs; the first sample is what it has when idle.

    The kernel's own high-water mark is no use: a child begins with that of the process it was forked from.
    """
    process, ended = psutil.Process(), threading.Event()
    samples = [process.memory_info().rss]

    def sample() -> None:
        while not ended.wait(SAMPLE_S):
            samples.append(process.memory_info().rss)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-c", SERVER, str(folder / "batch.json"), str(folder / "results.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = f"http://127.0.0.1:{process.stdout.readline().strip() if process.stdout else ''}"
            batch = json.loads((folder / "batch.json").read_text())
            batch["results_url"] = f"{address}/v1/messages/batches/{PROVIDER_ID}/results"
            (folder / "batch.json").write_text(json.dumps(batch))
            yield address
        finally:
            process.terminate()


def _floor(folder: Path, _url: str, provider: BatchProvider) -> Callable[[], None]:
    """Read, parse and write, as many files at a time as the collector."""

    def write(line: bytes) -> None:
        read = json.loads(line)
        value = json.loads(read["result"]["message"]["content"][0]["text"])
        atomic_write.write(folder / "floor" / read["custom_id"] / "extraction.json", canonical_json(value))

    def work() -> None:
        with provider.result_lines(PROVIDER_ID) as lines, ThreadPoolExecutor(RECORDERS) as writers:
            for part in iter(lambda: [line for line, _ in zip(lines, range(100), strict=False)], []):
                for _ in writers.map(write, part):
                    pass

    return work


def _collecting(folder: Path, url: str, provider: BatchProvider) -> Callable[[], None]:
    tools = build_tools(Environment(home=folder / "home", ledger_url=url, timing=Timing()))
    collection = _collection(folder)
    session = WorkerSession(tools.ledger, tools.timing, collection="bench", set_id=1, dagster_run_id=None)
    collector = BatchCollector(tools, session, collection, provider, lambda: False)

    def work() -> None:
        with session:
            collector.run(1)
        run = tools.ledger.finalize(1)
        if run is None or run["completed_count"] != run["request_count"]:
            raise LedgerInvariantError(f"not everything was collected: {run}")

    return work


def _prepare(folder: Path, url: str, count: int) -> None:
    """Fill a ledger with one run whose rows are all covered by one ended batch, and write what the server serves."""
    ledger = Ledger(url)
    _populate(ledger, count)
    nonce = new_nonce()
    order = BatchOrder(run_id=1, worker="bench", nonce=nonce, lease_s=3600, max_attempts=3)
    claims = [claim for _ in range(0, count, SLICE) for claim in ledger.results.claim("bench", 1, SLICE, 3600)]
    planned = [
        PlannedRequest(
            held=claim.held, model="claude-haiku-5-5", max_output_tokens=4096, reserved_usd=None, second_try=None
        )
        for claim in claims
    ]
    batch = ledger.batches.reserve(order, planned).batch
    if batch is None:
        raise LedgerInvariantError("nothing could be reserved")
    counts = {"processing": 0, "succeeded": count, "errored": 0, "canceled": 0, "expired": 0}
    created_at, expires_at = "2026-11-29T10:00:00+00:00", "2026-11-30T10:00:00+00:00"
    seen = BatchSeen(
        provider_id=PROVIDER_ID, state=BatchState.ENDED, counts=counts, created_at=created_at, expires_at=expires_at
    )
    ledger.batches.saw(batch, seen, wait_s=0, overdue_s=3600)
    ledger.close()
    _write_served(
        folder,
        nonce,
        [claim.held.row_id for claim in claims],
        {"created_at": created_at, "expires_at": expires_at, "request_counts": counts},
    )


def _populate(ledger: Ledger, count: int) -> None:
    document_set = {"collection": "bench", "partition_key": "all", "folder": "all", "created_ms": 0}
    run = {"set_id": 1, "collection": "bench", "selection": "pending", "model": "m", "opened_ms": 0}
    found = {"set_id": 1, "collection": "bench", "size_bytes": 1, "signature": "s", "registered_ms": 0}
    row = {"run_id": 1, "collection": "bench", "edition": 0, "created_ms": 0}

    def transaction(connection: sa.Connection) -> None:
        connection.execute(sa.insert(document_sets).values(**document_set))
        connection.execute(sa.insert(extraction_runs).values(**run, sealed=True, request_count=count))
        keys = [f"folder-{number // 1000:03}/doc-{number:06}.txt" for number in range(count)]
        connection.execute(sa.insert(documents), [{**found, "document_key": key} for key in keys])
        rows = [
            {**row, "document_id": number, "document_key": key, "input_fingerprint": f"f{number}"}
            for number, key in enumerate(keys, start=1)
        ]
        connection.execute(sa.insert(extraction_results), rows)

    ledger.engine.write(transaction)


def _write_served(folder: Path, nonce: str, row_ids: list[int], batch: dict[str, Any]) -> None:
    ended = {"id": PROVIDER_ID, "type": "message_batch", "processing_status": "ended", "results_url": None}
    rest = {"ended_at": batch["created_at"], "cancel_initiated_at": None, "archived_at": None}
    (folder / "batch.json").write_text(json.dumps({**ended, **rest, **batch}))
    usage = {"input_tokens": 812, "output_tokens": 96, "service_tier": "batch"}
    with (folder / "results.jsonl").open("w", encoding="utf-8") as file:
        for row_id in row_ids:
            text = json.dumps({"number": row_id, "text": PROSE})
            message = {
                "id": f"msg_{row_id}",
                "type": "message",
                "role": "assistant",
                "model": "claude-haiku-5-5",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": usage,
            }
            line = {"custom_id": custom_id(nonce, row_id), "result": {"type": "succeeded", "message": message}}
            file.write(json.dumps(line) + "\n")


def _collection(folder: Path) -> Collection:
    return Collection(
        name="bench",
        settings=CollectionFile.model_validate({"source": str(folder), "mode": "batch"}),
        source=str(folder),
        schema={"type": "object", "properties": {"number": {"type": "integer"}, "text": {"type": "string"}}},
        instructions="",
        defs_file="benchmarks",
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
