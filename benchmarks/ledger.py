"""Claim -> complete lifecycles a second: the ledger's own verbs against other queues and against the bare driver.

PostgreSQL has its default durability, SQLite waits for the disk as the ledger does. Jobs do nothing. Ours are guarded
by a fencing token and mark an attempt, a document and a row; the floor is one table and two statements. ``one by one``
is one claim and one completion a call, ``by 50`` fifty; threads of ours whose calls meet share a transaction. Rounds go
through all variants in turn. Fewer jobs than by default measure the start: connections, first plans.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks import raw_queue
from benchmarks.ledger_rows import LifecycleWorkers
from benchmarks.peer import NOT_INSTALLED, installed_version, run_peer
from benchmarks.postgres import PostgresServer, running_postgres
from benchmarks.raw_queue import Take
from benchmarks.report import progress, show
from extraction_core.errors import LedgerInvariantError

BATCH = 50
WORKERS = (1, 8, 32)


@dataclass(frozen=True)
class Figure:
    """One round of one variant."""

    per_s: float
    cpu_us: float | None = None


Variant = Callable[[], Figure | None]
"""Measures once, in a database of its own. None: not installed."""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000, help="jobs of a round one by one (default: %(default)s)")
    parser.add_argument("--batched-jobs", type=int, default=6_000, help="the same by 50 (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS, help="threads (default: %(default)s)")
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-ledger-")))
        variants: dict[str, Variant] = {}
        for batch, jobs in ((1, options.jobs), (BATCH, options.batched_jobs)):
            for workers in options.workers:
                if "sqlite" in options.databases:
                    variants |= _sqlite_variants(folder, workers, batch, jobs)
        if "postgres" in options.databases:
            server = stack.enter_context(running_postgres())
            for batch, jobs in ((1, options.jobs), (BATCH, options.batched_jobs)):
                for workers in options.workers:
                    variants |= _postgres_variants(server, workers, batch, jobs)
        measured = _measure(variants, options.rounds)
    rows = {name: _row(figures) for name, figures in measured.items()}
    show("Claim -> complete lifecycles a second", rows, _figures(rows, options.databases), as_json=options.json)


def name_of(who: str, database: str, batch: int, workers: int) -> str:
    """Return the name of a variant's row."""
    return f"{who}, {database}, {'one by one' if batch == 1 else f'by {batch}'}, {workers} workers"


def _sqlite_variants(folder: Path, workers: int, batch: int, jobs: int) -> dict[str, Variant]:
    def raw() -> Figure:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            file = Path(place) / "raw.db"
            raw_queue.fill_sqlite(file, jobs)
            return _work([raw_queue.sqlite_worker(file) for _ in range(workers)], batch, jobs)

    def ours() -> Figure:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            return _ours(f"sqlite:///{place}/ledger.db", workers, batch, jobs)

    return {name_of("sqlite3", "sqlite", batch, workers): raw, name_of("ours", "sqlite", batch, workers): ours}


def _postgres_variants(server: PostgresServer, workers: int, batch: int, jobs: int) -> dict[str, Variant]:
    def raw() -> Figure:
        url = server.create()
        raw_queue.fill_postgres(url, jobs)
        return _work([raw_queue.postgres_worker(url) for _ in range(workers)], batch, jobs)

    def peer(package: str, program: str, *arguments: int) -> Figure | None:
        if installed_version(package) is None:
            return None
        ran = run_peer(package, program, [server.create(), *map(str, (jobs, workers, *arguments))])
        return _checked(ran[1]["done"], ran[1]["seconds"], jobs) if ran else None

    of_peers: dict[str, Variant] = {
        name_of("pgqueuer", "postgres", batch, workers): partial(peer, "pgqueuer", "pgqueuer_queue", batch)
    }
    if batch == 1:  # it has no batches
        name = name_of("procrastinate", "postgres", batch, workers)
        of_peers[name] = partial(peer, "procrastinate", "procrastinate_queue")
    return {
        name_of("psycopg 3", "postgres", batch, workers): raw,
        name_of("ours", "postgres", batch, workers): lambda: _ours(server.create(), workers, batch, jobs),
        **of_peers,
    }


def _ours(url: str, workers: int, batch: int, jobs: int) -> Figure:
    with LifecycleWorkers(url, jobs) as lifecycle:
        return _work([lifecycle.worker(number) for number in range(workers)], batch, jobs)


def _work(takes: Sequence[Take], batch: int, jobs: int) -> Figure:
    """Let every worker take until nothing is left, each on a thread of its own."""

    def work(take: Take) -> int:
        return sum(iter(lambda: take(batch), 0))

    with ThreadPoolExecutor(len(takes)) as threads:
        begun, cpu = perf_counter(), process_time()
        done = sum(threads.map(work, takes))
        seconds, cpu_s = perf_counter() - begun, process_time() - cpu
    return _checked(done, seconds, jobs, cpu_s)


def _checked(done: int, seconds: float, jobs: int, cpu_s: float | None = None) -> Figure:
    if done != jobs:
        raise LedgerInvariantError(f"{done} of {jobs} jobs were done")
    return Figure(jobs / seconds, None if cpu_s is None else 1e6 * cpu_s / jobs)


def _measure(variants: dict[str, Variant], rounds: int) -> dict[str, list[Figure]]:
    measured: dict[str, list[Figure]] = {name: [] for name in variants}
    for number in range(1, rounds + 1):
        for name, variant in variants.items():
            progress(f"round {number} of {rounds}: {name}")
            figure = variant()
            measured[name] += [] if figure is None else [figure]
    return measured


def _row(figures: Sequence[Figure]) -> dict[str, Any]:
    if not figures:
        return {"per_s": NOT_INSTALLED}
    speeds = [figure.per_s for figure in figures]
    row = {"per_s": round(median(speeds)), "min": round(min(speeds)), "max": round(max(speeds))}
    cpu = [figure.cpu_us for figure in figures if figure.cpu_us is not None]
    return row | ({"client_cpu_us": round(median(cpu))} if cpu else {})


def _figures(rows: dict[str, dict[str, Any]], databases: Sequence[str]) -> dict[str, Any]:
    """Return the ratios that the targets speak of: the best of ours over the best of another, of any worker count."""

    def best(who: str, database: str, batch: int) -> float | None:
        start = name_of(who, database, batch, 0).removesuffix("0 workers")
        speeds = [row["per_s"] for name, row in rows.items() if name.startswith(start)]
        return max((speed for speed in speeds if not isinstance(speed, str)), default=None)

    figures: dict[str, Any] = {}
    others = {"sqlite": ("sqlite3",), "postgres": ("psycopg 3", "pgqueuer", "procrastinate")}
    for database in databases:
        for batch, how in ((1, "one_by_one"), (BATCH, "batched")):
            ours = best("ours", database, batch)
            figures[f"{database}_{how}_per_s"] = ours
            for other in others[database]:
                theirs = best(other, database, batch)
                if ours and theirs:
                    figures[f"{database}_{how}_ratio_to_{other.replace(' ', '')}"] = round(ours / theirs, 3)
    return figures


if __name__ == "__main__":
    main()
