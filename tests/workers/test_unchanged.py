"""What is done is not done again; what can change an answer is asked anew."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from extraction_assets.workers.orders import Order, Result
from extraction_core.failpoints import Failpoint
from extraction_core.states import Select
from tests.factories import SCHEMA, some_files
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workplace import Workplace


def change_in_place(path: Path, old: bytes, new: bytes) -> None:
    """Change a file's content and keep its size and its time."""
    stat = path.stat()
    data = path.read_bytes()
    assert len(old) == len(new)
    assert old in data
    path.write_bytes(data.replace(old, new))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def test_a_set_is_extracted_with_one_call_a_document(workplace: Workplace) -> None:
    report = workplace.run(workplace.collection())
    assert report.result == Result.CLOSED
    assert report.run is not None
    assert (report.run["status"], report.run["completed_count"]) == ("completed", 3)
    assert report.run["cost_usd"] == workplace.sandbox.billed_usd == workplace.books.known_cost
    assert len(workplace.calls()) == 3
    assert read(workplace.books.output("r701.md")) == {"model": "R701", "price_usd": 1001}
    workplace.books.assert_settled()


def test_a_second_run_makes_no_call_and_no_row(workplace: Workplace) -> None:
    collection = workplace.collection()
    workplace.run(collection)
    books = workplace.books
    before = (books.results, books.attempts, books.runs, books.files())
    assert workplace.run(collection).result == Result.NOTHING_TO_DO
    assert before == (books.results, books.attempts, books.runs, books.files())
    assert len(workplace.calls()) == 3


def test_a_changed_document_is_done_again_though_its_size_and_time_are_kept(workplace: Workplace) -> None:
    collection = workplace.collection()
    workplace.run(collection)
    change_in_place(workplace.source / "dell" / "r701.md", b"Price USD: 1001", b"Price USD: 9999")
    workplace.run(collection)
    assert read(workplace.books.output("r701.md")) == {"model": "R701", "price_usd": 9999}
    assert len(workplace.calls()) == 4
    workplace.books.assert_settled()


CHANGES: dict[str, dict[str, Any]] = {
    "instructions": {"instructions": "Extract the model and its price, please."},
    "schema": {"schema": {**SCHEMA, "title": "Server"}},
    "model": {"model": "claude-sonnet-5-5"},
    "max_output_tokens": {"max_output_tokens": 2000},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_can_change_an_answer_is_asked_anew(workplace: Workplace, change: str) -> None:
    workplace.run(workplace.collection())
    changed = workplace.collection(**CHANGES[change])
    workplace.run(changed)
    assert len(workplace.calls()) == 6
    assert workplace.run(changed).result == Result.NOTHING_TO_DO
    assert len(workplace.books.parse_runs) == 3


@ON_ONE_DATABASE
@pytest.mark.parametrize(
    "setting", [{"concurrency": 1}, {"max_attempts": 5}, {"max_cost_usd": "9"}, {"fail_above": 0.5}]
)
def test_what_cannot_change_an_answer_is_not_paid_for(workplace: Workplace, setting: dict[str, Any]) -> None:
    workplace.run(workplace.collection())
    assert workplace.run(workplace.collection(**setting)).result == Result.NOTHING_TO_DO


def test_going_back_to_an_earlier_question_finds_its_answers(workplace: Workplace) -> None:
    collection = workplace.collection()
    workplace.run(collection)
    workplace.run(workplace.collection(instructions="Other words."))
    assert workplace.run(collection).result == Result.NOTHING_TO_DO


def test_asking_for_all_asks_again_with_attempts_of_its_own(workplace: Workplace) -> None:
    collection = workplace.collection(max_attempts=1)
    workplace.run(collection)
    report = workplace.run(collection, Order(select=Select.ALL))
    assert report.run is not None
    assert report.run["completed_count"] == 3
    assert [0, 0, 0, 1, 1, 1] == [row["edition"] for row in workplace.books.results]
    assert len(workplace.calls()) == 6


def test_asking_for_failed_ones_takes_those_alone(workplace: Workplace) -> None:
    workplace.sandbox.faults([{"kind": "refusal", "match": "R701"}])
    collection = workplace.collection()
    workplace.run(collection)
    (workplace.source / "dell" / "r999.md").write_text("Model: R999\n\nPrice USD: 1\n", encoding="utf-8")
    workplace.run(collection, Order(select=Select.FAILED))
    assert workplace.books.result("r701.md")["status"] == "completed"
    assert [row["document_key"] for row in workplace.books.results].count("dell/r999.md") == 0


def test_documents_can_be_named_and_unknown_names_are_told(workplace: Workplace) -> None:
    report = workplace.run(workplace.collection(), Order(documents=["dell/r701.md", "dell/nowhere.md"]))
    assert report.unknown_documents == ("dell/nowhere.md",)
    assert ["dell/r701.md"] == [row["document_key"] for row in workplace.books.results]


def test_parsing_alone_costs_nothing_and_extracting_later_parses_nothing(workplace: Workplace) -> None:
    collection = workplace.collection()
    assert workplace.run(collection, Order(extract=False)).result == Result.PARSED
    assert workplace.calls() == []
    parsed = workplace.books.parse_runs
    workplace.run(collection)
    assert parsed == workplace.books.parse_runs


def test_equal_bytes_under_two_names_are_parsed_once_and_extracted_twice(workplace: Workplace) -> None:
    text = some_files(1)["dell/r700.md"]
    workplace.run(workplace.collection({"dell/a.md": text, "dell/b.md": text}))
    assert len(workplace.books.parse_runs) == 1
    assert workplace.books.statuses() == {"completed": 2}
    assert len(workplace.calls()) == len(workplace.books.files()) == 2


@pytest.mark.parametrize(
    ("select", "again"), [(Select.PENDING, False), (Select.DUE, False), (Select.FAILED, True), (Select.ALL, True)]
)
def test_only_a_person_has_what_failed_for_good_parsed_again(
    workplace: Workplace, select: Select, *, again: bool
) -> None:
    collection = workplace.collection({"dell/blank.txt": "  \n", "dell/r700.md": some_files(1)["dell/r700.md"]})
    workplace.run(collection)
    readings: list[Failpoint] = []
    workplace.run(collection, Order(select=select), failpoints=readings.append)
    assert (3 if again else 2) == len(workplace.books.parse_runs)
    assert again == (Failpoint.READ_SOURCE in readings)


def test_an_empty_set_has_nothing_to_do(workplace: Workplace) -> None:
    collection = workplace.collection()
    workplace.run(collection, Order(extract=False))
    for path in (workplace.source / "dell").iterdir():
        path.unlink()
    assert workplace.run(collection).result == Result.NOTHING_TO_DO
