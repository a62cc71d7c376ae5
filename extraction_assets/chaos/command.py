"""``extraction-assets chaos`` for people and scripts: progress on stderr, the table, and one line of JSON."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path

import click

from extraction_assets.chaos.outcome import Outcome, TrialOptions
from extraction_assets.chaos.proof import is_clean, table
from extraction_assets.chaos.run import run_trial, say_on_stderr
from extraction_assets.local import end_on_terminate

LARGEST_SEED = 2**31


def run_and_report(  # noqa: PLR0913 - one for each option
    *, kills: int, seed: int | None, ledger: str, mode: str, documents: int, as_json: bool
) -> int:
    """Run a trial and print what came of it. Returns the exit code: 1 when a promise was broken."""
    end_on_terminate()
    seed = random.SystemRandom().randrange(LARGEST_SEED) if seed is None else seed
    options = TrialOptions(kills=kills, seed=seed, ledger=ledger, mode=mode, documents=documents)
    folder = Path(tempfile.mkdtemp(prefix="extraction-chaos-"))
    say = say_on_stderr()
    say(f"seed {seed}, in {folder}")
    outcome = run_trial(options, folder, say)
    clean = is_clean(outcome.found)
    click.echo(_report(outcome, clean=clean))
    if as_json:
        click.echo(json.dumps({**outcome.as_json(), "clean": clean}))
    if clean:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if clean else 1


def _report(outcome: Outcome, *, clean: bool) -> str:
    harm, options = outcome.tally, outcome.options
    harmed = (
        f"{harm.kills} kills, {harm.restarts} restarts, {harm.frozen} frozen, {harm.rivals} rivals, "
        f"{harm.storms} provider faults, {harm.callers_killed} caller processes killed, "
        f"{harm.connections_cut} connections cut, "
        f"{harm.database_crashes} database crashes, {harm.clock_jumps} clock jumps; "
        f"{outcome.documents} documents, {options.mode}, {options.ledger}, {outcome.seconds:.0f} s"
    )
    lines = [harmed, table(outcome.found)]
    again = f"extraction-assets chaos --kills {options.kills} --seed {options.seed} --ledger-url {options.ledger}"
    again += f" --mode {options.mode} --documents {options.documents}"
    lines.append(
        f"every promise was kept; the same plan again: {again}" if clean else f"PROMISES BROKEN; again: {again}"
    )
    if not clean:
        lines.append(f"to be looked at: {outcome.folder} (ledger {outcome.ledger_url}, processes.log)")
    return "\n".join(lines)
