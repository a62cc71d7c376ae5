"""Loading the SDK: thousands of modules, among whose making the garbage collector finds nothing to collect."""

from __future__ import annotations

import gc
import importlib
import sys

SDK = "anthropic"


def load_sdk() -> None:
    """Import the SDK once, the collector at rest, and let it pass over all that is loaded from then on.

    Each of its full passes walks through everything that Dagster and the SDK made, which does not go away any more:
    that was a sixth of a short run's processor time.
    """
    if SDK in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module(SDK)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
