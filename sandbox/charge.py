"""What one request asked and what it costs: the part that a call and a request of a batch have in common."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Self

from sandbox.body import JsonObject
from sandbox.prompt import Prompt
from sandbox.usage import cost_usd, exact, input_tokens

TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
IN_MEMORY_ONLY = {"texts"}


@dataclass(slots=True, kw_only=True)
class Charge:
    """One request to a model; it is `billed` once a message was made for it."""

    model: str | None = None
    max_tokens: int | None = None
    document_sha256: str | None = None
    stop_reason: str | None = None
    billed: bool = False
    usage: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(TOKENS))
    cost_usd: Decimal | None = None
    texts: tuple[str, str] | None = None

    def read(self, prompt: Prompt) -> None:
        """Note what was asked."""
        self.model = prompt.model.id
        self.max_tokens = prompt.max_tokens or None
        self.document_sha256 = prompt.file_sha256 or hashlib.sha256(prompt.user_text.encode()).hexdigest()
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
        """Return what `as_json` wrote; the texts are gone."""
        names = {item.name for item in fields(cls) if item.name in row} - {"usage", "cost_usd"} - IN_MEMORY_ONLY
        return cls(
            **{name: row[name] for name in names},
            usage={name: row.get(name) for name in TOKENS},
            cost_usd=None if row.get("cost_usd") is None else Decimal(row["cost_usd"]),
        )

    def as_json(self, *, bodies: bool = False) -> JsonObject:
        """Return all fields, tokens by kind and the cost in plain digits; with `bodies` the texts too."""
        names = [item.name for item in fields(self) if item.name not in {"usage", "cost_usd"} | IN_MEMORY_ONLY]
        row: JsonObject = {name: getattr(self, name) for name in names}
        row |= self.usage
        row["cost_usd"] = None if self.cost_usd is None else exact(self.cost_usd)
        if bodies:
            row["system_text"], row["user_text"] = self.texts or (None, None)
        return row


@dataclass(slots=True, kw_only=True)
class BatchedRequest(Charge):
    """One request of a batch; `result_type` is None until the batch has ended."""

    batch_id: str
    custom_id: str
    result_type: str | None = None


def totals(billed: Iterable[Charge]) -> JsonObject:
    """Add up billed requests; one without a known price adds to `unpriced`, not to the sum."""
    charges = list(billed)
    return {
        "cost_usd": exact(sum((charge.cost_usd or Decimal(0) for charge in charges), Decimal(0))),
        "calls": len(charges),
        "unpriced": sum(charge.cost_usd is None for charge in charges),
        **{name: sum(charge.usage[name] or 0 for charge in charges) for name in TOKENS},
    }
