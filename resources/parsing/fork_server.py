"""The process that has the parsing libraries imported and forks one limited child per document.

Started by :mod:`resources.parsing.server_process` with one end of a socket pair as ``control``. A request is one byte
on it, which says whether there is OCR to do and so which limits hold, with three descriptors: a reply socket, the
document (an order as a line of JSON, then the bytes) and a file for the result. The server answers each request with
one JSON object on its reply socket, once the child has ended. A closed reply socket cancels its child; a closed control
socket ends everything. The server stays single-threaded: that is what makes forking after the imports safe (the
libraries start threads on their first call, which only children make).

A fork and the pages that a child copies are most of what a short document costs, so there are two kinds of servers: one
that has all engines imported, and one a third of its size for documents that are named as text.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from extraction_core.parsing import ParseFailure, ParseFailureReason
from resources.parsing.limits import ParseLimits
from resources.parsing.wire import RECOGNISE, Readers, Task, encode_failure

Perform = Callable[[Mapping[str, Any], bytes], bytes]
"""Does an order with a document in a child, and returns the encoded result."""

_FIRST_INHERITED_FD = 3
_MAX_FD = 4096
_WARM_UP_ROUNDS = 20
"""CPython 3.11 specialises code that ran about eight times, in place."""
_SAMPLE = ({"task": Task.PARSE.value, "document_key": "sample.md"}, "# A sample\n\n| Größe |\n|---|\n| 2U |\n".encode())
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(kw_only=True)
class _Child:
    """A running child. ``alive`` is the read end of a pipe that reaches its end when the child does."""

    pid: int
    reply: socket.socket
    alive: int
    deadline: float


class ForkServer:
    """One loop over: new requests, children that ended, callers that went away, deadlines."""

    def __init__(self, control: socket.socket, limits: ParseLimits, perform: Perform) -> None:
        self._control = control
        self._limits, self._perform = limits, perform
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}

    def serve(self) -> None:
        """Serve until the control socket is closed, then kill what still runs."""
        self._selector.register(self._control, selectors.EVENT_READ)
        open_for_requests = True
        while open_for_requests:
            for key, _ in self._selector.select(self._seconds_to_next_deadline()):
                if key.fileobj is self._control:
                    open_for_requests = self._accept()
                elif key.data in self._children:  # not ended by an earlier event of the same round
                    self._end(self._children[key.data], timed_out=False)
            self._end_overdue()
        for child in list(self._children.values()):
            self._end(child, timed_out=False)

    def _accept(self) -> bool:
        byte, fds, _, _ = socket.recv_fds(self._control, 1, 3)
        if not byte:
            return False
        reply_fd, document_fd, result_fd = fds
        reply = socket.socket(fileno=reply_fd)
        alive, alive_in_child = os.pipe()
        limits = self._limits.for_ocr() if byte == RECOGNISE else self._limits
        pid = os.fork()
        if pid == 0:
            _run_child(document_fd, result_fd, alive_in_child, limits, self._perform)
        for fd in (document_fd, result_fd, alive_in_child):
            os.close(fd)
        self._children[pid] = _Child(pid=pid, reply=reply, alive=alive, deadline=time.monotonic() + limits.wall_s)
        self._selector.register(alive, selectors.EVENT_READ, pid)
        self._selector.register(reply, selectors.EVENT_READ, pid)
        return True

    def _end(self, child: _Child, *, timed_out: bool) -> None:
        """Kill the child's process group (a no-op for one that has ended), reap it and report."""
        _kill_group(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        del self._children[child.pid]
        self._selector.unregister(child.alive)
        self._selector.unregister(child.reply)
        os.close(child.alive)
        report = {
            "exit_code": os.waitstatus_to_exitcode(status),
            "timed_out": timed_out,
            "peak_memory_bytes": usage.ru_maxrss * _MAXRSS_UNIT,
        }
        with child.reply, contextlib.suppress(OSError):  # the caller may have gone away
            child.reply.sendall(json.dumps(report).encode())

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for child in [child for child in self._children.values() if child.deadline <= now]:
            self._end(child, timed_out=True)

    def _seconds_to_next_deadline(self) -> float | None:
        if not self._children:
            return None
        return max(0.0, min(child.deadline for child in self._children.values()) - time.monotonic())


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group does not exist yet when the child was just forked
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _run_child(document_fd: int, result_fd: int, alive_fd: int, limits: ParseLimits, perform: Perform) -> None:
    """Do one task and leave without any clean-up: exit handlers of the native libraries are known to crash."""
    try:
        os.setsid()
        _close_all_but({document_fd, result_fd, alive_fd})
        limits.apply_to_this_process()
        with os.fdopen(document_fd, "rb") as document:
            order = json.loads(document.readline())
            data = document.read()
        result = _perform(perform, order, data)
        with os.fdopen(result_fd, "wb", closefd=False) as out:
            out.write(result)
        os._exit(0)
    finally:
        os._exit(1)


def _perform(perform: Perform, order: Mapping[str, Any], data: bytes) -> bytes:
    try:
        return perform(order, data)
    except MemoryError:
        reason, message = ParseFailureReason.LIMIT, "needs more memory than the limit allows"
    except Exception as error:  # noqa: BLE001 - the edge of the worker: whatever a damaged file provokes is its failure
        reason, message = ParseFailureReason.CORRUPT, f"could not be read ({type(error).__name__}: {error})"
    return encode_failure(ParseFailure(reason=reason, message=message))


def _close_all_but(kept: set[int]) -> None:
    start = _FIRST_INHERITED_FD
    for fd in [*sorted(kept), _MAX_FD]:
        os.closerange(start, fd)
        start = fd + 1


def _prepared(readers: Readers) -> Perform:
    """Import what the children need and do what each of them would otherwise pay for; starts no threads."""
    if readers is Readers.TEXT:
        from resources.parsing.text_reader import perform_text as perform  # noqa: PLC0415 - what is imported is the point
    else:
        from resources.parsing.document_reader import preload_engines  # noqa: PLC0415 - as above
        from resources.parsing.tasks import perform  # noqa: PLC0415 - as above

        preload_engines()
    for _ in range(_WARM_UP_ROUNDS):  # else each child would specialise the code, in pages of its own
        perform(*_SAMPLE)
    return perform


def main() -> None:
    """Entry point: ``readers``, ``control descriptor`` and ``limits as JSON`` are the last three arguments."""
    readers, control, limits = sys.argv[-3:]
    perform = _prepared(Readers(readers))
    gc.collect()
    gc.freeze()  # keeps the collector of the children from copying the pages they share with the server
    ForkServer(socket.socket(fileno=int(control)), ParseLimits(**json.loads(limits)), perform).serve()
