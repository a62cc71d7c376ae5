"""What a document costs from its parsed text to its file, against doing the same calls and keeping nothing.

Ours is ``dagster asset materialize`` in a process of its own: ledger rows, synced files and the Dagster run included.
The floor is :mod:`benchmarks.floor`. Both send the same requests to the same canned server with as many in flight.
Documents are parsed by a run of its own before, shown in a row beside: the floor gets its prompts ready made.

``whole`` figures hold the start of the process, Dagster's and the client library's imports included; ``marginal`` ones
are without it: what a run of one document took is taken off. The ratios at the end are of whole figures.
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
from benchmarks.report import show
from extraction_core.collection import DEFAULT_MODEL
from extraction_core.output_schema import provider_schema
from extraction_core.prompting import Question, build_request, fenced

SLOW_MS = 200
FEW_IN_FLIGHT, MANY_IN_FLIGHT = 32, 200
"""Without latency more calls in flight only queue; at 200 ms it takes this many to keep a processor busy."""
PEERS = (("instructor", "instructor_calls"), ("langextract", "langextract_calls"))
NO_CURATOR = "not installed (none of its releases installs beside the floor's client library)"
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
            figures["marginal_throughput_ratio_to_floor"] = _ratio(ours, floor, "marginal_per_s")
    rows["ratios of ours to the floor"] = {name: value for name, value in figures.items() if "ratio" in name}
    title = f"{options.documents} documents from parsed text to file; cpu in ms a document, documents a second"
    show(title, rows, figures, as_json=options.json)


def _ratio(ours: dict[str, Any], floor: dict[str, Any], name: str) -> float | None:
    """Return the ratio; None when one of the two drowned in the noise."""
    return round(ours[name] / floor[name], 3) if ours[name] and floor[name] else None


def _measure(load: Load, rounds: int, *, peers: bool) -> dict[str, dict[str, Any]]:
    runs: dict[Load, dict[str, list[Run]]] = {}
    of_one = replace(load, documents=1)
    with canned_server(load.latency_ms) as server:
        for _ in range(rounds):
            for one in (of_one, load)[load == of_one :]:
                parsing, extracting = _ours(one, server.url)
                taken = {"floor": _floor(one, server.url), "parsing": parsing, "ours": extracting}
                for who, run in taken.items():
                    runs.setdefault(one, {}).setdefault(who, []).append(run)
        rows = {f"{who}, {load.name}": _row(runs[load][who], runs[of_one][who], load) for who in ("floor", "ours")}
        if load.latency_ms == 0:
            rows["parsing alone, by a run of its own"] = _row(runs[load]["parsing"], runs[of_one]["parsing"], load)
        if peers:
            rows |= {f"{who}, {load.name}": _peer(who, program, load, server.url) for who, program in PEERS}
            rows[f"curator, {load.name}"] = {"cpu_ms": NO_CURATOR}
    return rows


def _floor(load: Load, url: str) -> Run:
    with _prompts(load) as files:
        return run_child([sys.executable, "-m", "benchmarks.floor", url, *files, str(load.concurrency)])


def _ours(load: Load, url: str) -> tuple[Run, Run]:
    """Return what parsing took, and what extracting took."""
    with tempfile.TemporaryDirectory(prefix="bench-end-to-end-") as folder:
        place = Place(Path(folder), load.documents, concurrency=load.concurrency)
        parsing = place.materialize("parsed_documents")
        extracting = place.materialize("extractions", url)
        place.check_all_extracted()
        return parsing, extracting


def _peer(package: str, program: str, load: Load, url: str) -> dict[str, Any]:
    """Measure a peer once: it is far from the floor, and slow."""

    def run(one: Load) -> Run | None:
        with _prompts(one) as files:
            ran = run_peer(package, program, [url, *files, str(one.concurrency)])
        return ran[0] if ran else None

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


def _row(runs: Sequence[Run], of_one: Sequence[Run], load: Load) -> dict[str, Any]:
    def middle(of: Callable[[Run], float], which: Sequence[Run]) -> float:
        return median(map(of, which))

    cpu, wall = (middle(of, runs) for of in (_cpu, _wall))
    start_cpu, start_wall = (middle(of, of_one) for of in (_cpu, _wall))
    rest = load.documents - 1
    return {
        "cpu_ms": round(1000 * cpu / load.documents, 2),
        "marginal_cpu_ms": round(1000 * (cpu - start_cpu) / rest, 3) if cpu > start_cpu else None,
        "per_s": round(load.documents / wall, 2),
        "marginal_per_s": round(rest / (wall - start_wall), 1) if wall > start_wall else None,
        "start_cpu_s": round(start_cpu, 2),
        "peak_mb": round(middle(lambda run: run.peak_mb, runs)),
    }


def _cpu(run: Run) -> float:
    return run.cpu_s


def _wall(run: Run) -> float:
    return run.wall_s


if __name__ == "__main__":
    main()
