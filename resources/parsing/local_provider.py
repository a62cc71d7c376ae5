"""The local parse provider: one short-lived, limited process per document.

Whatever a document does to its process (crash, hang, bomb) is the failure of that document alone. The process is forked
from a server that has the parsing libraries imported (:mod:`resources.parsing.fork_server`), which costs about 10 ms
where a fresh interpreter costs about 500 ms.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from extraction_core.parsing import Attachment, ParsedDocument, ParseFailure, ParseFailureReason
from resources.parsing.child_failures import failure_of, refused_unread
from resources.parsing.limits import ParseLimits
from resources.parsing.ocr import OcrData
from resources.parsing.versions import provider_version
from resources.parsing.wire import READ, RECOGNISE, Task, decode_attachments, decode_content, decode_result

T = TypeVar("T")
_IMPORT_ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.insert(0, sys.argv[1]); from resources.parsing.fork_server import main; main()"
_ENVIRONMENT = {
    "PATH": os.defpath,
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # On machines with many processors the libraries' threads alone would reserve the address space that is allowed.
    "MALLOC_ARENA_MAX": "2",
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "2",
}
"""All that the parsing processes see: no keys, no proxies, no home folder."""


class LocalParseProvider:
    """Parses with the libraries on this machine. Thread-safe; a call blocks its thread until the document is done."""

    name = "local"

    def __init__(
        self, *, scratch_folder: Path, limits: ParseLimits | None = None, max_processes: int | None = None
    ) -> None:
        """Nothing is started yet; the first document starts the server.

        Args:
            scratch_folder: where documents and results lie while they are handed over, as files without a name, so
                that nothing is left behind by a crash.
            limits: limits of each document.
            max_processes: documents parsed at the same time; further callers wait. Default: one per processor.
        """
        self.version = provider_version()
        self._scratch_folder = scratch_folder
        self._limits = limits or ParseLimits()
        self._slots = threading.BoundedSemaphore(max_processes or os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._server: _ServerProcess | None = None
        self._closed = False

    def parse(self, data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
        """Parse one document; see :class:`extraction_core.parsing.ParseProvider`.

        Raises:
            RuntimeError: the provider was closed.
        """
        return self._ask({"task": Task.PARSE, "document_key": document_key}, data, decode_result)

    def recognise(self, data: bytes, document_key: str, ocr: OcrData) -> ParsedDocument | ParseFailure:
        """Parse one document with OCR of what has no text."""
        order = {"task": Task.RECOGNISE, "document_key": document_key, "ocr": asdict(ocr)}
        return self._ask(order, data, decode_result)

    def inspect(self, data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
        """Look at a PDF or a picture without reading it; parse any other document."""
        return self._ask({"task": Task.INSPECT, "document_key": document_key}, data, decode_result)

    def attachments(self, mail: bytes) -> list[Attachment] | ParseFailure:
        """List the attachments of a mail."""
        return self._ask({"task": Task.LIST_ATTACHMENTS}, mail, decode_attachments)

    def attachment(self, mail: bytes, number: int) -> bytes | ParseFailure:
        """Return the bytes of one attachment of a mail, by its place."""
        return self._ask({"task": Task.READ_ATTACHMENT, "number": number}, mail, decode_content)

    def _ask(self, order: Mapping[str, Any], data: bytes, decode: Callable[[bytes], T]) -> T | ParseFailure:
        """Have a child do a task."""
        if refused := refused_unread(data, self._limits):
            return refused
        request, limits = READ, self._limits
        if order["task"] is Task.RECOGNISE:
            request, limits = RECOGNISE, self._limits.for_ocr()
        with self._slots, self._scratch_file() as document, self._scratch_file() as result:
            document.write(json.dumps(order).encode() + b"\n")
            document.write(data)
            document.seek(0)
            report = self._run(request, document, result)
            if failure := failure_of(report, limits):
                return failure
            result.seek(0)
            try:
                return decode(result.read())
            except ValueError as error:
                message = f"the parsing process left no usable result ({error})"
                return ParseFailure(reason=ParseFailureReason.WORKER_DIED, message=message)

    def close(self) -> None:
        """Kill what still runs; callers that wait get a failure. Safe to call twice."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        """The provider itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _scratch_file(self) -> IO[bytes]:
        self._scratch_folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=self._scratch_folder)

    def _run(self, request: bytes, document: IO[bytes], result: IO[bytes]) -> dict[str, Any] | None:
        """Have the server fork a child for the two files; its report, or None if the server died first."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._request(request, [theirs.fileno(), document.fileno(), result.fileno()])
            received = b"".join(iter(lambda: _receive(ours), b""))
        return json.loads(received) if received else None

    def _request(self, request: bytes, fds: list[int]) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("the parse provider is closed")
            if self._server is None or not self._server.request(request, fds):
                self._server = _ServerProcess(self._limits)
                self._server.request(request, fds)


class _ServerProcess:
    """A running fork server and our end of its control socket."""

    def __init__(self, limits: ParseLimits) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            arguments = [str(_IMPORT_ROOT), str(theirs.fileno()), json.dumps(limits.to_json())]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *arguments],
                env=_ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def request(self, request: bytes, fds: list[int]) -> bool:
        """Ask for a child on these descriptors; false if the server is gone (it took nothing then)."""
        try:
            socket.send_fds(self._control, [request], fds)
        except OSError:
            self.stop()
            return False
        return True

    def stop(self) -> None:
        """Close the control socket, on which the server kills its children and ends; wait for it."""
        self._control.close()
        self._process.wait()


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionError:
        return b""
