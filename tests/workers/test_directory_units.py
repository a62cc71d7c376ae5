"""All files of a folder as one document: joined, asked about once, due again when any of them changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.parsing.documents import pdf
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from extraction_core.collection import Collection
    from tests.workplace import Workplace

pytestmark = ON_ONE_DATABASE
FILES: dict[str, str | bytes] = {
    "r770/price.txt": "Price USD: 1000\n",
    "r770/spec.pdf": pdf(["Model: R770"], ["Weight: 30"]),
}
DAMAGED = {**FILES, "r770/zz.pdf": b"%PDF-1.7 cut"}


def folders(workplace: Workplace, files: dict[str, str | bytes], **changes: Any) -> Collection:
    """A collection of folders in one document set."""
    return workplace.collection(files, unit="directory", partition_by={"directory": 0}, **changes)


def test_the_files_of_a_folder_are_asked_about_together(workplace: Workplace) -> None:
    workplace.run(folders(workplace, FILES))
    assert workplace.books.statuses() == {"completed": 1}
    assert json.loads(workplace.books.output("r770").read_bytes()) == {"model": "R770", "price_usd": 1000}
    (call,) = workplace.calls()
    assert call["user_text"].index("# File: price.txt") < call["user_text"].index("# File: spec.pdf")


def test_the_stored_page_map_is_right_for_the_joined_text(workplace: Workplace) -> None:
    workplace.run(folders(workplace, FILES))
    (run,) = workplace.books.parse_runs
    parsed = workplace.home / "parsed"
    text = (parsed / run["markdown_sha256"][:2] / f"{run['markdown_sha256']}.md").read_text(encoding="utf-8")
    pages = json.loads((parsed / run["parse_key"][:2] / f"{run['parse_key']}.json").read_bytes())["pages"]
    assert [(page["file"], page["number"], text[page["start"] : page["end"]]) for page in pages] == [
        ("price.txt", 1, "Price USD: 1000"), ("spec.pdf", 1, "Model: R770"), ("spec.pdf", 2, "Weight: 30"),
    ]  # fmt: skip


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_a_file_that_comes_goes_or_changes_makes_the_document_due_again(workplace: Workplace, change: str) -> None:
    collection = folders(workplace, {**FILES, "r770/note.txt": "Note: old"})
    workplace.run(collection)
    workplace.run(collection)
    assert len(workplace.calls()) == 1
    note = workplace.source / "r770" / ("more.txt" if change == "added" else "note.txt")
    note.unlink() if change == "removed" else note.write_text("Note: new")
    workplace.run(collection)
    assert len(workplace.calls()) == 2
    assert ("Note: new" in workplace.calls()[1]["user_text"]) == (change != "removed")


def test_a_file_that_cannot_be_read_fails_its_document_alone(workplace: Workplace) -> None:
    workplace.run(folders(workplace, {**DAMAGED, "r660/spec.txt": "Model: R660\nPrice USD: 5"}))
    row = workplace.books.result("r770")
    assert (row["status"], row["reason"]) == ("failed", "file_not_read")
    assert row["message"].startswith("zz.pdf: corrupt, ")
    assert workplace.books.result("r660")["status"] == "completed"
    assert len(workplace.calls()) == 1


def test_a_file_that_cannot_be_read_is_left_out_and_said_where_that_is_wanted(workplace: Workplace) -> None:
    workplace.run(folders(workplace, DAMAGED))
    workplace.run(folders(workplace, DAMAGED, on_failed_file="leave_out"))
    assert workplace.books.result("r770")["status"] == "completed"
    assert "# File: zz.pdf\n\n(This file is missing here" in workplace.calls()[0]["user_text"]
    assert len(workplace.books.parse_runs) == 1


def test_equal_folders_are_parsed_once_although_they_are_two_documents(workplace: Workplace) -> None:
    twin = {key.replace("r770", "twin"): content for key, content in FILES.items()}
    workplace.run(folders(workplace, {**FILES, **twin}))
    assert workplace.books.statuses() == {"completed": 2}
    assert len(workplace.books.parse_runs) == 1


def test_the_joined_text_that_is_gone_from_the_home_is_made_again(workplace: Workplace) -> None:
    workplace.run(folders(workplace, FILES))
    for text in (workplace.home / "parsed").rglob("*.md"):
        text.unlink()
    workplace.run(folders(workplace, FILES, instructions="Extract it again."))
    assert workplace.books.statuses() == {"completed": 2}
