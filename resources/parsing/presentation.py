"""PPTX: the text of each slide through the engine; order, speaker notes and hidden slides from the file.

The engine returns slides in the order of their file names and gives the notes to the wrong slides where some have none.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator

from extraction_core.parsing import ParseFailureReason
from resources.parsing.draft import DocumentRefusedError, Draft, DraftPage
from resources.parsing.office_engine import engine_warnings, extract
from resources.parsing.opc import read_xml, relation_id, relations
from resources.parsing.versions import OFFICE_ENGINE

_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_PRESENTATION = "ppt/presentation.xml"
_SLIDE = re.compile(r"ppt/slides/[^/]*?(?P<number>\d+)\.xml")
_FALSE = frozenset({"0", "false"})


def read_pptx(data: bytes) -> Draft:
    """One page per slide in the order of the presentation, speaker notes below the slide's text.

    Raises:
        DocumentRefusedError: see :func:`resources.parsing.office_engine.extract`.
    """
    document = extract(data, _MEDIA_TYPE)
    draft = Draft(pages=[], paged=True, engine=OFFICE_ENGINE, warnings=list(engine_warnings(document)))
    contents = [page.content for page in document.pages or []]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content_by_part = _by_part(archive, contents)
        for number, part in enumerate(_slides_in_order(archive), start=1):
            text = content_by_part.get(part, "").strip()
            if notes := _notes(archive, part):
                text = f"{text}\n\nNotes:\n\n{notes}"
            draft.pages.append(DraftPage(number=number, text=text))
            slide = read_xml(archive, part)
            if slide is not None and slide.get("show") in _FALSE:
                draft.warnings.append(f"hidden_slide:{number}")
    return draft


def _by_part(archive: zipfile.ZipFile, contents: list[str]) -> dict[str, str]:
    """The engine's slides by the part they come from."""
    names = set(archive.namelist())
    found = {part: _SLIDE.fullmatch(part) for part in relations(archive, _PRESENTATION).values() if part in names}
    numbered = sorted((int(match["number"]), part) for part, match in found.items() if match)
    if len(numbered) != len(contents):
        message = f"{len(numbered)} slides in the file, {len(contents)} read"
        raise DocumentRefusedError(ParseFailureReason.CORRUPT, message)
    return {part: content for (_, part), content in zip(numbered, contents, strict=True)}


def _slides_in_order(archive: zipfile.ZipFile) -> Iterator[str]:
    root = read_xml(archive, _PRESENTATION)
    parts = relations(archive, _PRESENTATION)
    for entry in root.findall("{*}sldIdLst/{*}sldId") if root is not None else []:
        part = parts.get(relation_id(entry))
        if part is not None:
            yield part


def _notes(archive: zipfile.ZipFile, slide_part: str) -> str:
    """The body of the notes page, without its slide picture, date and page number."""
    lines: list[str] = []
    for part in relations(archive, slide_part).values():
        root = read_xml(archive, part) if part.startswith("ppt/notesSlides/") else None
        for shape in root.findall(".//{*}sp") if root is not None else []:
            kind = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
            if kind is not None and kind.get("type") == "body":
                paragraphs = shape.findall(".//{*}p")
                lines.extend("".join(run.text or "" for run in p.findall(".//{*}t")) for p in paragraphs)
    return "\n".join(lines).strip()
