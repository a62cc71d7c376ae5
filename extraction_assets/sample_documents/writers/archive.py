"""Office files are ZIP archives: rewrite one so that its bytes depend on its members alone."""

import io
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The moment every sample file says it was made."""


def settled(archive: bytes, replaced: Mapping[str, bytes | str] = MappingProxyType({})) -> bytes:
    """Return `archive` with its members sorted by name, stored uncompressed and dated `MADE_AT`.

    Args:
        archive: a ZIP archive.
        replaced: member name -> content, text as UTF-8, that takes the place of the archived one.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        # The content types come first: some readers tell an Office file from a plain ZIP by its first member.
        for name in sorted(source.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            member = zipfile.ZipInfo(name, MADE_AT.timetuple()[:6])
            member.create_system = 3  # else the byte that names the operating system differs on Windows
            target.writestr(member, replaced.get(name, source.read(name)))
    return out.getvalue()
