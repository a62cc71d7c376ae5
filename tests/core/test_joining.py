"""Several files as one document: a text that names each file, and a page map that is right for it."""

from __future__ import annotations

from typing import Any

from extraction_core.joining import join_files, missing_files
from extraction_core.parsing import Page, ParsedDocument, ParseFailure, ParseFailureReason

CORRUPT = ParseFailure(reason=ParseFailureReason.CORRUPT, message="not a readable PDF")
TIMEOUT = ParseFailure(reason=ParseFailureReason.TIMEOUT, message="not parsed within 240 seconds")


def parsed(*pages: str, warnings: tuple[str, ...] = ()) -> ParsedDocument:
    """A document of such pages; of one page without a page map if there is only one."""
    text, found = "", []
    for number, page in enumerate(pages, start=1):
        found.append(Page(number=number, start=len(text), end=len(text) + len(page)))
        text += page + "\n\n---\n\n"
    return ParsedDocument(
        markdown=text.removesuffix("\n\n---\n\n"),
        pages=tuple(found) if len(pages) > 1 else (),
        engine="rules",
        engine_version="1",
        media_type="text/plain",
        warnings=warnings,
    )


def joined(*files: tuple[str, ParsedDocument | ParseFailure]) -> ParsedDocument:
    result = join_files(files)
    assert isinstance(result, ParsedDocument)
    return result


def test_every_file_stands_below_a_heading_that_names_it() -> None:
    result = joined(("a/spec.txt", parsed("Model: R770")), ("b.csv", parsed("| Port |")))
    assert result.markdown == "# File: a/spec.txt\n\nModel: R770\n\n# File: b.csv\n\n| Port |"


def test_the_page_map_finds_every_page_of_every_file() -> None:
    result = joined(
        ("spec.pdf", parsed("Größe", "1 €", "3")), ("read.me", parsed("Read me")), ("b.pdf", parsed("x", "y"))
    )
    found = [(page.file, page.number, result.markdown[page.start : page.end]) for page in result.pages]
    assert found == [
        ("spec.pdf", 1, "Größe"), ("spec.pdf", 2, "1 €"), ("spec.pdf", 3, "3"),
        ("read.me", 1, "Read me"), ("b.pdf", 1, "x"), ("b.pdf", 2, "y"),
    ]  # fmt: skip


def test_warnings_say_which_file_they_are_about() -> None:
    result = joined(("a.pdf", parsed("1", "2", warnings=("invisible_text:2",))), ("b.txt", parsed("b")))
    assert result.warnings == ("invisible_text:a.pdf:2",)


def test_a_file_that_failed_is_said_in_the_text_and_in_the_warnings() -> None:
    result = joined(("a.txt", parsed("a")), ("b.pdf", CORRUPT))
    assert result.markdown.endswith("# File: b.pdf\n\n(This file is missing here: it could not be read, corrupt.)")
    assert result.warnings == ("file_not_read:b.pdf: corrupt, not a readable PDF",)


def test_a_missing_file_fails_the_document_or_is_left_out_as_the_collection_wants() -> None:
    warnings = joined(("a.txt", parsed("a")), ("b.pdf", CORRUPT)).warnings
    assert missing_files("fail", warnings) == "b.pdf: corrupt, not a readable PDF"
    assert missing_files("leave_out", warnings) is None
    assert missing_files("fail", joined(("a.txt", parsed("a"))).warnings) is None


def test_nothing_read_is_a_failure_that_names_the_files() -> None:
    result = join_files([("a.pdf", CORRUPT), ("b.pdf", CORRUPT)])
    assert isinstance(result, ParseFailure)
    assert result.reason is ParseFailureReason.CORRUPT
    assert not result.retryable
    assert result.message.startswith("none of 2 files could be read: a.pdf: corrupt")


def test_nothing_read_is_tried_again_if_one_of_the_reasons_may_pass() -> None:
    result = join_files([("a.pdf", CORRUPT), ("b.pdf", TIMEOUT)])
    assert isinstance(result, ParseFailure)
    assert result.retryable


def test_the_same_files_give_the_same_document() -> None:
    files: list[Any] = [("a.txt", parsed("a")), ("b.pdf", CORRUPT)]
    assert join_files(files) == join_files(list(files))
