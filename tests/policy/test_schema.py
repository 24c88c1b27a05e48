"""The JSON Schema of policy files accepts the policies of the documentation and refuses typical mistakes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import shoal
from shoal.policy import policy_schema
from shoal.policy.columns import QuasiIdentifier
from shoal.requirements import REQUIREMENTS, list_parameters
from tests.support.case_files import check_lines
from tests.support.json_schema import find_errors

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = policy_schema()
YAML_BLOCK = re.compile(r"^( *)```yaml[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
POLICY: dict[str, Any] = {"quasi": {"age": "numeric"}, "sensitive": ["ill"], "require": [{"k-anonymity": 3}]}


class EditorLoader(yaml.SafeLoader):
    """YAML 1.2, as editors read it: `on` is a word, and a date is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag.split(":")[-1] not in ("bool", "timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


EditorLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def read(text: str) -> Any:
    return yaml.load(text, EditorLoader)  # noqa: S506


def documented_policies() -> Iterator[Any]:
    """The complete policies in the YAML blocks of the README and the pages."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(YAML_BLOCK.findall(page.read_text(encoding="utf-8"))):
            policy = read(block[1])
            if isinstance(policy, dict) and {"quasi", "require"} <= set(policy):
                yield pytest.param(policy, id=f"{page.relative_to(ROOT).as_posix()}-{number}")


DOCUMENTED = list(documented_policies())


def test_policies_are_collected() -> None:
    assert len(DOCUMENTED) >= 5


@pytest.mark.parametrize("policy", DOCUMENTED)
def test_documented_policies_are_accepted(policy: Any) -> None:
    assert list(find_errors(policy, SCHEMA)) == []


@pytest.mark.parametrize("public", [False, True])
def test_written_policies_are_accepted(public: bool) -> None:
    text = shoal.datasets.hospital_policy().to_yaml(public=public)
    assert list(find_errors(read(text), SCHEMA)) == []
    tree = shoal.Taxonomy.balanced({"a": 1, "b": 2, "c": 1, "d": 1}, fanout=2)
    policy = shoal.Policy(
        quasi={"x": {"taxonomy": tree}, "y": {"boundaries": [[1, 2], [2]]}, "z": {"bounds": [0, 9]}},
        sensitive=["s", "d"],
        truly_sensitive={"s": ["flu"]},
        require=[
            shoal.KAnonymity(3, on=["x"]),
            shoal.LDiversity(2, of="s", kind="recursive", c=2),
            shoal.LDiversity(2.5, of="s", kind="entropy"),
            shoal.TCloseness(0.2, of="s", distance="ordered"),
            shoal.AlphaKAnonymity(0.5, 3, of="s", values=["flu"]),
            shoal.BetaLikeness(1.5, of="d", kind="enhanced"),
            shoal.ConfidenceBound(0.5, of="d"),
            shoal.DeltaDisclosure(1, of="d"),
        ],
        suppress=0.1,
    )
    assert list(find_errors(read(policy.to_yaml(public=public)), SCHEMA)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"quasi": {"birth": {"date": ["day", "year"]}, "zip": {"mask": "right", "skip": [1], "by": "height"}}},
        {"quasi": {"age": {"widths": [5, 10], "origin": 1}, "job": {"balanced": 3, "kind": "numeric"}}},
        {"quasi": {"job": {"taxonomy": "jobs.yaml"}, "sex": {"taxonomy": {"ANY": ["f", "m"]}}}},
        {"sensitive": "ill", "missing": ["", "?", -9]},
        {
            "identifiers": ["name"],
            "key": "number",
            "target": "ill",
            "keep": "ward",
            "normalize": "ill",
            "suppress": 0.02,
        },
        {"suppress": "5 %", "require": {"k-anonymity": 3, "t-closeness": {"t": "20%", "of": "ill"}}},
        {"require": [{"t-closeness": {"t": 0.2, "of": "ill", "distance": "ordered", "order": ["a", "b"]}}]},
    ],
    ids=str,
)
def test_every_spelling_is_accepted(change: dict[str, Any]) -> None:
    assert list(find_errors({**POLICY, **change}, SCHEMA)) == []


def test_mistakes_are_refused_by_schema_and_policy() -> None:
    def check(wrong: dict[str, Any]) -> None:
        assert list(find_errors(wrong, SCHEMA))
        with pytest.raises(shoal.PolicyError):
            shoal.Policy(**wrong)

    check_lines(Path(__file__).with_name("schema_errors.jsonl"), check)


@pytest.mark.parametrize(
    ("unit", "plain"),
    [
        ("pid", "pid"),
        ({"column": "pid"}, "pid"),
        ({"column": "pid", "pseudonym": False, "knows": "record"}, "pid"),
        ({"column": "pid", "knows": "history"}, {"column": "pid", "knows": "history"}),
        ({"column": "pid", "pseudonym": True}, {"column": "pid", "pseudonym": True}),
        ({"column": "pid", "pseudonym": True, "knows": "history"}, {"column": "pid", "pseudonym": True}),
        (
            {"column": "pid", "pseudonym": True, "knows": "record"},
            {"column": "pid", "pseudonym": True, "knows": "record"},
        ),
    ],
    ids=str,
)
def test_every_form_of_a_unit(unit: Any, plain: Any) -> None:
    assert not list(find_errors({**POLICY, "unit": unit}, SCHEMA))
    policy = shoal.Policy(**{**POLICY, "unit": unit})
    assert policy.to_dict()["unit"] == plain
    assert shoal.Policy.parse(policy.to_yaml()) == policy == shoal.Policy(**policy.model_dump(exclude_none=True))
    assert policy.knows_history == ("history" in str(unit) or (isinstance(plain, dict) and "knows" not in plain))


@pytest.mark.parametrize("key", ["quasi", "require"])
def test_a_policy_needs_quasi_identifiers_and_requirements(key: str) -> None:
    assert list(find_errors({k: v for k, v in POLICY.items() if k != key}, SCHEMA)) == [f"policy: {key} is missing"]


def test_the_schema_has_every_key_and_describes_it() -> None:
    assert set(SCHEMA["properties"]) == {*shoal.Policy.model_fields, "derived"}
    column = SCHEMA["properties"]["quasi"]["additionalProperties"]["anyOf"][1]
    assert set(column["properties"]) == set(QuasiIdentifier.model_fields)
    entries = SCHEMA["properties"]["require"]["anyOf"][0]["items"]["properties"]
    assert set(entries) == set(REQUIREMENTS.names())
    described = {"policy": SCHEMA, "column": column}
    for name, entry in entries.items():
        described[name] = entry["anyOf"][1] if "anyOf" in entry else entry
        assert entry["description"]
        assert set(described[name]["properties"]) == {field.name for field in list_parameters(REQUIREMENTS.find(name))}
        assert all({"type", "enum", "anyOf"} & set(body) for body in described[name]["properties"].values()), name
    for place, schema in described.items():
        for key, body in schema["properties"].items():
            text = body.get("description", "")
            assert text.endswith(".") and "``" not in text and "\n" not in text, (place, key, text)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
