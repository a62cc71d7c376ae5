"""How much one document may use.

The numbers were measured on hostile and on large real documents: 2 GB of address space let a 5,000-page PDF through and
stop decompression bombs within seconds. ``RLIMIT_AS`` has no effect on macOS; there the other limits must do.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from dataclasses import asdict, dataclass, replace
from typing import Any

_GRACE_S = 5
"""The child's own alarm comes this much after the fork server's deadline; it matters only if the server is gone."""
OCR_TAKES = 15
"""Times as long: a dense page takes up to two seconds of processor time, so this lets 900 pages through."""


@dataclass(frozen=True, kw_only=True)
class ParseLimits:
    """Limits of one document; sizes in bytes, times in seconds.

    Processor time is the guard against work without end; the wall-clock limit is wider, for busy machines.
    """

    document_bytes: int = 300 * 1024**2
    memory_bytes: int = 2 * 1024**3
    cpu_s: int = 120
    wall_s: float = 240.0
    output_bytes: int = 128 * 1024**2

    def for_ocr(self) -> ParseLimits:
        """The limits of a document whose pages are recognised, which takes far longer than to read them."""
        return replace(self, cpu_s=self.cpu_s * OCR_TAKES, wall_s=self.wall_s * OCR_TAKES)

    def to_json(self) -> dict[str, Any]:
        """Fields by name, for the fork server's command line."""
        return asdict(self)

    def apply_to_this_process(self) -> None:
        """Limit the calling process for good; it dies by a signal where it goes beyond."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.output_bytes, self.output_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_s, self.cpu_s + _GRACE_S))
        resource.setrlimit(resource.RLIMIT_AS, (self.memory_bytes, self.memory_bytes))
        signal.setitimer(signal.ITIMER_REAL, self.wall_s + _GRACE_S)
        with contextlib.suppress(OSError):  # Linux: if memory runs out, the kernel kills this process before others
            _write(b"/proc/self/oom_score_adj", b"1000")


def _write(file: bytes, data: bytes) -> None:
    """By system calls: what a path and a text file of Python's touch costs a fresh process two milliseconds."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
