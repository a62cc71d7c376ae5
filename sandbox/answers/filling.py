"""Fill a compiled schema from a document: tables for its arrays of objects, labels for everything else.

What the document does not state is absent: null where the schema allows it, left out elsewhere, even when required.
"""

from collections.abc import Iterator, Sequence

from sandbox.answers.currency import currency_of
from sandbox.answers.document import Document, Pair, Table
from sandbox.answers.grid import Cells, is_total
from sandbox.answers.labels import SHORTENED, Words, score, words
from sandbox.answers.matching import Leaf, Path, leaves_of, match, spellings
from sandbox.answers.plan import Node
from sandbox.answers.values import convert
from sandbox.answers.writing import Value

HEADING_MATCH = 3  # in columns: what a matching heading is worth when tables compete for an array
TITLE_WORDS = frozenset({"title", "heading"})
NAME_WORDS = frozenset({"name", "product"})


def fill(root: Node, document: Document) -> Value:
    """Return the answer: an object for an object schema, the rows of a table for an array of objects."""
    context = frozenset(words(document.title)) | frozenset(root.names.title)
    found = _fill_arrays(list(_arrays(root, ())), document, context)
    if not root.is_object:
        return found.get(())
    leaves = leaves_of(root)
    found |= match(leaves, document, context)
    for leaf in leaves:
        if leaf.path not in found:
            found[leaf.path] = _from_whole_document(leaf, document)
    return _assemble(root, (), found)


def _arrays(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    if node.rows is not None:
        yield path, node
    elif node.is_object:
        for child in node.properties:
            yield from _arrays(child, (*path, child.name))


def _fill_arrays(arrays: Sequence[tuple[Path, Node]], document: Document, context: frozenset[str]) -> dict[Path, Value]:
    """Give tables to arrays of objects, the best fit first; a table's rows are the items, without its totals."""
    fits = [
        (-_fit(array, leaves_of(array.rows or array), table, document, context), place, number)
        for place, (_, array) in enumerate(arrays)
        for number, table in enumerate(document.tables)
        if table.rows
    ]
    found: dict[Path, Value] = {}
    used: set[tuple[Words, ...]] = set()
    for fit, place, number in sorted(fits):
        (path, array), header = arrays[place], document.tables[number].header
        if fit < 0 and path not in found and header not in used:
            used.add(header)
            # A table that goes on after a page break repeats its header, so all tables with this one are one.
            rows = [row for table in document.tables if table.header == header for row in table.rows]
            found[path] = _items(array.rows or array, header, rows, context)
    return found


def _items(item: Node, header: tuple[Words, ...], rows: Sequence[Cells], context: frozenset[str]) -> Value:
    """Fill one item from each row, as if the row were a document of its own with the header for labels."""
    leaves = leaves_of(item)
    items: list[Value] = []
    for row in rows:
        pairs = tuple(Pair(label, cell, 0) for label, cell in zip(header, row, strict=True))
        found = match(leaves, Document(pairs=pairs), context)
        if found and not is_total(row):
            items.append(_assemble(item, (), found))
    return items or None


def _fit(array: Node, leaves: Sequence[Leaf], table: Table, document: Document, context: frozenset[str]) -> int:
    """Count the properties that have a column; 0 when the table is not about this array."""
    columns = sum(
        any(score(label, names, context) for label in table.header for names in spellings(leaf)) for leaf in leaves
    )
    titled = any(score(name, array.names, context) >= SHORTENED for name in document.sections[table.section])
    if columns == 0 or (columns == 1 and len(leaves) > 1 and not titled):
        return 0
    return columns + (HEADING_MATCH if titled else 0)


def _from_whole_document(leaf: Leaf, document: Document) -> Value:
    """Last resort for two kinds of property that documents state without a label: their title and their currency."""
    name = set(leaf.node.names.name)
    is_title = bool(name & TITLE_WORDS) or (not leaf.parents and "name" in name and name <= NAME_WORDS)
    if is_title and document.title and "string" in leaf.node.types:
        return convert(leaf.node, document.title)
    if "currency" in name and "string" in leaf.node.types:
        return convert(leaf.node, currency_of(document.text) or "")
    return None


def _assemble(node: Node, path: Path, found: dict[Path, Value]) -> dict[str, Value]:
    """Build an object from what was found below a path."""
    result: dict[str, Value] = {}
    for child in node.properties:
        place = (*path, child.name)
        if child.is_object:
            inner = _assemble(child, place, found)
            stated = any(value is not None for value in inner.values())
            value: Value = inner if stated or (child.required and not child.nullable) else None
        else:
            value = found.get(place)
        if value is not None or child.nullable:
            result[child.name] = value
    return result
