"""A collection's JSON Schema: is it valid, what of it the provider can enforce, and does an answer fit it.

Validation is always full and always ours: JSON Schema 2020-12 with formats, offline, in linear time. Structured
outputs are a help on top, used when the schema can be carried over without a change of meaning. The limits are those
of the provider's documentation of structured outputs (supported keywords; 24 optional parameters and 16 parameters
with union types a request).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jsonschema_rs

Schema = Mapping[str, Any]

MOST_OPTIONALS = 24
MOST_UNIONS = 16
LONGEST_ERROR_LIST = 5

SUPPORTED_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
PASSED_ON = frozenset({"type", "title", "description", "enum", "const", "default", "required", "$schema"})
CHECKED_AFTERWARDS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems"}
    | {"uniqueItems", "pattern", "format", "minItems", "minContains", "maxContains", "minProperties", "maxProperties"}
    | {"$id", "$comment", "$anchor", "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding"}
    | {"contentMediaType"}
)
"""Keywords that only narrow what may be answered, or annotate: left out of the request, checked after the answer."""

SAYS_WHAT_IT_IS = frozenset({"type", "enum", "const", "$ref", "anyOf", "properties"})
DEFINITION = re.compile(r"#/(\$defs|definitions)/[^/~%]+")


class SchemaValidator:
    """Validates answers against one schema. Thread-safe; compile once per schema.

    Raises:
        ValueError: the schema is not valid JSON Schema 2020-12; the message says where.
    """

    def __init__(self, schema: Schema) -> None:
        problem = invalid_schema_reason(schema)
        if problem:
            raise ValueError(problem)
        self._validator = jsonschema_rs.Draft202012Validator(
            dict(schema), validate_formats=True, offline=True, mask="the value"
        )

    def violations(self, instance: object) -> list[str]:
        """Return what does not fit, as ``path: message`` without the values themselves; empty when all fits."""
        found: list[str] = []
        for error in self._validator.iter_errors(instance):
            if len(found) == LONGEST_ERROR_LIST:
                found.append("and more")
                break
            found.append(f"{_path(error.instance_path)}: {error.message}")
        return found

    def fits(self, instance: object) -> bool:
        """Tell whether an instance fits the schema."""
        return self._validator.is_valid(instance)


def invalid_schema_reason(schema: object) -> str | None:
    """Return why something is not a usable JSON Schema 2020-12, or None when it is."""
    if not isinstance(schema, dict):
        return "a schema is a JSON object"
    document = cast("dict[str, Any]", schema)
    try:
        jsonschema_rs.meta.validate({**document, "$schema": "https://json-schema.org/draft/2020-12/schema"})
        jsonschema_rs.Draft202012Validator(document, validate_formats=True, offline=True)
    except jsonschema_rs.ValidationError as error:
        return f"{_path(error.instance_path)}: {error.message}"
    except ValueError as error:
        return str(error)
    return None


def _path(parts: Sequence[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


@dataclass(frozen=True, kw_only=True)
class ProviderSchema:
    """What of a schema the provider enforces.

    Attributes:
        schema: the schema for structured outputs, or None when the schema goes into the prompt alone.
        obstacles: why it cannot be enforced, in words for the person who loads the collection; empty when it can.
    """

    schema: Schema | None
    obstacles: tuple[str, ...]


def provider_schema(schema: Schema) -> ProviderSchema:
    """Carry a schema over to structured outputs, or say why that would change its meaning.

    Keywords that only narrow the answer are left out and checked afterwards; objects are closed, since the provider
    requires it and a closed answer also fits the open schema.
    """
    carrier = _Carrier()
    carried = carrier.carry(schema, "$")
    obstacles = list(dict.fromkeys(carrier.obstacles))
    obstacles += [f"`{name}` refers to itself" for name in recursive_definitions(schema)]
    if carrier.optionals > MOST_OPTIONALS:
        obstacles.append(f"{carrier.optionals} optional properties, the provider takes {MOST_OPTIONALS}")
    if carrier.unions > MOST_UNIONS:
        obstacles.append(f"{carrier.unions} properties of more than one type, the provider takes {MOST_UNIONS}")
    return ProviderSchema(schema=None if obstacles else carried, obstacles=tuple(obstacles))


class _Carrier:
    """Walks a schema once, building the carried copy, the obstacles and the two counts."""

    def __init__(self) -> None:
        self.obstacles: list[str] = []
        self.optionals = 0
        self.unions = 0

    def carry(self, node: object, path: str) -> dict[str, Any]:
        schema = cast("Schema", node if isinstance(node, Mapping) else {})
        carried: dict[str, Any] = {}
        obstacles_before = len(self.obstacles)
        for keyword, value in schema.items():
            self._carry_keyword(keyword, value, path, carried)
        if not SAYS_WHAT_IT_IS & schema.keys() and len(self.obstacles) == obstacles_before:
            self.obstacles.append(f"{path} allows any value")
        kinds = schema.get("type", ())
        if "object" in kinds or "properties" in schema:
            self._close_object(schema, path, carried)
        if "array" in kinds and "items" not in schema:
            self.obstacles.append(f"{path}[] allows any value")
        if isinstance(kinds, list) or "anyOf" in schema:
            self.unions += 1
        return carried

    def _carry_keyword(self, keyword: str, value: Any, path: str, carried: dict[str, Any]) -> None:
        if keyword in ("properties", "$defs", "definitions"):
            carried[keyword] = {name: self.carry(child, f"{path}.{name}") for name, child in value.items()}
        elif keyword == "items":
            carried[keyword] = self.carry(value, f"{path}[]")
        elif keyword == "anyOf":
            carried[keyword] = [self.carry(child, path) for child in value]
        elif keyword == "$ref":
            self._carry_reference(value, path, carried)
        elif keyword == "additionalProperties":
            if value is not False and value is not True:
                self.obstacles.append(f"{path} is a map with free keys")
        elif keyword in ("enum", "const") and _has_composite(value if keyword == "enum" else [value]):
            self.obstacles.append(f"{path} has a composite value in `{keyword}`")
        elif _is_passed_on(keyword, value):
            carried[keyword] = value
        elif keyword not in CHECKED_AFTERWARDS:
            self.obstacles.append(f"{path} uses `{keyword}`")

    def _carry_reference(self, target: str, path: str, carried: dict[str, Any]) -> None:
        if not DEFINITION.fullmatch(target):
            self.obstacles.append(f"{path} refers to `{target}`, which is not one of its definitions")
        carried["$ref"] = target

    def _close_object(self, schema: Schema, path: str, carried: dict[str, Any]) -> None:
        properties: Schema = schema.get("properties") or {}
        if not properties:
            self.obstacles.append(f"{path} is an object without named properties")
        required = set(schema.get("required") or ())
        for name in sorted(required - set(properties)):
            self.obstacles.append(f"{path} requires `{name}`, which it does not describe")
        self.optionals += len(set(properties) - required)
        carried["type"] = schema.get("type", "object")
        carried["additionalProperties"] = False


def _has_composite(values: Sequence[object]) -> bool:
    return any(isinstance(value, dict | list) for value in values)


def _is_passed_on(keyword: str, value: Any) -> bool:
    if keyword == "format":
        return value in SUPPORTED_FORMATS
    return keyword in PASSED_ON or (keyword == "minItems" and value in (0, 1))


def recursive_definitions(schema: Schema) -> list[str]:
    """Return the definitions that refer to themselves, directly or through others."""
    definitions: dict[str, Any] = {**(schema.get("definitions") or {}), **(schema.get("$defs") or {})}
    edges = {name: {ref.rsplit("/", 1)[-1] for ref in _references(body)} for name, body in definitions.items()}
    return sorted(name for name in edges if _reaches(name, name, edges))


def _references(node: object) -> Iterator[str]:
    if isinstance(node, Mapping):
        for keyword, value in cast("Mapping[str, object]", node).items():
            if keyword == "$ref" and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(node, list):
        for child in cast("list[object]", node):
            yield from _references(child)


def _reaches(start: str, goal: str, edges: Mapping[str, set[str]]) -> bool:
    seen: set[str] = set()
    todo = list(edges.get(start, ()))
    while todo:
        name = todo.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            todo.extend(edges.get(name, ()))
    return False
