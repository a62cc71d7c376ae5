"""What structured outputs accept as a schema, with the messages the API refuses the rest with.

The limits count over the whole schema: 24 optional parameters and 16 with a union type (a nullable one is a union).
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import NoReturn

from sandbox.body import Json, JsonObject
from sandbox.errors import ApiError, refuse

WHERE = "output_config.format.schema"
MAX_OPTIONAL = 24
MAX_UNIONS = 16
UNSUPPORTED = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength"),
    "array": ("maxItems", "uniqueItems", "prefixItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    "object": (
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
    ),
}
UNSUPPORTED["integer"] = UNSUPPORTED["number"]
UNSUPPORTED_ANYWHERE = ("oneOf", "not", "if", "then", "else", "$dynamicRef")
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
TOO_MANY_UNIONS = (
    "Schemas contains too many parameters with union types ({count} parameters with type arrays or anyOf). This causes "
    "exponential compilation cost. Reduce the number of nullable or union-typed parameters (limit: 16 parameters with "
    "unions)."
)
TOO_MANY_OPTIONAL = (
    "Schemas contains too many optional parameters ({count}), which would make grammar compilation inefficient. "
    "Reduce the number of optional parameters in your tool schemas (limit: 24)."
)

Schema = JsonObject


def check_schema(schema: Schema) -> None:
    """Raise `ApiError` (400) when structured outputs would refuse the schema."""
    message = _refusal(json.dumps(schema, default=str))
    if message is not None:
        refuse(message)


@lru_cache(maxsize=256)
def _refusal(schema_text: str) -> str | None:
    """Return the refusal of a schema, or None; cached because a collection sends one schema many times."""
    schema: Schema = json.loads(schema_text)
    try:
        _refuse_recursion(schema, schema, ())
        optional = unions = 0
        for node in _subschemas(schema):
            _refuse_keywords(node)
            properties: Schema = node.get("properties", {})
            optional += len(set(properties) - set(node.get("required", ())))
            unions += sum(_is_union(value) for value in properties.values())
    except ApiError as error:
        return error.message
    except (AttributeError, TypeError):  # a keyword whose value is of another type than JSON Schema gives it
        return f"{WHERE}: Invalid schema"
    if unions > MAX_UNIONS:
        return TOO_MANY_UNIONS.format(count=unions)
    if optional > MAX_OPTIONAL:
        return TOO_MANY_OPTIONAL.format(count=optional)
    return None


def _subschemas(node: Json) -> Iterator[Schema]:
    """Yield a schema and all schemas below it."""
    if not isinstance(node, dict):
        return
    yield node
    for keyword in ("properties", "$defs", "definitions"):
        for child in node.get(keyword, {}).values():
            yield from _subschemas(child)
    for keyword in ("anyOf", "allOf"):
        for child in node.get(keyword, ()):
            yield from _subschemas(child)
    yield from _subschemas(node.get("items"))


def _is_union(node: Json) -> bool:
    """Tell whether one parameter allows more than one type."""
    return isinstance(node, dict) and ("anyOf" in node or isinstance(node.get("type"), list))


def _types(node: Schema) -> list[str]:
    kind = node.get("type")
    if isinstance(kind, list):
        return kind
    if kind is None:
        return ["object"] if "properties" in node else []
    return [kind]


def _refuse_keywords(node: Schema) -> None:
    types = _types(node)
    for kind in types:
        found = sorted(set(UNSUPPORTED.get(kind, ())) & set(node))
        if len(found) == 1:
            _refuse(f"For '{kind}' type, property '{found[0]}' is not supported")
        if found:
            _refuse(f"For '{kind}' type, properties {', '.join(found)} are not supported")
    for keyword in UNSUPPORTED_ANYWHERE:
        if keyword in node:
            _refuse(f"Schema keyword '{keyword}' is not supported")
    if "object" in types and node.get("additionalProperties") is not False:
        _refuse("For 'object' type, 'additionalProperties' must be explicitly set to false")
    if node.get("minItems", 0) not in {0, 1}:
        _refuse("For 'array' type, 'minItems' values other than 0 or 1 are not supported")
    if "format" in node and node["format"] not in FORMATS:
        _refuse(f"String format '{node['format']}' is not supported")


def _refuse_recursion(root: Schema, node: Json, trail: tuple[str, ...]) -> None:
    """Follow references; a reference that is met below itself is recursion."""
    for child in _subschemas({**node, "$defs": {}, "definitions": {}} if node is root else node):
        reference = child.get("$ref")
        if reference is None:
            continue
        if reference in trail or reference == "#":
            _refuse("Recursive schemas are not supported")
        _refuse_recursion(root, resolve(root, reference), (*trail, reference))


def resolve(root: Schema, reference: str) -> Schema:
    """Return the schema a local reference points to; raise `ApiError` for any other reference."""
    node: Json = root
    if not reference.startswith("#/"):
        _refuse(f"External $ref '{reference}' is not supported")
    for part in reference[2:].split("/"):
        node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        _refuse(f"$ref '{reference}' cannot be resolved")
    return node


def _refuse(reason: str) -> NoReturn:
    refuse(f"{WHERE}: {reason}")
