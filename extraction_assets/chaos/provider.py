"""The sandbox of a trial, by its control endpoints: its faults, its clock, and what it billed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

TIMEOUT_S = 60.0
FOREIGN = "somebody-else-"
"""What custom ids begin with that are somebody else's, who has the same key."""
AS_A_CLIENT = {"x-api-key": "no-key", "anthropic-version": "2023-06-01", "content-type": "application/json"}
_DIRECT = build_opener(ProxyHandler({}))


@dataclass(frozen=True, kw_only=True)
class Billed:
    """One request that was billed. ``key`` is its request id, or its custom id in a batch."""

    key: str
    document_sha256: str
    cost_usd: Decimal
    batched: bool


@dataclass(frozen=True, kw_only=True)
class Call:
    """One realtime request as the provider's log has it."""

    request_id: str
    key_fingerprint: str
    at_s: float


class Provider:
    """A running sandbox.

    Args:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def add_faults(self, faults: Sequence[Mapping[str, Any]]) -> None:
        """Let the next requests that they fit go wrong."""
        self._ask("POST", "faults", {"faults": list(faults)})

    def clear_faults(self) -> None:
        """Let everything go right from now on."""
        self._ask("DELETE", "faults")

    def batches_take(self, seconds: float) -> None:
        """Set how long batches take, by the sandbox's clock."""
        self._ask("POST", "batches", {"batch_seconds": seconds})

    def move_time(self, seconds: float) -> None:
        """Move the clock of the batches forward."""
        self._ask("POST", "clock", {"advance_s": seconds})

    def add_batch(self, model: str, custom_ids: Sequence[str]) -> None:
        """Make a batch, as anybody with the same key may, unless a fault that is due meets it."""
        asked = {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "Model: D1"}]}
        with suppress(OSError):
            requests = [{"custom_id": one, "params": asked} for one in custom_ids]
            self._send("POST", "v1/messages/batches", {"requests": requests})

    def billed(self) -> list[Billed]:
        """Return everything that was billed so far, but to somebody else."""
        calls = [row for row in self._ask("GET", "requests")["requests"] if row["billed"]]
        batched = [
            row
            for batch in self._ask("GET", "batches")["batches"]
            for row in batch["requests"]
            if row["billed"] and not row["custom_id"].startswith(FOREIGN)
        ]
        return [
            *(_billed(row, row["request_id"], batched=False) for row in calls),
            *(_billed(row, row["custom_id"], batched=True) for row in batched),
        ]

    def calls(self) -> list[Call]:
        """Return every request for a message, billed or not."""
        rows = [row for row in self._ask("GET", "requests")["requests"] if row["path"] == "/v1/messages"]
        return [
            Call(
                request_id=row["request_id"],
                key_fingerprint=row["api_key_fingerprint"] or "",
                at_s=datetime.fromisoformat(row["at"]).timestamp(),
            )
            for row in rows
        ]

    def _ask(self, method: str, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._send(method, f"_sandbox/{what}", body)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/{path}", data=data, headers=AS_A_CLIENT, method=method)  # noqa: S310 - our own server
        with _DIRECT.open(request, timeout=TIMEOUT_S) as response:
            return json.load(response)


def _billed(row: Mapping[str, Any], key: str, *, batched: bool) -> Billed:
    cost = Decimal(row["cost_usd"] or 0)
    return Billed(key=key, document_sha256=row["document_sha256"] or "", cost_usd=cost, batched=batched)
