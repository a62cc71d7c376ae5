"""The parts of an Office file (Open Packaging Conventions, ECMA-376 part 2): XML by name, and who points to whom.

The standard library's parser fetches nothing and stops the expansion of entities (expat 2.4.1 and later); memory and
time are limited by the process that this runs in.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from xml.etree import ElementTree as ET


def read_xml(archive: zipfile.ZipFile, part: str) -> ET.Element | None:
    """The root of a part, or None if there is no such part. Raises ``ParseError`` for a damaged one."""
    try:
        return ET.fromstring(archive.read(part))  # noqa: S314 - see the module
    except KeyError:
        return None


def iterate_xml(archive: zipfile.ZipFile, part: str, *names: str) -> Iterator[ET.Element]:
    """The elements of a part with these local names, each cleared once the next is asked for, so memory stays flat."""
    with archive.open(part) as stream:
        for _, element in ET.iterparse(stream):  # noqa: S314 - see the module
            if local_name(element) in names:
                yield element
                element.clear()


def local_name(element: ET.Element) -> str:
    """The tag without its namespace, which differs between the transitional and the strict form of the standard."""
    return element.tag.rpartition("}")[2]


def relation_id(element: ET.Element) -> str:
    """The value of ``r:id``."""
    return next((value for name, value in element.attrib.items() if name.endswith("}id")), "")


def relations(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """What a part points to inside the archive: part name by relation id."""
    folder, name = posixpath.split(part)
    root = read_xml(archive, f"{folder}/_rels/{name}.rels")
    targets: dict[str, str] = {}
    for relation in root if root is not None else ():
        target = relation.get("Target", "")
        if relation.get("TargetMode") != "External":
            resolved = target[1:] if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
            targets[relation.get("Id", "")] = resolved
    return targets
