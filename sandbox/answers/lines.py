"""Single lines of a document: their Markdown, their cells, and the labels and values in them."""

import html
import re
from collections.abc import Callable, Iterator

from sandbox.answers.labels import Words, words

MAX_LABEL = 60
MAX_CAPITALS = 5
LONGEST_INNER_LABEL = 4
USUAL_INNER_LABEL = 2

HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
BOLD_LINE = re.compile(r"\*\*([^*:]+)\*\*$")
BULLET = re.compile(r"(?:[-*+•‣◦]|\d{1,3}[.)])\s+(.+)$")
NUMBERED = re.compile(r"((?:[A-Za-z][A-Za-z.#]*\s+){1,4})(#?\S*\d\S*)$")
SKIPPED = re.compile(r"</?[A-Za-z][^<>]*>$|```|~~~|!\[|[\W_]*$")

_PAIR = re.compile(rf"([^:|]{{1,{MAX_LABEL}}}?)\s*:\s+(\S.*)$", re.DOTALL)
_GAP = re.compile(r"\t+|\s{2,}|\s\|\s")
_PIPE = re.compile(r"(?<!\\)\|")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+.!|<>~$&-])")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_LABEL_WORD = re.compile(r"[A-Za-z][A-Za-z.&/'()-]*:?$")

Known = Callable[[Words], int]
"""Tells how well words name something that the answer needs; 0 for not at all."""


def clean(text: str) -> str:
    """Return a cell or value without its Markdown."""
    plain = _BREAK.sub("\n", text).replace("**", "").replace("__", "").strip().strip("`").strip()
    return html.unescape(_ESCAPE.sub(r"\1", plain))


def table_cells(line: str) -> tuple[str, ...] | None:
    """Return the cells of a Markdown table row, or None for another line."""
    if not line.startswith("|") or line.count("|") == 1:
        return None
    return tuple(clean(cell) for cell in _PIPE.split(line.removeprefix("|").removesuffix("|")))


def layout_cells(line: str) -> list[str]:
    """Return the parts of a line that tabs, wide gaps or bars keep apart."""
    return [clean(cell) for cell in _GAP.split(line) if cell.strip()]


def is_open_label(cell: str) -> bool:
    """Tell whether a cell is a label whose value comes next."""
    return cell.endswith(":") and len(cell) <= MAX_LABEL


def pairs_in(cell: str, known: Known) -> Iterator[tuple[str, str]]:
    """Yield the labels and values of `Label: value`, also when several follow each other in one line.

    Where the value before a label ends is not written; the words that `known` knows best are taken as the label.
    """
    match = _PAIR.match(cell)
    if match is None:
        return
    tokens = match[2].split()
    label, value_from = match[1], 0
    for end, token in enumerate(tokens):
        length = _inner_label(tokens, value_from, end, known) if token.endswith(":") else 0
        if length:
            start = end + 1 - length
            yield label, " ".join(tokens[value_from:start])
            label, value_from = " ".join(tokens[start : end + 1]), end + 1
    yield label, match[2] if value_from == 0 else " ".join(tokens[value_from:])


def _inner_label(tokens: list[str], value_from: int, end: int, known: Known) -> int:
    """Return how many words before a colon are the label; 0 when there is none, as nothing would be left as a value."""
    longest = 0
    while longest < min(LONGEST_INNER_LABEL, end - value_from) and _LABEL_WORD.match(tokens[end - longest]):
        longest += 1
    lengths = [n for n in range(1, longest + 1) if tokens[end + 1 - n][0].isupper()]
    if not lengths:
        return 0
    scores = {n: known(words(" ".join(tokens[end + 1 - n : end + 1]))) for n in lengths}
    best = max(lengths, key=lambda n: (scores[n], -n))
    return best if scores[best] else max((n for n in lengths if n <= USUAL_INNER_LABEL), default=lengths[0])
