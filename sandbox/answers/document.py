"""What a document is read into: label/value pairs, tables and sections."""

from dataclasses import dataclass

from sandbox.answers.grid import Cells
from sandbox.answers.labels import Words


@dataclass(frozen=True, slots=True)
class Pair:
    """A label and its value; `section` is the place in `Document.sections`, `weight` is added to every score."""

    label: Words
    value: str
    section: int
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a header row; every row has as many cells as the header."""

    header: tuple[Words, ...]
    rows: tuple[Cells, ...]
    section: int


@dataclass(frozen=True, slots=True)
class Document:
    """What was read. `sections` holds, for each section, the headings above it from the outermost in; 0 is the top."""

    title: str = ""
    pairs: tuple[Pair, ...] = ()
    tables: tuple[Table, ...] = ()
    sections: tuple[tuple[Words, ...], ...] = ((),)
    text: str = ""
