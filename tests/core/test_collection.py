"""The YAML model of a collection."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from extraction_core.collection import Collection, CollectionFile
from extraction_core.partitions import PartitionBy, PartitionRule

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def a_file(**changes: Any) -> CollectionFile:
    return CollectionFile(**{"source": "documents", **changes})


def a_loaded(schema: dict[str, Any] = SCHEMA, instructions: str = "Extract.", **changes: Any) -> Collection:
    return Collection(
        name="c",
        settings=a_file(**changes),
        source="/documents",
        schema=schema,
        instructions=instructions,
        defs_file="d",
    )


def test_a_source_is_all_that_a_collection_must_say() -> None:
    settings = a_file()
    assert (settings.model, settings.mode, settings.max_attempts) == ("claude-haiku-5-5", "realtime", 3)
    assert (settings.schema_, settings.instructions) == ("schema.json", "instructions.md")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", ""),
        ("source", None),
        ("include", []),
        ("include", "*.pdf"),
        ("partition_by", "folder"),
        ("partition_by", {"directory": -1}),
        ("partition_by", {"hash": 0}),
        ("partition_by", {"directory": 1, "hash": 2}),
        ("parse", "elsewhere"),
        ("unit", "folder"),
        ("unit", {"directory": 0}),
        ("on_failed_file", "skip"),
        ("scans", "maybe"),
        ("mode", "batches"),
        ("max_batch_requests", 100_001),
        ("model", ""),
        ("max_output_tokens", 0),
        ("max_output_tokens", 128_001),
        ("max_output_tokens", "4096"),
        ("max_attempts", 0),
        ("concurrency", 1001),
        ("concurrency", True),
        ("max_cost_usd", 5),
        ("max_cost_usd", "0"),
        ("max_cost_usd", "-1"),
        ("max_cost_usd", "1e3"),
        ("max_cost_usd", "five"),
        ("fail_above", 1.5),
        ("fail_above", True),
        ("modle", "claude-haiku-5-5"),
    ],
)
def test_a_wrong_field_is_refused_and_named(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        a_file(**{field: value})
    assert {error["loc"][0] for error in refused.value.errors()} == {field}


@pytest.mark.parametrize(
    ("partition_by", "rule"),
    [
        ({"directory": 2}, PartitionBy(rule=PartitionRule.DIRECTORY, number=2)),
        ({"hash": 16}, PartitionBy(rule=PartitionRule.HASH, number=16)),
        ("document", PartitionBy(rule=PartitionRule.DOCUMENT)),
    ],
)
def test_partition_by_takes_three_forms(partition_by: Any, rule: PartitionBy) -> None:
    assert a_file(partition_by=partition_by).partition_rule() == rule


def test_a_budget_is_exact() -> None:
    assert a_loaded(max_cost_usd="0.10").max_cost_usd == Decimal("0.10")


def test_without_a_budget_there_is_no_limit() -> None:
    assert a_loaded().max_cost_usd is None


@pytest.mark.parametrize("value", [0, 1, 0.25])
def test_a_share_may_be_a_whole_number(value: float) -> None:
    assert a_file(fail_above=value).fail_above == value


@pytest.mark.parametrize(
    "changed",
    [
        a_loaded(schema={**SCHEMA, "title": "x"}),
        a_loaded(instructions="Extract!"),
        a_loaded(model="claude-sonnet-5-5"),
        a_loaded(max_output_tokens=100),
    ],
    ids=["schema", "instructions", "model", "max_output_tokens"],
)
def test_what_can_change_an_answer_changes_the_question(changed: Collection) -> None:
    assert changed.question_digest("local 1") != a_loaded().question_digest("local 1")


@pytest.mark.parametrize(
    "setting",
    [{"concurrency": 1}, {"max_attempts": 9}, {"max_cost_usd": "1"}, {"fail_above": 0.5}, {"owners": ["a@b.c"]}],
)
def test_what_cannot_change_an_answer_does_not_pay_for_it_again(setting: dict[str, Any]) -> None:
    assert a_loaded(**setting).question_digest("local 1") == a_loaded().question_digest("local 1")


def test_the_parser_changes_the_question() -> None:
    assert a_loaded().question_digest("local 2") != a_loaded().question_digest("local 1")


def test_a_question_carries_the_whole_schema_and_what_is_enforced_of_it() -> None:
    question = a_loaded().question
    assert question.schema == SCHEMA
    assert question.enforced_schema == {**SCHEMA, "additionalProperties": False}
