"""The models the sandbox knows: limits and prices.

Prices are the published ones per million tokens, as of November 2026, kept here by hand and on purpose: a bill
computed with the price table of the code under test would agree with its mistakes.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Self


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: Decimal
    write_5m: Decimal
    write_1h: Decimal
    read: Decimal
    output: Decimal

    @classmethod
    def of(cls, row: str) -> Self:
        """Read a row `input write_5m write_1h read output`."""
        return cls(*(Decimal(cell) for cell in row.split()))


@dataclass(frozen=True, slots=True)
class Model:
    """One model; `context`, `max_output` and `min_cacheable` are tokens, `legacy` models still take a prefill."""

    id: str
    price: Price
    context: int = 1_000_000
    max_output: int = 128_000
    min_cacheable: int = 512
    legacy: bool = False
    long_price: Price | None = None
    long_above: int = 0

    def price_for(self, prompt_tokens: int) -> Price:
        """Return the price of a whole request whose prompt, cached parts included, has this many tokens."""
        if self.long_price is not None and prompt_tokens > self.long_above:
            return self.long_price
        return self.price


HAIKU_5_5 = Price.of("0.10 0.125 0.20 0.01 0.50")
HAIKU_5_5_LONG = Price.of("0.50 0.625 1.00 0.05 2.50")
HAIKU_4_5 = Price.of("1 1.25 2 0.10 5")
SONNET_5_5 = Price.of("2 2.5 4 0.10 10")
SONNET_5 = Price.of("2 2.5 4 0.20 10")
SONNET_4 = Price.of("3 3.75 6 0.30 15")
OPUS_5_5 = Price.of("4 5 8 0.20 20")
OPUS = Price.of("5 6.25 10 0.50 25")
FABLE_5_2 = Price.of("8 10 16 0.20 40")
FABLE_5_1 = Price.of("10 12.5 20 0.25 50")
FABLE_5 = Price.of("10 12.5 20 1.00 50")

MODELS = {
    model.id: model
    for model in (
        Model("claude-haiku-5-5", HAIKU_5_5, long_price=HAIKU_5_5_LONG, long_above=100_000),
        Model("claude-haiku-4-5", HAIKU_4_5, 200_000, 64_000, 4096, legacy=True),
        Model("claude-haiku-4-5-20251001", HAIKU_4_5, 200_000, 64_000, 4096, legacy=True),
        Model("claude-sonnet-5-5", SONNET_5_5),
        Model("claude-sonnet-5", SONNET_5, min_cacheable=1024),
        Model("claude-sonnet-4-6", SONNET_4, min_cacheable=1024),
        Model("claude-sonnet-4-5", SONNET_4, 200_000, 64_000, 1024, legacy=True),
        Model("claude-sonnet-4-5-20250929", SONNET_4, 200_000, 64_000, 1024, legacy=True),
        Model("claude-opus-5-5", OPUS_5_5),
        Model("claude-opus-5", OPUS),
        Model("claude-opus-4-8", OPUS, min_cacheable=1024),
        Model("claude-opus-4-7", OPUS, min_cacheable=2048),
        Model("claude-opus-4-6", OPUS, min_cacheable=4096),
        Model("claude-opus-4-5", OPUS, 200_000, 64_000, 4096, legacy=True),
        Model("claude-opus-4-5-20251101", OPUS, 200_000, 64_000, 4096, legacy=True),
        Model("claude-fable-5-2", FABLE_5_2),
        Model("claude-mythos-5-2", FABLE_5_2),
        Model("claude-fable-5-1", FABLE_5_1),
        Model("claude-fable-5", FABLE_5),
    )
}
