"""A home with an empty ledger, for commands that run in the test's own process."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from resources.ledger import Ledger
from tests.project_copy import PROJECT_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def home(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this process, with an empty ledger, and a Dagster of its own."""
    home, dagster_home = tmp_path / "home", tmp_path / "dagster"
    home.mkdir()
    dagster_home.mkdir()
    shutil.copy(sqlite_template, home / "ledger.db")
    shutil.copy(PROJECT_ROOT / "dagster.yaml", dagster_home)
    monkeypatch.setenv("EXTRACTION_HOME", str(home))
    monkeypatch.delenv("EXTRACTION_LEDGER_URL", raising=False)
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home))
    monkeypatch.setenv("COLUMNS", "200")
    return home


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    """The ledger that the commands read."""
    with closing(Ledger(f"sqlite:///{home / 'ledger.db'}")) as ledger:
        yield ledger
