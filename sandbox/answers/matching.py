"""Match the pairs of a document to the properties of a schema.

Every pair is used once, so that `Date` cannot be both the invoice date and the due date.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sandbox.answers.document import Document, Pair
from sandbox.answers.labels import LEAST, SHORTENED, Names, Words, score
from sandbox.answers.lines import Known
from sandbox.answers.plan import Node
from sandbox.answers.values import convert
from sandbox.answers.writing import Value

IN_ITS_SECTION = 10
OUTSIDE_ITS_SECTION = -30

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A property to be filled with one value, below the objects named `parents`.

    `alone` tells that no other property of the schema has the same name.
    """

    path: Path
    node: Node
    parents: tuple[Names, ...]
    alone: bool


def vocabulary(root: Node) -> Known:
    """Return how well words name a property of the schema."""
    names = [name for leaf in leaves_of(root) for name in spellings(leaf)]

    @lru_cache(maxsize=4096)
    def known(label: Words) -> int:
        return max((score(label, name, frozenset()) for name in names), default=0)

    return known


def leaves_of(root: Node) -> list[Leaf]:
    """Return the properties below a node that take one value each, whatever objects they are in."""
    places = list(_places(root, (), ()))
    uses = Counter(node.names.name for _, node, _ in places)
    return [Leaf(path, node, parents, uses[node.names.name] == 1) for path, node, parents in places]


def _places(node: Node, path: Path, parents: tuple[Names, ...]) -> Iterator[tuple[Path, Node, tuple[Names, ...]]]:
    for child in node.properties:
        if child.is_object:
            yield from _places(child, (*path, child.name), (*parents, child.names))
        elif child.rows is None:
            yield (*path, child.name), child, parents


def match(leaves: Sequence[Leaf], document: Document, context: frozenset[str]) -> dict[Path, Value]:
    """Give pairs to leaves, the best score first; ties go to the first pair, then to the first leaf."""
    index: dict[str, set[int]] = defaultdict(set)
    for number, pair in enumerate(document.pairs):
        for key in {*pair.label, "".join(pair.label)}:
            index[key].add(number)
    scored: list[tuple[int, int, int]] = []
    for place, leaf in enumerate(leaves):
        keys = set().union(*(names.keys() for names in spellings(leaf)))
        for number in set().union(*(index.get(key, ()) for key in keys)):
            pair = document.pairs[number]
            points = _points(leaf, pair, document.sections[pair.section], context)
            if points >= LEAST:
                scored.append((-points, number, place))
    found: dict[Path, Value] = {}
    used: set[int] = set()
    for _, number, place in sorted(scored):
        leaf = leaves[place]
        if number not in used and leaf.path not in found:
            value = convert(leaf.node, document.pairs[number].value)
            if value is not None:
                found[leaf.path] = value
                used.add(number)
    return found


def spellings(leaf: Leaf) -> list[Names]:
    """Return the names of a leaf by itself and, inside an object, with the object's name in front."""
    own = leaf.node.names
    return [own, own.below(leaf.parents[-1])] if leaf.parents else [own]


def _points(leaf: Leaf, pair: Pair, headings: tuple[Words, ...], context: frozenset[str]) -> int:
    """Score a pair for a leaf; inside an object its section, its full label or a unique name must speak for it."""
    own = score(pair.label, leaf.node.names, context)
    if leaf.parents:
        parent = leaf.parents[-1]
        full = score(pair.label, leaf.node.names.below(parent), context)
        if any(score(heading, parent, context) >= SHORTENED for heading in headings):
            own += IN_ITS_SECTION if own else 0
        elif leaf.alone:
            own += OUTSIDE_ITS_SECTION
        else:
            own = 0
        own = max(own, full)
    return own + pair.weight if own else 0
