"""Judging answers: what no handed example shows, and what must hold for any text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.answers import Accepted, Rejected, judge, read_message
from extraction_core.causes import Cause
from extraction_core.output_schema import SchemaValidator
from extraction_core.result_document import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from extraction_core.answers import Judgement

ANYTHING = SchemaValidator({"type": "object"})
ONE_FIELD = SchemaValidator({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})

any_text = st.text(st.characters(), max_size=60)
json_like = st.text(st.sampled_from('{}[]",:\\ \n`0123456789eE+-.aNul\ud83d\0'), max_size=60)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(any_text, child, max_size=3),
    max_leaves=8,
)


def a_message(text: str, **changes: Any) -> Mapping[str, Any]:
    fields = {"type": "message", "stop_reason": "end_turn", "content": [{"type": "text", "text": text}]}
    return {**fields, **changes}


def judged(text: str, validator: SchemaValidator = ONE_FIELD, **changes: Any) -> Judgement:
    return judge(a_message(text, **changes), validator)


def cause(judgement: Judgement) -> Cause:
    assert isinstance(judgement, Rejected), judgement
    return judgement.cause


@given(any_text | json_like)
def test_any_text_is_judged_without_an_exception(text: str) -> None:
    judgement = judged(text, ANYTHING)
    if isinstance(judgement, Accepted):
        canonical_json(judgement.value)


stop_reasons = st.sampled_from(["end_turn", "tool_use", "refusal", "max_tokens"]) | json_values
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use"])}, optional={"text": json_values, "input": json_values}
)


@given(stop=stop_reasons, details=json_values, content=st.lists(blocks | json_values, max_size=3))
def test_any_message_is_judged_without_an_exception(stop: object, details: object, content: list[object]) -> None:
    judge({"stop_reason": stop, "stop_details": details, "content": content}, ANYTHING)


@given(any_text | json_like)
def test_any_body_is_read_or_is_no_message(body: str) -> None:
    assert read_message(body) is None


@pytest.mark.parametrize(
    "body", ["[]", '{"type": "error"}', '{"type": "message"}', '{"type": "message", "content": "text"}', "<html>"]
)
def test_a_body_without_a_list_of_content_is_no_message(body: str) -> None:
    assert read_message(body) is None


@given(st.from_regex(r"(0|-?[1-9][0-9]{0,40})(\.[0-9]{1,40})?", fullmatch=True))
def test_every_digit_of_a_number_reaches_the_file(digits: str) -> None:
    judgement = judged(f'{{"n": {digits}}}', ANYTHING)
    assert isinstance(judgement, Accepted), judgement
    written = json.loads(canonical_json(judgement.value), parse_int=Decimal, parse_float=Decimal)["n"]
    assert Decimal(digits).as_tuple() == written.as_tuple()


@pytest.mark.parametrize("digits", ["1e400", "-1e999", "NaN", "Infinity", "-Infinity"])
def test_a_number_that_readers_of_json_cannot_hold_is_unparsable(digits: str) -> None:
    assert cause(judged(f'{{"a": {digits}}}')) == Cause.UNPARSABLE


def test_an_integer_too_long_for_the_interpreter_is_unparsable() -> None:
    assert cause(judged('{"a": ' + "9" * 5000 + "}")) == Cause.UNPARSABLE


@pytest.mark.parametrize(
    ("stop_reason", "expected"),
    [
        ("max_tokens", Cause.TRUNCATED),
        ("model_context_window_exceeded", Cause.CONTEXT_EXCEEDED),
        ("refusal", Cause.REFUSED),
        ("pause_turn", Cause.UNEXPECTED_STOP),
        (None, Cause.UNEXPECTED_STOP),
    ],
)
def test_the_stop_reason_is_looked_at_before_the_text(stop_reason: str | None, expected: Cause) -> None:
    assert cause(judged('{"a": 1}', stop_reason=stop_reason)) == expected


def test_a_refusal_says_its_category() -> None:
    judgement = judged("", stop_reason="refusal", stop_details={"category": "bio"})
    assert isinstance(judgement, Rejected)
    assert "bio" in judgement.message


@pytest.mark.parametrize(
    "text",
    [
        'Not sure: {"a": 1, "b": {"a": 2}',  # the outer object is cut; the inner one is not the answer
        '{"a": 1, "a": 2}',  # which of the two?
        '{"a": 1} and {"a": 2,',
        "{'a': 1}",
        '{"a": 1',
        '"a": 1}',
    ],
)
def test_an_answer_that_could_mean_something_else_is_not_repaired(text: str) -> None:
    assert cause(judged(text)) == Cause.UNPARSABLE


def test_two_different_objects_that_fit_are_ambiguous() -> None:
    assert cause(judged('{"a": 1} {"a": 2}')) == Cause.AMBIGUOUS


def test_one_object_said_twice_is_one_answer() -> None:
    judgement = judged('{"a": 1}\n\nAs said:\n{"a": 1}')
    assert judgement == Accepted(value={"a": 1}, notes=("surrounding_text",))


def test_the_one_object_that_fits_is_taken() -> None:
    judgement = judged('{"b": 1} {"a": 2} {"c": 3}')
    assert judgement == Accepted(value={"a": 2}, notes=("surrounding_text",))


def test_true_and_one_are_two_answers() -> None:
    anything = SchemaValidator({"type": "object", "required": ["a"]})
    assert cause(judged('{"a": 1} {"a": true}', anything)) == Cause.AMBIGUOUS


@pytest.mark.parametrize("depth", [201, 5_000, 100_000])
def test_an_answer_nested_too_deeply_is_unparsable(depth: int) -> None:
    assert cause(judged('{"a": ' + "[" * depth + "]" * depth + "}", ANYTHING)) == Cause.UNPARSABLE


def test_a_deep_but_readable_answer_is_accepted() -> None:
    assert isinstance(judged('{"a": ' + "[" * 150 + "]" * 150 + "}", ANYTHING), Accepted)


def test_a_raw_line_end_inside_a_string_is_kept() -> None:
    assert judged('{"a": 1, "b": "x\ny"}') == Accepted(value={"a": 1, "b": "x\ny"}, notes=())


def test_what_cannot_be_stored_is_replaced_and_counted_in_keys_and_values() -> None:
    judgement = judged('{"a": 1, "k\\u0000": ["\\ud83d", "\\u0000"]}')
    assert judgement == Accepted(value={"a": 1, "k\ufffd": ["\ufffd", "\ufffd"]}, notes=("characters_replaced:3",))


def test_two_keys_that_become_one_by_replacing_lose_nothing_silently() -> None:
    assert cause(judged('{"a": 1, "k\\u0000": 1, "k\\ud83d": 2}')) == Cause.UNPARSABLE


def test_an_emoji_is_not_a_lone_surrogate() -> None:
    assert judged('{"a": 1, "b": "\\ud83d\\ude00"}') == Accepted(value={"a": 1, "b": "\U0001f600"}, notes=())


@pytest.mark.parametrize("text", ["{}", '{"b": null}', '{"b": "", "c": [], "d": [null, {"e": ""}]}'])
def test_an_answer_without_any_value_is_flagged(text: str) -> None:
    judgement = judged(text, ANYTHING)
    assert isinstance(judgement, Accepted)
    assert judgement.notes == ("all_empty",)


@pytest.mark.parametrize("value", ["0", "false", '"x"'])
def test_zero_and_false_are_values(value: str) -> None:
    assert judged(f'{{"b": {value}}}', ANYTHING).notes == ()  # type: ignore[union-attr]


def test_missing_fields_are_never_filled_up() -> None:
    assert cause(judged("{}", SchemaValidator({"required": ["a"], "properties": {"a": {"default": 1}}}))) == (
        Cause.SCHEMA_MISMATCH
    )


def test_a_failure_does_not_quote_the_answer() -> None:
    judgement = judged('{"a": "confidential", }')
    assert isinstance(judgement, Rejected)
    assert "confidential" not in judgement.message


def test_a_schema_failure_does_not_quote_the_answer() -> None:
    judgement = judged('{"a": "confidential"}')
    assert isinstance(judgement, Rejected)
    assert judgement.cause == Cause.SCHEMA_MISMATCH
    assert "confidential" not in judgement.message
    assert "$.a" in judgement.message
