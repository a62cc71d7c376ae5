"""Disks that are full, read-only or strange, and names of every length."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from extraction_assets.workers.orders import Result
from extraction_core.causes import Cause
from extraction_core.errors import LedgerError, OutputPathError
from extraction_core.failpoints import Failpoint
from resources.output import OutputStore
from resources.output.spelling import other_spelling, takes_no_notice_of_case
from resources.source import DocumentSource
from tests.conftest import MEMORY
from tests.factories import some_files
from tests.workplace import ON_ONE_DATABASE, Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox_server import SandboxServer
    from tests.workplace import KeptOpen

DOCUMENTS = 12
AT_ONCE, IN_WORK = 2, 3
LONGEST_COMPONENT, LONGEST_PATH = 255, 4096
DOCUMENT = "Model: R700\n\nPrice USD: 1000\n"


def assert_each_was_paid_once(workplace: Workplace, documents: int) -> None:
    """All are done, each by one call that the ledger knows the cost of."""
    assert workplace.books.statuses() == {"completed": documents}
    assert workplace.books.known_cost == workplace.sandbox.billed_usd
    workplace.books.assert_settled()


def fill(filler: Path) -> None:
    """Write a file until its disk is full."""
    written = 1
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while written:
            written = file.write(b"0" * 4096)


@ON_ONE_DATABASE
def test_a_full_output_disk_stops_the_line_and_once_there_is_room_nothing_is_paid_again(
    workplace: Workplace, small_disk: Path
) -> None:
    (workplace.home / "outputs").symlink_to(small_disk)
    filler = small_disk / "filler"
    fill(filler)
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE)
    report = workplace.run(collection)
    assert (report.result, workplace.books.statuses()) == (Result.LINE_STOPPED, {"queued": DOCUMENTS})
    assert "No space left" in report.reason
    assert len(workplace.calls()) <= IN_WORK
    assert [path for path in small_disk.rglob("*") if path.is_file()] == [filler]

    filler.unlink()
    assert workplace.run(collection).result is Result.CLOSED
    assert len(workplace.calls()) == DOCUMENTS
    assert_each_was_paid_once(workplace, DOCUMENTS)


@pytest.fixture
def ledger_on_small_disk(
    tmp_path: Path, small_disk: Path, sqlite_template: Path, sandbox: SandboxServer, parser: KeptOpen
) -> Iterator[Workplace]:
    """A workplace whose ledger is on a disk of one megabyte, alone."""
    shutil.copy(sqlite_template, small_disk / "ledger.db")
    with Workplace(tmp_path, f"sqlite:///{small_disk / 'ledger.db'}", sandbox, parser) as place:
        yield place


def test_a_full_ledger_disk_ends_the_run_and_no_call_is_made_that_could_not_be_written_down(
    ledger_on_small_disk: Workplace, small_disk: Path
) -> None:
    place, filler = ledger_on_small_disk, small_disk / "filler"
    collection = place.collection(some_files(DOCUMENTS), concurrency=AT_ONCE)

    def fill_the_disk(name: Failpoint) -> None:
        if name is Failpoint.COMMIT_ATTEMPT_OPEN and not filler.exists():
            fill(filler)

    with pytest.raises(LedgerError, match=r"ledger at sqlite:.* takes nothing any more: its disk is full"):
        place.run(collection, failpoints=fill_the_disk)
    assert place.calls() == []

    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    place.expire_leases()
    assert place.run(collection).result is Result.CLOSED
    assert len(place.calls()) == DOCUMENTS
    assert_each_was_paid_once(place, DOCUMENTS)


@ON_ONE_DATABASE
def test_a_read_only_output_root_stops_the_line_with_its_reason(workplace: Workplace, small_disk: Path) -> None:
    (workplace.home / "outputs").symlink_to(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    collection = workplace.collection(some_files(DOCUMENTS), concurrency=AT_ONCE)
    report = workplace.run(collection)
    assert (report.result, workplace.books.statuses()) == (Result.LINE_STOPPED, {"queued": DOCUMENTS})
    assert "Read-only file system" in report.reason
    assert len(workplace.calls()) <= IN_WORK

    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    workplace.run(collection)
    assert len(workplace.calls()) == DOCUMENTS
    assert_each_was_paid_once(workplace, DOCUMENTS)


@ON_ONE_DATABASE
@pytest.mark.parametrize("moved", ["outputs", "parsed"])
def test_outputs_and_parsed_texts_may_be_on_file_systems_of_their_own(workplace: Workplace, moved: str) -> None:
    own = workplace.folder.stat().st_dev
    others = [one for one in (MEMORY, Path(tempfile.gettempdir())) if one.is_dir() and one.stat().st_dev != own]
    if not others:
        pytest.skip("there is one file system here")
    with tempfile.TemporaryDirectory(dir=others[0]) as elsewhere:
        (workplace.home / moved).symlink_to(elsewhere)
        assert workplace.run(workplace.collection()).result is Result.CLOSED
        assert any(Path(elsewhere).rglob("*.*"))
        assert len(workplace.books.files()) == 3 if moved == "parsed" else any(Path(elsewhere).rglob("extraction.json"))
        assert list(Path(elsewhere).rglob(".t-*")) == []


def long_key(length: int) -> str:
    """Return a document key of so many bytes, of the longest components that there are."""
    whole, rest = divmod(length, LONGEST_COMPONENT + 1)
    components = ["d" * LONGEST_COMPONENT] * whole + ["f" * rest if rest > 3 else "f" * 4]
    return "/".join(components)[: length - 3] + ".md"


@ON_ONE_DATABASE
def test_names_as_long_as_the_system_takes_are_extracted_each_to_a_file_of_its_own(workplace: Workplace) -> None:
    files = dict.fromkeys(("f" * 61 + ".md", "é" * 126 + ".md", long_key(1000), "a/" * 100 + "b.md"), DOCUMENT)
    report = workplace.run(workplace.collection(files, partition_by={"directory": 0}))
    assert report.run is not None
    assert report.run["completed_count"] == len(files)
    assert {row["document_key"] for row in workplace.books.results} == set(files)
    assert len(workplace.books.files()) == len(files)
    workplace.books.assert_settled()


@ON_ONE_DATABASE
def test_a_result_whose_path_is_too_long_fails_alone_and_its_answer_is_kept(workplace: Workplace) -> None:
    """The home lies deeper than the source, so there are keys that can be read and not be written."""
    key = long_key(LONGEST_PATH - len(str(workplace.source)) - 2)
    report = workplace.run(workplace.collection({key: DOCUMENT, **some_files(1)}, partition_by={"directory": 0}))
    assert report.run is not None
    assert (report.run["completed_count"], report.run["failed_count"]) == (1, 1)
    failed = workplace.books.result(key)
    assert failed["reason"] == Cause.OUTPUT_NOT_WRITTEN
    assert "File name too long" in failed["message"]
    assert [row["status"] for row in workplace.books.attempts] == ["answered", "answered"]


def test_a_path_longer_than_the_system_takes_is_skipped_with_its_reason_and_the_rest_is_listed(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text(DOCUMENT)
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(LONGEST_PATH // 250 + 2):  # step by step: no call takes the whole path
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(os.open("in.md", os.O_CREAT, dir_fd=inner))
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        listing = DocumentSource(str(tmp_path), ["**/*"], []).list()
    finally:
        subprocess.run(["rm", "-r", tmp_path / ("d" * 250)], check=True)  # Python's own removal gives up
    assert listing.files[-1].key == "good.md"
    assert {file.reason for file in listing.skipped} == {"cannot be read: File name too long"}


def test_a_path_that_stands_on_disk_in_other_letters_is_found(tmp_path: Path) -> None:
    (tmp_path / "servers" / "Dell" / "Scan.pdf").mkdir(parents=True)
    relative = OutputStore(tmp_path).relative
    found = [
        other_spelling(tmp_path, PurePosixPath(relative("servers", key)).parent)
        for key in ("Dell/Scan.pdf", "Dell/scan.pdf", "dell/Scan.pdf", "Dell/other.pdf", "hp/scan.pdf")
    ]
    assert [str(path) if path else None for path in found] == [
        None, "servers/Dell/Scan.pdf", "servers/Dell", None, None,
    ]  # fmt: skip


def test_a_file_system_that_takes_no_notice_of_case_is_known_by_a_file_of_ours(tmp_path: Path) -> None:
    file = tmp_path / ".t-0a-1.tmp"
    file.write_bytes(b"")
    if (tmp_path / ".T-0A-1.TMP").exists():
        assert takes_no_notice_of_case(file)
        return
    assert not takes_no_notice_of_case(file)
    (tmp_path / ".T-0A-1.TMP").hardlink_to(file)  # what such a file system answers
    assert takes_no_notice_of_case(file)


def test_results_whose_keys_differ_in_case_never_overwrite_each_other(tmp_path: Path) -> None:
    store = OutputStore(tmp_path)
    store.stage("servers", "Scan.pdf", b"first").publish()
    if (tmp_path / "SERVERS").exists():
        with pytest.raises(OutputPathError, match="differs in case alone"):
            store.stage("servers", "scan.pdf", b"second")
    else:
        store.stage("servers", "scan.pdf", b"second").publish()
    assert (tmp_path / "servers" / "Scan.pdf" / "extraction.json").read_bytes() == b"first"
