"""Where everything is, from the environment: one absolute home, one ledger, the times that hold the queue together.

The same answer in every process, whatever its working directory: a ledger that depends on where a command was typed
would pay for everything again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from extraction_core.errors import ConfigurationError
from extraction_core.settings import CallerUse, Timing

PROJECT_ROOT = Path(__file__).resolve().parents[1]
HOME_VARIABLE = "EXTRACTION_HOME"
LEDGER_VARIABLE = "EXTRACTION_LEDGER_URL"
CALLER_VARIABLE = "EXTRACTION_CALLER_PROCESS"
TIMING_VARIABLES = {
    "lease_s": "EXTRACTION_LEASE_S",
    "heartbeat_s": "EXTRACTION_HEARTBEAT_S",
    "request_timeout_s": "EXTRACTION_REQUEST_TIMEOUT_S",
    "retry_in_run_s": "EXTRACTION_RETRY_IN_RUN_S",
    "cancel_grace_s": "EXTRACTION_CANCEL_GRACE_S",
    "batch_settle_s": "EXTRACTION_BATCH_SETTLE_S",
}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Absolute places and times.

    Attributes:
        home: all state that is files: parsed text, outputs, reports, and the ledger if it is SQLite.
        ledger_url: the ledger's database.
        caller_process: whether calls are made by a process of their own.
    """

    home: Path
    ledger_url: str
    timing: Timing
    caller_process: CallerUse = CallerUse.AUTO

    @property
    def outputs(self) -> Path:
        """Root of the results."""
        return self.home / "outputs"

    @property
    def parsed(self) -> Path:
        """Root of the parsed text."""
        return self.home / "parsed"


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """Read the environment.

    Raises:
        ConfigurationError: a path is relative, a time is not a number, the times contradict each other, or a word is
            none of those that may be said.
    """
    home = Path(variables.get(HOME_VARIABLE) or PROJECT_ROOT / ".extraction")
    if not home.is_absolute():
        raise ConfigurationError(
            HOME_VARIABLE,
            None,
            f"is the relative path {str(home)!r}, which is another place for every working directory.",
            "Give an absolute path.",
        )
    times = {name: _seconds(variables, variable) for name, variable in TIMING_VARIABLES.items()}
    return Environment(
        home=home,
        ledger_url=variables.get(LEDGER_VARIABLE) or f"sqlite:///{home / 'ledger.db'}",
        timing=Timing(**{name: value for name, value in times.items() if value is not None}),
        caller_process=_caller_use(variables.get(CALLER_VARIABLE) or CallerUse.AUTO),
    )


def _caller_use(word: str) -> CallerUse:
    if word not in set(CallerUse):
        remedy = f"Set one of {', '.join(CallerUse)}, or unset it."
        raise ConfigurationError(CALLER_VARIABLE, None, f"is {word!r}, which is no way to make calls.", remedy)
    return CallerUse(word)


def _seconds(variables: Mapping[str, str], variable: str) -> float | None:
    text = variables.get(variable)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        problem = f"is {text!r}, not a positive number of seconds."
        raise ConfigurationError(variable, None, problem, "Correct or unset it.")
    return seconds
