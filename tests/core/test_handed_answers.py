"""Every answer of the collection of real-world cases, judged as its manifest asks."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from extraction_core.answers import Accepted, Rejected, judge, read_message
from extraction_core.causes import Cause
from extraction_core.output_schema import SchemaValidator
from extraction_core.result_document import canonical_json
from tests.core.handed_cases import RESPONSES, case_schema, needs_cases, response_text

if TYPE_CHECKING:
    from extraction_core.answers import Judgement

pytestmark = needs_cases

ACCEPTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain": ("INV-0001", ()),
    "nul-escape": ("INV-2004", ("characters_replaced:1",)),
    "lone-surrogate": ("INV-7903", ("characters_replaced:1",)),
    "thinking-first": ("INV-7101", ()),
    "two-text-blocks": ("INV-7102", ()),
    "tool-use-input": ("INV-7103", ()),
    "fenced": ("INV-7201", ("surrounding_text",)),
    "fence-inside-string": ("INV-7203", ("surrounding_text",)),
    "trailing-text": ("INV-7301", ("surrounding_text",)),
    "big-int-leading-zero": ("007", ()),
    "usage-cache": ("INV-8401", ()),
    "usage-nulls": ("INV-8402", ()),
    "usage-batch-tier": ("INV-8501", ()),
    "usage-unknown-model": ("INV-8502", ()),
}
REJECTED: dict[str, Cause] = {
    "max-tokens-in-array": Cause.TRUNCATED,
    "max-tokens-in-number": Cause.TRUNCATED,
    "max-tokens-in-string": Cause.TRUNCATED,
    "end-turn-empty": Cause.EMPTY_ANSWER,
    "refusal-empty": Cause.REFUSED,
    "decoy-fence-first": Cause.AMBIGUOUS,
    "two-objects": Cause.AMBIGUOUS,
    "trailing-comma": Cause.UNPARSABLE,
    "unescaped-quote": Cause.UNPARSABLE,
    "nan": Cause.UNPARSABLE,
    "infinity-1e400": Cause.UNPARSABLE,
    "schema-echoed": Cause.SCHEMA_MISMATCH,
    "top-level-array": Cause.SCHEMA_MISMATCH,
    "top-level-null": Cause.SCHEMA_MISMATCH,
    "top-level-string": Cause.SCHEMA_MISMATCH,
}


def judged(name: str) -> Judgement:
    message = read_message(response_text(name))
    assert message is not None
    return judge(message, SchemaValidator(case_schema("invoice")))


def accepted(name: str) -> Any:
    judgement = judged(name)
    assert isinstance(judgement, Accepted), judgement
    return judgement.value


def test_every_answer_of_the_collection_is_expected_to_end_somehow() -> None:
    answers = {path.stem for path in RESPONSES.glob("*.json") if not path.stem.startswith("http-")}
    assert answers == set(ACCEPTED) | set(REJECTED)


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_usable_answer_is_accepted_with_its_notes(name: str) -> None:
    number, notes = ACCEPTED[name]
    judgement = judged(name)
    assert isinstance(judgement, Accepted), judgement
    assert (number, notes) == (judgement.value["invoice_number"], judgement.notes)


@pytest.mark.parametrize("name", REJECTED)
def test_an_unusable_answer_is_rejected_for_its_own_cause(name: str) -> None:
    judgement = judged(name)
    assert isinstance(judgement, Rejected), judgement
    assert REJECTED[name] == judgement.cause


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_file_of_an_accepted_answer_is_strict_json_in_utf8(name: str) -> None:
    text = canonical_json(accepted(name)).decode("utf-8")
    assert json.loads(text, parse_constant=pytest.fail)["invoice_number"] == ACCEPTED[name][0]
    assert "\0" not in text


def test_digits_are_in_the_file_as_they_were_answered() -> None:
    text = canonical_json(accepted("big-int-leading-zero")).decode()
    for line in (
        '"invoice_number": "007"',
        '"account": 9007199254740993',
        '"iban": "12345678901234567890"',
        '"total": 1234567.10',
        '"rate": 0.1000000000000000055',
    ):
        assert line in text


def test_a_code_fence_inside_a_value_does_not_cut_it() -> None:
    assert accepted("fence-inside-string")["note"] == "run\n```\nls\n```\nthen pay"


def test_a_tool_input_keeps_its_decimals_exact() -> None:
    assert accepted("tool-use-input")["total"] == Decimal("710.3")


@pytest.mark.parametrize(("name", "field"), [("schema-echoed", "invoice_number"), ("top-level-null", "$")])
def test_a_mismatch_names_the_field(name: str, field: str) -> None:
    judgement = judged(name)
    assert isinstance(judgement, Rejected)
    assert field in judgement.message


def test_a_mismatch_does_not_quote_the_document() -> None:
    judgement = judged("top-level-string")
    assert isinstance(judgement, Rejected)
    assert "none found" not in judgement.message
