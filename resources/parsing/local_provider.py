"""The local parse provider: one short-lived, limited process per document.

Whatever a document does to its process (crash, hang, bomb) is the failure of that document alone. The process is forked
from a server that has the parsing libraries imported (:mod:`resources.parsing.fork_server`), which costs a few
milliseconds where a fresh interpreter costs about 500 ms. Documents named as text are first handed to a smaller server
without the engines, which a set of nothing but text never starts.
"""

from __future__ import annotations

import json
import os
import socket
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
from resources.parsing.server_process import ForkServers
from resources.parsing.text_reader import is_named_as_text
from resources.parsing.versions import provider_version
from resources.parsing.wire import (
    READ,
    RECOGNISE,
    Readers,
    Task,
    decode_attachments,
    decode_content,
    decode_result,
    decode_result_of_text,
)

T = TypeVar("T")


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
        self._servers = ForkServers(self._limits)

    def parse(self, data: bytes, document_key: str) -> ParsedDocument | ParseFailure:
        """Parse one document; see :class:`extraction_core.parsing.ParseProvider`.

        Raises:
            RuntimeError: the provider was closed.
        """
        order = {"task": Task.PARSE, "document_key": document_key}
        if is_named_as_text(document_key):
            parsed = self._ask(order, data, decode_result_of_text, Readers.TEXT)
            if parsed is not None:
                return parsed
        return self._ask(order, data, decode_result)

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

    def _ask(
        self,
        order: Mapping[str, Any],
        data: bytes,
        decode: Callable[[bytes], T],
        readers: Readers = Readers.ALL,
    ) -> T | ParseFailure:
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
            report = self._run(readers, request, document, result)
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
        self._servers.close()

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
        from tempfile import TemporaryFile  # noqa: PLC0415 - large, and the fork servers import this package too

        return TemporaryFile(dir=self._scratch_folder)

    def _run(self, readers: Readers, request: bytes, document: IO[bytes], result: IO[bytes]) -> dict[str, Any] | None:
        """Have a server fork a child for the two files; its report, or None if the server died first."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._servers.request(readers, request, [theirs.fileno(), document.fileno(), result.fileno()])
            received = b"".join(iter(lambda: _receive(ours), b""))
        return json.loads(received) if received else None


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionError:
        return b""
