"""Tokens of an answer and their price, exactly.

Prices come from the ``genai-prices`` package (its version is kept with each attempt). An unknown model has an unknown
price: None, never zero. Amounts are :class:`decimal.Decimal` US dollars with at most twelve decimals; a price per
token has at most ten, so nothing is lost by that scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from typing import Any, cast

from genai_prices import Usage, calc_price
from genai_prices.types import PriceCalculation, PriceContext, TieredPrices

USD_SCALE = Decimal("1e-12")
PRICES_VERSION = f"genai-prices {version('genai-prices')}"
COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
MOST_TOKENS = 1_000_000_000
"""More than any context: a larger count is a defect of whoever counted."""
DEFAULT_CONTEXT_TOKENS = 200_000
"""Assumed for a model that the price list does not know: the smallest context of the models on offer."""


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """Tokens of one answer by kind. ``input_tokens`` is the uncached remainder, as the provider counts it."""

    input_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    output_tokens: int

    @property
    def prompt_tokens(self) -> int:
        """All input tokens: uncached, written to and read from the cache."""
        return self.input_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens + self.cache_read_tokens


def token_usage(message: Mapping[str, Any]) -> TokenUsage | None:
    """Read the usage of a message body: null is 0; a missing usage, or a count that is none, is unknown (None)."""
    usage = message.get("usage")
    if not isinstance(usage, Mapping):
        return None
    counts = cast("Mapping[str, Any]", usage)
    if counts.get("input_tokens") is None or counts.get("output_tokens") is None:
        return None
    detail = counts.get("cache_creation")
    split = cast("Mapping[str, Any]", detail if isinstance(detail, Mapping) else {})
    found = [_count(counts.get(name)) for name in COUNTS] + [_count(split.get("ephemeral_1h_input_tokens"))]
    plain, output, written, read, hour = found
    if plain is None or output is None or written is None or read is None or hour is None:
        return None
    return TokenUsage(
        input_tokens=plain,
        cache_write_5m_tokens=max(written - hour, 0),
        cache_write_1h_tokens=hour,
        cache_read_tokens=read,
        output_tokens=output,
    )


def _count(value: object) -> int | None:
    """Return a number of tokens; None for what cannot be one. An answer must not be lost to an odd count."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        return None
    return value


def cost_usd(model: str, usage: TokenUsage, *, at: datetime, batch: bool) -> Decimal | None:
    """Return the price of one answer, or None when the model's price is not known.

    Args:
        model: the model id of the answer, not of the request: the answer is what is billed.
        usage: tokens by kind.
        at: when the request was made; prices are dated.
        batch: whether the answer was served by a message batch (half price on every component).
    """
    hour = at.replace(minute=0, second=0, microsecond=0)  # prices are dated by the day
    tier = max((start for start in _tiers(model, hour, batch=batch) if start < usage.prompt_tokens), default=0)
    prices = _token_prices(model, hour, tier, batch=batch)
    return prices.of(usage).quantize(USD_SCALE) if prices else None


@dataclass(frozen=True, kw_only=True)
class TokenPrices:
    """What one token of each kind costs, in US dollars, for prompts of one tier."""

    input: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    cache_read: Decimal
    output: Decimal

    def of(self, usage: TokenUsage) -> Decimal:
        """Return what these tokens cost, unrounded."""
        return (
            self.input * usage.input_tokens
            + self.cache_write_5m * usage.cache_write_5m_tokens
            + self.cache_write_1h * usage.cache_write_1h_tokens
            + self.cache_read * usage.cache_read_tokens
            + self.output * usage.output_tokens
        )


@lru_cache(maxsize=1024)
def _token_prices(model: str, hour: datetime, tier: int, *, batch: bool) -> TokenPrices | None:
    """Ask the price list once for each kind of token: within a tier it multiplies, which costs it 0.2 ms an answer.

    Args:
        model: the model id.
        hour: when the request was made, to the hour.
        tier: prompts of more tokens than this are meant, up to the next tier.
        batch: whether for a message batch.
    """
    count = tier + 1

    def each(**tokens: int) -> Decimal:
        return _look_up(model, Usage(**{"input_tokens": count, **tokens}), hour, batch=batch).total_price / count

    try:
        return TokenPrices(
            input=each(),
            cache_write_5m=each(cache_write_tokens=count, cache_write_5m_tokens=count),
            cache_write_1h=each(cache_write_tokens=count, cache_write_1h_tokens=count),
            cache_read=each(cache_read_tokens=count),
            output=each(output_tokens=count) - each(),
        )
    except LookupError:
        return None


@lru_cache(maxsize=1024)
def _tiers(model: str, hour: datetime, *, batch: bool) -> frozenset[int]:
    """Return the prompt tokens beyond which a request of the model costs another price throughout."""
    try:
        found = _look_up(model, Usage(input_tokens=1), hour, batch=batch).model_price
    except LookupError:
        return frozenset()
    tiered = [price for price in vars(found).values() if isinstance(price, TieredPrices)]
    return frozenset(tier.start for price in tiered for tier in price.tiers)


def _look_up(model: str, usage: Usage, at: datetime, *, batch: bool) -> PriceCalculation:
    """Ask the price list.

    Raises:
        LookupError: it does not know the model.
    """
    context: PriceContext | None = {"processing": "batch"} if batch else None
    return calc_price(
        usage, model_ref=model, provider_id="anthropic", genai_request_timestamp=at, price_context=context
    )


@lru_cache(maxsize=64)
def context_tokens(model: str) -> int:
    """Return the context window of a model in tokens."""
    try:
        window = calc_price(Usage(input_tokens=1), model_ref=model, provider_id="anthropic").model.context_window
    except LookupError:
        return DEFAULT_CONTEXT_TOKENS
    return window or DEFAULT_CONTEXT_TOKENS
