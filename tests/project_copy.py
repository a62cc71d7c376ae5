"""The project's layout once more, in a folder of the test: a checkout to add collections to and to make mistakes in.

The collections of ``extraction_assets/defs`` belong to the package, so a process that is to see others needs a package
of its own. PYTHONPATH comes before the installed project, so what is started here imports the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT_ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
LINKED = ("resources", "extraction_core", "sensors", "extraction_assets/sample_documents")
PROVIDER = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")
OF_THE_PLACE = ("EXTRACTION_HOME", "EXTRACTION_LEDGER_URL", "DAGSTER_HOME", "PYTHONPATH")


class ProjectCopy:
    """A copy of the project with its two sample collections.

    Args:
        root: an existing folder; the copy, the home and Dagster's home are made below it.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.dagster_home = root / "project", root / "home", root / "dagster"
        shutil.copytree(
            PROJECT_ROOT / "extraction_assets",
            self.root / "extraction_assets",
            ignore=shutil.ignore_patterns("sample_documents", "__pycache__"),
        )
        for name in ("pyproject.toml", "workspace.yaml"):
            shutil.copy(PROJECT_ROOT / name, self.root)
        for name in LINKED:
            (self.root / name).symlink_to(PROJECT_ROOT / name, target_is_directory=True)
        self.dagster_home.mkdir()
        shutil.copy(PROJECT_ROOT / "dagster.yaml", self.dagster_home)

    @property
    def defs(self) -> Path:
        """The folder of the collections."""
        return self.root / "extraction_assets" / "defs"

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in the copy and with the copy's code."""
        variables = {name: value for name, value in os.environ.items() if name not in (*PROVIDER, *OF_THE_PLACE)}
        own = {"PYTHONPATH": self.root, "EXTRACTION_HOME": self.home, "DAGSTER_HOME": self.dagster_home}
        return subprocess.run(
            command,
            cwd=self.root,
            env={**variables, **{name: str(path) for name, path in own.items()}, "COLUMNS": "400"},
            capture_output=True,
            text=True,
            check=False,
        )

    def extraction_assets(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the project's own command."""
        return self.run(*cli_command(*arguments))


def cli_command(*arguments: str) -> Sequence[str]:
    """Return the command line that ``extraction-assets`` stands for; the installed script would import the original."""
    return [sys.executable, "-c", "from extraction_assets.cli import main; main()", *arguments]
