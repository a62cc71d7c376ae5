"""Listing and reading a source: complete or an error, and every file accounted for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

from extraction_assets.workers.prepare import scan
from extraction_core.errors import ConfigurationError
from resources.source import DocumentSource
from tests import processes
from tests.core.handed_cases import NAMES, needs_cases
from tests.factories import a_collection, a_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extraction_assets.workers.tools import Tools
    from resources.source import Listing

NOBODY = 65534
REFUSED, LISTED = 13, 14


def listing(folder: Path | str, include: tuple[str, ...] = ("**/*",), exclude: tuple[str, ...] = ()) -> Listing:
    return DocumentSource(str(folder), include, exclude).list()


def keys(found: Listing) -> list[str]:
    return [file.key for file in found.files]


def reasons(found: Listing) -> dict[str, str]:
    return {file.key: file.reason for file in found.skipped}


def put(folder: Path, *names: str, content: bytes = b"text") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture
def tools(tmp_path: Path, database_url: str) -> Iterator[Tools]:
    opened = a_tools(tmp_path / "home", database_url)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of awkward names: links, lock files, unfinished transfers, names that are no keys."""
    folder = tmp_path_factory.mktemp("awkward")
    subprocess.run([sys.executable, NAMES / "make_awkward_names.py", folder], check=True, capture_output=True)
    return folder


@needs_cases
def test_every_file_of_an_awkward_folder_is_a_document_or_skipped_with_a_reason(awkward: Path) -> None:
    found = listing(awkward)
    there = {
        (Path(folder) / name).relative_to(awkward).as_posix()
        for folder, folders, names in os.walk(awkward)
        for name in [*names, *(name for name in folders if (Path(folder) / name).is_symlink())]
    }
    assert there == set(keys(found)) | set(reasons(found))
    assert len(there) == len(found.files) + len(found.skipped)
    assert all(reasons(found).values())


@needs_cases
def test_what_nobody_means_as_a_document_is_skipped(awkward: Path) -> None:
    assert reasons(listing(awkward)) == {
        ".DS_Store": "hidden file",
        ".hidden.txt": "hidden file",
        "._scan.txt": "lock or resource file of an office program",
        "Thumbs.db": "system file",
        "__MACOSX/._scan.txt": "system file",
        "desktop.ini": "system file",
        "download.pdf.part": "unfinished transfer",
        "link-dead.txt": "link that leads nowhere",
        "link-loop": "link to a folder",
        "link-out.txt": "link that leads outside the source",
        "report.docx.tmp": "unfinished transfer",
        "~$report.docx": "lock or resource file of an office program",
    }


@needs_cases
def test_every_number_in_an_awkward_folder_belongs_to_one_document(awkward: Path) -> None:
    source = DocumentSource(str(awkward), ["**/*"], [])
    found = source.list()
    texts = [source.read(key).decode() for key in keys(found)]
    assert len(texts) == len(set(texts)) == 20


@needs_cases
def test_a_folder_with_the_name_of_a_document_is_no_document(awkward: Path) -> None:
    assert "folder.pdf" not in {*keys(listing(awkward)), *reasons(listing(awkward))}


@needs_cases
def test_awkward_documents_are_registered_each_with_a_row_of_its_own(awkward: Path, tools: Tools) -> None:
    found = scan(tools, a_collection(awkward, {}, name="awkward", partition_by={"directory": 0}))
    (document_set,) = found.registration.sets
    rows = tools.ledger.documents.of_set(document_set.set_id)
    assert sorted(keys(found.listing)) == sorted(row["document_key"] for row in rows)


def test_a_name_that_is_not_utf8_is_skipped_and_named(tmp_path: Path) -> None:
    (tmp_path / "good.txt").touch()
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).touch()
    found = listing(tmp_path)
    assert (["good.txt"], {"caf\ufffd.txt": "name is not valid UTF-8"}) == (keys(found), reasons(found))


def test_a_link_to_a_file_inside_the_source_is_a_document(tmp_path: Path) -> None:
    put(tmp_path, "a/real.txt")
    (tmp_path / "link.txt").symlink_to("a/real.txt")
    assert keys(listing(tmp_path)) == ["a/real.txt", "link.txt"]


def test_a_linked_folder_is_not_walked(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "secret.txt")
    put(tmp_path / "source", "a.txt")
    (tmp_path / "source" / "out").symlink_to(tmp_path / "elsewhere")
    found = listing(tmp_path / "source")
    assert (["a.txt"], {"out": "link to a folder"}) == (keys(found), reasons(found))


def test_a_source_that_is_itself_a_link_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "real", "a.txt")
    (tmp_path / "source").symlink_to("real")
    assert keys(listing(tmp_path / "source")) == ["a.txt"]


