"""Which files are documents, and why the others are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.documents import (
    AttachmentPlace,
    Unit,
    attachment_key,
    attachment_place,
    outermost_mail,
    skip_reason,
)


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


@pytest.mark.parametrize(
    ("depth", "file_key", "document_key"),
    [
        (None, "dell/r770/spec.pdf", "dell/r770"),
        (None, "dell/r770/img/front.png", "dell/r770/img"),
        (None, "loose.pdf", None),
        (2, "dell/r770/spec.pdf", "dell/r770"),
        (2, "dell/r770/img/front.png", "dell/r770"),
        (2, "dell/overview.pdf", None),
    ],
)
def test_the_files_of_a_folder_are_one_document_named_by_its_path(
    depth: int | None, file_key: str, document_key: str | None
) -> None:
    assert Unit(is_folder=True, depth=depth).document_key(file_key) == document_key


def test_a_file_is_a_document_of_its_own_otherwise() -> None:
    assert Unit().document_key("dell/r770/spec.pdf") == "dell/r770/spec.pdf"


@pytest.mark.parametrize(
    ("name", "last_part"),
    [
        ("Angebot Müller.pdf", "attachment-2-Angebot Müller.pdf"),
        ("../../etc/passwd", "attachment-2-passwd"),
        ("C:\\temp\\price.xlsx", "attachment-2-price.xlsx"),
        ("a\0b\n.pdf", "attachment-2-a_b_.pdf"),
        ("..", "attachment-2-unnamed"),
        ("", "attachment-2-unnamed"),
        ("half \ud83d.txt", "attachment-2-half _.txt"),
    ],
)
def test_an_attachment_is_named_by_its_place_and_a_safe_form_of_its_name(name: str, last_part: str) -> None:
    assert attachment_key("dell/mail.eml", 2, name) == f"dell/mail.eml/{last_part}"


@given(st.text(st.characters(codec=None), max_size=300), st.integers(1, 200))
def test_whatever_an_attachment_is_called_its_key_is_safe_and_leads_back_to_it(name: str, number: int) -> None:
    key = attachment_key("dell/Mail.EML", number, name)
    assert attachment_place(key) == AttachmentPlace("dell/Mail.EML", number)
    last_part = key.removeprefix("dell/Mail.EML/")
    assert "/" not in last_part
    assert len(last_part.encode()) <= 130
    assert not {"", ".", ".."} & set(key.split("/"))


def test_an_attachment_of_a_mail_in_a_mail_leads_to_the_file_that_it_is_in() -> None:
    inner = attachment_key("a/mail.eml", 1, "forwarded.eml")
    assert outermost_mail(attachment_key(inner, 3, "x.pdf")) == "a/mail.eml"
    assert outermost_mail("a/mail.eml") == "a/mail.eml"
    assert attachment_place("a/folder/attachment-1-x.pdf") is None
