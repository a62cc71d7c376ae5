"""Running a peer's program in the peers' own environment; one that is not there is said to be so, never an error."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.child import PROJECT_ROOT, Run, run_child

PYTHON = PROJECT_ROOT / ".venv-bench" / "bin" / "python"
NOT_INSTALLED = "not installed (make bench-setup)"


@lru_cache
def installed_version(package: str) -> str | None:
    """Return the version of a package in the peers' environment; None when it is not there."""
    if not PYTHON.exists():
        return None
    asked = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([PYTHON, "-c", asked], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def run_peer(package: str, program: str, arguments: Sequence[str | Path]) -> tuple[Run, dict[str, Any]] | None:
    """Run ``benchmarks/peers/<program>.py``. Returns what it took and what it printed; None if it is not installed.

    Raises:
        ChildFailedError: it is installed, and failed.
    """
    if installed_version(package) is None:
        return None
    run = run_child([PYTHON, PROJECT_ROOT / "benchmarks" / "peers" / f"{program}.py", *arguments])
    return run, json.loads(run.output.splitlines()[-1])
