"""What happens to a row after a failed try: decided purely, carried out by the ledger.

``decide`` takes the cause and the row's history and returns a value. Time and chance are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

from extraction_core.causes import POLICIES, Cause, Remedy

BASE_WAIT_S = 2.0
LONGEST_WAIT_S = 3600.0
MOST_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True)
class History:
    """What is known of a row's earlier tries of the same question.

    Attributes:
        counted_attempts: attempts that count towards the cap, the one that just failed included.
        refusals_to_serve: how often the provider did not serve this row (429, 529), this time included.
        same_remedy_used: whether the special remedy of this cause (larger limit, asking again) was used before.
    """

    counted_attempts: int
    refusals_to_serve: int
    same_remedy_used: bool


@dataclass(frozen=True, kw_only=True)
class RetryRules:
    """Limits of retrying: attempts per question, refusals to serve per row, the longest wait inside a run (seconds)."""

    max_attempts: int = 3
    max_refusals_to_serve: int = 8
    retry_in_run_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Requeue:
    """The row goes back to the queue, due in ``wait_s`` seconds."""

    wait_s: float


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    """The row ends failed. ``next_retry_s`` is None when only a person can ask again."""

    next_retry_s: float | None
    exhausted: bool = False


@dataclass(frozen=True, kw_only=True)
class StopLine:
    """The row is released untouched and nothing more is claimed: the fault is not the document's."""


Decision = Requeue | GiveUp | StopLine


def backoff_s(tries: int, jitter: float) -> float:
    """Return an exponential wait with full jitter.

    Args:
        tries: how many tries failed so far, at least 1.
        jitter: a number in [0, 1) from the caller's random source.

    Returns:
        Seconds between half of and the whole of ``2 * 2**(tries - 1)``, at most an hour.
    """
    ceiling = min(LONGEST_WAIT_S, BASE_WAIT_S * 2 ** min(max(tries, 1) - 1, MOST_DOUBLINGS))
    return ceiling * (0.5 + 0.5 * jitter)


def decide(
    cause: Cause, history: History, rules: RetryRules, *, jitter: float, retry_after_s: float | None = None
) -> Decision:
    """Decide what follows from one failed try."""
    remedy = POLICIES[cause].remedy
    if remedy is Remedy.STOP:
        return StopLine()
    if remedy is Remedy.FINAL or (remedy in (Remedy.LARGER, Remedy.ASK_AGAIN) and history.same_remedy_used):
        return GiveUp(next_retry_s=None)
    if remedy is Remedy.WAIT:
        wait_s = _wait_to_be_served(history.refusals_to_serve, jitter, retry_after_s)
        if history.refusals_to_serve >= rules.max_refusals_to_serve or wait_s > rules.retry_in_run_s:
            return GiveUp(next_retry_s=max(wait_s, rules.retry_in_run_s))
        return Requeue(wait_s=wait_s)
    if history.counted_attempts >= rules.max_attempts:
        return GiveUp(next_retry_s=None, exhausted=True)
    wait_s = backoff_s(history.counted_attempts, jitter) if remedy is Remedy.RETRY else 0.0
    return Requeue(wait_s=wait_s) if wait_s <= rules.retry_in_run_s else GiveUp(next_retry_s=wait_s)


def _wait_to_be_served(refusals: int, jitter: float, retry_after_s: float | None) -> float:
    """The provider's own ``retry-after`` is a floor, never cut short; up to a tenth is added so that workers spread."""
    if retry_after_s is None:
        return backoff_s(refusals, jitter)
    return retry_after_s * (1.0 + 0.1 * jitter)
