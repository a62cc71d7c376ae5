"""A JSON Schema compiled to what filling needs: a tree of nodes with names, types and formats."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sandbox.answers.labels import Names
from sandbox.answers.writing import Number
from sandbox.body import Json, JsonObject

Schema = JsonObject
Trail = frozenset[str]
ANY_TYPE = ("string",)

_OPENING = re.compile(r'\{\s*"')


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One place of the answer. `types` leaves out null, which is `nullable`; `properties` puts required ones first."""

    name: str
    names: Names
    types: tuple[str, ...]
    nullable: bool = False
    required: bool = False
    format: str | None = None
    enum: tuple[Json, ...] = ()
    properties: tuple["Node", ...] = ()
    items: "Node | None" = None

    @property
    def is_object(self) -> bool:
        """Tell whether the place is filled with named properties."""
        return "object" in self.types and bool(self.properties)

    @property
    def rows(self) -> "Node | None":
        """The node of one item, when the place is an array of objects."""
        return self.items if "array" in self.types and self.items is not None and self.items.is_object else None


@lru_cache(maxsize=256)
def find_schema_text(system_text: str) -> str | None:
    """Return the largest JSON object in a text that looks like a JSON Schema."""
    decoder = json.JSONDecoder()
    found: list[str] = []
    end = 0
    for opening in _OPENING.finditer(system_text):
        if opening.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(system_text, opening.start())
        except (ValueError, RecursionError):
            continue
        if "properties" in value or "$schema" in value:
            found.append(system_text[opening.start() : end])
    return max(found, key=len, default=None)


@lru_cache(maxsize=256)
def compile_schema(schema_text: str) -> Node:
    """Compile a schema; references that cannot be followed, or lead back to themselves, are places of any type."""
    schema: Schema = json.loads(schema_text, parse_float=Number)
    return _Compiler(schema).node("", schema, frozenset(), required=True)


class _Compiler:
    """Follows the references of one schema; `trail` holds those that led to the place being compiled."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def node(self, name: str, schema: Json, trail: Trail, *, required: bool) -> Node:
        schema, nullable, trail = self._flatten(schema, trail)
        own = schema.get("type", "object" if "properties" in schema else None)
        types = tuple(own) if isinstance(own, list) else (own,) if isinstance(own, str) else ()
        enum = (schema["const"],) if "const" in schema else tuple(schema.get("enum") or ())
        return Node(
            name=name,
            names=Names.of(name, schema.get("title"), schema.get("description")),
            types=tuple(kind for kind in types if kind != "null") or ANY_TYPE,
            nullable=nullable or "null" in types or None in enum,
            required=required,
            format=schema.get("format"),
            enum=tuple(value for value in enum if value is not None),
            properties=self._properties(schema, trail),
            items=self.node("", schema["items"], trail, required=True) if "items" in schema else None,
        )

    def _properties(self, schema: Schema, trail: Trail) -> tuple["Node", ...]:
        required = set(schema.get("required", ()))
        properties: Schema = schema.get("properties", {})
        nodes = [self.node(name, child, trail, required=name in required) for name, child in properties.items()]
        return tuple(sorted(nodes, key=lambda node: not node.required))

    def _flatten(self, schema: Json, trail: Trail) -> tuple[Schema, bool, Trail]:
        """Follow references, merge `allOf`, and take the first alternative of a union that is not null."""
        nullable = False
        while isinstance(schema, dict):
            if "$ref" in schema:
                reference = schema["$ref"]
                if reference in trail:
                    break
                trail |= {reference}
                schema = {**self._resolve(reference), **_without(schema, "$ref")}
            elif "allOf" in schema:
                schema = _merge([_without(schema, "allOf"), *_objects(schema["allOf"])])
            elif union := next((key for key in ("anyOf", "oneOf") if key in schema), None):
                parts = _objects(schema[union])
                real = [part for part in parts if part.get("type") != "null"]
                nullable = nullable or len(real) < len(parts)
                schema = _merge([_without(schema, union), *real[:1]])
            else:
                return schema, nullable, trail
        return {}, nullable, trail

    def _resolve(self, reference: str) -> Schema:
        node: Json = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            if part:
                key = part.replace("~1", "/").replace("~0", "~")
                node = node.get(key) if isinstance(node, dict) else None
        return node if isinstance(node, dict) else {}


def _objects(schemas: Sequence[Json]) -> list[Schema]:
    """Leave out the boolean schemas, which say nothing to fill."""
    return [schema for schema in schemas if isinstance(schema, dict)]


def _without(schema: Schema, keyword: str) -> Schema:
    return {key: value for key, value in schema.items() if key != keyword}


def _merge(parts: list[Schema]) -> Schema:
    """Join schemas; the first to say a thing wins, properties and required names add up."""
    merged: Schema = {}
    for part in parts:
        properties = {**part.get("properties", {}), **merged.get("properties", {})}
        required = [*merged.get("required", ()), *part.get("required", ())]
        merged = {**part, **merged}
        if properties:
            merged |= {"properties": properties, "required": required}
    return merged
