"""The text of a document converted to the type a schema asks for, or nothing when it does not say that.

Nothing is guessed: two numbers are no number, `03/05/2026` is no date, and digits are copied, never computed.
"""

import re
from datetime import date

from sandbox.answers.currency import without_codes
from sandbox.answers.labels import UNITS, Words, words
from sandbox.answers.plan import Node
from sandbox.answers.writing import Number, Value

EN_DASH, EM_DASH, MINUS = "\u2013", "\u2014", "\u2212"
ABSENT_TEXTS = frozenset({
    "", "-", "--", EN_DASH, EM_DASH, "n/a", "na", "none", "null", "?", "tbd", "not specified", "not stated",
})  # fmt: skip
TRUE_WORDS = frozenset({"yes", "true", "y", "on", "✓", "✔", "☑", "x", "☒", "included", "supported"})
FALSE_WORDS = frozenset({"no", "false", "n", "off", "✗", "✘", "☐", "excluded"})
SCALES = frozenset({"thousand", "million", "billion", "k", "mn", "bn", "mio", "mrd"})
MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTHS = {short: number for number, name in enumerate(MONTH_NAMES, 1) for short in (name, name[:3], name[:4])}

_NUMBER = re.compile(
    r"(?<![\w.,])([-\u2212+]?)\s?[€$£¥]?\s?("
    r"\d{1,3}(?:[,'\u2019\u00a0\u202f]\d{3})+(?:\.\d+)?"  # 1,299.00
    r"|\d{1,3}(?:[. \u00a0\u202f]\d{3})+,\d{1,2}"  # 1.299,00
    r"|\d{1,3}(?:\.\d{3}){2,}"  # 1.299.000
    r"|\d+(?:[.,]\d+)?|\.\d+)"
    r"([eE][-+]?\d+)?(?![.,]?\d)"
)
_DECIMAL_COMMA = re.compile(r"\d{1,3}(?:[. \u00a0\u202f]\d{3})+,\d{1,2}|\d+,(?:\d{1,2}|\d{4,})")
_WORD_AFTER = re.compile(r"\s*([^\W\d_]+)")
_ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_DAY_FIRST = re.compile(r"(?<!\d)(\d{1,2})(?:st|nd|rd|th)?\.?[ -](?:of )?([A-Za-z]{3,9})\.?,?[ -](\d{4})(?!\d)")
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})(?!\d)")
_SLASHED = re.compile(r"(?<!\d)(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(?!\d)")
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)\s?(Z|[+-]\d\d:\d\d)", re.IGNORECASE)
_TIME = re.compile(r"(?<![\d:])\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)(?![\d:])", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URI = re.compile(r"[a-z][a-z0-9+.-]*://[^\s<>()\"]+", re.IGNORECASE)


def convert(node: Node, text: str) -> Value:
    """Return the value of a place, or None when the text does not state one of its types, in the schema's order."""
    if text.strip().casefold() in ABSENT_TEXTS:
        return None
    if node.enum:
        return _choice(node, text)
    for kind in node.types:
        value = _of_type(kind, node, text)
        if value is not None:
            return value
    return None


def _of_type(kind: str, node: Node, text: str) -> Value:
    if kind == "string":
        return _string(node, text)
    if kind in {"number", "integer"}:
        return _number(text, node.names.name, whole=kind == "integer")
    if kind == "boolean":
        return _boolean(text)
    if kind == "array":
        return _list(node, text)
    return None


def _string(node: Node, text: str) -> str | None:
    if node.format == "date":
        found = _date(text)
        return found.isoformat() if found else None
    if node.format == "date-time":
        match = _DATE_TIME.search(text)
        return f"{match[1]}T{match[2]}{match[3].upper()}" if match else None
    pattern = {"time": _TIME, "email": _EMAIL, "uri": _URI}.get(node.format or "")
    if pattern is not None:
        match = pattern.search(text)
        return match[0] if match else None
    return ", ".join(part.strip() for part in text.splitlines() if part.strip())


def _number(text: str, own: Words, *, whole: bool) -> Number | None:
    """Take the one number of a text; a second one is allowed in parentheses after it."""
    text = without_codes(text)
    outside = re.sub(r"\([^)]*\)", " ", text)
    accounting = re.fullmatch(r"\(([^()]+)\)", text.strip())
    matches = list(_NUMBER.finditer(accounting[1] if accounting else outside))
    if len(matches) != 1:
        return None
    match = matches[0]
    unit = _WORD_AFTER.match(match.string, match.end())
    if unit and not _unit_fits(unit[1], own):
        return None
    lexeme = _plain_digits(match[2])
    negative = match[1] in {"-", MINUS} or bool(accounting)
    if whole:
        lexeme = _whole(lexeme) if not match[3] else None
    if lexeme is None:
        return None
    return Number(("-" if negative else "") + lexeme + (match[3] or ""))


def _unit_fits(word: str, own: Words) -> bool:
    """A scale word, or another unit than the one in the property's name, makes it another number."""
    unit = words(word)[0]
    wanted = [name for name in own if name in UNITS]
    return unit not in SCALES and not (wanted and unit in UNITS and unit not in wanted)


def _plain_digits(text: str) -> str:
    """Write digits as JSON does: no thousands separators, a point for the decimals, no leading zeros."""
    if _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    elif text.count(".") > 1:
        text = text.replace(".", "")
    whole, point, decimals = re.sub(r"[, '\u2019\u00a0\u202f]", "", text).partition(".")
    return (whole.lstrip("0") or "0") + point + decimals


def _whole(lexeme: str) -> str | None:
    whole, _, decimals = lexeme.partition(".")
    return None if decimals.strip("0") else whole


def _boolean(text: str) -> bool | None:
    first = re.split(r"[\s,;(]", text.strip().casefold())[0].rstrip(".")
    return True if first in TRUE_WORDS else False if first in FALSE_WORDS else None


def _list(node: Node, text: str) -> Value:
    """Split a list at line ends, else at semicolons, else at commas before a space."""
    if node.items is None or node.items.is_object:
        return None
    separator = next((mark for mark in ("\n", ";") if mark in text), None)
    parts = text.split(separator) if separator else re.split(r",\s+", text)
    values = [convert(node.items, part.strip()) for part in parts if part.strip()]
    return [value for value in values if value is not None] or None


def _choice(node: Node, text: str) -> Value:
    """Return the enum value that the text is, or else the longest one it contains as words."""
    spelt = {value: words(value if isinstance(value, str) else _written(value)) for value in node.enum}
    own = words(text)
    exact = [value for value, name in spelt.items() if name == own]
    held = [value for value, name in spelt.items() if name and _contains(own, name)]
    for value in exact or sorted(held, key=lambda value: -len(spelt[value])):
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return Number(str(value))
    truth = _boolean(text)
    return truth if any(value is truth for value in node.enum) else None


def _written(value: object) -> str:
    return value.lexeme if isinstance(value, Number) else str(value).lower()


def _contains(text: Words, part: Words) -> bool:
    return any(text[start : start + len(part)] == part for start in range(len(text) - len(part) + 1))


def _date(text: str) -> date | None:
    """Read a date; day and month in digits only where no other reading is possible."""
    if stated := {_calendar(*match.groups()) for match in _ISO.finditer(text)}:
        return stated.pop() if len(stated) == 1 else None
    for pattern, (day, month) in ((_DAY_FIRST, (1, 2)), (_MONTH_FIRST, (2, 1))):
        match = pattern.search(text)
        if match and match[month].casefold() in MONTHS:
            return _calendar(match[3], str(MONTHS[match[month].casefold()]), match[day])
    if match := _SLASHED.search(text):
        first, second = match[1], match[3]
        readings = {_calendar(match[4], first, second), _calendar(match[4], second, first)} - {None}
        return readings.pop() if len(readings) == 1 else None
    return None


def _calendar(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
