"""Does a document cost the same among a hundred thousand as among a thousand? Time, memory, event log.

Each size is one Dagster run over one document set, in a process of its own and with a home of its own. The exponents
are those of ``figure = a * documents ^ b``, fitted through the logarithms: 1 for the time means that it is the same per
document, 0 for memory and events that they do not depend on the number. What a run of one document takes is taken off
the time, or the fixed part would hide the growth. Memory is the process's peak as it is, and what each document adds to
it is shown beside: ``memory_kb_per_document``.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression
from typing import Any

from benchmarks.canned_server import canned_server
from benchmarks.place import Place
from benchmarks.report import progress, show

SIZES = (500, 1_000, 2_500)
FEWEST_SIZES = 2
"""An exponent is a slope."""
IN_FLIGHT = 32
MB = 1024**2


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="numbers of documents, two or more (default: 500 1000 2500)"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    sizes = sorted(set(options.sizes))
    if len(sizes) < FEWEST_SIZES or sizes[0] <= 1:
        parser.error("--sizes: give two numbers of documents or more, each above 1")
    measured = {size: _measure(size) for size in (1, *sizes)}
    start = measured.pop(1)
    rows = {f"{size} documents": _per_document(measured[size], start, size) for size in sizes}
    figures = _exponents(measured, start)
    rows["exponents"] = figures
    show("One run over more and more documents, no latency", rows, figures, as_json=options.json)


def _measure(documents: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder, canned_server(0) as server:
        progress(f"{documents} documents")
        place = Place(Path(folder), documents, concurrency=IN_FLIGHT)
        parsing = place.materialize("parsed_documents")
        before = place.event_log_rows()
        run = place.materialize("extractions", server.url)
        place.check_all_extracted()
        return {
            "cpu_s": run.cpu_s,
            "wall_s": run.wall_s,
            "parsing_cpu_s": parsing.cpu_s,
            "memory_mb": run.peak_mb,
            "events": place.event_log_rows() - before,
            "ledger_mb": _size_mb(Path(folder) / "home" / "ledger.db"),
        }


def _per_document(figures: dict[str, float], start: dict[str, float], documents: int) -> dict[str, Any]:
    return {
        "cpu_ms": round(1000 * (figures["cpu_s"] - start["cpu_s"]) / documents, 2),
        "wall_ms": round(1000 * (figures["wall_s"] - start["wall_s"]) / documents, 2),
        "parsing_cpu_ms": round(1000 * (figures["parsing_cpu_s"] - start["parsing_cpu_s"]) / documents, 2),
        "memory_mb": round(figures["memory_mb"]),
        "events": round(figures["events"]),
        "ledger_kb": round(1024 * figures["ledger_mb"] / documents, 1),
    }


def _exponents(measured: dict[int, dict[str, float]], start: dict[str, float]) -> dict[str, Any]:
    sizes = list(measured)

    def fit(values: Sequence[float]) -> float:
        return exponent(sizes, values)

    return {
        "cpu_exponent": fit([measured[size]["cpu_s"] - start["cpu_s"] for size in sizes]),
        "wall_exponent": fit([measured[size]["wall_s"] - start["wall_s"] for size in sizes]),
        "memory_exponent": fit([measured[size]["memory_mb"] for size in sizes]),
        "events_exponent": fit([measured[size]["events"] for size in sizes]),
        "most_events": round(max(measured[size]["events"] for size in sizes)),
        "memory_kb_per_document": _slope_kb(measured),
    }


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return b of ``value = a * size ^ b``, fitted through the logarithms of at least two sizes."""
    logarithms = [math.log(max(value, 1e-3)) for value in values]
    return round(linear_regression([math.log(size) for size in sizes], logarithms).slope, 3)


def _slope_kb(measured: dict[int, dict[str, float]]) -> float:
    sizes = list(measured)
    least, most = min(sizes), max(sizes)
    grown = measured[most]["memory_mb"] - measured[least]["memory_mb"]
    return round(1024 * grown / max(most - least, 1), 2)


def _size_mb(ledger: Path) -> float:
    return ledger.stat().st_size / MB


if __name__ == "__main__":
    main()
