"""JSON values that keep the digits of the document, and the text they are written as."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number by its digits: 1299.00 stays 1299.00, and 9007199254740993 stays exact."""

    lexeme: str


Value = None | bool | str | Number | list["Value"] | dict[str, "Value"]


def to_json(value: Value) -> str:
    """Write a value as JSON; half a surrogate pair becomes an escape, so that the text itself is always UTF-8."""
    if isinstance(value, Number):
        return value.lexeme
    if isinstance(value, str):
        written = json.dumps(value, ensure_ascii=False)
        return written if written.isascii() or _encodable(written) else json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_json(key)}: {to_json(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_json, value)) + "]"
    return json.dumps(value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
