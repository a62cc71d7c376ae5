"""Judging an answer: a pure function of the kept response body and the schema.

The stop reason is looked at first, then the text blocks are joined, then the one JSON object in them is found, then
it is validated in full. An answer is never repaired: words or a code fence around one complete object are ignored,
since they cannot change a value; anything that could (a cut answer, a missing quote, two different objects) is a
failure with its own name. Digits are kept as answered: numbers with a fraction are read as decimals, never as floats.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, cast

from extraction_core.causes import Cause
from extraction_core.output_schema import SchemaValidator

DEEPEST_NESTING = 200
REPLACEMENT = "\ufffd"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_OBJECT_START = re.compile(r"""\{(?=\s*["'}])""")


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A usable answer.

    Attributes:
        value: the JSON value; numbers with a fraction are :class:`decimal.Decimal`.
        notes: what a person should know about it (``surrounding_text``, ``characters_replaced:2``, ``all_empty``).
    """

    value: Any
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """An answer that cannot be used, with its one cause. The message names fields, never values of the document."""

    cause: Cause
    message: str


Judgement = Accepted | Rejected


def read_message(body: str) -> Mapping[str, Any] | None:
    """Read a response body as a message object, digits kept; None when it is not one."""
    try:
        message = _strict_loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    fields = cast("dict[str, Any]", message)
    return fields if fields.get("type") == "message" and isinstance(fields.get("content"), list) else None


def judge(message: Mapping[str, Any], validator: SchemaValidator) -> Judgement:
    """Judge one message.

    Args:
        message: the body of a 200 response, as :func:`read_message` returns it.
        validator: of the collection's own schema, not of the part that the provider enforces.
    """
    stopped = _judge_stop_reason(message)
    if stopped:
        return stopped
    blocks = [cast("dict[str, Any]", block) for block in message["content"] if isinstance(block, dict)]
    tool_inputs = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
    if tool_inputs:
        return _choose(tool_inputs, validator, notes=())
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text").strip()
    if not text:
        return Rejected(cause=Cause.EMPTY_ANSWER, message="the answer holds no text")
    return _judge_text(text, validator)


def _judge_stop_reason(message: Mapping[str, Any]) -> Rejected | None:
    match message.get("stop_reason"):
        case "end_turn" | "stop_sequence" | "tool_use":
            return None
        case "max_tokens":
            return Rejected(cause=Cause.TRUNCATED, message="the answer was cut at the output limit")
        case "model_context_window_exceeded":
            return Rejected(cause=Cause.CONTEXT_EXCEEDED, message="document and answer exceed the model's context")
        case "refusal":
            details = message.get("stop_details")
            category = cast("Mapping[str, Any]", details).get("category") if isinstance(details, Mapping) else None
            return Rejected(cause=Cause.REFUSED, message=f"the model declined{f' ({category})' if category else ''}")
        case other:
            return Rejected(cause=Cause.UNEXPECTED_STOP, message=f"unexpected stop reason {other!r}")


def _judge_text(text: str, validator: SchemaValidator) -> Judgement:
    try:
        return _choose([_strict_loads(text)], validator, notes=())
    except _NotANumberError as error:
        return Rejected(cause=Cause.UNPARSABLE, message=str(error))
    except (ValueError, RecursionError) as error:
        whole_text_problem = _describe(error)
    try:
        candidates = _objects_in(text)
    except (ValueError, RecursionError) as error:
        return Rejected(cause=Cause.UNPARSABLE, message=_describe(error))
    if not candidates:
        return Rejected(cause=Cause.UNPARSABLE, message=whole_text_problem)
    return _choose(candidates, validator, notes=("surrounding_text",))


def _objects_in(text: str) -> list[Any]:
    """Return every complete JSON object that stands in some text, in order.

    A brace that starts like an object but does not end as one makes the whole text unusable: what is inside it must
    not be taken for the answer.
    """
    decoder = _strict_decoder()
    found: list[Any] = []
    position = 0
    while start := _OBJECT_START.search(text, position):
        value, position = decoder.raw_decode(text, start.start())
        found.append(value)
    return found


def _choose(candidates: Sequence[Any], validator: SchemaValidator, notes: tuple[str, ...]) -> Judgement:
    """Take the one candidate that fits; several that differ are ambiguous, none is a mismatch."""
    fitting: list[tuple[Any, tuple[str, ...]]] = []
    first_violations: list[str] = []
    for candidate in candidates:
        if _depth(candidate) > DEEPEST_NESTING:
            return Rejected(cause=Cause.UNPARSABLE, message=f"nested deeper than {DEEPEST_NESTING} levels")
        try:
            value, replaced = _storable(candidate)
        except _KeysCollideError as error:
            return Rejected(cause=Cause.UNPARSABLE, message=str(error))
        violations = validator.violations(value)
        if violations:
            first_violations = first_violations or violations
        elif not any(_same(value, other) for other, _ in fitting):
            fitting.append((value, (*notes, *((f"characters_replaced:{replaced}",) if replaced else ()))))
    if len(fitting) > 1:
        return Rejected(cause=Cause.AMBIGUOUS, message=f"{len(fitting)} different objects fit the schema")
    if not fitting:
        return Rejected(cause=Cause.SCHEMA_MISMATCH, message="; ".join(first_violations))
    value, value_notes = fitting[0]
    return Accepted(value=value, notes=(*value_notes, *(("all_empty",) if _is_empty(value) else ())))


class _NotANumberError(ValueError):
    """A number that JSON or a reader of it cannot hold."""


class _KeysCollideError(ValueError):
    """Two keys of one object become the same when what cannot be stored is replaced: a value would be lost."""


def _strict_decoder() -> json.JSONDecoder:
    """A decoder without leniency but one: a raw control character in a string is kept, which changes no value."""
    return json.JSONDecoder(
        parse_float=_finite_decimal, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys, strict=False
    )


def _strict_loads(text: str) -> Any:
    return _strict_decoder().decode(text)


def _finite_decimal(digits: str) -> Decimal:
    if not math.isfinite(float(digits)):
        msg = f"the number {digits[:20]} is too large for JSON readers"
        raise _NotANumberError(msg)
    return Decimal(digits)


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise _NotANumberError(msg)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        msg = "an object names a key twice"
        raise ValueError(msg)
    return made


def _describe(error: Exception) -> str:
    """Say what is wrong without the text itself: a JSONDecodeError's own message holds only a position."""
    return "the answer is nested too deeply" if isinstance(error, RecursionError) else f"not JSON: {error}"


def _storable(value: Any) -> tuple[Any, int]:
    """Replace NUL and lone surrogates, which databases and UTF-8 cannot hold, and count them."""
    if isinstance(value, str):
        return _UNSTORABLE.subn(REPLACEMENT, value)
    if isinstance(value, dict):
        count = 0
        made: dict[str, Any] = {}
        for key, child in cast("dict[str, Any]", value).items():
            stored_key, in_key = _UNSTORABLE.subn(REPLACEMENT, key)
            if stored_key in made:
                msg = "two keys of an object differ only in characters that cannot be stored"
                raise _KeysCollideError(msg)
            made[stored_key], in_child = _storable(child)
            count += in_key + in_child
        return made, count
    if isinstance(value, list):
        pairs = [_storable(child) for child in cast("list[Any]", value)]
        return [child for child, _ in pairs], sum(count for _, count in pairs)
    return value, 0


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does, where ``true`` is not ``1``."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(one, list) and isinstance(other, list):
        pair = cast("list[Any]", one), cast("list[Any]", other)
        return len(pair[0]) == len(pair[1]) and all(map(_same, *pair))
    return bool(one == other)


def _depth(value: Any) -> int:
    """Return the nesting depth without recursion: the value may be deeper than the stack."""
    deepest, todo = 0, [(value, 1)]
    while todo:
        node, depth = todo.pop()
        deepest = max(deepest, depth)
        children = cast(
            "Iterable[Any]", node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        )
        todo.extend((child, depth + 1) for child in children)
    return deepest


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_empty(child) for child in cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return all(_is_empty(child) for child in cast("list[Any]", value))
    return value is None or value == ""
