"""What a launch asks for: run config from the launchpad, or tags where a launch takes no config."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import dagster as dg
from pydantic import Field

from extraction_core.states import Select

SELECT_TAG = "extraction/select"
DOCUMENTS_TAG = "extraction/documents"


class ExtractionConfig(dg.Config):
    """Which documents of the set a run takes. Wins over the tags."""

    select: str | None = Field(
        default=None,
        description=(
            "pending (default): without a completed result for their current input; failed: whose latest result "
            "failed; all: every document, asked and paid for anew."
        ),
    )
    documents: list[str] | None = Field(default=None, description="Document keys to limit the run to.")


def selection(config: ExtractionConfig, tags: Mapping[str, str]) -> tuple[Select, Sequence[str] | None]:
    """Return what is asked for.

    Raises:
        dg.Failure: the value of ``select`` or ``documents`` makes no sense; names it and the allowed ones.
    """
    wanted = config.select or tags.get(SELECT_TAG) or Select.PENDING
    try:
        select = Select(wanted)
    except ValueError as error:
        allowed = ", ".join(Select)
        raise dg.Failure(f"select is {wanted!r}; it must be one of {allowed}.", allow_retries=False) from error
    if config.documents is not None:
        return select, config.documents
    return select, _documents_of(tags.get(DOCUMENTS_TAG))


def _documents_of(tag: str | None) -> list[str] | None:
    """Read the tag: a JSON list of keys, or keys separated by commas."""
    if not tag:
        return None
    if not tag.lstrip().startswith("["):
        return [key.strip() for key in tag.split(",") if key.strip()]
    try:
        keys = json.loads(tag)
    except ValueError as error:
        raise dg.Failure(f"the tag {DOCUMENTS_TAG} is not a JSON list: {error}", allow_retries=False) from error
    return [str(key) for key in keys]
