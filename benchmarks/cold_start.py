"""How long until something happens: the code location's load, and from a launch to the first call of the provider.

The floor of either is Dagster itself: a code location with one asset that does nothing, loaded, and launched until the
first line of its asset.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.canned_server import canned_server
from benchmarks.child import PROJECT_ROOT, Run, run_child
from benchmarks.place import Place
from benchmarks.report import show

LOAD = """
import importlib
import dagster as dg
found = importlib.import_module({module!r}).defs
dg.Definitions.validate_loadable(found if isinstance(found, dg.Definitions) else found())
"""
REACHED = re.compile(r"reached at (\d+\.\d+)")
Sample = tuple[float, float]
"""Wall and processor seconds."""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-cold-start-")))
        home = folder / "dagster"
        home.mkdir()
        shutil.copy(PROJECT_ROOT / "dagster.yaml", home)
        variables = {"DAGSTER_HOME": str(home), "EXTRACTION_HOME": str(folder / "home")}
        measures: dict[str, Callable[[], Sample]] = {
            "load, empty location": lambda: _load("benchmarks.empty_location", variables),
            "load, ours": lambda: _load("extraction_assets.definitions", variables),
            "launch to first line, empty location": lambda: _launch_empty(variables),
            "launch to first call, ours": _launch_ours,
        }
        samples: dict[str, list[Sample]] = {name: [] for name in measures}
        for _ in range(options.rounds):
            for name, measure in measures.items():
                samples[name].append(measure())
    rows = {name: _row(taken) for name, taken in samples.items()}
    figures = {
        "load_ratio_to_floor": _ratio(rows, "load, ours", "load, empty location"),
        "launch_ratio_to_floor": _ratio(rows, "launch to first call, ours", "launch to first line, empty location"),
        "load_s": rows["load, ours"]["wall_s"],
        "launch_to_first_call_s": rows["launch to first call, ours"]["wall_s"],
    }
    rows["ratios"] = {name: value for name, value in figures.items() if "ratio" in name}
    show("Cold start, each in a process of its own", rows, figures, as_json=options.json)


def _load(module: str, variables: dict[str, str]) -> Sample:
    run = run_child([sys.executable, "-c", LOAD.format(module=module)], variables)
    return run.wall_s, run.cpu_s


def _launch_empty(variables: dict[str, str]) -> Sample:
    command = ["asset", "materialize", "-m", "benchmarks.empty_location", "--select", "nothing"]
    run = run_child([sys.executable, "-m", "dagster", *command], variables)
    reached = REACHED.search(run.output)
    return (float(reached[1]) - run.begun_at if reached else run.wall_s), run.cpu_s


def _launch_ours() -> Sample:
    """Launch the extraction of one document that was parsed before, and see when its call comes."""
    with tempfile.TemporaryDirectory(prefix="bench-cold-start-") as folder, canned_server(0) as server:
        place = Place(Path(folder), 1)
        place.materialize("parsed_documents")
        run: Run = place.materialize("extractions", server.url)
        return server.seen()["first_at"] - run.begun_at, run.cpu_s


def _row(samples: list[Sample]) -> dict[str, Any]:
    walls = [wall for wall, _ in samples]
    cpu = median(cpu for _, cpu in samples)
    return {"wall_s": round(median(walls), 3), "least": round(min(walls), 3), "cpu_s": round(cpu, 3)}


def _ratio(rows: dict[str, dict[str, Any]], one: str, other: str) -> float:
    return round(rows[one]["wall_s"] / rows[other]["wall_s"], 3)


if __name__ == "__main__":
    main()
