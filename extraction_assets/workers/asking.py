"""What is asked for one row: the request of its next try, and what is written down of it before the call.

How a second try differs from the first is told by why the row came back: a cut answer is asked for with a larger limit,
an unusable one with the problem told.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from extraction_core.causes import POLICIES, Cause, Remedy
from extraction_core.pricing import TokenUsage, cost_usd
from extraction_core.prompting import Question, SecondTry, build_request, prompt_bytes, token_bounds
from resources.ledger.attempts import AttemptPlan

LARGER_FACTOR = 2
LARGEST_OUTPUT_TOKENS = 64_000


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A request that may be sent, and what it stands for."""

    request: Mapping[str, Any]
    second_try: str | None


class Asking:
    """The next try of one row.

    Args:
        question: what the collection asks of every document.
        row: the claimed row; its reason and message tell why it came back.
    """

    def __init__(self, question: Question, row: Mapping[str, Any]) -> None:
        self._question, self._row = question, row
        self.second_try = _special_remedy(row["reason"])

    def build(self, markdown: str) -> Ready:
        """Build the request for a parsed document."""
        second_try = None
        match self.second_try:
            case Remedy.LARGER:
                second_try = SecondTry(max_output_tokens=self._larger_limit)
            case Remedy.ASK_AGAIN:
                problem = self._row["message"] or self._row["reason"]
                second_try = SecondTry(max_output_tokens=self._question.max_output_tokens, problem=problem)
            case _:
                pass
        return Ready(request=build_request(self._question, markdown, second_try), second_try=self.second_try)

    def is_at_the_top(self, remedy: Remedy) -> bool:
        """Whether a larger limit is wanted and there is none."""
        return remedy is Remedy.LARGER and self._larger_limit == self._question.max_output_tokens

    @property
    def _larger_limit(self) -> int:
        limit = self._question.max_output_tokens
        return min(limit * LARGER_FACTOR, max(LARGEST_OUTPUT_TOKENS, limit))


def attempt_plan(ready: Ready) -> AttemptPlan:
    """Return what is written down of a call before it is made, with the most that it can cost."""
    request = ready.request
    _, most = token_bounds(prompt_bytes(request))
    worst = TokenUsage(
        input_tokens=0,
        cache_write_5m_tokens=most,
        cache_write_1h_tokens=0,
        cache_read_tokens=0,
        output_tokens=request["max_tokens"],
    )
    return AttemptPlan(
        token=str(uuid.uuid4()),
        model=request["model"],
        max_output_tokens=request["max_tokens"],
        reserved_usd=cost_usd(request["model"], worst, at=datetime.now(UTC), batch=False),
        second_try=ready.second_try,
    )


def _special_remedy(reason: str | None) -> Remedy | None:
    remedy = POLICIES[Cause(reason)].remedy if reason in set(Cause) else None
    return remedy if remedy in (Remedy.LARGER, Remedy.ASK_AGAIN) else None
