"""Small trials: a few real workers are killed, and every promise is kept all the same. ``make chaos`` kills hundreds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from extraction_assets.chaos.outcome import TrialOptions
from extraction_assets.chaos.proof import TITLES, is_clean, table
from extraction_assets.chaos.run import run_trial
from extraction_assets.cli import ExitCode, main
from resources.ledger import Ledger
from tests.factories import a_run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(900)  # a trial gives up by itself, and says then what is not at rest

KILLS, DOCUMENTS = 5, 12
SEED = 11


@pytest.mark.parametrize(
    ("ledger", "mode"),
    [
        pytest.param("postgres", "realtime", marks=pytest.mark.postgres),
        ("sqlite", "batch"),
    ],
)
def test_whoever_is_killed_every_promise_is_kept(ledger: str, mode: str, tmp_path: Path) -> None:
    said: list[str] = []
    options = TrialOptions(kills=KILLS, seed=SEED, ledger=ledger, mode=mode, documents=DOCUMENTS)
    outcome = run_trial(options, tmp_path, said.append)
    processes = (tmp_path / "processes.log").read_text(errors="replace")
    assert is_clean(outcome.found), f"{table(outcome.found)}\n{processes[-3000:]}"
    assert outcome.tally.kills >= KILLS
    assert outcome.tally.restarts > 0
    written = sorted(path.stem for path in (tmp_path / "documents").rglob("*.md"))
    assert len(written) == outcome.documents
    done = [path.parent.name for path in (tmp_path / "home" / "outputs").rglob("extraction.json")]
    assert sorted(name.removesuffix(".md") for name in done) == written


def test_the_command_prints_what_happened_and_one_line_that_holds_every_count() -> None:
    arguments = ["chaos", "--kills", "3", "--documents", "8", "--seed", "5", "--json"]
    ended = CliRunner().invoke(main, arguments)
    assert ended.exit_code == ExitCode.ALL_GOOD, ended.output
    counts = json.loads(ended.stdout.splitlines()[-1])
    assert {*TITLES, "kills", "restarts", "seed", "documents", "clean"} <= set(counts)
    assert counts["kills"] >= 3
    assert (
        "extraction-assets chaos --kills 3 --seed 5 --ledger-url sqlite --mode realtime --documents 8" in ended.stdout
    )


def test_a_ledger_in_use_is_refused(database_url: str) -> None:
    ledger = Ledger(database_url)
    a_run(ledger)
    ledger.close()
    ended = CliRunner().invoke(main, ["chaos", "--ledger-url", database_url])
    assert ended.exit_code == ExitCode.WRONG_USE
    assert "in use" in ended.stderr
