"""What every benchmark prints beside its figures: machine and versions, and the figures as one line of JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from statistics import median
from time import perf_counter
from typing import Any

PACKAGES = ("dagster", "sqlalchemy", "psycopg", "anthropic")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        **{name: version(name) for name in PACKAGES},
    }


def progress(what: str) -> None:
    """Print a line of progress, apart from the figures."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    begun = perf_counter()
    work()
    return perf_counter() - begun


def summary(seconds: list[float]) -> dict[str, float]:
    """Return the least, the median and the most, in milliseconds."""
    least, middle, most = min(seconds), median(seconds), max(seconds)
    return {"min_ms": round(least * 1000, 2), "median_ms": round(middle * 1000, 2), "max_ms": round(most * 1000, 2)}


def show(title: str, rows: Mapping[str, Mapping[str, Any]], figures: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a table and the machine; with ``as_json`` the last line is one JSON object with every figure."""
    print(title)
    for name, cells in rows.items():
        print(f"  {name:<42} " + "  ".join(f"{key} {value}" for key, value in cells.items()))
    print("  " + ", ".join(f"{key} {value}" for key, value in machine().items()))
    if as_json:
        print(json.dumps({**figures, "rows": rows, "machine": machine()}))
