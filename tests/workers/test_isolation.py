"""One bad document is one failed row: whatever is wrong with it, all others are done, and all are accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers.orders import Order
from extraction_assets.workers.prepare import scan
from extraction_core.failpoints import Failpoint
from extraction_core.states import Select
from tests.core.handed_cases import CASES, TEXTS, needs_cases
from tests.factories import some_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workplace import Workplace

PDFS = CASES / "files" / "pdf"
GOOD = some_files(5)


class RaiseAt:
    """Failpoints that raise at the n-th pass of the named one."""

    def __init__(self, name: Failpoint, error: Exception, on_pass: int = 2) -> None:
        self._name, self._error, self._left = name, error, on_pass

    def __call__(self, name: Failpoint) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                raise self._error


class RemoveAt:
    """Failpoints that remove a file before the n-th reading of the source."""

    def __init__(self, path: Path, on_pass: int) -> None:
        self._path, self._left = path, on_pass

    def __call__(self, name: Failpoint) -> None:
        if name == Failpoint.READ_SOURCE:
            self._left -= 1
            if self._left == 0:
                self._path.unlink()


@needs_cases
def test_found_is_completed_plus_failed_plus_skipped_each_with_a_reason(workplace: Workplace) -> None:
    text = GOOD["dell/r700.md"]
    files: dict[str, str | bytes] = {
        **GOOD,
        "dell/copy.md": text,
        "dell/empty.txt": b"",
        "dell/blank.txt": " \n\n\t\n",
        "dell/scan.pdf": (PDFS / "scan-only.pdf").read_bytes(),
        "dell/half.pdf": (PDFS / "truncated-half.pdf").read_bytes(),
        "dell/locked.pdf": (PDFS / "enc-user-password.pdf").read_bytes(),
        "dell/picture.pdf": (PDFS / "really-a-png.pdf").read_bytes(),
        "dell/noise.bin": bytes(range(256)) * 40,
        "dell/Thumbs.db": b"x",
        "dell/~$r700.docx": b"x",
    }
    collection = workplace.collection(files)
    workplace.run(collection)
    tools = workplace.tools()
    listing = scan(tools, collection).listing
    tools.close()
    books = workplace.books
    failed = {row["document_key"]: row["reason"] for row in books.results if row["status"] == "failed"}
    assert len(files) == len(books.results) + len(listing.skipped)
    assert books.statuses()["completed"] == len(GOOD) + 1
    assert len(workplace.calls()) == len(GOOD) + 1
    assert all(failed.values())
    assert all(row["message"] for row in books.results if row["status"] == "failed")
    assert (failed["dell/empty.txt"], failed["dell/blank.txt"]) == ("empty_file", "empty_text")
    assert (failed["dell/scan.pdf"], failed["dell/locked.pdf"]) == ("no_text_layer", "password")
    books.assert_settled()


def test_a_defect_of_ours_costs_one_document(workplace: Workplace) -> None:
    collection = workplace.collection(GOOD, concurrency=1)
    workplace.run(collection, failpoints=RaiseAt(Failpoint.PROVIDER_ANSWERED, RuntimeError("odd")))
    books = workplace.books
    assert books.statuses() == {"completed": len(GOOD) - 1, "failed": 1}
    (row,) = [row for row in books.results if row["status"] == "failed"]
    assert (row["reason"], row["message"], row["retryable"]) == ("worker_error", "RuntimeError: odd", True)
    assert books.runs[0]["unknown_cost_count"] == 1
    books.assert_settled()


def test_a_path_that_cannot_be_written_costs_one_document_and_its_answer_is_used_later(workplace: Workplace) -> None:
    collection = workplace.collection(GOOD)
    in_the_way = workplace.home / "outputs" / "servers" / "dell" / "r702.md"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_bytes(b"a file where a folder should be")
    workplace.run(collection)
    assert workplace.books.result("r702.md")["reason"] == "output_not_written"
    assert workplace.books.statuses() == {"completed": len(GOOD) - 1, "failed": 1}
    assert workplace.books.result("r702.md")["cost_usd"] is not None
    in_the_way.unlink()
    workplace.run(collection)
    assert workplace.books.result("r702.md")["status"] == "completed"
    assert len(workplace.calls()) == len(GOOD)


@pytest.mark.parametrize("reading", [1, len(GOOD) + 1], ids=["before it is looked at", "before it is parsed"])
def test_a_document_removed_between_listing_and_reading_is_one_failed_row(workplace: Workplace, reading: int) -> None:
    collection = workplace.collection(GOOD)
    gone = workplace.source / "dell" / "r704.md"
    workplace.run(collection, failpoints=RemoveAt(gone, on_pass=reading))
    row = workplace.books.result("r704.md")
    assert (row["status"], row["reason"], row["retryable"]) == ("failed", "source_missing", True)
    assert workplace.books.statuses() == {"completed": len(GOOD) - 1, "failed": 1}
    workplace.books.assert_settled()


def test_a_document_that_comes_back_is_done(workplace: Workplace) -> None:
    collection = workplace.collection(GOOD)
    gone = workplace.source / "dell" / "r704.md"
    content = gone.read_bytes()
    workplace.run(collection, failpoints=RemoveAt(gone, on_pass=len(GOOD) + 1))
    gone.write_bytes(content)
    workplace.run(collection)
    assert workplace.books.result("r704.md")["status"] == "completed"


@needs_cases
def test_a_document_with_nul_bytes_is_stored_and_done(workplace: Workplace) -> None:
    workplace.run(workplace.collection({**GOOD, "dell/nul.txt": (TEXTS / "nul-inside.txt").read_bytes()}))
    assert workplace.books.result("r700.md")["status"] == "completed"
    assert workplace.books.result("nul.txt")["status"] in {"completed", "failed"}
    assert "\0" not in str([call["user_text"] for call in workplace.calls()])
    workplace.books.assert_settled()


def lose_parsed_text(workplace: Workplace) -> None:
    """Let the home be emptied while the ledger stays, as when a container comes up anew."""
    for path in (workplace.home / "parsed").rglob("*.md"):
        path.unlink()


def test_parsed_text_that_is_gone_is_parsed_again_from_the_same_bytes(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(2))
    workplace.run(collection, Order(extract=False))
    lose_parsed_text(workplace)
    workplace.run(collection)
    assert workplace.books.statuses() == {"completed": 2}
    assert len(workplace.books.parse_runs) == len(list((workplace.home / "parsed").rglob("*.md"))) == 2


class ChangeAt:
    """Failpoints that change a file before the run is opened: after it was read and parsed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, name: Failpoint) -> None:
        if name == Failpoint.COMMIT_RUN_OPEN:
            self._path.write_bytes(b"Model: R1\n\nPrice USD: 1\n")


def test_parsed_text_that_is_gone_with_its_document_fails_with_that_reason_and_is_done_by_the_next_run(
    workplace: Workplace,
) -> None:
    collection = workplace.collection(some_files(1))
    workplace.run(collection, Order(extract=False))
    lose_parsed_text(workplace)
    workplace.run(collection, failpoints=ChangeAt(workplace.source / "dell" / "r700.md"))
    assert ["parsed_text_lost"] == [row["reason"] for row in workplace.books.results]
    assert workplace.calls() == []
    workplace.run(collection)
    assert workplace.books.result("r700.md")["status"] == "completed"


def test_a_failed_row_never_takes_the_place_of_a_completed_one(workplace: Workplace) -> None:
    collection = workplace.collection(some_files(1))
    workplace.run(collection)
    before = workplace.books.files()
    workplace.sandbox.faults([{"kind": "refusal"}])
    workplace.run(collection, Order(select=Select.ALL))
    assert ["completed", "failed"] == [row["status"] for row in workplace.books.results]
    assert before == workplace.books.files()
