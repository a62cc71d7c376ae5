"""Schemas: which are valid, what the provider enforces of them, what an answer must fit."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.output_schema import (
    MOST_OPTIONALS,
    MOST_UNIONS,
    SchemaValidator,
    invalid_schema_reason,
    provider_schema,
)
from sandbox.schema_rules import check_schema
from tests.core.handed_cases import case_schema, needs_cases

if TYPE_CHECKING:
    from collections.abc import Mapping

STRING = {"type": "string"}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def obstacles(schema: Mapping[str, Any]) -> tuple[str, ...]:
    found = provider_schema(schema)
    assert (found.schema is None) == bool(found.obstacles)
    return found.obstacles


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ([], "JSON object"),
        ({"type": "objekt"}, "$.type"),
        ({"properties": {"a": {"minimum": "3"}}}, "$.properties.a.minimum"),
        ({"properties": []}, "$.properties"),
        ({"items": [{"type": "string"}]}, "$.items"),
        ({"type": "string", "pattern": "("}, "pattern"),
        ({"$ref": "#/$defs/missing"}, "missing"),
        ({"$ref": "https://example.org/other.json"}, "example.org"),
    ],
)
def test_an_invalid_schema_is_refused_with_the_place(schema: Any, where: str) -> None:
    reason = invalid_schema_reason(schema)
    assert reason is not None
    assert where in reason


def test_a_validator_is_not_built_from_an_invalid_schema() -> None:
    with pytest.raises(ValueError, match="objekt"):
        SchemaValidator({"type": "objekt"})


@pytest.mark.parametrize(
    "schema", [an_object(a=STRING), {"$schema": "https://json-schema.org/draft/2020-12/schema"}, {}]
)
def test_a_valid_schema_has_no_reason_against_it(schema: Mapping[str, Any]) -> None:
    assert invalid_schema_reason(schema) is None


def test_formats_are_checked() -> None:
    validator = SchemaValidator(an_object(day={"type": "string", "format": "date"}))
    assert validator.fits({"day": "2026-02-28"})
    assert not validator.fits({"day": "2026-02-30"})


def test_a_violation_names_path_and_rule_but_not_the_value() -> None:
    validator = SchemaValidator(an_object(items={"type": "array", "items": an_object(code={"maxLength": 2})}))
    (violation,) = validator.violations({"items": [{"code": "secret"}]})
    assert violation.startswith("$.items[0].code: ")
    assert "secret" not in violation


def test_a_long_list_of_violations_is_cut() -> None:
    validator = SchemaValidator({"items": STRING})
    violations = validator.violations([1] * 50)
    assert (6, "and more") == (len(violations), violations[-1])


def test_decimals_are_validated_exactly() -> None:
    validator = SchemaValidator({"type": "number", "multipleOf": 0.01, "maximum": 10})
    assert validator.fits(Decimal("1.10"))
    assert not validator.fits(Decimal("1.105"))
    assert not validator.fits(Decimal("10.0000000000000000001"))


def test_integers_beyond_64_bits_are_integers() -> None:
    assert SchemaValidator({"type": "integer"}).fits(12345678901234567890123)


def test_an_object_is_closed_for_the_provider() -> None:
    carried = provider_schema(an_object(a=an_object(b=STRING))).schema
    assert carried is not None
    assert carried["additionalProperties"] is False
    assert carried["properties"]["a"]["additionalProperties"] is False


def test_the_schema_itself_is_not_changed() -> None:
    schema = an_object(a={"type": "string", "maxLength": 3})
    provider_schema(schema)
    assert an_object(a={"type": "string", "maxLength": 3}) == schema


@pytest.mark.parametrize(
    "narrowing",
    [
        {"type": "number", "minimum": 0},
        {"type": "number", "exclusiveMaximum": 9, "multipleOf": 0.5},
        {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^a"},
        {"type": "array", "items": STRING, "minItems": 2, "maxItems": 3, "uniqueItems": True},
        {"type": "string", "format": "iri"},
        {"type": "string", "examples": ["x"], "$comment": "y", "deprecated": True},
    ],
)
def test_what_only_narrows_is_left_to_the_validation_afterwards(narrowing: Mapping[str, Any]) -> None:
    carried = provider_schema(an_object(a=narrowing)).schema
    assert carried is not None
    left = {name: narrowing[name] for name in ("type", "items") if name in narrowing}
    assert left == carried["properties"]["a"]


@pytest.mark.parametrize("kept", [{"format": "date"}, {"enum": ["a"]}, {"const": "a"}, {"description": "d"}])
def test_what_the_provider_understands_is_passed_on(kept: Mapping[str, Any]) -> None:
    carried = provider_schema(an_object(a={"type": "string", **kept})).schema
    assert carried is not None
    assert {"type": "string", **kept} == carried["properties"]["a"]


@pytest.mark.parametrize("keyword", ["oneOf", "allOf"])
def test_a_combination_that_cannot_be_carried_is_named(keyword: str) -> None:
    assert (f"$.a uses `{keyword}`",) == obstacles(an_object(a={keyword: [STRING]}))


@pytest.mark.parametrize(
    ("node", "obstacle"),
    [
        ({}, "$.a allows any value"),
        (True, "$.a allows any value"),
        ({"description": "anything"}, "$.a allows any value"),
        ({"type": "array"}, "$.a[] allows any value"),
        ({"type": "object"}, "$.a is an object without named properties"),
        ({"type": ["object", "null"]}, "$.a is an object without named properties"),
        ({**an_object(b=STRING), "additionalProperties": STRING}, "$.a is a map with free keys"),
        ({**an_object(b=STRING), "required": ["b", "c"]}, "$.a requires `c`, which it does not describe"),
        ({"enum": [["x"]]}, "$.a has a composite value in `enum`"),
        ({"const": {"x": 1}}, "$.a has a composite value in `const`"),
        ({"$ref": "#"}, "$.a refers to `#`, which is not one of its definitions"),
        ({"$ref": "#/properties/b"}, "$.a refers to `#/properties/b`, which is not one of its definitions"),
        ({"type": "string", "not": {"const": "x"}}, "$.a uses `not`"),
        ({**an_object(b=STRING), "patternProperties": {"^x": STRING}}, "$.a uses `patternProperties`"),
        ({"type": "array", "items": STRING, "prefixItems": [STRING]}, "$.a uses `prefixItems`"),
    ],
)
def test_what_would_change_its_meaning_is_not_enforced_and_named(node: Any, obstacle: str) -> None:
    assert (obstacle,) == obstacles(an_object(a=node, b=STRING))


def test_a_definition_that_refers_to_itself_is_an_obstacle() -> None:
    node = an_object(next={"$ref": "#/$defs/node"})
    assert ("`node` refers to itself",) == obstacles({**an_object(a={"$ref": "#/$defs/node"}), "$defs": {"node": node}})


def test_recursion_by_way_of_another_definition_is_an_obstacle() -> None:
    definitions = {"a": an_object(b={"$ref": "#/$defs/b"}), "b": an_object(a={"$ref": "#/$defs/a"})}
    found = obstacles({**an_object(x={"$ref": "#/$defs/a"}), "$defs": definitions})
    assert ("`a` refers to itself", "`b` refers to itself") == found


def test_a_definition_used_twice_is_no_recursion() -> None:
    reference = {"$ref": "#/$defs/name"}
    assert () == obstacles({**an_object(a=reference, b=reference), "$defs": {"name": STRING}})


@pytest.mark.parametrize(("number", "enforced"), [(MOST_OPTIONALS, True), (MOST_OPTIONALS + 1, False)])
def test_optional_properties_are_counted_over_the_whole_schema(number: int, *, enforced: bool) -> None:
    optional = {"type": "object", "properties": {f"p{index}": STRING for index in range(number - 1)}}
    schema = {"type": "object", "properties": {"a": optional, "b": STRING}, "required": ["a"]}
    assert enforced == (obstacles(schema) == ())


@pytest.mark.parametrize(("number", "enforced"), [(MOST_UNIONS, True), (MOST_UNIONS + 1, False)])
def test_properties_of_several_types_are_counted_over_the_whole_schema(number: int, *, enforced: bool) -> None:
    nullable = [{"type": ["string", "null"]}, {"anyOf": [STRING, {"type": "null"}]}]
    schema = an_object(**{f"p{index}": nullable[index % 2] for index in range(number)})
    assert enforced == (obstacles(schema) == ())


def test_one_obstacle_keeps_the_whole_schema_in_the_prompt() -> None:
    found = provider_schema(an_object(a=STRING, b={}))
    assert found.schema is None


@needs_cases
def test_the_schema_of_keywords_that_a_provider_may_refuse_is_checked_afterwards_alone() -> None:
    schema = case_schema("keywords-a-provider-may-refuse")
    assert invalid_schema_reason(schema) is None
    named = " ".join(obstacles(schema))
    for place in ("$.extra uses `patternProperties`", "$.pay uses `oneOf`", "$.any allows any value"):
        assert place in named


@needs_cases
def test_its_limits_are_verified_locally() -> None:
    validator = SchemaValidator(case_schema("keywords-a-provider-may-refuse"))
    good = {"total": Decimal("12.34"), "code": "AB12", "tags": ["a", "b"], "extra": {"x-a": "b"}, "pay": None, "n": 3}
    assert validator.violations(good) == []
    for field, value in {"total": -1, "code": "ab12", "tags": ["a", "a"], "extra": {"x-a": 1}, "pay": "today"}.items():
        (violation, *_) = validator.violations({**good, field: value})
        assert violation.startswith(f"$.{field}")


@needs_cases
def test_the_control_schema_is_enforced_by_the_provider() -> None:
    found = provider_schema(case_schema("invoice"))
    assert found.obstacles == ()


names = st.sampled_from(["a", "b", "c"])
leaves = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "null", "array", "object", ["string", "null"], ["object", "null"]])},
    optional={
        "minimum": st.integers(0, 9),
        "maxLength": st.integers(0, 9),
        "minItems": st.integers(0, 3),
        "format": st.sampled_from(["date", "iri"]),
        "additionalProperties": st.sampled_from([True, False, STRING]),
    },
)
references = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in "ab"])
nodes = st.recursive(
    leaves | references,
    lambda child: (
        st.builds(lambda items: {"type": "array", "items": items}, child)
        | st.builds(
            lambda properties, required: {"type": "object", "properties": properties, "required": sorted(required)},
            st.dictionaries(names, child, max_size=3),
            st.sets(names, max_size=2),
        )
        | st.builds(lambda keyword, part: {keyword: [part]}, st.sampled_from(["anyOf", "allOf", "oneOf"]), child)
    ),
    max_leaves=6,
)


@given(root=nodes, a=nodes, b=nodes)
def test_whatever_is_carried_over_is_accepted_by_the_providers_rules(root: Any, a: Any, b: Any) -> None:
    carried = provider_schema({**root, "$defs": {"a": a, "b": b}}).schema
    if carried is not None:
        check_schema(dict(carried))
