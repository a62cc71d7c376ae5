"""Python's garbage collector in a process that works on documents: seldom, and past what stays anyway."""

from __future__ import annotations

import gc

ALLOCATIONS_A_PASS = 10_000
"""More than Python's 700: a document makes hundreds of objects and next to no cycles, so passes over few of them find
nothing."""

_seldom = False


def pass_seldom() -> None:
    """Have the collector pass seldom, and not over what is loaded by now; once in a process.

    Each of its full passes walks through everything that Dagster and the SDK made, which does not go away any more:
    that was a sixth of a short run's processor time.
    """
    global _seldom  # noqa: PLW0603 - a second freeze would keep for good what was garbage in between
    if not _seldom:
        _seldom = True
        gc.freeze()
        gc.set_threshold(ALLOCATIONS_A_PASS, *gc.get_threshold()[1:])
