"""What a collection thinks of a text that came out badly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from extraction_core.collection import CollectionFile
from extraction_core.quality import FLAWS, Flaw, QualityByFlaw, flaw_problem

PARSING = Path(__file__).parents[2] / "resources" / "parsing"


@pytest.mark.parametrize("code", sorted(FLAWS))
def test_a_collection_that_warns_takes_every_flaw(code: str) -> None:
    assert flaw_problem("warn", [f"{code}:2"]) is None


@pytest.mark.parametrize("code", sorted(FLAWS))
def test_a_collection_that_fails_names_flaw_and_page(code: str) -> None:
    assert flaw_problem("fail", ["hidden_sheet:Notes", f"{code}:2"]) == f"{FLAWS[code]}: {code}:2"


@pytest.mark.parametrize("warning", ["hidden_sheet:Notes", "encoding_assumed:cp1252", "characters_replaced:3"])
def test_what_is_no_flaw_is_only_shown(warning: str) -> None:
    assert flaw_problem("fail", [warning]) is None


def test_one_flaw_alone_can_be_refused() -> None:
    quality = QualityByFlaw(invisible_text="fail")
    assert flaw_problem(quality, ["page_without_text:1"]) is None
    assert flaw_problem(quality, ["page_without_text:1", "invisible_text:4"]) == "invisible_text: invisible_text:4"


def test_many_pages_are_counted_and_not_all_named() -> None:
    problem = flaw_problem("fail", [f"page_without_text:{page}" for page in range(1, 601)])
    assert problem is not None
    assert problem.endswith("page_without_text:8 and 592 more")


@pytest.mark.parametrize("value", ["error", {"invisible_text": "refuse"}, {"nonsense": "fail"}, True])
def test_anything_else_is_no_policy(value: object) -> None:
    with pytest.raises(ValidationError, match="quality"):
        CollectionFile.model_validate({"source": "documents", "quality": value})


def test_every_flaw_can_be_set_by_its_name() -> None:
    assert set(QualityByFlaw.model_fields) == set(Flaw)


def test_every_code_is_one_that_the_parsers_give() -> None:
    given = {code for file in PARSING.glob("*.py") for code in re.findall(r'f"([a-z_]+):\{', file.read_text())}
    assert given >= set(FLAWS)
