"""``make demo``: both sample collections through Dagster's own command line and daemon, from nothing to files.

``dagster job backfill`` launches one run per document set, the daemon runs them, this process watches. A second demo
launches the same runs again and makes no call, because what is done is not done again. The last line is one JSON
object for scripts.

With ``--mode batch`` the same documents go through Message Batches, in a home of their own: in the usual one they are
done already. The runs end after submitting; the batch poller has the results collected, and the demo waits for that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import click
import dagster as dg

from extraction_assets.batches import list_batches
from extraction_assets.cli import ExitCode
from extraction_assets.collections import MODE_VARIABLE, chosen_collections
from extraction_assets.jobs import job_name
from extraction_assets.local import (
    end_on_terminate,
    needs_sandbox,
    prepare_dagster_home,
    running_daemon,
    running_sandbox,
)
from extraction_assets.scanning import scan_collections
from extraction_assets.status import collect_status, print_sets
from extraction_core.collection import Collection
from extraction_core.errors import DocumentExtractionError
from resources.environment import HOME_VARIABLE, PROJECT_ROOT, Environment, read_environment
from resources.ledger import Ledger

BACKFILL_TAG = "dagster/backfill"
LOOK_EVERY_S = 1.0
LONGEST_S = 1200.0
BATCH_HOME = PROJECT_ROOT / ".extraction-batch"
FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in FINISHED]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--mode", type=click.Choice(["realtime", "batch"]), default="realtime", show_default=True)
@click.option("--collection", "only", metavar="NAME", help="Only this collection.")
def main(mode: str, only: str | None) -> None:
    """Extract the sample collections through Dagster, from nothing to files."""
    end_on_terminate()
    if mode == "batch":
        os.environ[MODE_VARIABLE] = mode
        os.environ.setdefault(HOME_VARIABLE, str(BATCH_HOME))
    sys.exit(_guarded(only))


def _guarded(only: str | None) -> int:
    try:
        environment = read_environment()
        environment.home.mkdir(parents=True, exist_ok=True)
        return _demo(environment, chosen_collections(only))
    except DocumentExtractionError as error:
        click.echo(f"error: {error}", err=True)
        return ExitCode.WRONG_USE
    except KeyboardInterrupt:
        click.echo("interrupted; what is done stays done, the next demo goes on from there", err=True)
        return ExitCode.INTERRUPTED


def _demo(environment: Environment, collections: list[Collection]) -> int:
    os.environ["DAGSTER_HOME"] = str(prepare_dagster_home(environment))
    os.environ["EXTRACTION_HOME"] = str(environment.home)
    with ExitStack() as stack:
        bill_url = None
        if needs_sandbox():
            bill_url = stack.enter_context(running_sandbox(environment))
            os.environ["ANTHROPIC_BASE_URL"] = bill_url
            click.echo(f"no key is set: the sandbox at {bill_url} answers, by rules from the text it is sent")
        for scanned in scan_collections(collections, environment):
            click.echo(str(scanned))
        before = _so_far(environment)
        backfills = [_backfill(collection) for collection in collections]  # before the daemon, whose sensors see them
        daemon_log = environment.home / "dagster" / "demo-daemon.log"
        daemon_log.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(running_daemon(dict(os.environ), daemon_log))
        with dg.DagsterInstance.get() as instance:
            finished = _watch(instance, environment, backfills)
        return _summary(environment, collections, before, bill_url, finished=finished)


def _backfill(collection: Collection) -> str:
    """Launch one run per document set with Dagster's own command and return the backfill's id."""
    job = job_name(collection.name)
    command = [
        sys.executable, "-m", "dagster", "job", "backfill", "-w", str(PROJECT_ROOT / "workspace.yaml"),
        "-j", job, "--all", "--noprompt",
    ]  # fmt: skip
    click.echo(f"dagster job backfill -w workspace.yaml -j {job} --all --noprompt")
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DocumentExtractionError(f"the backfill could not be launched:\n{done.stdout}{done.stderr}")
    return done.stdout.split("`")[1]


def _watch(instance: dg.DagsterInstance, environment: Environment, backfills: list[str]) -> bool:
    """Report until every run has finished, those that the sensors asked for too, and no message batch is open.

    Returns:
        False when time ran out.
    """
    begun, said = time.monotonic(), ""
    while time.monotonic() - begun < LONGEST_S:
        runs = [
            run for backfill in backfills for run in instance.get_runs(dg.RunsFilter(tags={BACKFILL_TAG: backfill}))
        ]
        known = {run.run_id for run in runs}
        runs += [run for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)) if run.run_id not in known]
        ended = sum(run.status in FINISHED for run in runs)
        batches = (
            [] if ended < len(runs) else [one for one in list_batches(environment, None, settled=False) if one.is_open]
        )
        line = f"{ended} of {len(runs)} runs finished"
        line += f", {len(batches)} message batches open" if batches else ""
        if line != said:
            click.echo(f"[{time.monotonic() - begun:5.1f} s] {line}")
            said = line
        if ended == len(runs) and not batches:
            return True
        time.sleep(LOOK_EVERY_S)
    click.echo(f"gave up after {LONGEST_S:.0f} s; see the daemon's log below $DAGSTER_HOME", err=True)
    return False


def _summary(
    environment: Environment,
    collections: list[Collection],
    before: dict[str, int],
    bill_url: str | None,
    *,
    finished: bool,
) -> int:
    status = collect_status(collections, environment, documents=False)
    for one in status.collections:
        print_sets(one)
    click.echo(f"outputs: {environment.outputs}/<collection>/<document key>/extraction.json")
    click.echo(f"ledger:  {status.ledger_url}")
    if bill_url:
        click.echo("The answers come from the sandbox: rules, not a model. With ANTHROPIC_API_KEY set, Claude answers.")
    total, completed, failed = (
        sum(one.total(name) for one in status.collections) for name in ("documents", "completed", "failed")
    )
    usage, now = _usage(environment), _so_far(environment)
    line: dict[str, Any] = {
        "documents": total,
        "completed": completed,
        "failed": failed,
        "calls": now["calls"] - before["calls"],
        "ledger_cost_usd": _plain(usage["cost_usd"]),
        "bill_usd": _bill(bill_url),
    }
    if any(collection.settings.mode == "batch" for collection in collections):
        line["batches"] = now["batches"] - before["batches"]
    click.echo(json.dumps(line))
    if not finished or completed == 0:
        return ExitCode.ALL_FAILED_OR_NOTHING
    return ExitCode.ALL_GOOD if completed == total else ExitCode.SOME_FAILED


def _so_far(environment: Environment) -> dict[str, int]:
    """Return how many calls and message batches the ledger knows."""
    return {
        "calls": _usage(environment)["calls"],
        "batches": len(list_batches(environment, None, settled=True)),
    }


def _usage(environment: Environment) -> dict[str, Any]:
    ledger = Ledger(environment.ledger_url)
    try:
        return dict(ledger.reports.total_usage())
    finally:
        ledger.close()


def _bill(url: str | None) -> str | None:
    """Ask the sandbox for its bill; None when somebody else answered, whose bill is not ours to see."""
    if url is None:
        return None
    with urllib.request.urlopen(f"{url}/_sandbox/bill") as answer:  # noqa: S310 - our own server
        return _plain(Decimal(json.load(answer)["cost_usd"]))


def _plain(amount: Decimal) -> str:
    """Return an amount without exponent and without trailing zeros, so that equal amounts are equal strings."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


if __name__ == "__main__":
    main()
