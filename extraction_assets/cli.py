"""``extraction-assets``: the terminal's way to the ledger.

Every command says what it did on stdout, errors go to stderr, and the exit code tells the truth:
0 all good, 1 some documents failed, 2 wrong use or configuration, 3 all failed or nothing to do, 130 interrupted.
Importing this module loads no dagster; the one command that needs it loads it when it runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from typing import ParamSpec

import click

from extraction_assets.batches import cancel_batch, list_batches, resubmit_batch
from extraction_assets.collections import chosen_collections
from extraction_assets.oversight import Oversight, oversee
from extraction_assets.status import CollectionStatus, collect_status, print_documents, print_sets
from extraction_core.errors import DocumentExtractionError
from resources.environment import read_environment
from resources.ledger import Ledger
from resources.ledger.migrate import current_revision

P = ParamSpec("P")


class ExitCode(IntEnum):
    """What a command's exit tells."""

    ALL_GOOD = 0
    SOME_FAILED = 1
    WRONG_USE = 2
    ALL_FAILED_OR_NOTHING = 3
    INTERRUPTED = 130


def reporting_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what we raise on purpose, and places that cannot be used, into one line on stderr and exit code 2.

    Other errors keep their traceback.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except DocumentExtractionError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(ExitCode.WRONG_USE)
        except BrokenPipeError:  # the reader has seen enough: click ends the command quietly
            raise
        except OSError as error:
            click.echo(f"error: {error}. Check that EXTRACTION_HOME and the sources can be used.", err=True)
            sys.exit(ExitCode.WRONG_USE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            sys.exit(ExitCode.INTERRUPTED)

    return run


collection_option = click.option("--collection", "only", metavar="NAME", help="Only this collection.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document for scripts.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="extraction-assets")
def main() -> None:
    """Structured data from documents with Claude: every document once, every call accounted for.

    State is kept below EXTRACTION_HOME (an absolute folder; default .extraction in the project) and in the ledger at
    EXTRACTION_LEDGER_URL (default SQLite in that folder).
    """


@main.command()
@collection_option
@json_option
@reporting_errors
def scan(only: str | None, *, as_json: bool) -> None:
    """Look at the sources: register new, changed and removed documents, and their sets as partitions.

    Files that are not documents are skipped with a reason and counted. Nothing is parsed or paid for. Exits with 3
    when no document is found.
    """
    from extraction_assets.scanning import scan_collections  # noqa: PLC0415 - the only command that loads dagster

    scanned = scan_collections(chosen_collections(only), read_environment())
    if as_json:
        click.echo(json.dumps([entry.as_json() for entry in scanned], indent=1))
    else:
        for entry in scanned:
            click.echo(str(entry))
            for key, reason in entry.skipped:
                click.echo(f"  skipped {key!r}: {reason}")
    if not any(entry.documents for entry in scanned):
        click.echo("no documents found", err=True)
        sys.exit(ExitCode.ALL_FAILED_OR_NOTHING)


@main.command()
@collection_option
@click.option("--documents", is_flag=True, help="List every document with its state, cause and remedy.")
@json_option
@reporting_errors
def status(only: str | None, *, documents: bool, as_json: bool) -> None:
    """Show document sets: counts by state, cost, last error; and whether daemon and sensors are at work.

    The latter is asked of the Dagster that DAGSTER_HOME names, which takes seconds; without it the ledger alone is
    read. Warnings go to stderr and leave the exit code alone.

    Exits with 0 when no document failed, 1 when some did, 3 when all did or none is registered.
    """
    chosen = chosen_collections(only)
    statuses = collect_status(chosen, read_environment(), documents=documents)
    oversight = oversee(chosen)
    if as_json:
        click.echo(json.dumps({**statuses.as_json(), "dagster": oversight.as_json()}, indent=1))
    else:
        click.echo(f"home {statuses.home}, ledger {statuses.ledger_url}")
        for one in statuses.collections:
            print_sets(one)
            if documents:
                print_documents(one)
        click.echo("\n".join(oversight.lines()))
    _warn(oversight)
    sys.exit(_exit_code(statuses.collections))


@main.command()
@collection_option
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would be launched.")
@json_option
@reporting_errors
def sweep(only: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Resume and retry what is due now, under the same guards as the sensor; say what was held back and why.

    Launched runs are queued for the daemon; a warning on stderr tells when none is alive.
    """
    from extraction_assets.sweeping import sweep_collections  # noqa: PLC0415 - loads dagster

    chosen = chosen_collections(only)
    swept = sweep_collections(chosen, read_environment(), dry_run=dry_run)
    oversight = oversee(chosen)
    if as_json:
        click.echo(json.dumps([one.as_json() for one in swept], indent=1))
    else:
        click.echo("\n".join(line for one in swept for line in one.lines()))
        if oversight.queue and oversight.queue.queued:
            click.echo(str(oversight.queue))
    _warn(oversight)


@main.command()
@click.option("--collection", "only", metavar="NAME", required=True, help="The collection of the documents.")
@click.option("--documents", "keys", metavar="KEY", multiple=True, required=True, help="A document key; repeatable.")
@click.option("--reset-attempts", is_flag=True, help="Count their attempts anew: the only way past `max_attempts`.")
@reporting_errors
def retry(only: str, keys: Sequence[str], *, reset_attempts: bool) -> None:
    """Mark documents due for another try; the sweeper, `sweep` or any launch of their set takes them up."""
    from extraction_assets.sweeping import ask_again  # noqa: PLC0415 - loads dagster

    found = ask_again(chosen_collections(only)[0], read_environment(), keys, reset=reset_attempts)
    for key in found:
        click.echo(f"due: {key}")
    missing = sorted(set(keys) - set(found))
    for key in missing:
        click.echo(f"no such document in {only}: {key}", err=True)
    if missing:
        sys.exit(ExitCode.WRONG_USE)


@main.group(invoke_without_command=True)
@collection_option
@click.option("--all", "settled", is_flag=True, help="List settled batches too.")
@json_option
@click.pass_context
@reporting_errors
def batches(context: click.Context, only: str | None, *, settled: bool, as_json: bool) -> None:
    """Show message batches, oldest first: age, state, requests done, document set, expiry. Lost ones are always listed.

    Reads the ledger only; the batch poller keeps it up to date.
    """
    if context.invoked_subcommand:
        return
    if only:
        chosen_collections(only)
    listed = list_batches(read_environment(), only, settled=settled)
    if as_json:
        click.echo(json.dumps([one.as_json() for one in listed], indent=1))
    else:
        click.echo("\n".join(map(str, listed)) or "no message batch is open")


@batches.command("cancel")
@click.argument("name", metavar="ID")
@reporting_errors
def cancel_one(name: str) -> None:
    """Cancel the message batch ID (its number here, or the provider's id).

    Documents that the provider has done by then are kept and paid for, the rest ends cancelled.
    """
    click.echo(f"message batch {name}: {cancel_batch(read_environment(), name)}")


@batches.command("resubmit")
@click.argument("name", metavar="ID")
@reporting_errors
def resubmit_one(name: str) -> None:
    """Make the documents of the lost message batch ID due again. They may be paid for twice: its cost is not known."""
    keys = resubmit_batch(read_environment(), name)
    for key in keys:
        click.echo(f"due: {key}")
    if not keys:
        click.echo("none of its documents is there any more", err=True)
        sys.exit(ExitCode.ALL_FAILED_OR_NOTHING)


@main.command()
@json_option
@reporting_errors
def migrate(*, as_json: bool) -> None:
    """Bring the ledger to the newest schema. Every process does so at start; this is for doing it on its own."""
    ledger = Ledger(read_environment().ledger_url)
    revision = current_revision(ledger.engine)
    answer = {"ledger": ledger.engine.url, "revision": revision}
    ledger.close()
    click.echo(json.dumps(answer) if as_json else f"{answer['ledger']} is at revision {revision}")


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reporting_errors
def sandbox(arguments: Sequence[str]) -> None:
    """Start the sandbox, a local server that speaks the Claude API and answers by rules. See `sandbox --help`."""
    os.execv(sys.executable, [sys.executable, "-m", "sandbox", *arguments])  # noqa: S606 - our own module, no shell


@main.command()
@click.option("--kills", type=click.IntRange(1), default=20, show_default=True, help="Processes to kill.")
@click.option("--seed", type=int, help="Of all draws; printed, and drawn when not given.")
@click.option(
    "--ledger-url",
    "ledger",
    metavar="URL",
    default="sqlite",
    show_default=True,
    help="sqlite; postgres, a server of its own that is crashed too; or the address of an empty database.",
)
@click.option("--mode", type=click.Choice(["realtime", "batch"]), default="realtime", show_default=True)
@click.option("--documents", type=click.IntRange(1), default=100, show_default=True, help="Documents, to begin with.")
@json_option
@reporting_errors
def chaos(  # noqa: PLR0913 - one for each option
    kills: int, seed: int | None, ledger: str, mode: str, documents: int, *, as_json: bool
) -> None:
    """Kill workers with SIGKILL at random places, against the sandbox; prove that nothing was lost or paid twice.

    Nothing of yours is touched: documents, results and ledger are the trial's own, in a temporary folder that is kept
    when a promise was broken. Exits with 1 then, and prints the seed that repeats the trial's plan.
    """
    from extraction_assets.chaos.command import run_and_report  # noqa: PLC0415 - loads dagster

    sys.exit(run_and_report(kills=kills, seed=seed, ledger=ledger, mode=mode, documents=documents, as_json=as_json))


def _warn(oversight: Oversight) -> None:
    for warning in oversight.warnings:
        click.echo(f"warning: {warning}", err=True)


def _exit_code(statuses: Sequence[CollectionStatus]) -> ExitCode:
    total = sum(one.total("documents") for one in statuses)
    failed = sum(one.total("failed") + one.total("cancelled") for one in statuses)
    if not total or failed == total:
        return ExitCode.ALL_FAILED_OR_NOTHING
    return ExitCode.SOME_FAILED if failed else ExitCode.ALL_GOOD
