"""Fingerprints: every input that can change an answer is in them, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core import fingerprints
from extraction_core.fingerprints import canonical_digest, input_fingerprint, parse_key, question_digest

QUESTION: dict[str, Any] = {
    "schema": {"type": "object"},
    "instructions": "Extract.",
    "model": "claude-haiku-5-5",
    "max_output_tokens": 4096,
    "parser": "local 1",
}
CHANGES = [
    {"schema": {"type": "object", "title": "x"}},
    {"instructions": "Extract!"},
    {"model": "claude-sonnet-5-5"},
    {"max_output_tokens": 4097},
    {"parser": "local 2"},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_part_of_the_question_changes_it(change: dict[str, Any]) -> None:
    assert question_digest(**{**QUESTION, **change}) != question_digest(**QUESTION)


def test_the_revision_of_the_prompt_changes_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    before = question_digest(**QUESTION)
    monkeypatch.setattr(fingerprints, "PROMPT_REVISION", fingerprints.PROMPT_REVISION + 1)
    assert question_digest(**QUESTION) != before


def test_content_and_question_change_the_input_fingerprint() -> None:
    assert len({input_fingerprint(content, question) for content in ("a", "b", None) for question in ("q", "r")}) == 6


def test_the_order_of_keys_does_not_change_a_digest() -> None:
    assert canonical_digest({"a": 1, "b": {"c": 2, "d": 3}}) == canonical_digest({"b": {"d": 3, "c": 2}, "a": 1})


@pytest.mark.parametrize("position", range(3))
def test_content_provider_and_version_change_a_parse_key(position: int) -> None:
    parts = ["content", "local", "1"]
    changed = [*parts[:position], "other", *parts[position + 1 :]]
    assert parse_key(*parts) != parse_key(*changed)


@given(st.lists(st.text(max_size=5), min_size=3, max_size=3, unique=True))
def test_parts_of_a_parse_key_do_not_run_into_each_other(parts: list[str]) -> None:
    first, second, third = parts
    assert parse_key(first + second, third, "") != parse_key(first, second + third, "") or not second


@pytest.mark.parametrize(
    "digest", [parse_key("a", "b", "c"), question_digest(**QUESTION), input_fingerprint(None, "q")]
)
def test_a_digest_is_64_hexadecimal_digits(digest: str) -> None:
    assert len(digest) == 64
    int(digest, 16)


def test_fingerprints_do_not_depend_on_the_process() -> None:
    assert input_fingerprint("c", "q") == "df6ef801ab27e8434960c168022600b05ab3314c12e2ec55684168777d0416d5"
