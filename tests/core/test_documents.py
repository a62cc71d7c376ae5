"""Which files are documents, and why the others are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.documents import skip_reason


def reason(key: str, include: tuple[str, ...] = ("**/*",), exclude: tuple[str, ...] = ()) -> str | None:
    return skip_reason(key, include, exclude)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("Thumbs.db", "system file"),
        ("a/desktop.ini", "system file"),
        ("__MACOSX/scan.pdf", "system file"),
        ("a/~$report.docx", "lock or resource file of an office program"),
        ("._scan.pdf", "lock or resource file of an office program"),
        ("report.docx.tmp", "unfinished transfer"),
        ("DOWNLOAD.PDF.PART", "unfinished transfer"),
        (".DS_Store", "hidden file"),
        ("a/.git/config", "hidden file"),
        ("../outside.pdf", "leads outside the source"),
        ("a/../../outside.pdf", "leads outside the source"),
        ("/etc/hostname", "leads outside the source"),
    ],
)
def test_a_file_that_nobody_means_as_a_document_is_skipped_with_its_reason(key: str, expected: str) -> None:
    assert expected == reason(key)


@pytest.mark.parametrize(
    "key",
    [
        "scan",
        "a/b/scan.pdf",
        "SCAN.PDF",
        "line\nbreak.txt",
        "100%.txt",
        " lead and trail .txt",
        "a..b/c.pdf",
        "請求書.txt",
    ],
)
def test_any_other_name_is_a_document(key: str) -> None:
    assert reason(key) is None


@pytest.mark.parametrize(
    ("glob", "key", "matches"),
    [
        ("**/*", "a.pdf", True),
        ("**/*", "a/b/c.pdf", True),
        ("*", "a.pdf", True),
        ("*", "a/b.pdf", False),
        ("**/*.pdf", "a.pdf", True),
        ("**/*.pdf", "a/b.pdf", True),
        ("**/*.pdf", "a/b.docx", False),
        ("a/**", "a/b/c.pdf", True),
        ("a/**", "ab/c.pdf", False),
        ("a/*.pdf", "a/b/c.pdf", False),
        ("a?.pdf", "ab.pdf", True),
        ("a?b.pdf", "a/b.pdf", False),
        ("[ab].pdf", "b.pdf", True),
        ("[!ab].pdf", "b.pdf", False),
        ("[!ab].pdf", "!.pdf", True),
        ("[a-c].pdf", "b.pdf", True),
        ("[z-a].pdf", "[z-a].pdf", True),
        ("[.pdf", "[.pdf", True),
        ("a.pdf", "aXpdf", False),
        ("a+b(1).pdf", "a+b(1).pdf", True),
        ("a.pdf", "a.pdf\n", False),
    ],
)
def test_a_star_stays_within_its_folder(glob: str, key: str, matches: bool) -> None:  # noqa: FBT001 - a column of the table
    assert (None if matches else "matches no include pattern") == reason(key, include=(glob,))


def test_an_exclude_pattern_wins_over_an_include_pattern() -> None:
    assert reason("a/b.pdf", include=("**/*.pdf",), exclude=("a/**",)) == "matches an exclude pattern"


def test_one_include_pattern_of_several_is_enough() -> None:
    assert reason("b.pdf", include=("*.docx", "*.pdf")) is None


@given(st.text(max_size=30), st.text(st.sampled_from("ab*?[]!/\\^"), min_size=1, max_size=8))
def test_any_name_is_looked_at_without_an_exception(key: str, glob: str) -> None:
    reason(key, include=(glob,))
