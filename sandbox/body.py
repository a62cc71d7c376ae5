"""From bytes to a JSON object, as strictly as the API reads them."""

import json
import re
from typing import Any

from sandbox.errors import refuse

Json = Any  # a decoded JSON value, checked where it is read
JsonObject = dict[str, Json]

ESCAPES = re.compile(r"\\\\|\\u(?:d[89ab][0-9a-f]{2}(\\ud[c-f][0-9a-f]{2})?|d[c-f][0-9a-f]{2})", re.IGNORECASE)


def parse_json(raw: bytes) -> JsonObject:
    """Parse a request body; a large one is best parsed on a thread.

    Raises:
        ApiError: 400, when it is not JSON, not an object, or holds half a surrogate pair.

    """
    try:
        text = raw.decode()
        body = json.loads(text, parse_constant=_refuse_constant, object_hook=_step_aside)
        if b"\\u" in raw:
            _refuse_lone_surrogates(text, body)
    except (ValueError, RecursionError) as error:
        refuse(f"The request body is not valid JSON: {error}")
    if not isinstance(body, dict):
        refuse("The request body is not valid JSON: expected an object")
    return body


def _step_aside(value: JsonObject) -> JsonObject:
    """Return an object as it is: a step through Python, at which the parser lets other threads go on."""
    return value


def _refuse_constant(name: str) -> None:
    message = f"{name} is not a JSON value"
    raise ValueError(message)


def _refuse_lone_surrogates(text: str, body: Json) -> None:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        lone = next((m for m in ESCAPES.finditer(text) if m[0] != r"\\" and m[1] is None), None)
        end = lone.end() if lone else len(text)
        line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end) - 1
        message = f"no low surrogate in string: line {line} column {column}"
        raise ValueError(message) from error
