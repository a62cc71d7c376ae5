"""What a document costs from its parsed text to its file, against doing the same calls and keeping nothing.

Ours is ``dagster asset materialize`` in a process of its own: ledger rows, synced files and the Dagster run included.
The floor is :mod:`benchmarks.floor`. Both send the same requests to the same canned server with as many in flight.
Documents are parsed by a run of its own before, shown in a row beside: the floor gets its prompts ready made.

Processor time is that of the whole process, the start of it and the imports of Dagster and the client library included;
``marginal`` is without it: what a run of one document took is taken off. Documents a second are counted from the first
request that the server saw to the last result: the last file for ours, the end of the process for the others.
``whole_per_s`` is of the whole process.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.canned_server import canned_server
from benchmarks.child import Run, run_child
from benchmarks.peer import NOT_INSTALLED, run_peer
from benchmarks.place import INSTRUCTIONS, SCHEMA, Place, document_text
from benchmarks.report import progress, show
from extraction_core.collection import DEFAULT_MODEL
from extraction_core.output_schema import provider_schema
from extraction_core.prompting import Question, build_request, fenced

SLOW_MS = 200
FEW_IN_FLIGHT, MANY_IN_FLIGHT = 32, 200
"""Without latency more calls in flight only queue; at 200 ms it takes this many to keep a processor busy."""
PEERS = (("instructor", "instructor_calls"), ("langextract", "langextract_calls"))
NO_CURATOR = "not installed (no recent release of it resolves beside the floor's client library)"
LOADS = {0: FEW_IN_FLIGHT, SLOW_MS: MANY_IN_FLIGHT}
"""Latency in milliseconds -> calls in flight."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What everybody is given: how many documents, how many in flight, and the server's latency."""

    documents: int
    concurrency: int
    latency_ms: int

    @property
    def name(self) -> str:
        """Its part of a row's name."""
        return f"{self.latency_ms} ms, {self.concurrency} in flight"


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a run took. ``calling_s`` is the time from the first request to the last result."""

    run: Run
    calling_s: float


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=500, help="documents (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--latencies", type=int, nargs="+", default=list(LOADS), choices=list(LOADS), help="in ms")
    parser.add_argument("--no-peers", action="store_true", help="compare with the floor alone")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    figures: dict[str, Any] = {"documents": options.documents}
    for latency_ms in options.latencies:
        load = Load(documents=options.documents, concurrency=LOADS[latency_ms], latency_ms=latency_ms)
        measured = _measure(load, options.rounds, peers=not options.no_peers)
        rows |= measured
        ours, floor = measured[f"ours, {load.name}"], measured[f"floor, {load.name}"]
        if latency_ms == 0:
            figures["cpu_ratio_to_floor"] = _ratio(ours, floor, "cpu_ms")
            figures["marginal_cpu_ratio_to_floor"] = _ratio(ours, floor, "marginal_cpu_ms")
        else:
            figures["throughput_ratio_to_floor"] = _ratio(ours, floor, "per_s")
            figures["whole_throughput_ratio_to_floor"] = _ratio(ours, floor, "whole_per_s")
    rows["ratios of ours to the floor"] = {name: value for name, value in figures.items() if "ratio" in name}
    title = f"{options.documents} documents from parsed text to file; cpu in ms a document, documents a second"
    show(title, rows, figures, as_json=options.json)


def _ratio(ours: dict[str, Any], floor: dict[str, Any], name: str) -> float | None:
    """Return the ratio; None when one of the two drowned in the noise."""
    return round(ours[name] / floor[name], 3) if ours[name] and floor[name] else None


def _measure(load: Load, rounds: int, *, peers: bool) -> dict[str, dict[str, Any]]:
    taken: dict[Load, dict[str, list[Taken]]] = {}
    of_one = replace(load, documents=1)
    for number in range(1, rounds + 1):
        for one in (of_one, load)[load == of_one :]:
            progress(f"round {number} of {rounds}: {one.documents} documents, {one.name}")
            parsing, extracting = _ours(one)
            for who, what in {"floor": _floor(one), "parsing": parsing, "ours": extracting}.items():
                taken.setdefault(one, {}).setdefault(who, []).append(what)
    rows = {f"{who}, {load.name}": _row(taken[load][who], taken[of_one][who], load) for who in ("floor", "ours")}
    if load.latency_ms == 0:
        rows["parsing alone, by a run of its own"] = _row(taken[load]["parsing"], taken[of_one]["parsing"], load)
    if peers:
        rows |= {f"{who}, {load.name}": _peer(who, program, load) for who, program in PEERS}
        rows[f"curator, {load.name}"] = {"cpu_ms": NO_CURATOR}
    return rows


def _floor(load: Load) -> Taken:
    with _prompts(load) as files, canned_server(load.latency_ms) as server:
        run = run_child([sys.executable, "-m", "benchmarks.floor", server.url, *files, str(load.concurrency)])
        return Taken(run=run, calling_s=run.begun_at + run.wall_s - server.seen()["first_at"])


def _ours(load: Load) -> tuple[Taken, Taken]:
    """Return what parsing took, and what extracting took."""
    with tempfile.TemporaryDirectory(prefix="bench-end-to-end-") as folder, canned_server(load.latency_ms) as server:
        place = Place(Path(folder), load.documents, concurrency=load.concurrency)
        parsing = place.materialize("parsed_documents")
        extracting = place.materialize("extractions", server.url)
        place.check_all_extracted()
        calling_s = place.last_result_at() - server.seen()["first_at"]
        return Taken(run=parsing, calling_s=parsing.wall_s), Taken(run=extracting, calling_s=calling_s)


def _peer(package: str, program: str, load: Load) -> dict[str, Any]:
    """Measure a peer once: it is far from the floor, and slow."""

    def run(one: Load) -> Taken | None:
        progress(f"{package}: {one.documents} documents, {one.name}")
        with _prompts(one) as files, canned_server(one.latency_ms) as server:
            ran = run_peer(package, program, [server.url, *files, str(one.concurrency)])
            if ran is None:
                return None
            return Taken(run=ran[0], calling_s=ran[0].begun_at + ran[0].wall_s - server.seen()["first_at"])

    single, whole = run(replace(load, documents=1)), run(load)
    return _row([whole], [single], load) if whole and single else {"cpu_ms": NOT_INSTALLED}


@contextmanager
def _prompts(load: Load) -> Iterator[Sequence[Path]]:
    """Write the request that ours sends, and the documents that go into it."""
    question = Question(
        model=DEFAULT_MODEL,
        instructions=INSTRUCTIONS,
        schema=SCHEMA,
        enforced_schema=provider_schema(SCHEMA).schema,
        max_output_tokens=4096,
    )
    request = build_request(question, "")
    del request["messages"]
    texts = [fenced(document_text(number)) for number in range(load.documents)]
    with tempfile.TemporaryDirectory(prefix="bench-prompts-") as folder:
        files = Path(folder) / "request.json", Path(folder) / "documents.json"
        for file, content in zip(files, (request, texts), strict=True):
            file.write_text(json.dumps(content), encoding="utf-8")
        yield files


def _row(taken: Sequence[Taken], of_one: Sequence[Taken], load: Load) -> dict[str, Any]:
    def middle(of: Callable[[Taken], float], which: Sequence[Taken]) -> float:
        return median(map(of, which))

    cpu, start_cpu = (middle(lambda one: one.run.cpu_s, which) for which in (taken, of_one))
    return {
        "cpu_ms": round(1000 * cpu / load.documents, 2),
        "marginal_cpu_ms": round(1000 * (cpu - start_cpu) / (load.documents - 1), 3) if cpu > start_cpu else None,
        "per_s": round(load.documents / middle(lambda one: one.calling_s, taken), 1),
        "whole_per_s": round(load.documents / middle(lambda one: one.run.wall_s, taken), 2),
        "start_cpu_s": round(start_cpu, 2),
        "peak_mb": round(middle(lambda one: one.run.peak_mb, taken)),
    }


if __name__ == "__main__":
    main()
