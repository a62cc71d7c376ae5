"""File systems that take ``Scan.pdf`` and ``scan.pdf`` for one name, as those of macOS and Windows do.

There two documents whose keys differ in case alone would share one result, and each would overwrite the other's
without a word. So a result is refused whose path stands on disk in another spelling.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path, PurePosixPath


def takes_no_notice_of_case(file: Path) -> bool:
    """Whether a file that is there is found by its name in other letters as well."""
    return os.path.lexists(f"{file.parent}/{file.name.swapcase()}")


def other_spelling(root: Path, relative: PurePosixPath) -> PurePosixPath | None:
    """Return as what a path below a root stands on disk, if that differs in case; None when it stands there as it is.

    The form of composed letters makes no difference, since some file systems store another one than they are given.
    """
    folder, kept = root, PurePosixPath()
    for name in relative.parts:
        wanted = unicodedata.normalize("NFC", name)
        found = {unicodedata.normalize("NFC", entry.name) for entry in folder.iterdir()}
        if wanted not in found:
            alike = sorted(entry for entry in found if entry.casefold() == wanted.casefold())
            return kept / alike[0] if alike else None
        folder, kept = folder / name, kept / name
    return None
