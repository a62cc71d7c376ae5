"""The collection of real-world cases that is kept beside the project, if it is there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
RESPONSES = CASES / "files" / "response"
SCHEMAS = CASES / "files" / "schema"
NAMES = CASES / "files" / "names"
TEXTS = CASES / "files" / "text"

needs_cases = pytest.mark.skipif(
    not CASES.is_dir() and not os.environ.get("CI"), reason=f"the collection of cases is not at {CASES}"
)


def response_text(name: str) -> str:
    """Return the body of a response of the collection, as it would come over the wire."""
    return (RESPONSES / f"{name}.json").read_text(encoding="utf-8")


def error_response(name: str) -> Mapping[str, Any]:
    """Return a refusal of the collection: ``status``, ``headers`` and ``body``."""
    return json.loads(response_text(name))


def case_schema(name: str) -> Mapping[str, Any]:
    """Return a schema of the collection."""
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
