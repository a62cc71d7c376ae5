"""HTML: one self-contained page without scripts; every block is a table or a run of paragraphs."""

from collections.abc import Sequence
from html import escape

from extraction_assets.sample_documents.document import Document, Grid, Pairs, Value, display

STYLE = "body{font-family:sans-serif;margin:2em} table{border-collapse:collapse} th,td{border:1px solid;padding:.3em}"


def to_html(document: Document) -> bytes:
    """Return `document` as a UTF-8 HTML page."""
    title = escape(document.title)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        f'<head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>',
        "<body>",
        f"<h1>{title}</h1>",
        f"<p><em>{escape(document.note)}</em></p>",
    ]
    for block in document.blocks:
        if block.heading:
            lines.append(f"<h2>{escape(block.heading)}</h2>")
        lines += _body(block)
    return "\n".join([*lines, "</body>", "</html>", ""]).encode()


def _body(block: Pairs | Grid) -> list[str]:
    if isinstance(block, Grid):
        return ["<table>", _row("th", block.header), *(_row("td", row) for row in block.rows), "</table>"]
    if block.style == "lines":
        return [f"<p>{escape(label)}: {escape(display(value))}</p>" for label, value in block.rows]
    return ["<table>", *(_row("td", row) for row in block.rows), "</table>"]


def _row(tag: str, cells: Sequence[Value]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(display(cell))}</{tag}>" for cell in cells) + "</tr>"
