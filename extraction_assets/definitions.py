"""The code location: every collection below ``defs/``, and what they are given."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from resources.configurable import ExtractionEnvironment


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all collections.

    Runs execute in the process that was launched: an asset is one step, and a process of its own for it would cost
    seconds and gain nothing.
    """
    return dg.Definitions.merge(
        dg.load_from_defs_folder(path_within_project=Path(__file__).parent),
        dg.Definitions(resources={"extraction": ExtractionEnvironment()}, executor=dg.in_process_executor),
    )
