"""What Dagster is handed of the resource layer: the only file here that imports dagster."""

from __future__ import annotations

import dagster as dg

from resources.environment import Environment, read_environment


class ExtractionEnvironment(dg.ConfigurableResource["ExtractionEnvironment"]):
    """Home, ledger and times, read from the environment of the process that runs.

    It has no fields on purpose: what stands in run config can be read by everybody with access to the UI, and a
    ledger's address may hold a password.
    """

    def read(self) -> Environment:
        """Read the environment.

        Raises:
            ConfigurationError: a variable is wrong; the message names it and the remedy.
        """
        return read_environment()
