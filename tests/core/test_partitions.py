"""Document sets and their partition keys."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.partitions import PartitionBy, PartitionRule, folder_of, partition_key
from tests.core.handed_cases import NAMES, needs_cases

SHAPE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?-[0-9a-f]{10}")


@given(st.text(st.characters(), max_size=120))
def test_a_partition_key_is_short_and_plain(folder: str) -> None:
    key = partition_key(folder)
    assert SHAPE.fullmatch(key)
    assert len(key) <= 50


@given(st.lists(st.text(max_size=20), min_size=2, max_size=2, unique=True))
def test_two_folders_do_not_share_a_key(folders: list[str]) -> None:
    assert partition_key(folders[0]) != partition_key(folders[1])


def test_a_partition_key_does_not_depend_on_the_process() -> None:
    assert partition_key("server/dell/poweredge") == "server-dell-poweredge-8a7e82427e"
    assert partition_key("請求書") == "set-666097c389"


@needs_cases
def test_awkward_set_names_get_keys_of_their_own() -> None:
    names = json.loads((NAMES / "partition-keys.json").read_text(encoding="utf-8"))
    keys = [partition_key(name) for name in names]
    assert len(set(names)) == len(set(keys))
    assert all(SHAPE.fullmatch(key) for key in keys)


@pytest.mark.parametrize(
    ("depth", "key", "folder"),
    [
        (0, "a/b/c.pdf", "."),
        (1, "a/b/c.pdf", "a"),
        (2, "a/b/c.pdf", "a/b"),
        (9, "a/b/c.pdf", "a/b"),
        (1, "c.pdf", "."),
    ],
)
def test_a_directory_rule_takes_folders_down_to_its_depth(depth: int, key: str, folder: str) -> None:
    assert folder_of(key, PartitionBy(rule=PartitionRule.DIRECTORY, number=depth)) == folder


def test_a_document_rule_gives_every_document_a_set_of_its_own() -> None:
    assert folder_of("a/b.pdf", PartitionBy(rule=PartitionRule.DOCUMENT)) == "a/b.pdf"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.integers(1, 10_000))
def test_a_hash_rule_puts_a_document_into_one_of_its_buckets_for_good(key: str, buckets: int) -> None:
    rule = PartitionBy(rule=PartitionRule.HASH, number=buckets)
    number = int(folder_of(key, rule).removeprefix("bucket-"))
    assert 0 <= number < buckets
    assert folder_of(key, rule) == folder_of(key, rule)


def test_bucket_names_sort_as_their_numbers_do() -> None:
    rule = PartitionBy(rule=PartitionRule.HASH, number=100)
    folders = {folder_of(f"{number}.pdf", rule) for number in range(2_000)}
    assert len(folders) == 100
    assert sorted(folders) == [f"bucket-{number:02d}" for number in range(100)]
