"""Tokens, the prompt cache and money.

A token is four bytes of UTF-8, rounded up per block: not the tokenizer of any model, but a count that grows with the
text and is the same for the same request. Cache entries never expire while the server runs.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from sandbox.body import Json, JsonObject
from sandbox.models import MODELS, Model

BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
LOOK_BACK = 20  # the API looks for an older entry at up to 20 blocks before a breakpoint
MILLION = Decimal(1_000_000)
BATCH_FACTOR = Decimal("0.5")
US_ONLY_FACTOR = Decimal("1.1")


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the prompt, in the order the cache sees it; `ttl` is set where a cache breakpoint sits.

    `content` is the text, or what was read of a file, which `file_sha256` then names.
    """

    role: str
    content: str
    tokens: int
    ttl: str | None = None
    file_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class InputTokens:
    """How the prompt is billed. `uncached` excludes what was written to or read from the cache."""

    uncached: int
    write_5m: int = 0
    write_1h: int = 0
    read: int = 0

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.write_5m + self.write_1h + self.read


@dataclass(slots=True)
class PromptCache:
    """Prefixes that were written, keyed by model, prefix hash and time to live."""

    entries: set[tuple[str, str, str]] = field(default_factory=set)

    def charge(self, model: Model, blocks: Sequence[Block]) -> InputTokens:
        """Split the prompt into read, written and uncached tokens, and remember what was written."""
        sizes, digests = _prefixes(blocks)
        breakpoints = [index for index, block in enumerate(blocks) if block.ttl and sizes[index] >= model.min_cacheable]
        read_to = self._longest_hit(model, blocks, digests, breakpoints)
        read = sizes[read_to] if read_to >= 0 else 0
        written = {"5m": 0, "1h": 0}
        done = read
        for index in breakpoints:
            ttl = blocks[index].ttl or "5m"
            if index > read_to:
                written[ttl] += sizes[index] - done
                done = sizes[index]
            self.entries.add((model.id, digests[index], ttl))
        total = sizes[-1] if sizes else 0
        return InputTokens(total - done, written["5m"], written["1h"], read)

    def _longest_hit(
        self, model: Model, blocks: Sequence[Block], digests: Sequence[str], breakpoints: Sequence[int]
    ) -> int:
        """Return the index of the last block of the longest cached prefix, or -1."""
        for index in reversed(breakpoints):
            ttl = blocks[index].ttl or "5m"
            for candidate in range(index, max(-1, index - LOOK_BACK), -1):
                if (model.id, digests[candidate], ttl) in self.entries:
                    return candidate
        return -1


def _prefixes(blocks: Sequence[Block]) -> tuple[list[int], list[str]]:
    """Return, for every block, tokens and hash of the prompt up to and including it."""
    running = hashlib.sha256()
    total, sizes, digests = 0, [], []
    for block in blocks:
        total += block.tokens
        running.update(f"{block.role}\0{block.file_sha256 or block.content}\0".encode())
        sizes.append(total)
        digests.append(running.hexdigest())
    return sizes, digests


def usage_body(
    tokens: InputTokens, output_tokens: int, thinking_tokens: int, service_tier: str = "standard"
) -> JsonObject:
    """Return the `usage` object of a message."""
    return {
        "input_tokens": tokens.uncached,
        "cache_creation_input_tokens": tokens.write_5m + tokens.write_1h,
        "cache_read_input_tokens": tokens.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.write_5m,
            "ephemeral_1h_input_tokens": tokens.write_1h,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"thinking_tokens": thinking_tokens},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": service_tier,
        "inference_geo": "not_available",
        "speed": "standard",
    }


def cost_usd(model_id: str, usage: Mapping[str, Json]) -> Decimal | None:
    """Return the exact price of a message from its `usage` object, or None for a model without a known price."""
    model = MODELS.get(model_id)
    if model is None:
        return None
    tokens, output_tokens = input_tokens(usage), usage.get("output_tokens") or 0
    price = model.price_for(tokens.total)
    micros = (
        tokens.uncached * price.input
        + tokens.write_5m * price.write_5m
        + tokens.write_1h * price.write_1h
        + tokens.read * price.read
        + output_tokens * price.output
    )
    if usage.get("service_tier") == "batch":
        micros *= BATCH_FACTOR
    if usage.get("inference_geo") == "us":
        micros *= US_ONLY_FACTOR
    return micros / MILLION


def input_tokens(usage: Mapping[str, Json]) -> InputTokens:
    """Read a `usage` object; absent and null counts are zero, and cache writes without a ttl are 5m ones."""
    written = usage.get("cache_creation_input_tokens") or 0
    write_1h = (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    return InputTokens(
        uncached=usage.get("input_tokens") or 0,
        write_5m=written - write_1h,
        write_1h=write_1h,
        read=usage.get("cache_read_input_tokens") or 0,
    )


def exact(amount: Decimal) -> str:
    """Write an amount of money in plain digits, without an exponent or trailing zeros."""
    return format(amount.normalize(), "f") if amount else "0"
