"""One document, one request, one answer: the realtime way to ask.

The answer is handed on as the body that came over the wire. Reading it is the judge's work, after it was kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2

from extraction_core.answers import read_message
from extraction_core.calls import CallAnswered, CallFailed
from extraction_core.causes import Cause
from resources.extraction.access import Access
from resources.extraction.client import build_client
from resources.extraction.request_body import encode_request
from resources.extraction.translation import translate

MESSAGES = "/v1/messages"


class RealtimeProvider:
    """Calls the Messages API. One per process; used from one event loop.

    Requests are given to the SDK as bytes: it would copy a request and make the same bytes of it, which is a fifth of
    what its part of a call takes.

    Args:
        access: credentials and address.
        calls_in_flight: the most calls at a time.
        request_timeout_s: the longest a call may take in total, connecting and reading included.
    """

    def __init__(self, access: Access, *, calls_in_flight: int, request_timeout_s: float) -> None:
        self._client = build_client(access, calls_in_flight=calls_in_flight, request_timeout_s=request_timeout_s)
        self._timeout_s = request_timeout_s

    async def call(self, request: Mapping[str, Any]) -> CallAnswered | CallFailed:
        """Make one call. Every outcome is a value; only a defect of ours raises."""
        body = encode_request(request)
        return body if isinstance(body, CallFailed) else await self.call_encoded(body)

    async def call_encoded(self, request: bytes) -> CallAnswered | CallFailed:
        """As :meth:`call`, with the body of the request."""
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._client.post(MESSAGES, cast_to=httpx2.Response, content=request)
                body = response.content.decode("utf-8", "replace")
        except Exception as error:  # noqa: BLE001 - raised again where it is not the call's
            return translate(error)
        message, request_id = read_message(body), response.headers.get("request-id")
        if message is None:
            return CallFailed(
                cause=Cause.UNREADABLE_RESPONSE,
                message="HTTP 200, but the body is not a message",
                request_id=request_id,
            )
        return CallAnswered(body=body, message=message, request_id=request_id)

    async def count_tokens(self, request: Mapping[str, Any]) -> int | None:
        """Ask how many tokens a request is. Free of charge; None when the server cannot say."""
        asked = {name: value for name, value in request.items() if name != "max_tokens"}
        try:
            async with asyncio.timeout(self._timeout_s):
                return (await self._client.messages.count_tokens(**asked)).input_tokens
        except (anthropic.AnthropicError, TimeoutError):
            return None

    async def count_tokens_encoded(self, request: bytes) -> int | None:
        """As :meth:`count_tokens`, with the body of the request."""
        return await self.count_tokens(json.loads(request))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
