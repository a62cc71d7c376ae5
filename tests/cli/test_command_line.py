"""Help, wrong command lines, interruptions, closed pipes, and that all of it is documented."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from extraction_assets.cli import main
from resources.ledger import Ledger
from tests.cli.support import run
from tests.factories import a_set
from tests.project_copy import PROJECT_ROOT, cli_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


WAIT_S = 60.0
DOCUMENTATION = ("README.md", "docs/operations.md")
COMMANDS = {
    "chaos": "prove that nothing was lost or paid twice",
    "scan": "Nothing is parsed or paid for",
    "status": "counts by state, cost, last error",
    "sweep": "Resume and retry what is due now",
    "retry": "Mark documents due for another try",
    "batches": "Show message batches, oldest first",
    "migrate": "Bring the ledger to the newest schema",
}


# help and errors


def test_every_command_is_described_here() -> None:
    assert {*COMMANDS, "sandbox"} == set(main.commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_says_what_it_does(command: str) -> None:
    result = run(command, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert COMMANDS[command] in " ".join(result.stdout.split())


def test_the_help_lists_every_command() -> None:
    shown = run("--help").stdout
    assert {line.split()[0] for line in shown.partition("Commands:\n")[2].splitlines()} >= set(main.commands)


@pytest.mark.parametrize("arguments", [("status", "--speed"), ("extract",), ("retry",), ("scan", "now")], ids=" ".join)
def test_a_wrong_command_line_is_answered_on_stderr_alone(arguments: Sequence[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_the_help_of_the_sandbox_is_its_own() -> None:
    done = subprocess.run(cli_command("sandbox", "--help"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--port" in done.stdout
    assert "answers by rules" in done.stdout


# real processes


@contextmanager
def answering_to_interrupts() -> Iterator[None]:
    """Let children be started with the usual answer to Ctrl-C: a shell may have started the tests with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("home")
def test_ctrl_c_ends_a_command_with_130_and_one_line() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, answering_to_interrupts():
        silent.settimeout(WAIT_S)
        address = f"postgresql://user@127.0.0.1:{silent.getsockname()[1]}/ledger?sslmode=disable"
        with subprocess.Popen(
            cli_command("status"),
            env={**os.environ, "EXTRACTION_LEDGER_URL": address},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            connection, _ = silent.accept()
            with closing(connection):
                assert connection.recv(1) != b""  # now the command waits for an answer that never comes
                process.send_signal(signal.SIGINT)
                stdout, stderr = process.communicate(timeout=WAIT_S)
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")


def test_a_reader_that_has_seen_enough_is_no_error(ledger: Ledger) -> None:
    a_set(ledger, 1500)  # more than a pipe holds
    with subprocess.Popen(
        cli_command("status", "--documents"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("home ")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode != 0  # it did write into the closed pipe


# documentation


def documentation() -> str:
    """Return what a person who runs the project reads."""
    return "\n".join((PROJECT_ROOT / name).read_text() for name in DOCUMENTATION)


@pytest.mark.parametrize("command", main.commands)
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"extraction-assets {command}\b", documentation()), f"add it to one of {DOCUMENTATION}"


def test_every_variable_of_the_environment_is_documented() -> None:
    source = (PROJECT_ROOT / "resources" / "environment.py").read_text()
    variables = set(re.findall(r"\bEXTRACTION_[A-Z_]+\b", source))
    assert "EXTRACTION_HOME" in variables
    assert variables - set(re.findall(r"`(EXTRACTION_[A-Z_]+)`", documentation())) == set()
