"""Loading the SDK: thousands of modules, among whose making the garbage collector finds nothing to collect."""

from __future__ import annotations

import gc
import importlib
import sys

SDK = "anthropic"
ALLOCATIONS_A_PASS = 10_000
"""More than Python's 700: a call makes hundreds of objects and next to no cycles, so passes over few of them find
nothing. It was a thirtieth of a document's processor time."""


def load_sdk() -> None:
    """Import the SDK once, the collector at rest, and have it pass seldom, and over all that is loaded, from then on.

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
        gc.set_threshold(ALLOCATIONS_A_PASS, *gc.get_threshold()[1:])
        if was_enabled:
            gc.enable()
