"""``make dev``: the Dagster UI with daemon on loopback, and the sandbox when there is no key. Ends on Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

import click

from extraction_assets.cli import ExitCode
from extraction_assets.collections import load_collections
from extraction_assets.local import end, end_on_terminate, needs_sandbox, prepare_dagster_home, running_sandbox
from extraction_assets.scanning import scan_collections
from extraction_core.errors import DocumentExtractionError
from resources.environment import PROJECT_ROOT, read_environment


@click.command()
@click.option("--port", default=3000, show_default=True, help="Port of the UI.")
def main(port: int) -> None:
    """Start the UI, the daemon and, without a key, the sandbox; register what is in the sources."""
    end_on_terminate()
    try:
        environment = read_environment()
        environment.home.mkdir(parents=True, exist_ok=True)
        os.environ["DAGSTER_HOME"] = str(prepare_dagster_home(environment))
        os.environ["EXTRACTION_HOME"] = str(environment.home)
        for scanned in scan_collections(load_collections(), environment):
            click.echo(str(scanned))
    except DocumentExtractionError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(ExitCode.WRONG_USE)
    with ExitStack() as stack:
        if needs_sandbox():
            os.environ["ANTHROPIC_BASE_URL"] = stack.enter_context(running_sandbox(environment))
            click.echo(f"no key is set: the sandbox answers at {os.environ['ANTHROPIC_BASE_URL']}, by rules")
        click.echo(f"Dagster UI: http://127.0.0.1:{port}")
        process = subprocess.Popen(ui_command(port), cwd=PROJECT_ROOT)
        try:
            sys.exit(process.wait())
        except KeyboardInterrupt:
            end(process)
            sys.exit(ExitCode.INTERRUPTED)


def ui_command(port: int) -> list[str]:
    """Return the command line of the UI with its daemon: on loopback, since it asks nobody who they are."""
    workspace = str(PROJECT_ROOT / "workspace.yaml")
    return [sys.executable, "-m", "dagster", "dev", "-w", workspace, "-h", "127.0.0.1", "-p", str(port)]


if __name__ == "__main__":
    main()
