"""How the provider is reached: credentials and address, from the environment. Loads no SDK."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from extraction_core.errors import ConfigurationError


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
        ConfigurationError: there is neither a key nor an address of one's own, a key cannot be one, or the address ends
            in ``/v1``.
    """
    access = Access(
        api_key=_credential(environment, "ANTHROPIC_API_KEY"),
        auth_token=_credential(environment, "ANTHROPIC_AUTH_TOKEN"),
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


def _credential(environment: Mapping[str, str], variable: str) -> str | None:
    """Read a key without the line end that a file of secrets leaves on it; what no header can hold is not told."""
    key = environment.get(variable, "").strip()
    if not all(" " < character < "\x7f" for character in key):
        problem, remedy = "holds characters that no key has.", "Set it again, without quotes, blanks or line ends."
        raise ConfigurationError(variable, None, problem, remedy)
    return key or None
