"""Rows to a Markdown table that keeps its columns whatever the cells hold."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A pipe table whose header is the first row; short rows are filled up, so every row has the same columns."""
    width = max(len(row) for row in rows)
    lines = [_line([*row, *[""] * (width - len(row))]) for row in rows]
    lines.insert(1, _line(["---"] * width))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escape(cell) for cell in cells) + " |"


def _escape(cell: str) -> str:
    """A pipe would end the cell and a line end the row; a backslash before a pipe would undo the escape."""
    text = cell.strip().replace("\\", "\\\\").replace("|", "\\|")
    return text.replace("\r\n", "<br>").replace("\n", "<br>").replace("\r", "<br>")
