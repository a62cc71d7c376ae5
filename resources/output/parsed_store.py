"""Parsed Markdown, addressed by the hash of its text: equal text is stored once, whatever it was parsed from.

Beside ``<hash>.md`` stands ``<parse key>.json`` with the page map, the engine and its version. What a parse service
answered is kept as it came, as ``<hash>.result``: its text can be made again without paying again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from extraction_core.failpoints import Failpoint, Failpoints, no_failpoints
from extraction_core.fingerprints import sha256_hex
from extraction_core.parsing import Page, ParsedDocument
from resources.output import atomic_write


class ParsedStore:
    """Stores and reads parsed text below one root folder."""

    def __init__(self, root: Path, failpoints: Failpoints = no_failpoints) -> None:
        self.root = root
        self._failpoints = failpoints

    def put(self, parse_key: str, parsed: ParsedDocument) -> str:
        """Store a parsed document and return the hash of its Markdown.

        Raises:
            OutputStoreError: it could not be written.
        """
        self._failpoints(Failpoint.WRITE_PARSED)
        text = parsed.markdown.encode("utf-8")
        digest = sha256_hex(text)
        if self.markdown(digest) is None:
            atomic_write.write(self._text_path(digest), text)
        page_map = {
            "markdown_sha256": digest,
            "engine": parsed.engine,
            "engine_version": parsed.engine_version,
            "media_type": parsed.media_type,
            "pages": [_page(page) for page in parsed.pages],
            "warnings": list(parsed.warnings),
        }
        data = json.dumps(page_map, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        atomic_write.write(self._map_path(parse_key), data)
        return digest

    def markdown(self, digest: str) -> str | None:
        """Return stored Markdown; None when it is gone or is not what its hash says."""
        data = _verified(self._text_path(digest), digest)
        return None if data is None else data.decode("utf-8")

    def keep_result(self, data: bytes) -> str:
        """Store what a parse service answered and return its hash.

        Raises:
            OutputStoreError: it could not be written.
        """
        self._failpoints(Failpoint.WRITE_JOB_RESULT)
        digest = sha256_hex(data)
        if self.result(digest) is None:
            atomic_write.write(self._result_path(digest), data)
        return digest

    def result(self, digest: str) -> bytes | None:
        """Return what a parse service answered; None when it is gone or is not what its hash says."""
        return _verified(self._result_path(digest), digest)

    def sweep(self) -> int:
        """Remove what crashed writers left behind. Returns how many files were removed."""
        return atomic_write.sweep(self.root)

    def _text_path(self, digest: str) -> Path:
        return self.root / digest[:2] / f"{digest}.md"

    def _map_path(self, parse_key: str) -> Path:
        return self.root / parse_key[:2] / f"{parse_key}.json"

    def _result_path(self, digest: str) -> Path:
        return self.root / digest[:2] / f"{digest}.result"


def _page(page: Page) -> dict[str, Any]:
    place: dict[str, Any] = {"number": page.number, "start": page.start, "end": page.end}
    return place if page.file is None else {"file": page.file, **place}


def _verified(path: Path, digest: str) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if sha256_hex(data) == digest else None
