"""What is asked for one row: the request of its next try, and what is written down of it before the call.

How a second try differs from the first is told by why the row came back: a cut answer is asked for with a larger limit,
an unusable one with the problem told.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from extraction_core.causes import POLICIES, Cause, Remedy
from extraction_core.pricing import TokenUsage, context_tokens, cost_usd
from extraction_core.prompting import (
    LARGEST_IMAGE_BYTES,
    LARGEST_REQUEST_BYTES,
    DocumentBlock,
    Question,
    SecondTry,
    Shown,
    build_request,
    page_limit,
    prompt_bytes,
    token_bounds,
)
from resources.ledger.attempts import AttemptPlan

LARGER_FACTOR = 2
LARGEST_OUTPUT_TOKENS = 64_000
BATCH_CACHE_TTL = "1h"
"""The requests of a batch are processed over hours: the usual five minutes would have run out between them."""


@dataclass(frozen=True, kw_only=True)
class RequestSize:
    """A request against the provider's limits: bytes, pages, and the fewest and most tokens that it can be.

    ``image_bytes`` counts a picture's base64, ``pages`` what is shown in a block of its own; both are 0 for text.
    """

    request_bytes: int
    image_bytes: int
    pages: int
    page_limit: int
    fewest_tokens: int
    most_tokens: int
    token_limit: int
    max_tokens: int
    model: str

    @property
    def in_doubt(self) -> bool:
        """Whether only a count can tell if it fits."""
        return self._too_large() is None and self.fewest_tokens <= self.token_limit < self.most_tokens

    def problem(self, counted: int | None = None) -> str | None:
        """Return why the request is too long, or None.

        Args:
            counted: its tokens as the provider counts them; without a count, the middle of the bounds decides.
        """
        if too_large := self._too_large():
            return too_large
        tokens = self.fewest_tokens
        if self.in_doubt:
            tokens = counted or (self.fewest_tokens + self.most_tokens) // 2
        if tokens <= self.token_limit:
            return None
        return (
            f"too long: about {tokens} tokens, limit {self.token_limit} "
            f"({self.model}'s context less {self.max_tokens} for the answer)"
        )

    def _too_large(self) -> str | None:
        """Return which limit is broken that needs no count of tokens."""
        if self.request_bytes > LARGEST_REQUEST_BYTES:
            return f"too long: {self.request_bytes} bytes, limit {LARGEST_REQUEST_BYTES} bytes a request"
        if self.image_bytes > LARGEST_IMAGE_BYTES:
            return f"too long: a picture of {self.image_bytes} bytes in base64, limit {LARGEST_IMAGE_BYTES} bytes"
        if self.pages > self.page_limit:
            return f"too long: {self.pages} pages, limit {self.page_limit} pages a request with {self.model}"
        return None


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A request that may be sent, and what it stands for; ``block`` is the file that is shown in it, if one is."""

    request: Mapping[str, Any]
    second_try: str | None
    block: DocumentBlock | None = None

    @property
    def pages(self) -> int:
        """Pages that are shown as they are."""
        return self.block.pages if self.block else 0

    def size(self) -> RequestSize:
        """Measure the request. Takes a while for a large file."""
        fewest, most = token_bounds(prompt_bytes(self.request), self.pages)
        context = context_tokens(self.request["model"])
        return RequestSize(
            request_bytes=len(json.dumps(self.request, ensure_ascii=False).encode("utf-8", "replace")),
            image_bytes=len(self.block.base64) if self.block and self.block.is_image else 0,
            pages=self.pages,
            page_limit=page_limit(context),
            fewest_tokens=fewest,
            most_tokens=most,
            token_limit=context - self.request["max_tokens"],
            max_tokens=self.request["max_tokens"],
            model=self.request["model"],
        )

    def most_it_can_cost(self, *, batch: bool) -> Decimal | None:
        """Return the most that the request can cost; None when the model's price is not known."""
        _, most = token_bounds(prompt_bytes(self.request), self.pages)
        worst = TokenUsage(
            input_tokens=0,
            cache_write_5m_tokens=0 if batch else most,
            cache_write_1h_tokens=most if batch else 0,
            cache_read_tokens=0,
            output_tokens=self.request["max_tokens"],
        )
        return cost_usd(self.request["model"], worst, at=datetime.now(UTC), batch=batch)


class Asking:
    """The next try of one row.

    Args:
        question: what the collection asks of every document.
        row: the claimed row; its reason and message tell why it came back.
    """

    def __init__(self, question: Question, row: Mapping[str, Any]) -> None:
        self._question, self._row = question, row
        self.second_try = _special_remedy(row["reason"])

    def build(self, document: Shown, *, batch: bool = False) -> Ready:
        """Build the request for a document, for a call of its own or for a message batch."""
        second_try = None
        match self.second_try:
            case Remedy.LARGER:
                second_try = SecondTry(max_output_tokens=self._larger_limit)
            case Remedy.ASK_AGAIN:
                problem = self._row["message"] or self._row["reason"]
                second_try = SecondTry(max_output_tokens=self._question.max_output_tokens, problem=problem)
            case _:
                pass
        request = build_request(self._question, document, second_try, cache_ttl=BATCH_CACHE_TTL if batch else None)
        block = document if isinstance(document, DocumentBlock) else None
        return Ready(request=request, second_try=self.second_try, block=block)

    def is_at_the_top(self, remedy: Remedy) -> bool:
        """Whether a larger limit is wanted and there is none."""
        return remedy is Remedy.LARGER and self._larger_limit == self._question.max_output_tokens

    @property
    def _larger_limit(self) -> int:
        limit = self._question.max_output_tokens
        return min(limit * LARGER_FACTOR, max(LARGEST_OUTPUT_TOKENS, limit))


def attempt_plan(ready: Ready) -> AttemptPlan:
    """Return what is written down of a call before it is made, with the most that it can cost."""
    return AttemptPlan(
        token=str(uuid.uuid4()),
        model=ready.request["model"],
        max_output_tokens=ready.request["max_tokens"],
        reserved_usd=ready.most_it_can_cost(batch=False),
        second_try=ready.second_try,
    )


def _special_remedy(reason: str | None) -> Remedy | None:
    remedy = POLICIES[Cause(reason)].remedy if reason in set(Cause) else None
    return remedy if remedy in (Remedy.LARGER, Remedy.ASK_AGAIN) else None
