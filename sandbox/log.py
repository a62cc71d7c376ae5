"""The request log and the bill: what a test compares the ledger with.

A message is billed when it was processed, whether or not its answer arrived; a refused request is not.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Self

from sandbox.body import JsonObject
from sandbox.prompt import Prompt
from sandbox.usage import cost_usd, exact, input_tokens

KEPT_BODIES = 5_000
TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


@dataclass(slots=True)
class Entry:
    """One request. `status` stays None when the connection ended without an answer."""

    n: int
    at: str
    method: str
    path: str
    request_id: str
    api_key_fingerprint: str | None
    retry_count: int
    concurrency: int
    model: str | None = None
    max_tokens: int | None = None
    document_sha256: str | None = None
    status: int | None = None
    fault: str | None = None
    stop_reason: str | None = None
    billed: bool = False
    usage: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(TOKENS))
    cost_usd: Decimal | None = None
    texts: tuple[str, str] | None = None

    def read(self, prompt: Prompt) -> None:
        """Note what was asked."""
        self.model = prompt.model.id
        self.max_tokens = prompt.max_tokens or None
        self.document_sha256 = hashlib.sha256(prompt.user_text.encode()).hexdigest()
        self.texts = (prompt.system_text, prompt.user_text)

    def bill(self, message: JsonObject) -> None:
        """Note what a processed message costs."""
        usage = message.get("usage") or {}
        tokens = input_tokens(usage)
        self.billed = True
        self.model = message.get("model")
        self.stop_reason = message.get("stop_reason")
        self.cost_usd = cost_usd(self.model or "", usage)
        self.usage = {
            "input_tokens": tokens.uncached,
            "cache_creation_input_tokens": tokens.write_5m + tokens.write_1h,
            "cache_read_input_tokens": tokens.read,
            "output_tokens": usage.get("output_tokens") or 0,
        }

    @classmethod
    def from_json(cls, row: JsonObject) -> Self:
        """Return an entry of an earlier run as its log file has it; its texts are gone."""
        names = {name for name in cls.__slots__ if name in row} - {"usage", "cost_usd", "texts"}
        return cls(
            **{name: row[name] for name in names},
            usage={name: row.get(name) for name in TOKENS},
            cost_usd=None if row.get("cost_usd") is None else Decimal(row["cost_usd"]),
        )

    def as_json(self, *, bodies: bool = False) -> JsonObject:
        """Return the entry for `GET /_sandbox/requests`."""
        names = (
            "n", "at", "method", "path", "request_id", "api_key_fingerprint", "retry_count", "concurrency", "model",
            "max_tokens", "document_sha256", "status", "fault", "stop_reason", "billed",
        )  # fmt: skip
        row: JsonObject = {name: getattr(self, name) for name in names}
        row |= self.usage
        row["cost_usd"] = None if self.cost_usd is None else exact(self.cost_usd)
        if bodies:
            row["system_text"], row["user_text"] = self.texts or (None, None)
        return row


class RequestLog:
    """All requests in order of arrival; `file`, when given, gets one JSON line for each that ended.

    A file that is there already is read first, so that numbering and bill go on where an earlier server ended.
    """

    def __init__(self, file: Path | None = None) -> None:
        """Start with what the file holds; it is appended to."""
        self.entries: list[Entry] = _earlier(file) if file and file.exists() else []
        self.in_flight = 0
        self._file = file.open("a", encoding="utf-8") if file else None
        self._count = max((entry.n for entry in self.entries), default=0)

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
        if self._file:
            self._file.write(json.dumps(entry.as_json()) + "\n")
            self._file.flush()

    def clear(self) -> None:
        """Forget all requests and their cost; numbering starts again at 1."""
        self.entries.clear()
        self._count = 0

    def end(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    def bill(self) -> JsonObject:
        """Return totals over all billed messages; a message without a known price adds to `unpriced`, not to a sum."""
        billed = [entry for entry in self.entries if entry.billed]
        models = sorted({entry.model or "" for entry in billed})
        return {
            **_totals(billed),
            "requests": len(self.entries),
            "by_model": {model: _totals([e for e in billed if (e.model or "") == model]) for model in models},
        }


def _earlier(file: Path) -> list[Entry]:
    """Return the entries of a log file; a last line that was cut by a crash is passed over."""
    entries: list[Entry] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            entries.append(Entry.from_json(json.loads(line)))
    return entries


def _totals(billed: list[Entry]) -> JsonObject:
    return {
        "cost_usd": exact(sum((entry.cost_usd or Decimal(0) for entry in billed), Decimal(0))),
        "calls": len(billed),
        "unpriced": sum(entry.cost_usd is None for entry in billed),
        **{name: sum(entry.usage[name] or 0 for entry in billed) for name in TOKENS},
    }
