"""How Reducto is reached: key and address, from the environment. Loads no SDK."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from extraction_core.errors import ConfigurationError

KEY_VARIABLE = "REDUCTO_API_KEY"
ADDRESS_VARIABLE = "REDUCTO_BASE_URL"


@dataclass(frozen=True, kw_only=True)
class ReductoAccess:
    """How to reach the service. Its text form hides the key. ``base_url`` None: the service's own address."""

    api_key: str
    base_url: str | None

    def __repr__(self) -> str:
        """Name the server, never the key."""
        return f"ReductoAccess(base_url={self.base_url!r})"


def reducto_access_from(environment: Mapping[str, str] = os.environ) -> ReductoAccess:
    """Read key and address.

    Raises:
        ConfigurationError: there is no key, or it cannot be one.
    """
    key = environment.get(KEY_VARIABLE, "").strip()  # a file of secrets leaves a line end on it
    if not all(" " < character < "\x7f" for character in key):
        problem, remedy = "holds characters that no key has.", "Set it again, without quotes, blanks or line ends."
        raise ConfigurationError(KEY_VARIABLE, None, problem, remedy)
    if not key:
        raise ConfigurationError(
            KEY_VARIABLE,
            None,
            "is not set, so no document can be parsed by Reducto.",
            f"Set it, or use `parse: local`. For the sandbox set any key, and {ADDRESS_VARIABLE} to its address.",
        )
    return ReductoAccess(api_key=key, base_url=(environment.get(ADDRESS_VARIABLE) or "").rstrip("/") or None)
