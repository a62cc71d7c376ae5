"""What a sample document says, free of any file format: a title, a note and a sequence of blocks.

The catalogue builds a `Document`; each writer turns one into the bytes of its own format. Values keep their type until
then, because a spreadsheet stores a number or a date where a page shows text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

Value = str | int | Decimal | date

PairStyle = Literal["table", "lines"]


@dataclass(frozen=True)
class Pairs:
    """Labels with one value each, shown as a two-column table or as `Label: value` lines."""

    rows: Sequence[tuple[str, Value]]
    heading: str | None = None
    style: PairStyle = "table"


@dataclass(frozen=True)
class Grid:
    """A table with a header row. `rows` are as long as `header`."""

    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    heading: str | None = None


@dataclass(frozen=True)
class Document:
    """One sample document."""

    title: str
    note: str
    blocks: Sequence[Pairs | Grid]


def display(value: Value) -> str:
    """Return `value` as a page shows it: ISO dates, thousands separators in decimals only."""
    if isinstance(value, Decimal):
        return f"{value:,}"
    return value.isoformat() if isinstance(value, date) else str(value)
