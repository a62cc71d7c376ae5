"""Tokens and prices. The expected amounts are computed by hand from the published price list."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from genai_prices.types import PriceContext
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.answers import read_message
from extraction_core.pricing import TokenUsage, context_tokens, cost_usd, token_usage
from tests.core.handed_cases import needs_cases, response_text

AT = datetime(2026, 11, 29, tzinfo=UTC)
NOTHING = {"input": 0, "write_5m": 0, "write_1h": 0, "read": 0, "output": 0}


def usage(**tokens: int) -> TokenUsage:
    counts = {**NOTHING, **tokens}
    return TokenUsage(
        input_tokens=counts["input"],
        cache_write_5m_tokens=counts["write_5m"],
        cache_write_1h_tokens=counts["write_1h"],
        cache_read_tokens=counts["read"],
        output_tokens=counts["output"],
    )


def price(model: str, *, batch: bool = False, **tokens: int) -> Decimal | None:
    return cost_usd(model, usage(**tokens), at=AT, batch=batch)


def usage_of_case(name: str) -> TokenUsage:
    message = read_message(response_text(name))
    assert message is not None
    found = token_usage(message)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [  # Haiku 5.5, $ per million: 0.10 input, 0.125 written for 5 minutes, 0.20 for an hour, 0.01 read, 0.50 output
        ({"input": 1_000}, "0.0001"),
        ({"write_5m": 1_000}, "0.000125"),
        ({"write_1h": 2_000}, "0.0004"),
        ({"read": 20_000}, "0.0002"),
        ({"output": 500}, "0.00025"),
        ({"input": 1_000, "write_5m": 1_000, "write_1h": 2_000, "read": 20_000, "output": 500}, "0.001075"),
        ({"input": 1, "read": 1, "output": 1}, "0.00000061"),
        ({}, "0"),
    ],
)
def test_each_kind_of_token_has_its_own_price(tokens: dict[str, int], expected: str) -> None:
    assert Decimal(expected) == price("claude-haiku-5-5", **tokens)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [  # above 100,000 prompt tokens the whole request costs 0.50, 0.625, 1.00, 0.05 and 2.50
        ({"input": 100_000, "output": 1_000}, "0.0105"),
        ({"input": 100_001, "output": 1_000}, "0.0525005"),
        ({"input": 1, "read": 100_000}, "0.0050005"),
        ({"input": 1, "write_5m": 100_000}, "0.0625005"),
    ],
)
def test_a_long_prompt_is_priced_by_its_tier_cached_tokens_included(tokens: dict[str, int], expected: str) -> None:
    assert Decimal(expected) == price("claude-haiku-5-5", **tokens)


def test_a_batch_costs_half_of_every_part() -> None:
    parts = {"input": 1_000, "write_5m": 1_000, "write_1h": 2_000, "read": 20_000, "output": 500}
    assert price("claude-haiku-5-5", batch=True, **parts) == Decimal("0.0005375")


def test_the_price_of_an_unknown_model_is_unknown_not_zero() -> None:
    assert price("claude-unlisted-9-20990101", input=1_000) is None


@pytest.mark.parametrize("model", ["", "None", "gpt-5", "../../etc", "claude"])
def test_a_name_that_is_no_model_has_no_price(model: str) -> None:
    assert price(model, input=1) is None


@given(
    st.builds(usage, **{name: st.integers(0, 3_000_000) for name in NOTHING}),
    st.sampled_from(["claude-haiku-5-5", "claude-sonnet-4-5", "claude-opus-5-5"]),
)
def test_an_amount_is_exact_in_twelve_decimals(tokens: TokenUsage, model: str) -> None:
    amount = cost_usd(model, tokens, at=AT, batch=False)
    assert amount is not None
    assert amount.as_tuple().exponent == -12


@given(
    st.builds(
        usage,
        **{name: st.integers(0, 300_000) | st.sampled_from([99_999, 100_000, 199_999, 200_000]) for name in NOTHING},
    ),
    st.sampled_from(
        ["claude-haiku-5-5", "claude-sonnet-4-5", "claude-opus-5-5", "claude-3-haiku-20240307", "claude-2"]
    ),
    st.sampled_from([None, {"processing": "batch"}]),
)
def test_an_amount_is_what_the_price_list_itself_says(
    tokens: TokenUsage, model: str, context: PriceContext | None
) -> None:
    listed = calc_price(
        Usage(
            input_tokens=tokens.prompt_tokens,
            cache_write_tokens=tokens.cache_write_5m_tokens + tokens.cache_write_1h_tokens,
            cache_write_5m_tokens=tokens.cache_write_5m_tokens,
            cache_write_1h_tokens=tokens.cache_write_1h_tokens,
            cache_read_tokens=tokens.cache_read_tokens,
            output_tokens=tokens.output_tokens,
        ),
        model_ref=model,
        provider_id="anthropic",
        genai_request_timestamp=AT,
        price_context=context,
    )
    assert cost_usd(model, tokens, at=AT, batch=context is not None) == listed.total_price


def test_a_price_is_that_of_the_day_of_the_request() -> None:
    """Sonnet 4.6 had a dearer tier above 200,000 tokens until 2026-03-13."""
    long, last, first = usage(input=300_000), datetime(2026, 3, 12, 23, tzinfo=UTC), datetime(2026, 3, 13, tzinfo=UTC)
    assert cost_usd("claude-sonnet-4-6", long, at=last, batch=False) == Decimal("1.8")
    assert cost_usd("claude-sonnet-4-6", long, at=first, batch=False) == Decimal("0.9")


@needs_cases
def test_cached_tokens_are_counted_and_priced_by_kind() -> None:
    found = usage_of_case("usage-cache")
    assert found == usage(input=100, write_5m=500, write_1h=1_500, read=50_000, output=500)
    assert found.prompt_tokens == 52_100
    # Sonnet 4.5: 3, 3.75, 6, 0.30, 15
    assert cost_usd("claude-sonnet-4-5", found, at=AT, batch=False) == Decimal("0.033675")


@needs_cases
def test_null_counts_are_zero() -> None:
    assert usage_of_case("usage-nulls") == usage(input=100, output=5)


@needs_cases
def test_the_tier_of_batches_is_half_of_the_standard_price() -> None:
    found = usage_of_case("usage-batch-tier")
    assert cost_usd("claude-sonnet-4-5", found, at=AT, batch=False) == Decimal("0.018")
    assert cost_usd("claude-sonnet-4-5", found, at=AT, batch=True) == Decimal("0.009")


@needs_cases
def test_the_tokens_of_an_unknown_model_are_counted_all_the_same() -> None:
    found = usage_of_case("usage-unknown-model")
    assert found == usage(input=812, output=96)
    assert cost_usd("claude-unlisted-9-20990101", found, at=AT, batch=False) is None


@pytest.mark.parametrize(
    "body", [{}, {"usage": None}, {"usage": "none"}, {"usage": {}}, {"usage": {"input_tokens": 1}}, {"usage": []}]
)
def test_a_missing_usage_is_unknown(body: dict[str, Any]) -> None:
    assert token_usage(body) is None


def test_cache_writes_without_a_time_to_live_are_of_five_minutes() -> None:
    counts = {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 300}
    assert token_usage({"usage": counts}) == usage(input=1, write_5m=300, output=2)


@pytest.mark.parametrize("count", [-1, True, "12", 1.5, [], 10**30])
def test_a_count_that_is_none_makes_the_usage_unknown_and_not_smaller(count: object) -> None:
    good = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3}
    for name in good:
        assert token_usage({"usage": {**good, name: count}}) is None


odd_counts = st.none() | st.booleans() | st.integers(-5, 10**40) | st.text(max_size=3) | st.lists(st.integers())
COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
odd_usage = st.fixed_dictionaries(
    dict.fromkeys(COUNTS, odd_counts),
    optional={"cache_creation": odd_counts | st.dictionaries(st.just("ephemeral_1h_input_tokens"), odd_counts)},
)


@given(odd_usage)
def test_an_odd_usage_never_loses_its_answer(counts: dict[str, Any]) -> None:
    found = token_usage({"usage": counts})
    if found is not None:
        cost_usd("claude-haiku-5-5", found, at=AT, batch=False)


@pytest.mark.parametrize(("model", "tokens"), [("claude-haiku-5-5", 1_000_000), ("claude-haiku-4-5", 200_000)])
def test_the_context_of_a_known_model_is_its_own(model: str, tokens: int) -> None:
    assert context_tokens(model) == tokens


def test_an_unknown_model_is_taken_for_one_of_the_smallest_context() -> None:
    assert context_tokens("claude-unlisted-9") == 200_000
