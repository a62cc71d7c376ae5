"""Times that hold the queue together, and the one rule between them; where calls are made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extraction_core.errors import ConfigurationError


class CallerUse(StrEnum):
    """Whether the calls of a run are made by a caller process."""

    AUTO = "auto"  # when they are many
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds. A claim's lease outlives the longest call by two heartbeats, so a slow but living call is never lost.

    Attributes:
        lease_s: how long a claim lasts without a heartbeat.
        heartbeat_s: how often claims are extended.
        request_timeout_s: the longest a provider call may take in total.
        retry_in_run_s: the longest wait that keeps a row in its run.
        cancel_grace_s: how long calls in flight may still end after an interruption.
        batch_settle_s: how long after the last possible sending a message batch, or a parse job, may still appear in
            the provider's list; nothing is concluded from its absence before.
    """

    lease_s: float = 300.0
    heartbeat_s: float = 30.0
    request_timeout_s: float = 240.0
    retry_in_run_s: float = 60.0
    cancel_grace_s: float = 8.0
    batch_settle_s: float = 900.0

    def __post_init__(self) -> None:
        """Refuse a lease that a single slow call could outlive."""
        needed = self.request_timeout_s + 2 * self.heartbeat_s
        if self.lease_s < needed:
            raise ConfigurationError(
                "EXTRACTION_LEASE_S",
                None,
                f"a lease of {self.lease_s:g} s is shorter than request time-out plus two heartbeats ({needed:g} s).",
                "Raise it, or lower EXTRACTION_REQUEST_TIMEOUT_S or EXTRACTION_HEARTBEAT_S.",
            )

    @property
    def fresh_s(self) -> float:
        """Without an acknowledged heartbeat for this long, a worker opens no new call."""
        return self.lease_s * 2 / 3
