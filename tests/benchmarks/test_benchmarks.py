"""Each benchmark runs, and its line of JSON holds the figures that are promised."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.peer import installed_version, run_peer
from benchmarks.scale import exponent
from tests.project_copy import PROJECT_ROOT

TINY = [
    (
        ["benchmarks.ledger", "--databases", "sqlite", "--jobs", "20", "--batched-jobs", "60", "--workers", "2", "--rounds", "1"],
        {"sqlite_one_by_one_per_s", "sqlite_one_by_one_ratio_to_sqlite3", "sqlite_batched_ratio_to_sqlite3"},
    ),
    (
        ["benchmarks.end_to_end", "--documents", "1", "--rounds", "1", "--no-peers", "--latencies", "0"],
        {"documents", "cpu_ratio_to_floor"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "names"), TINY, ids=[arguments[0] for arguments, _ in TINY])
def test_a_benchmark_prints_a_table_and_ends_with_its_figures_in_one_line_of_json(
    arguments: list[str], names: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments, "--json"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert {*names, "rows", "machine"} <= figures.keys()
    assert all(figures[name] > 0 for name in names)


def test_the_exponent_tells_proportional_growth_from_none_and_from_quadratic() -> None:
    sizes = [1_000, 10_000, 100_000]
    assert exponent(sizes, [0.5 * size for size in sizes]) == 1.0
    assert exponent(sizes, [44.0, 44.0, 44.0]) == 0.0
    assert exponent(sizes, [size**2 for size in sizes]) == 2.0


def test_a_peer_that_is_not_installed_is_said_to_be_so_and_is_no_error() -> None:
    assert installed_version("no-such-package-of-a-peer") is None
    assert run_peer("no-such-package-of-a-peer", "procrastinate_queue", []) is None
