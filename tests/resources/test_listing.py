"""From files to documents: what a folder looks like as one."""

from __future__ import annotations

from extraction_core.documents import Unit
from resources.source import Listing, SkippedFile, SourceFile

FOLDERS = Unit(is_folder=True)


def a_file(key: str, signature: str = "1", modified_s: float | None = 5.0) -> SourceFile:
    return SourceFile(key=key, size_bytes=10, signature=signature, modified_s=modified_s)


def a_listing(*files: SourceFile, skipped: tuple[SkippedFile, ...] = ()) -> Listing:
    return Listing(files=files, skipped=skipped)


def test_a_folder_is_as_large_as_its_files_and_as_young_as_the_youngest() -> None:
    (folder,) = a_listing(a_file("r770/a"), a_file("r770/b", modified_s=9.0)).grouped(FOLDERS).files
    assert (folder.key, folder.size_bytes, folder.modified_s) == ("r770", 20, 9.0)


def test_the_signature_of_a_folder_does_not_hang_on_the_order_of_the_listing() -> None:
    one, two = a_file("r770/a"), a_file("r770/b")
    assert a_listing(one, two).grouped(FOLDERS) == a_listing(two, one).grouped(FOLDERS)


def test_a_source_without_a_clock_gives_folders_without_one() -> None:
    (folder,) = a_listing(a_file("r770/a", modified_s=None)).grouped(FOLDERS).files
    assert folder.modified_s is None


def test_a_file_in_no_folder_is_skipped_and_says_so() -> None:
    found = a_listing(a_file("loose.pdf")).grouped(FOLDERS)
    assert found.files == ()
    assert [(file.key, file.reason) for file in found.skipped] == [
        ("loose.pdf", "lies in no folder that is a document")
    ]


def test_a_folder_with_a_file_that_cannot_be_looked_at_is_neither_changed_nor_gone() -> None:
    locked = SkippedFile(key="r770/b", reason="cannot be read: Permission denied")
    hidden = SkippedFile(key="r660/.x", reason="hidden file")
    found = a_listing(a_file("r660/a"), a_file("r770/a"), skipped=(hidden, locked)).grouped(FOLDERS)
    assert [file.key for file in found.files] == ["r660"]
    assert found.unreadable == {"r770"}
    assert ("r660/.x", "hidden file") in {(file.key, file.reason) for file in found.skipped}


def test_files_are_documents_of_their_own_otherwise() -> None:
    listing = a_listing(a_file("r770/a"))
    assert listing.grouped(Unit()) is listing
