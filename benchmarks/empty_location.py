"""A code location with one asset that does nothing but say when it ran: the floor of what Dagster itself takes."""

from __future__ import annotations

import time

import dagster as dg


@dg.asset
def nothing() -> None:
    """Tell when the first line of the asset is reached."""
    print(f"reached at {time.time()}", flush=True)


defs = dg.Definitions(assets=[nothing], executor=dg.in_process_executor)
