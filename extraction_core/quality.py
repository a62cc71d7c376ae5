"""What a collection thinks of a document whose text came out badly: warn, or fail it before it is asked about.

Parsing measures and never judges, since equal bytes are parsed once for all collections. The verdict falls where a
collection's row is loaded, from the warnings of the parse run (:class:`extraction_core.parsing.ParsedDocument`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Reaction = Literal["warn", "fail"]
MOST_NAMED = 8


class Flaw(StrEnum):
    """How a text can be unlike what a person sees."""

    LITTLE_TEXT = "little_text"
    UNREADABLE_TEXT = "unreadable_text"
    VISUAL_ORDER = "visual_order"
    INVISIBLE_TEXT = "invisible_text"


FLAWS: Mapping[str, Flaw] = {
    "page_without_text": Flaw.LITTLE_TEXT,
    "page_not_read": Flaw.LITTLE_TEXT,
    "scanned_page": Flaw.LITTLE_TEXT,
    "little_text_on_scan": Flaw.LITTLE_TEXT,
    "unreadable_text": Flaw.UNREADABLE_TEXT,
    "characters_guessed": Flaw.UNREADABLE_TEXT,
    "right_to_left_visual_order": Flaw.VISUAL_ORDER,
    "invisible_text": Flaw.INVISIBLE_TEXT,
    "visibility_not_checked": Flaw.INVISIBLE_TEXT,
}
"""Codes of warnings, and the flaw that each one stands for. Other warnings are never more than shown."""


class QualityByFlaw(BaseModel):
    """A reaction per flaw."""

    model_config = ConfigDict(extra="forbid", strict=True)

    little_text: Reaction = Field(default="warn", description="A page that yields almost nothing.")
    unreadable_text: Reaction = Field(default="warn", description="Characters without meaning, or guessed ones.")
    visual_order: Reaction = Field(default="warn", description="Right-to-left text that stands backwards.")
    invisible_text: Reaction = Field(default="warn", description="Text that no reader can see.")


def flaw_problem(quality: Reaction | QualityByFlaw, warnings: Sequence[str]) -> str | None:
    """Return why a collection does not take a parsed document, or None when it does.

    Args:
        quality: one reaction to every flaw, or one per flaw.
        warnings: those of the parse run, ``code:detail``.
    """
    found = [(flaw, warning) for warning in warnings if (flaw := FLAWS.get(warning.split(":", 1)[0]))]
    bad = [(flaw, warning) for flaw, warning in found if _reaction(quality, flaw) == "fail"]
    if not bad:
        return None
    flaws = ", ".join(sorted({flaw.value for flaw, _ in bad}))
    named = ", ".join(warning for _, warning in bad[:MOST_NAMED])
    more = f" and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
    return f"{flaws}: {named}{more}"


def _reaction(quality: Reaction | QualityByFlaw, flaw: Flaw) -> Reaction:
    return getattr(quality, flaw) if isinstance(quality, QualityByFlaw) else quality
