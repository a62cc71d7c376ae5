"""HTML through the engine."""

from __future__ import annotations

import re

from resources.parsing.draft import Draft
from resources.parsing.encodings import decode_html
from resources.parsing.office_engine import engine_warnings, extract
from resources.parsing.versions import OFFICE_ENGINE

_EMBEDDED = re.compile(r"\]\(data:[^)\s]*\)")
"""A picture inside the page: a megabyte of base64 that says nothing as text."""


def read_html(data: bytes) -> Draft:
    """What a browser would show: no scripts, no styles, nothing with ``display: none``.

    Raises:
        DocumentRefusedError: see :func:`resources.parsing.office_engine.extract`.
    """
    text, warnings = decode_html(data)
    document = extract(text.encode("utf-8", "replace"), "text/html")
    content = _EMBEDDED.sub("]()", document.content)
    return Draft.of_text(content, engine=OFFICE_ENGINE, warnings=[*warnings, *engine_warnings(document)])
