"""How a process of a trial kills or freezes itself at a failpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from extraction_assets.chaos.place import TIMING, Place
from extraction_assets.chaos.plan import Fate
from extraction_core.failpoints import Failpoint
from resources.ledger.engine import LedgerEngine
from resources.ledger.trials import clock_ms, wait_until_idle

FROZEN_S = TIMING.lease_s + 10.0
"""Long enough for the sweeper to find the leases over, and for somebody else to do the work; who ends it wakes it."""


class Doom:
    """Failpoints at which a process kills or freezes itself, if that is its fate.

    Args:
        fate: which, and when.
        place: where a frozen process leaves a mark.

    Attributes:
        engine: of the process's ledger, once there is one.
    """

    def __init__(self, fate: Fate, place: Place) -> None:
        self._name, self._left, self._freezes = fate.failpoint, fate.on_pass, fate.freezes
        self._place = place
        self.engine: LedgerEngine | None = None

    def __call__(self, name: Failpoint) -> None:
        """Count the passes of the failpoint that is meant."""
        if name != self._name:
            return
        self._left -= 1
        if self._left == 0 and self._freezes:
            self._freeze(name)
        elif self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def _freeze(self, name: Failpoint) -> None:
        begun_s = self._place.lives.freezes()
        subprocess.Popen(["sh", "-c", f"sleep {FROZEN_S}; kill -CONT {os.getpid()}"])  # noqa: S607 - the system's
        if self.engine:
            wait_until_idle(self.engine)
        # to this thread: to the process, it may take effect only when the main thread has its turn
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        if self.engine:
            self._place.lives.wakes(name, begun_s, clock_ms(self.engine))