def test_a_pipe_is_no_document(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert reasons(listing(tmp_path)) == {"pipe.txt": "not a regular file"}


def test_patterns_decide_what_is_a_document(tmp_path: Path) -> None:
    put(tmp_path, "a/x.pdf", "a/x.docx", "old/x.pdf")
    found = listing(tmp_path, include=("**/*.pdf",), exclude=("old/**",))
    assert keys(found) == ["a/x.pdf"]
    assert reasons(found) == {"a/x.docx": "matches no include pattern", "old/x.pdf": "matches an exclude pattern"}


def test_an_empty_folder_is_a_source_without_documents(tmp_path: Path) -> None:
    assert listing(tmp_path).files == ()


def test_a_missing_source_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere") as refused:
        listing(tmp_path / "nowhere")
    assert refused.value.field == "source"


def test_a_file_in_place_of_the_source_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "file")
    with pytest.raises(ConfigurationError):
        listing(tmp_path / "file")


def _list_as_nobody(folder: Path) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        listing(folder)
    except ConfigurationError:
        sys.exit(REFUSED)
    sys.exit(LISTED)


def test_a_folder_that_cannot_be_read_is_an_error_and_not_a_source_without_its_documents(public_folder: Path) -> None:
    put(public_folder, "a.txt", "closed/b.txt")
    (public_folder / "closed").chmod(0)
    assert processes.run(_list_as_nobody, public_folder) == REFUSED


def test_a_source_that_vanished_marks_nothing_removed(tmp_path: Path, tools: Tools) -> None:
    collection = a_collection(tmp_path / "docs")
    (document_set,) = scan(tools, collection).registration.sets
    before = tools.ledger.documents.of_set(document_set.set_id)
    (tmp_path / "docs").rename(tmp_path / "moved")
    with pytest.raises(ConfigurationError):
        scan(tools, collection)
    assert before == tools.ledger.documents.of_set(document_set.set_id)
    assert len(before) == 3


def test_a_document_that_is_gone_is_marked_removed_and_comes_back(tmp_path: Path, tools: Tools) -> None:
    collection = a_collection(tmp_path / "docs")
    (document_set,) = scan(tools, collection).registration.sets
    (tmp_path / "docs" / "dell" / "r700.md").rename(tmp_path / "r700.md")
    assert scan(tools, collection).registration.removed == 1
    assert len(tools.ledger.documents.of_set(document_set.set_id)) == 2
    (tmp_path / "r700.md").rename(tmp_path / "docs" / "dell" / "r700.md")
    assert scan(tools, collection).registration.new == 1
    assert len(tools.ledger.documents.of_set(document_set.set_id)) == 3


def test_a_signature_changes_though_size_and_time_are_kept(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", content=b"before")
    (before,) = listing(tmp_path).files
    stat = (tmp_path / "a.txt").stat()
    put(tmp_path, "a.txt", content=b"behind")
    os.utime(tmp_path / "a.txt", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (after,) = listing(tmp_path).files
    assert (before.size_bytes, before.key) == (after.size_bytes, after.key)
    assert before.signature != after.signature


def test_a_signature_stays_while_nothing_changes(tmp_path: Path) -> None:
    put(tmp_path, "a.txt")
    assert listing(tmp_path) == listing(tmp_path)


@pytest.mark.parametrize("key", ["../outside.txt", "link.txt"])
def test_nothing_outside_the_source_is_read(tmp_path: Path, key: str) -> None:
    put(tmp_path, "outside.txt")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "link.txt").symlink_to(tmp_path / "outside.txt")
    with pytest.raises(PermissionError):
        DocumentSource(str(tmp_path / "source"), ["**/*"], []).read(key)


def test_a_document_that_is_gone_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DocumentSource(str(tmp_path), ["**/*"], []).read("a.txt")


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    """A file system that is reached by URL, as an object store would be."""
    system = fsspec.filesystem("memory")
    root = f"/{tmp_path.name}"
    for name in ("a/x.txt", "a/y.txt", ".hidden"):
        system.pipe_file(f"{root}/{name}", name.encode())
    return f"memory:/{root}"


def test_an_object_store_is_listed_and_read_by_url(bucket: str) -> None:
    source = DocumentSource(bucket, ["**/*"], [])
    found = source.list()
    assert (["a/x.txt", "a/y.txt"], {".hidden": "hidden file"}) == (keys(found), reasons(found))
    assert source.read("a/x.txt") == b"a/x.txt"


def test_a_missing_bucket_is_an_error(bucket: str) -> None:
    with pytest.raises(ConfigurationError):
        listing(f"{bucket}-nowhere")


def test_an_unknown_kind_of_source_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="gopher"):
        listing("gopher://host/folder")
