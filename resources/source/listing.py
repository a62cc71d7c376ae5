"""What a look at a source found: documents by key, and every file that is none, with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extraction_core.documents import Unit
from extraction_core.fingerprints import canonical_digest

UNREADABLE = "cannot be read"
NO_FOLDER = "lies in no folder that is a document"


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One document, which is a file, or a folder with its files: key, size and a signature that changes with content.

    ``modified_s`` is the time of its last change in seconds since 1970, where the source tells: a file system's clock.
    """

    key: str
    size_bytes: int
    signature: str
    modified_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class SkippedFile:
    """One file that is not a document, and why."""

    key: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Everything that was found, both parts ordered by key."""

    files: tuple[SourceFile, ...]
    skipped: tuple[SkippedFile, ...]

    @property
    def unreadable(self) -> frozenset[str]:
        """Keys of documents that are there but could not be looked at: least of all are they known to be removed."""
        return frozenset(file.key for file in self.skipped if file.reason.startswith(UNREADABLE))

    def grouped(self, unit: Unit) -> Listing:
        """Return the listing with documents in place of files.

        A folder of which one file could not be looked at is left out whole: without that file it would look changed.
        """
        if not unit.is_folder:
            return self
        skipped = [file for file in self.skipped if not file.reason.startswith(UNREADABLE)]
        unreadable = {unit.document_key(key) or key: key for key in sorted(self.unreadable)}
        skipped += [SkippedFile(key=key, reason=f"{UNREADABLE}: {file}") for key, file in unreadable.items()]
        folders: dict[str, list[SourceFile]] = {}
        for file in self.files:
            if (key := unit.document_key(file.key)) is None:
                skipped.append(SkippedFile(key=file.key, reason=NO_FOLDER))
            elif key not in unreadable:
                folders.setdefault(key, []).append(file)
        return Listing(
            files=tuple(_folder(key, folders[key]) for key in sorted(folders)),
            skipped=tuple(sorted(skipped, key=lambda file: file.key)),
        )


def _folder(key: str, files: Iterable[SourceFile]) -> SourceFile:
    """Return a folder as one document; a file that is added, removed or changed changes its signature."""
    ordered = sorted(files, key=lambda file: file.key)
    times = [file.modified_s for file in ordered if file.modified_s is not None]
    return SourceFile(
        key=key,
        size_bytes=sum(file.size_bytes for file in ordered),
        signature=canonical_digest({file.key: file.signature for file in ordered}),
        modified_s=max(times, default=None),
    )
