"""The request log and the bill: what a test compares the ledger with.

A message is billed when it was processed, whether or not its answer arrived; a refused request is not.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from sandbox.body import JsonObject
from sandbox.charge import BatchedRequest, Charge, totals

KEPT_BODIES = 5_000


@dataclass(slots=True, kw_only=True)
class Entry(Charge):
    """One HTTP request. `status` stays None when the connection ended without an answer."""

    n: int
    at: str
    method: str
    path: str
    request_id: str
    api_key_fingerprint: str | None
    retry_count: int
    concurrency: int
    status: int | None = None
    fault: str | None = None
    batch_id: str | None = None


ENTRY = web.RequestKey("entry", Entry)


class RequestLog:
    """All requests in order of arrival; `file`, when given, gets one JSON line for each that ended.

    A request of a batch gets a line and a place in the bill when it was processed, and no number: `entries` are the
    HTTP requests alone. A file that is there already is read first, so that numbering and bill go on where an earlier
    server ended.
    """

    def __init__(self, file: Path | None = None) -> None:
        """Start with what the file holds; it is appended to."""
        self.entries: list[Entry] = []
        self.batched: list[BatchedRequest] = []
        if file and file.exists():
            self._read(file)
        self.in_flight = 0
        self._file = file.open("a", encoding="utf-8") if file else None
        self._count = max((entry.n for entry in self.entries), default=0)

    def _read(self, file: Path) -> None:
        """Take over the lines of a log file; a last line that was cut by a crash is passed over."""
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                row = json.loads(line)
                if "custom_id" in row:
                    self.batched.append(BatchedRequest.from_json(row))
                else:
                    self.entries.append(Entry.from_json(row))

    def open(self, method: str, path: str, request_id: str, key: str | None, retry_count: int) -> Entry:
        """Record a request that arrived. `concurrency` counts the requests in flight, this one included."""
        self.in_flight += 1
        self._count += 1
        entry = Entry(
            n=self._count,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            method=method,
            path=path,
            request_id=request_id,
            api_key_fingerprint=hashlib.sha256(key.encode()).hexdigest()[:12] if key else None,
            retry_count=retry_count,
            concurrency=self.in_flight,
        )
        self.entries.append(entry)
        if len(self.entries) > KEPT_BODIES:
            self.entries[-KEPT_BODIES - 1].texts = None
        return entry

    def close(self, entry: Entry) -> None:
        """Record that a request ended."""
        self.in_flight -= 1
        self._write([entry])

    def add_batched(self, requests: Iterable[BatchedRequest]) -> None:
        """Record requests of a batch whose results are known."""
        requests = list(requests)
        self.batched.extend(requests)
        self._write(requests)

    def _write(self, charges: Iterable[Charge]) -> None:
        if self._file:
            self._file.write("".join(json.dumps(charge.as_json()) + "\n" for charge in charges))
            self._file.flush()

    def clear(self) -> None:
        """Forget all requests and their cost; numbering starts again at 1."""
        self.entries.clear()
        self.batched.clear()
        self._count = 0

    def end(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    def bill(self) -> JsonObject:
        """Return totals over all billed messages, `batch_requests` of which came in batches."""
        batched = [request for request in self.batched if request.billed]
        billed = [*(entry for entry in self.entries if entry.billed), *batched]
        by_model: dict[str, list[Charge]] = {}
        for charge in billed:
            by_model.setdefault(charge.model or "", []).append(charge)
        return {
            **totals(billed),
            "batch_requests": len(batched),
            "requests": len(self.entries),
            "by_model": {model: totals(by_model[model]) for model in sorted(by_model)},
        }
