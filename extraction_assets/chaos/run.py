"""Running a trial in an empty folder: everything that it needs is started, and ended after it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from extraction_assets.chaos.outcome import Outcome, TrialOptions
from extraction_assets.chaos.place import Place
from extraction_assets.chaos.proof import violations
from extraction_assets.chaos.provider import Provider
from extraction_assets.chaos.trial import Trial
from extraction_assets.local import running_sandbox
from extraction_assets.local_postgres import LocalPostgres, running_local_postgres
from extraction_core.settings import Timing
from resources.environment import Environment


def run_trial(options: TrialOptions, folder: Path, say: Callable[[str], None]) -> Outcome:
    """Run a trial in an empty folder.

    Raises:
        ConfigurationError: the ledger is not empty: a trial kills its workers, and moves its clocks.
        NoPostgresError: a server was asked for, and there is none on this machine.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        url, server = stack.enter_context(_ledger(options.ledger, folder))
        environment = Environment(home=folder / "home", ledger_url=url, timing=Timing())
        provider = Provider(stack.enter_context(running_sandbox(environment)))
        place = Place(folder=folder, ledger_url=url, mode=options.mode, provider_url=provider.url)
        place.enter()
        instance = stack.enter_context(place.dagster())
        trial = Trial(options, place, provider, instance, server, say)
        trial.run()
        say("everything is at rest; comparing ledger, files and the provider's log")
        found = violations(place, provider, trial.documents)
        return Outcome(
            options=options,
            documents=trial.documents,
            tally=trial.tally,
            found=found,
            seconds=time.monotonic() - begun,
            folder=folder,
            ledger_url=url,
        )


@contextmanager
def _ledger(wanted: str, folder: Path) -> Iterator[tuple[str, LocalPostgres | None]]:
    """Give the address of an empty ledger, and the server if it is the trial's own."""
    if wanted == "sqlite":
        yield f"sqlite:///{folder / 'ledger.db'}", None
    elif wanted == "postgres":
        with running_local_postgres() as server:
            yield server.url, server
    else:
        yield wanted, None


def say_on_stderr() -> Callable[[str], None]:
    """Return what prints a line with the seconds since now."""
    begun = time.monotonic()

    def say(line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - begun:6.1f} s] {line}\n")
        sys.stderr.flush()

    return say
