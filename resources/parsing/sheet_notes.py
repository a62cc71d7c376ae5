"""What stands on a sheet beside its cells: comments, and the words in its shapes, charts left out.

Comments are ECMA-376 part 1, 18.7 and, where they are threads, their newer form; shapes are 20.5.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from resources.parsing.opc import local_name, read_xml, relations

_THREADS, _COMMENTS, _DRAWING = "xl/threadedComments/", re.compile(r"xl/comments/?[^/]*\.xml"), "xl/drawings/"


def notes_of(archive: zipfile.ZipFile, sheet_part: str) -> Iterator[str]:
    """One line for each comment, ``B4: text``, and one for each shape with words."""
    parts = list(relations(archive, sheet_part).values())
    threads = [part for part in parts if part.startswith(_THREADS)]
    comments = threads or [part for part in parts if _COMMENTS.fullmatch(part)]  # those repeat the threads
    for part in comments:
        yield from _comments(read_xml(archive, part))
    for part in parts:
        if part.startswith(_DRAWING) and part.endswith(".xml"):
            yield from _shapes(read_xml(archive, part))


def _comments(root: ET.Element | None) -> Iterator[str]:
    for comment in root.iter() if root is not None else ():
        if local_name(comment) in {"comment", "threadedComment"}:
            text = _words(comment, "t", "text")
            if text:
                yield f"{comment.get('ref', '')}: {text}"


def _shapes(root: ET.Element | None) -> Iterator[str]:
    for body in root.iterfind(".//{*}txBody") if root is not None else ():
        text = " ".join(filter(None, (_words(paragraph, "t") for paragraph in body.iterfind("{*}p"))))
        if text:
            yield text


def _words(element: ET.Element, *names: str) -> str:
    """The text of the elements with these names, on one line."""
    return " ".join("".join(one.text or "" for one in element.iter() if local_name(one) in names).split())
