"""What is read from the environment: places, times, credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from extraction_core.errors import ConfigurationError
from extraction_core.settings import CallerUse
from resources.environment import PROJECT_ROOT, read_environment
from resources.extraction.access import Access, access_from

KEY = "sk-ant-canary"


def test_without_any_variable_all_state_is_below_the_project() -> None:
    environment = read_environment({})
    assert environment.home == PROJECT_ROOT / ".extraction"
    assert environment.ledger_url == f"sqlite:///{PROJECT_ROOT / '.extraction' / 'ledger.db'}"


def test_the_home_moves_ledger_outputs_and_parsed_text() -> None:
    environment = read_environment({"EXTRACTION_HOME": "/data/x"})
    assert environment.ledger_url == "sqlite:////data/x/ledger.db"
    assert (environment.outputs, environment.parsed) == (Path("/data/x/outputs"), Path("/data/x/parsed"))


def test_the_ledger_can_be_elsewhere() -> None:
    environment = read_environment({"EXTRACTION_LEDGER_URL": "postgresql://host/ledger"})
    assert environment.ledger_url == "postgresql://host/ledger"


@pytest.mark.parametrize("home", ["relative", "./here", "~/there"])
def test_a_home_that_depends_on_the_working_directory_is_refused(home: str) -> None:
    with pytest.raises(ConfigurationError, match="EXTRACTION_HOME"):
        read_environment({"EXTRACTION_HOME": home})


@pytest.mark.parametrize("value", ["soon", "0", "-1", "inf", "nan"])
def test_a_time_that_is_no_positive_number_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match="EXTRACTION_RETRY_IN_RUN_S"):
        read_environment({"EXTRACTION_RETRY_IN_RUN_S": value})


def test_times_are_read() -> None:
    timing = read_environment({"EXTRACTION_LEASE_S": "600", "EXTRACTION_HEARTBEAT_S": "1.5"}).timing
    assert (timing.lease_s, timing.heartbeat_s, timing.request_timeout_s) == (600.0, 1.5, 240.0)


def test_a_lease_that_is_too_short_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="EXTRACTION_LEASE_S"):
        read_environment({"EXTRACTION_LEASE_S": "60"})


@pytest.mark.parametrize(("word", "use"), [("", CallerUse.AUTO), *((use.value, use) for use in CallerUse)])
def test_where_calls_are_made_is_read(word: str, use: CallerUse) -> None:
    assert read_environment({"EXTRACTION_CALLER_PROCESS": word}).caller_process is use


def test_a_word_that_is_no_way_to_make_calls_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigurationError, match="EXTRACTION_CALLER_PROCESS") as refused:
        read_environment({"EXTRACTION_CALLER_PROCESS": "yes"})
    assert "auto, always, never" in refused.value.remedy


def test_neither_key_nor_address_is_refused_with_both_remedies() -> None:
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY") as refused:
        access_from({"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""})
    assert "sandbox" in refused.value.remedy


@pytest.mark.parametrize(
    "variables",
    [{"ANTHROPIC_API_KEY": KEY}, {"ANTHROPIC_AUTH_TOKEN": KEY}, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8787/"}],
)
def test_a_key_a_token_or_an_address_of_ones_own_is_enough(variables: dict[str, str]) -> None:
    assert access_from(variables)


def test_an_address_that_would_double_the_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="/v1"):
        access_from({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8787/v1/"})


def test_a_key_is_not_shown() -> None:
    access = Access(api_key=KEY, auth_token=KEY, base_url="http://127.0.0.1:8787")
    assert KEY not in f"{access} {access!r}"
