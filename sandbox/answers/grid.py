"""Rows of cells: where one table ends and the next begins, and which rows are sums."""

import re
from collections.abc import Iterator, Sequence

from sandbox.answers.labels import words

SUMS = frozenset({"total", "subtotal", "grand", "sum"})
TOTALS = SUMS | {"net", "gross", "vat", "tax", "balance", "shipping", "discount"}

_SEPARATOR = re.compile(r":?-+:?$")

Cells = tuple[str, ...]


def blocks(rows: Sequence[Cells]) -> Iterator[list[Cells]]:
    """Yield the tables among rows that follow each other: empty rows separate tables in one grid, as in a sheet."""
    block: list[Cells] = []
    for row in [*rows, ()]:
        if any(row):
            if not all(_SEPARATOR.match(cell) for cell in filled_cells(row)):
                block.append(row)
        elif block:
            yield _without_empty_columns(block)
            block = []


def filled_cells(row: Cells) -> list[str]:
    """Return the cells that are not empty."""
    return [cell for cell in row if cell]


def is_total(row: Cells) -> bool:
    """Tell whether a table row is empty or sums up the rows above it, by its first cell that is not empty.

    `Net` or `Shipping` may also begin an item, so these count only where other cells of the row are empty.
    """
    filled = filled_cells(row)
    first = words(filled[0])[:1] if filled else ()
    if not first:
        return not filled
    return first[0] in SUMS or (first[0] in TOTALS and len(filled) < len(row))


def _without_empty_columns(rows: list[Cells]) -> list[Cells]:
    """Bring rows to the width of the widest one and drop the columns that are empty in all of them."""
    width = max(map(len, rows))
    padded = [(*row, *[""] * (width - len(row))) for row in rows]
    kept = [column for column in range(width) if any(row[column] for row in padded)]
    return [tuple(row[column] for column in kept) for row in padded]
