"""Markdown: pipe tables and `Label: value` lines."""

from collections.abc import Sequence

from extraction_assets.sample_documents.document import Document, Grid, Pairs, Value, display


def to_markdown(document: Document) -> bytes:
    """Return `document` as UTF-8 Markdown."""
    parts = [f"# {document.title}", f"*{document.note}*"]
    for block in document.blocks:
        if block.heading:
            parts.append(f"## {block.heading}")
        parts.append(_body(block))
    return ("\n\n".join(parts) + "\n").encode()


def _body(block: Pairs | Grid) -> str:
    if isinstance(block, Grid):
        return _table(block.header, block.rows)
    if block.style == "lines":
        return "\n".join(f"- {label}: {display(value)}" for label, value in block.rows)
    return _table(("Item", "Value"), block.rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    lines = [header, ["---"] * len(header), *([display(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
