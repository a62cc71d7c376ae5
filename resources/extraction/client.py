"""The client: credentials from the environment, no retries of its own, connections enough for every call in flight.

Retries are rows of the ledger; an SDK that retries by itself would make calls that nobody wrote down.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import anthropic
import httpx2

from extraction_core.errors import ConfigurationError

CONNECT_TIMEOUT_S = 10.0
KEYLESS = "no-key"
"""Sent to a server of one's own that asks for no key: the SDK refuses to send a request without any."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How to reach the provider. Its text form hides the key."""

    api_key: str | None
    auth_token: str | None
    base_url: str | None

    def __repr__(self) -> str:
        """Name the server and whether there is a key, never the key."""
        return f"Access(base_url={self.base_url!r}, key={'set' if self.api_key or self.auth_token else 'none'})"


def access_from(environment: Mapping[str, str] = os.environ) -> Access:
    """Read credentials and address.

    Raises:
        ConfigurationError: there is neither a key nor an address of one's own, or the address ends in ``/v1``.
    """
    access = Access(
        api_key=environment.get("ANTHROPIC_API_KEY") or None,
        auth_token=environment.get("ANTHROPIC_AUTH_TOKEN") or None,
        base_url=(environment.get("ANTHROPIC_BASE_URL") or "").rstrip("/") or None,
    )
    if not (access.api_key or access.auth_token or access.base_url):
        raise ConfigurationError(
            "ANTHROPIC_API_KEY",
            None,
            "is not set, and neither is ANTHROPIC_BASE_URL: no document can be extracted.",
            "Set the key, or start `extraction-assets sandbox --port 8787` and set "
            "ANTHROPIC_BASE_URL=http://127.0.0.1:8787.",
        )
    if access.base_url and access.base_url.endswith("/v1"):
        raise ConfigurationError(
            "ANTHROPIC_BASE_URL", None, "ends in /v1, which the client appends itself.", "Remove /v1 from it."
        )
    return access


def build_client(access: Access, *, calls_in_flight: int, request_timeout_s: float) -> anthropic.AsyncAnthropic:
    """Build the client.

    Args:
        access: credentials and address.
        calls_in_flight: the pool holds as many connections.
        request_timeout_s: per read; the total of a call is bounded by the caller. An explicit time-out also lifts the
            SDK's own refusal of large output limits without streaming.
    """
    timeout = anthropic.Timeout(request_timeout_s, connect=CONNECT_TIMEOUT_S)
    limits = httpx2.Limits(max_connections=calls_in_flight, max_keepalive_connections=calls_in_flight)
    return anthropic.AsyncAnthropic(
        api_key=access.api_key or (None if access.auth_token else KEYLESS),
        auth_token=None if access.api_key else access.auth_token,
        base_url=access.base_url,
        max_retries=0,
        timeout=timeout,
        http_client=anthropic.DefaultAsyncHttpxClient(timeout=timeout, limits=limits),
    )
