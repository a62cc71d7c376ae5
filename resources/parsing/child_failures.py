"""Why a document gave no text of its own accord: refused unread, or how its process ended, by the limits it had."""

from __future__ import annotations

import signal
from typing import Any

from extraction_core.parsing import ParseFailure, ParseFailureReason
from resources.parsing.limits import ParseLimits

_CRASHES = frozenset({-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGTRAP})
"""How native code ends when an allocation is refused."""
_NEAR_LIMIT = 0.6
"""Share of the address space in use at the end beyond which a crash is put down to the memory limit."""


def refused_unread(data: bytes, limits: ParseLimits) -> ParseFailure | None:
    """Why a document gets no process at all; None if it gets one."""
    if not data:
        return ParseFailure(reason=ParseFailureReason.EMPTY_FILE, message="the file is empty (0 bytes)")
    if len(data) > limits.document_bytes:
        message = f"{len(data):,} bytes; the limit is {limits.document_bytes:,}"
        return ParseFailure(reason=ParseFailureReason.LIMIT, message=message)
    return None


def failure_of(report: dict[str, Any] | None, limits: ParseLimits) -> ParseFailure | None:
    """Why the child came to no result of its own; None if it did. No report: the server that forks children died."""
    if report is None:
        return ParseFailure(reason=ParseFailureReason.WORKER_DIED, message="the parsing server died or was stopped")
    if report["timed_out"]:
        message = f"not parsed within {limits.wall_s:g} seconds"
        return ParseFailure(reason=ParseFailureReason.TIMEOUT, message=message)
    if report["exit_code"] != 0:
        return _failure_of_exit(report["exit_code"], report["peak_memory_bytes"], limits)
    return None


def _failure_of_exit(exit_code: int, peak_memory_bytes: int, limits: ParseLimits) -> ParseFailure:
    if exit_code == -signal.SIGXCPU:
        message = f"used more than {limits.cpu_s} seconds of processor time"
        return ParseFailure(reason=ParseFailureReason.LIMIT, message=message)
    how = f"by signal {-exit_code} ({signal.Signals(-exit_code).name})" if exit_code < 0 else f"with code {exit_code}"
    if exit_code in _CRASHES and peak_memory_bytes > _NEAR_LIMIT * limits.memory_bytes:
        limit = limits.memory_bytes // 1024**2
        message = f"needs more memory than the limit of {limit} MB (the parsing process died {how})"
        return ParseFailure(reason=ParseFailureReason.LIMIT, message=message)
    return ParseFailure(reason=ParseFailureReason.WORKER_DIED, message=f"the parsing process died {how}")
