"""DOCX: the body through the engine, running headers and footers from the file, since the engine leaves them out."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator

from resources.parsing.draft import Draft, DraftPage
from resources.parsing.office_engine import engine_warnings, extract
from resources.parsing.opc import iterate_xml, read_xml, relations
from resources.parsing.versions import OFFICE_ENGINE

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_DOCUMENT = "word/document.xml"
_MARGIN_PART = re.compile(r"word/(?P<kind>header|footer)\d*\.xml")


def read_docx(data: bytes) -> Draft:
    """One text (a DOCX has no pages of its own) between the texts of its running headers and footers.

    Raises:
        DocumentRefusedError: see :func:`resources.parsing.office_engine.extract`.
    """
    document = extract(data, _MEDIA_TYPE)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        headers, footers = list(_margin_texts(archive, "header")), list(_margin_texts(archive, "footer"))
        warnings = ["invisible_text:1"] if _has_hidden_runs(archive) else []
        has_images = any(part.startswith("word/media/") for part in archive.namelist())
    warnings.extend(engine_warnings(document))
    text = "\n\n".join([*headers, document.content.strip(), *footers])
    page = DraftPage(number=1, text=text, has_images=has_images)
    return Draft(pages=[page], paged=False, engine=OFFICE_ENGINE, warnings=warnings)


def _margin_texts(archive: zipfile.ZipFile, kind: str) -> Iterator[str]:
    """The text of each different running header or footer; invoice numbers and letterheads live there."""
    seen: set[str] = set()
    for part in relations(archive, _DOCUMENT).values():
        match = _MARGIN_PART.fullmatch(part)
        root = read_xml(archive, part) if match and match["kind"] == kind else None
        paragraphs = root.findall(".//{*}p") if root is not None else []
        lines = ["".join(run.text or "" for run in paragraph.findall(".//{*}t")) for paragraph in paragraphs]
        text = "\n".join(line.strip() for line in lines if line.strip())
        if text and text not in seen:
            seen.add(text)
            yield text


def _has_hidden_runs(archive: zipfile.ZipFile) -> bool:
    for run in iterate_xml(archive, _DOCUMENT, "r"):
        vanish = run.find("{*}rPr/{*}vanish")
        if vanish is not None and not any(v in {"0", "false"} for v in vanish.attrib.values()) and run.findtext("{*}t"):
            return True
    return False
