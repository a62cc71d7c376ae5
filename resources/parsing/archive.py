"""Office files are ZIP archives: which kind one is, and that it is not a bomb, from its directory alone."""

from __future__ import annotations

import io
import zipfile

from extraction_core.parsing import ParseFailureReason
from resources.parsing.draft import DocumentRefusedError

MAX_MEMBERS = 10_000
MAX_EXPANDED_BYTES = 300 * 1024**2
MAX_RATIO = 200
"""Expansion is judged by ratio only beyond :data:`RATIO_FROM_BYTES`; small XML parts compress far better than text."""
RATIO_FROM_BYTES = 10 * 1024**2

_MAIN_PARTS = {"word/document.xml": "DOCX", "xl/workbook.xml": "XLSX", "ppt/presentation.xml": "PPTX"}
_ENCRYPTED = 0x1


def office_format(data: bytes) -> str:
    """``DOCX``, ``XLSX`` or ``PPTX``.

    Raises:
        DocumentRefusedError: CORRUPT (no readable directory), PASSWORD, LIMIT or UNSUPPORTED (another archive).
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        message = f"a damaged Office file or ZIP archive ({error})"
        raise DocumentRefusedError(ParseFailureReason.CORRUPT, message) from error
    _check_expansion(members, len(data))
    if any(member.flag_bits & _ENCRYPTED for member in members):
        raise DocumentRefusedError(ParseFailureReason.PASSWORD, "a ZIP archive that needs a password")
    names = {member.filename for member in members}
    for part, name in _MAIN_PARTS.items():
        if part in names and "[Content_Types].xml" in names:
            return name
    raise DocumentRefusedError(ParseFailureReason.UNSUPPORTED, "a ZIP archive that is not a DOCX, XLSX or PPTX")


def _check_expansion(members: list[zipfile.ZipInfo], size: int) -> None:
    expanded = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS:
        problem = f"{len(members):,} archive members; the limit is {MAX_MEMBERS:,}"
    elif expanded > MAX_EXPANDED_BYTES:
        problem = f"expands to {expanded:,} bytes; the limit is {MAX_EXPANDED_BYTES:,}"
    elif expanded > RATIO_FROM_BYTES and expanded > MAX_RATIO * size:
        problem = f"expands {expanded // size:,} times to {expanded:,} bytes; the limit is {MAX_RATIO} times"
    else:
        return
    raise DocumentRefusedError(ParseFailureReason.LIMIT, problem)
