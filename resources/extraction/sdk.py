"""Loading the SDK: thousands of modules, among whose making the garbage collector finds nothing to collect."""

from __future__ import annotations

import gc
import importlib
import sys

from extraction_core.collector import pass_seldom

SDK = "anthropic"


def load_sdk() -> None:
    """Import the SDK once, the collector at rest; from then on it passes seldom, and not over what was loaded."""
    if SDK in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module(SDK)
    finally:
        pass_seldom()
        if was_enabled:
            gc.enable()
