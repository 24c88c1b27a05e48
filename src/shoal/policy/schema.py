"""The JSON Schema of policy files, with which editors complete and check them.

Types come from the pydantic models and the requirement classes, descriptions from their docstrings. The dialect is draft 7,
which YAML editors support best.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import getdoc
from typing import Any

from shoal.formats.conventions import DECIMALS, THOUSANDS, Conventions
from shoal.policy.columns import KINDS, KINDS_OF, WITH_LEVELS, QuasiIdentifier
from shoal.policy.policy import Policy
from shoal.policy.unit import Unit
from shoal.requirements import REQUIREMENTS, list_parameters
from shoal.requirements.l_diversity import KINDS as DIVERSITIES
from shoal.requirements.t_closeness import DISTANCES

Schema = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"
TITLE = "Shoal policy"
PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.+(?:\n +.+)*)", re.MULTILINE)

WORD: Schema = {"type": ["string", "number", "boolean"]}  # every scalar of a policy file is read as text
WORDS: Schema = {"anyOf": [WORD, {"type": "array", "items": WORD}]}
TAXONOMY: Schema = {"type": ["object", "array", "string"]}
COUNT: Schema = {"type": "integer", "minimum": 1}
PERCENTAGE: Schema = {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"}
SHARE: Schema = {"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, PERCENTAGE]}
SHARE_OR_ZERO: Schema = {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, PERCENTAGE]}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
COMMON = {"of": WORD, "on": WORDS, "values": WORDS, "taxonomy": TAXONOMY}
PARAMETERS: dict[str, dict[str, Schema]] = {
    "k-anonymity": {"k": COUNT},
    "l-diversity": {"l": {"type": "number", "minimum": 1}, "kind": {"enum": [*DIVERSITIES]}, "c": POSITIVE},
    "t-closeness": {
        "t": SHARE_OR_ZERO,
        "distance": {"enum": [*DISTANCES]},
        "order": {"type": "array", "items": WORD, "minItems": 2},
    },
    "alpha-k-anonymity": {"alpha": SHARE, "k": COUNT},
    "beta-likeness": {"beta": POSITIVE, "kind": {"enum": ["basic", "enhanced"]}},
    "confidence-bound": {"c": SHARE},
    "delta-disclosure": {"delta": POSITIVE},
    "posterior": {"most": SHARE},
    "probabilistic-anonymity": {"anonymity": {"type": "number", "minimum": 1}},
}


def _when(key: str, value: str, *, then: Schema | bool = True, otherwise: Schema | bool = True) -> Schema:
    """A rule for objects whose ``key`` has a value, and a rule for all other objects."""
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then, "else": otherwise}


RULES = {
    "l-diversity": [
        _when("kind", "recursive", then={"required": ["c"]}, otherwise={"properties": {"c": False}}),
        _when("kind", "entropy", otherwise={"properties": {"l": {"type": "integer"}}}),
    ],
    "t-closeness": [
        _when(
            "distance", "hierarchical", then={"required": ["taxonomy"]}, otherwise={"properties": {"taxonomy": False}}
        ),
        _when("distance", "ordered", otherwise={"properties": {"order": False}}),
    ],
}


def policy_schema() -> Schema:
    """The JSON Schema of a policy file.

    The schema accepts the spelling of policy files: short and long forms of quasi-identifiers and requirements. It refuses
    unknown keys, missing or excluded parameters and wrong types. Rules that compare columns with each other, such as a column
    with two roles, are checked when Shoal loads the policy.

    Examples
    --------
    >>> policy_schema()["required"]
    ['quasi', 'require']
    """
    model = _simplify(Policy.model_json_schema())
    properties: dict[str, Schema] = model["properties"]
    for name, schema in properties.items():
        default = {"default": schema["default"]} if "default" in schema else {}
        if {"type": "string"} in schema.get("anyOf", []):
            properties[name] = {**WORDS, **default}
        elif schema.get("type") == "string":
            properties[name] = {**WORD, **default}
    properties["quasi"] = {"type": "object", "minProperties": 1, "additionalProperties": _quasi_schema()}
    properties["unit"] = {"anyOf": [WORD, _unit_schema()]}
    properties["read"] = _read_schema()
    properties["truly_sensitive"] = {"type": "object", "additionalProperties": WORDS}
    properties["require"] = _require_schema()
    properties["suppress"] = {**SHARE_OR_ZERO, "default": 0.0}
    described = _describe(properties, Policy)
    described["derived"] = {
        **WORDS,
        "description": "Columns whose taxonomies were derived from the data. Shoal writes this key; such taxonomies are never "
        "published.",
    }
    return {
        "$schema": DIALECT,
        "title": TITLE,
        "description": _summary_of(Policy),
        "type": "object",
        "additionalProperties": False,
        "required": ["quasi", "require"],
        "properties": described,
    }


def _quasi_schema() -> Schema:
    """The value of a column under ``quasi``: a kind, or an object."""
    whole = next(s for s in _simplify(QuasiIdentifier.model_json_schema())["anyOf"] if s.get("type") == "object")
    properties: dict[str, Schema] = {**whole["properties"], "taxonomy": TAXONOMY}
    properties["widths"] = {"type": "array", "items": POSITIVE, "minItems": 1}
    properties["date"]["minItems"] = 1
    kind = properties["kind"] = {"type": "string", "enum": [*KINDS]}  # without a default: the other keys imply it
    excluded = {
        way: {"properties": {"kind": {"enum": [*kinds]}, **{other: False for other in KINDS_OF if other != way}}}
        for way, kinds in KINDS_OF.items()
    }
    levelled = {"anyOf": [{"required": [way]} for way in WITH_LEVELS]}
    needed = {
        "origin": ["widths"],
        "keep": {**levelled, "properties": {"skip": False}},
        "skip": {**levelled, "properties": {"keep": False}},
        "by": {"anyOf": [{"required": ["keep"]}, {"required": ["skip"]}]},
    }
    return {
        "anyOf": [
            {**kind, "description": "Kind of the values."},
            {
                "type": "object",
                "description": _summary_of(QuasiIdentifier),
                "minProperties": 1,
                "additionalProperties": False,
                "properties": _describe(properties, QuasiIdentifier),
                "dependencies": {**excluded, **needed},
            },
        ]
    }


def _unit_schema() -> Schema:
    """The long form of ``unit``."""
    properties = _simplify(Unit.model_json_schema())["properties"]
    del properties["knows"]["default"]  # depends on the pseudonym
    return {
        "type": "object",
        "description": _summary_of(Unit),
        "additionalProperties": False,
        "required": ["column"],
        "properties": _describe({**properties, "column": WORD}, Unit),
    }


def _require_schema() -> Schema:
    """The value of ``require``: a list of requirements, or an object with one key per requirement."""
    entry = _requirement_schema()
    together = {key: value for key, value in entry.items() if key != "maxProperties"}
    return {"anyOf": [{"type": "array", "minItems": 1, "items": entry}, together]}


def _read_schema() -> Schema:
    """The value of ``read``."""
    properties: dict[str, Schema] = {name: {"type": "string"} for name in (f.name for f in fields(Conventions))}
    properties["decimal"] = {"enum": [*DECIMALS]}
    properties["thousands"] = {"enum": [*THOUSANDS]}
    properties["sheet"] = WORD
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": _describe(properties, Conventions),
    }


def _requirement_schema() -> Schema:
    """An entry of ``require``: an object with the name of one requirement as its only key."""
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {kind.name: _parameters_schema(kind.name, kind) for kind in REQUIREMENTS},
    }


def _parameters_schema(name: str, kind: type[Any]) -> Schema:
    """The value of a requirement: an object of parameters, or the first parameter if no other one is needed."""
    fields = list_parameters(kind)
    known = {**COMMON, **PARAMETERS.get(name, {})}
    properties = _describe({field.name: known.get(field.name, {}) for field in fields}, kind)
    for field in fields:
        if field.default is not MISSING and field.default is not None:
            properties[field.name]["default"] = field.default
    required = [field.name for field in fields if field.default is MISSING]
    whole = {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
        **({"allOf": RULES[name]} if name in RULES else {}),
    }
    text = _summary_of(kind)
    if required == [fields[0].name]:
        return {"description": text, "anyOf": [properties[required[0]], whole]}
    return {"description": text, **whole}


def _simplify(schema: Any) -> Any:
    """Remove titles, null alternatives and empty defaults, and write pairs in the form of draft 7."""
    if isinstance(schema, list):
        return [_simplify(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    simple = {
        key: {name: _simplify(body) for name, body in value.items()} if key == "properties" else _simplify(value)
        for key, value in schema.items()
        if key not in ("title", "prefixItems") and not (key == "default" and value in (None, []))
    }
    if "prefixItems" in schema:
        simple["items"] = _simplify(schema["prefixItems"][0])
    choices = [choice for choice in simple.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        del simple["anyOf"]
        return {**choices[0], **simple}
    return {**simple, "anyOf": choices} if choices else simple


def _describe(properties: Mapping[str, Schema], kind: type[Any]) -> dict[str, Schema]:
    """Properties with the descriptions in the docstring of a class."""
    texts = _descriptions(kind)
    return {
        name: {**schema, **({"description": texts[name]} if name in texts else {})}
        for name, schema in properties.items()
    }


def _descriptions(kind: type[Any]) -> dict[str, str]:
    """The text of every parameter in the section Parameters of a docstring."""
    section = (getdoc(kind) or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    return {name: _sentence(text) for names, text in PARAMETER.findall(section) for name in names.split(", ")}


def _summary_of(kind: type[Any]) -> str:
    return _sentence((getdoc(kind) or "").partition("\n\n")[0])


def _sentence(text: str) -> str:
    """A text on one line, with a capital letter and a full stop, and without reStructuredText marks."""
    line = " ".join(text.split()).replace("``", "'").replace("`", "'")
    return f"{line[:1].upper()}{line[1:].rstrip('.')}."
