"""The SDK is loaded with the collector at rest, which goes on afterwards, seldom and past what is loaded."""

from __future__ import annotations

import subprocess
import sys

SEEN = """
import gc, sys
passes = []
gc.callbacks.append(lambda phase, _: passes.append(phase))
from resources.extraction.sdk import load_sdk
passes.clear()
load_sdk()
print(len(passes), gc.isenabled(), gc.get_freeze_count() > 100_000, "anthropic" in sys.modules)
frozen = gc.get_freeze_count()
load_sdk()
print(gc.get_freeze_count() == frozen)
few = [[] for _ in range(5_000)]
print(len(passes))
many = [[] for _ in range(20_000)]
print(len(passes) > 0)
"""


def test_nothing_is_collected_while_it_loads_and_the_collector_goes_on_afterwards() -> None:
    told = subprocess.run([sys.executable, "-c", SEEN], check=True, capture_output=True, text=True).stdout.split()
    assert told == ["0", "True", "True", "True", "True", "0", "True"]
