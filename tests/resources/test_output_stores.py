"""The folders of the results and of the parsed text."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

import pytest

from extraction_core.errors import OutputPathError
from extraction_core.failpoints import Failpoint
from extraction_core.parsing import Page, ParsedDocument
from resources.output import OutputStore, ParsedStore

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ab" + "0" * 62


def parsed(markdown: str = "# R770\n\n€ 100", **changes: object) -> ParsedDocument:
    values = {
        "markdown": markdown,
        "pages": (Page(number=1, start=0, end=len(markdown)),),
        "engine": "engine",
        "engine_version": "1",
        "media_type": "text/markdown",
        "warnings": ("hidden_sheet:Prices",),
    }
    return ParsedDocument(**{**values, **changes})


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_result_stands_in_the_folder_of_its_document(tmp_path: Path) -> None:
    store = OutputStore(tmp_path)
    store.stage("servers", "dell/r770.pdf", b"{}").publish()
    assert files(tmp_path) == ["servers/dell/r770.pdf/extraction.json"]
    assert store.relative("servers", "dell/r770.pdf") == "servers/dell/r770.pdf/extraction.json"


def test_documents_of_one_stem_have_outputs_of_their_own(tmp_path: Path) -> None:
    store = OutputStore(tmp_path)
    keys = ["a/scan.pdf", "b/scan.pdf", "a/scan.docx", "scan", "scan.txt", "line\nbreak.txt", "100%.txt"]
    for key in keys:
        store.stage("c", key, key.encode()).publish()
    assert [key.encode() for key in keys] == [(tmp_path / store.relative("c", key)).read_bytes() for key in keys]


@pytest.mark.parametrize("key", ["../outside.pdf", "/etc/outside.pdf", "a/../../outside.pdf"])
def test_nothing_is_written_outside_the_root(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="document key"):
        OutputStore(tmp_path / "outputs").stage("c", key, b"{}")
    assert files(tmp_path) == []


def test_the_hash_of_a_file_is_that_of_its_bytes_on_disk(tmp_path: Path) -> None:
    store = OutputStore(tmp_path)
    store.stage("c", "a", b"{}").publish()
    assert store.sha256("c/a/extraction.json") == hashlib.sha256(b"{}").hexdigest()


def test_a_file_that_is_gone_has_no_hash(tmp_path: Path) -> None:
    assert OutputStore(tmp_path).sha256("c/a/extraction.json") is None


def test_every_file_operation_passes_its_failpoint_in_order(tmp_path: Path) -> None:
    passed: list[Failpoint] = []
    OutputStore(tmp_path, passed.append).stage("c", "a", b"{}").publish()
    expected = [Failpoint.WRITE_OUTPUT, Failpoint.SYNC_OUTPUT, Failpoint.REPLACE_OUTPUT, Failpoint.SYNC_FOLDER]
    assert expected == passed


def test_sweeping_one_collection_leaves_the_others_alone(tmp_path: Path) -> None:
    store = OutputStore(tmp_path)
    for collection in ("a", "b"):
        stray = tmp_path / collection / "x" / ".t-00000000-1-0.tmp"
        stray.parent.mkdir(parents=True)
        stray.touch()
        os.utime(stray, (0, 0))
    assert store.sweep("a") == 1
    assert files(tmp_path) == ["b/x/.t-00000000-1-0.tmp"]


def test_sweeping_the_parsed_texts_takes_what_a_dead_writer_left(tmp_path: Path) -> None:
    store = ParsedStore(tmp_path)
    store.put(KEY, parsed())
    kept = files(tmp_path)
    stray = tmp_path / "ab" / ".t-00000000-1-0.tmp"
    stray.touch()
    os.utime(stray, (0, 0))
    assert store.sweep() == 1
    assert kept == files(tmp_path)


def test_parsed_text_is_read_back_by_its_hash(tmp_path: Path) -> None:
    store = ParsedStore(tmp_path)
    digest = store.put(KEY, parsed())
    assert digest == hashlib.sha256("# R770\n\n€ 100".encode()).hexdigest()
    assert store.markdown(digest) == "# R770\n\n€ 100"


def test_the_page_map_stands_beside_the_text(tmp_path: Path) -> None:
    digest = ParsedStore(tmp_path).put(KEY, parsed())
    page_map = json.loads((tmp_path / "ab" / f"{KEY}.json").read_text(encoding="utf-8"))
    assert page_map == {
        "markdown_sha256": digest,
        "engine": "engine",
        "engine_version": "1",
        "media_type": "text/markdown",
        "pages": [{"number": 1, "start": 0, "end": 13}],
        "warnings": ["hidden_sheet:Prices"],
    }


def test_equal_text_is_stored_once(tmp_path: Path) -> None:
    store = ParsedStore(tmp_path)
    digest = store.put(KEY, parsed())
    path = tmp_path / digest[:2] / f"{digest}.md"
    before = path.stat()
    assert store.put("cd" + KEY[2:], parsed()) == digest
    assert before.st_ino == path.stat().st_ino
    assert len([name for name in files(tmp_path) if name.endswith(".md")]) == 1


def test_text_that_is_gone_or_changed_is_not_handed_out(tmp_path: Path) -> None:
    store = ParsedStore(tmp_path)
    digest = store.put(KEY, parsed())
    path = tmp_path / digest[:2] / f"{digest}.md"
    path.write_text("something else", encoding="utf-8")
    assert store.markdown(digest) is None
    path.unlink()
    assert store.markdown(digest) is None


def test_text_that_was_damaged_is_replaced_when_it_is_parsed_again(tmp_path: Path) -> None:
    store = ParsedStore(tmp_path)
    digest = store.put(KEY, parsed())
    (tmp_path / digest[:2] / f"{digest}.md").write_text("something else", encoding="utf-8")
    assert store.put(KEY, parsed()) == digest
    assert store.markdown(digest) == "# R770\n\n€ 100"


def test_parsed_text_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "ab").write_bytes(b"in the way")
    with pytest.raises(OutputPathError, match="ab"):
        ParsedStore(tmp_path).put(KEY, parsed())
