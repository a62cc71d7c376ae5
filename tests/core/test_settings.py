"""The times that hold the queue together."""

from __future__ import annotations

import pytest

from extraction_core.errors import ConfigurationError
from extraction_core.settings import Timing


def test_the_defaults_hold_together() -> None:
    timing = Timing()
    assert timing.lease_s >= timing.request_timeout_s + 2 * timing.heartbeat_s


def test_a_lease_that_one_slow_call_could_outlive_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="EXTRACTION_LEASE_S") as refused:
        Timing(lease_s=299.9)
    assert "300 s" in refused.value.problem
    assert "EXTRACTION_REQUEST_TIMEOUT_S" in refused.value.remedy


def test_a_lease_of_exactly_a_call_and_two_heartbeats_is_enough() -> None:
    assert Timing(lease_s=12.0, request_timeout_s=10.0, heartbeat_s=1.0).lease_s == 12.0


def test_no_call_is_opened_in_the_last_third_of_a_lease_without_a_heartbeat() -> None:
    assert Timing(lease_s=300.0).fresh_s == 200.0
