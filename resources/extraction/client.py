"""The client: credentials from the environment, no retries of its own, connections enough for every call in flight.

Retries are rows of the ledger; an SDK that retries by itself would make calls that nobody wrote down.
"""

from __future__ import annotations

import anthropic
import httpx2

from resources.extraction.access import Access

CONNECT_TIMEOUT_S = 10.0
KEYLESS = "no-key"
"""Sent to a server of one's own that asks for no key: the SDK refuses to send a request without any."""


def build_client(access: Access, *, calls_in_flight: int, request_timeout_s: float) -> anthropic.AsyncAnthropic:
    """Build the client for realtime calls.

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
        # the SDK's other transport looks at every open connection before each request: with hundreds in flight that is
        # most of what a call costs. This one repeats nothing by itself either: a POST is sent once.
        http_client=anthropic.DefaultAioHttpClient(timeout=timeout, limits=limits),
    )


def build_batch_client(access: Access, *, request_timeout_s: float) -> anthropic.Anthropic:
    """Build the client for message batches: one request at a time, from an ordinary thread.

    Args:
        access: credentials and address.
        request_timeout_s: per read.
    """
    return anthropic.Anthropic(
        api_key=access.api_key or (None if access.auth_token else KEYLESS),
        auth_token=None if access.api_key else access.auth_token,
        base_url=access.base_url,
        max_retries=0,  # a create that timed out and was repeated makes a second batch, which is paid for as well
        timeout=anthropic.Timeout(request_timeout_s, connect=CONNECT_TIMEOUT_S),
    )
