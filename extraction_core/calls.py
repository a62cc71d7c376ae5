"""What one provider call brought: an answer, or the cause why not. Both are values, since both become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from extraction_core.causes import Cause


@dataclass(frozen=True, kw_only=True)
class CallAnswered:
    """A message came back: its body as sent, its parsed form, the provider's id of the request."""

    body: str
    message: Mapping[str, Any]
    request_id: str | None


@dataclass(frozen=True, kw_only=True)
class CallFailed:
    """A call that brought no answer.

    Attributes:
        retry_after_s: how long the provider asked to wait; None when it did not say.
    """

    cause: Cause
    message: str
    retry_after_s: float | None = None
    request_id: str | None = None


class Provider(Protocol):
    """Whoever answers requests one by one."""

    async def call(self, request: Mapping[str, Any]) -> CallAnswered | CallFailed:
        """Make one call. Every outcome is a value."""
        ...

    async def count_tokens(self, request: Mapping[str, Any]) -> int | None:
        """Ask how many tokens a request is; None when the provider cannot say."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
