"""How well a label of a document names a property of a schema: normalised words and a score from 0 to 100."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

Words = tuple[str, ...]

EXACT = 100
SAME_WORDS = 95
CONTAINED = 80  # all words of the property are in the label
SHORTENED = 60  # the label is the property without a word that says little
DESCRIBED = 45  # the label is made of words of the property's description
LEAST = 35
PER_EXTRA_WORD = 4
MAX_LABEL_WORDS = 8
LEADING_DESCRIPTION_WORDS = 4

SAME_AS = {
    "no": "number", "nr": "number", "num": "number", "nos": "number", "qty": "quantity", "amt": "amount",
    "ref": "reference", "tel": "phone", "telephone": "phone", "mfr": "manufacturer", "vendor": "manufacturer",
    "desc": "description", "addr": "address", "max": "maximum", "min": "minimum", "temp": "temperature",
    "ean": "gtin", "colour": "color", "dimension": "size", "cpu": "processor", "psu": "powersupply",
    "ram": "memory", "nic": "network", "u": "rackunit",
}  # fmt: skip
SHORTEST_PLURAL = 4
STOP_WORDS = frozenset({
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "document", "each", "eg", "else", "field", "for",
    "from", "given", "has", "have", "ie", "if", "in", "into", "is", "it", "its", "not", "of", "on", "or", "per",
    "printed", "stated", "text", "that", "the", "this", "to", "value", "was", "were", "when", "where", "which", "with",
    "written",
})  # fmt: skip
UNITS = frozenset({
    "a", "amp", "bit", "btu", "c", "celsius", "cm", "core", "day", "db", "eur", "g", "gb", "gbp", "gbps", "ghz", "hour",
    "hz", "in", "inch", "kg", "kw", "lb", "m", "mb", "mbps", "mhz", "minute", "mm", "month", "pct", "percent", "rpm",
    "second", "tb", "usd", "v", "volt", "w", "watt", "year",
})  # fmt: skip
SAY_LITTLE = UNITS | {
    "amount", "code", "count", "date", "description", "id", "name", "number", "text", "title", "total", "type", "value",
}  # fmt: skip

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=65_536)
def words(text: str) -> Words:
    """Split snake case, camel case or prose into normalised words: case-folded, singular, short forms spelt out."""
    spelt = _CAMEL.sub(" ", text).replace("#", " number ").replace("%", " percent ").casefold()
    return tuple(_normal(word) for word in _WORD.findall(spelt))


def _normal(word: str) -> str:
    word = SAME_AS.get(word, word)
    if len(word) >= SHORTEST_PLURAL and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) >= SHORTEST_PLURAL and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return SAME_AS.get(word, word)


@dataclass(frozen=True, slots=True)
class Names:
    """What a property may be called: its name, its title and the words of its description."""

    name: Words
    title: Words = ()
    description: Words = ()

    @classmethod
    def of(cls, name: str, title: object, description: object) -> Self:
        """Read the annotations of a property."""
        described = words(description) if isinstance(description, str) else ()
        return cls(
            name=words(name),
            title=words(title) if isinstance(title, str) else (),
            description=tuple(word for word in described if word not in STOP_WORDS),
        )

    def below(self, parent: "Names") -> "Names":
        """Return the names with those of the object around them in front: `seller` + `name`."""
        title = (parent.title or parent.name) + (self.title or self.name)
        return Names(parent.name + self.name, title, self.description)

    def keys(self) -> set[str]:
        """Words one of which a label must have to be scored at all."""
        return {*self.name, *self.title, *self.description, "".join(self.name), "".join(self.title)}


@lru_cache(maxsize=65_536)
def score(label: Words, names: Names, context: frozenset[str]) -> int:
    """Score a label; 0 means no match. `context` holds the words of the document's own title.

    A label may leave out a word of the property when that word says little or is clear from the title: in an invoice,
    `Date` is the `invoice_date`, but never the `due_date`.
    """
    if not label or len(label) > MAX_LABEL_WORDS:
        return 0
    named = max(_against(label, names.name, context), _against(label, names.title, context) if names.title else 0)
    described = _against_description(label, names)
    best = max(named, described)
    return best if best >= LEAST else 0


def _against(label: Words, own: Words, context: frozenset[str]) -> int:
    if label == own or "".join(label) == "".join(own):
        return EXACT
    has, wanted = set(_telling(label)), set(own)
    if not wanted:
        return 0
    if has == wanted:
        return SAME_WORDS
    if wanted <= has:
        return CONTAINED - PER_EXTRA_WORD * len(has - wanted - UNITS)
    has = has - UNITS or has
    missing = wanted - has
    if has <= wanted and all(word in SAY_LITTLE or word in context for word in missing):
        return SHORTENED - PER_EXTRA_WORD * len(missing)
    return 0


def _telling(label: Words) -> Words:
    """Leave out what belongs to the value: `VAT 20%` is the VAT."""
    return tuple(word for word in label if not word.isdigit() and word != "percent") or label


def _against_description(label: Words, names: Names) -> int:
    telling = [word for word in _telling(label) if word not in STOP_WORDS]
    if not telling or not set(telling) <= set(names.description):
        return 0
    if len(telling) == 1 and telling[0] not in names.description[:LEADING_DESCRIPTION_WORDS]:
        return 0
    return DESCRIBED + min(len(telling), 3) + (PER_EXTRA_WORD if set(telling) & set(names.name) else 0)
