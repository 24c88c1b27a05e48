"""A small validator for the keywords of JSON Schema draft 7 that the schema of policies uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
ANNOTATIONS = {"$schema", "title", "description", "default"}
KEYWORDS = ANNOTATIONS | {
    *("type", "enum", "const", "pattern", "anyOf", "allOf", "if", "then", "else"),
    *("properties", "additionalProperties", "required", "minProperties", "maxProperties", "dependencies"),
    *("items", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum"),
}


def is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def find_errors(value: Any, schema: Any, place: str = "policy") -> Iterator[str]:
    """One text per violation. An unknown keyword is an error of the test."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{place}: not allowed"
        return
    assert set(schema) <= KEYWORDS, set(schema) - KEYWORDS
    names = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type")
    if names is not None and not any(is_type(value, name) for name in names):
        yield f"{place}: not of type {names}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: not one of {schema['enum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{place}: does not match {schema['pattern']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place}: not {schema['const']}"
    if "anyOf" in schema and all(any(find_errors(value, choice, place)) for choice in schema["anyOf"]):
        yield f"{place}: matches no alternative"
    for rule in schema.get("allOf", []):
        yield from find_errors(value, rule, place)
    if "if" in schema:
        branch = "else" if any(find_errors(value, schema["if"], place)) else "then"
        yield from find_errors(value, schema.get(branch, True), place)
    if isinstance(value, dict):
        yield from _find_object_errors(value, schema, place)
    elif isinstance(value, list):
        yield from _find_array_errors(value, schema, place)
    elif is_type(value, "number"):
        yield from _find_number_errors(value, schema, place)


def _find_array_errors(value: list[Any], schema: dict[str, Any], place: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{place}: {len(value)} items"
    for number, item in enumerate(value):
        yield from find_errors(item, schema.get("items", True), f"{place}[{number}]")


def _find_number_errors(value: float, schema: dict[str, Any], place: str) -> Iterator[str]:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{place}: out of range"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{place}: too small"


def _find_object_errors(value: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield f"{place}: {len(value)} keys"
    for name in schema.get("required", []):
        if name not in value:
            yield f"{place}: {name} is missing"
    for name, rule in schema.get("dependencies", {}).items():
        if name in value:
            yield from find_errors(value, {"required": rule} if isinstance(rule, list) else rule, place)
    for name, body in value.items():
        below = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
        yield from find_errors(body, below, f"{place}.{name}")


def fits(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a value matches a JSON Schema; only the keywords of our schema are supported."""
    if "$ref" in schema:
        return fits(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    for word in ("anyOf", "oneOf"):
        if word in schema and not any(fits(value, part, root) for part in schema[word]):
            return False
    kinds = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "null": type(None)}
    if "type" in schema:
        named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(isinstance(value, kinds[k]) for k in named):
            return False
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return False
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return (
            schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value))
            and all(name in value for name in schema.get("required", ()))
            and all(
                fits(part, known[name], root)
                if name in known
                else others is not False and fits(part, _open(others), root)
                for name, part in value.items()
            )
        )
    if isinstance(value, list):
        items = [*schema.get("prefixItems", [])]
        items += [schema.get("items", {})] * (len(value) - len(items))
        return schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)) and all(
            fits(part, item, root) for part, item in zip(value, items, strict=False)
        )
    if isinstance(value, (int, float)):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _open(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {}
