"""Wrong input is explained in Shoal's words, with the cause and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import shoal
from benchmarks.same_releases.text_cases import BASE
from benchmarks.same_releases.text_cases import VALUES as PLAIN
from shoal.errors import PolicyError, ShoalError
from shoal.policy import Policy, QuasiIdentifier, parse_policy
from shoal.requirements import REQUIREMENTS, list_parameters

VALUES: tuple[Any, ...] = (*PLAIN, [["a"]], [None], {1: 2}, object(), b"x", ("a", "b"))
FOREIGN = re.compile(
    r"Input should|Extra inputs|valid (tuple|dict|string|integer|boolean|number)|Value error|pydantic|errors\.py"
)


def explain(make: Callable[[], Any]) -> str:
    try:
        make()
    except ShoalError as error:
        return str(error)
    return ""


def list_policies() -> list[dict[str, Any]]:
    policies = [{**BASE, key: value} for key in (*Policy.model_fields, "derived", "other") for value in VALUES]
    policies += [
        {**BASE, "quasi": {"age": {key: value}}} for key in (*QuasiIdentifier.model_fields, "other") for value in VALUES
    ]
    policies += [{**BASE, "quasi": {"age": value}} for value in VALUES]
    policies += [{**BASE, "unit": {"column": "u", key: v}} for key in ("column", "pseudonym", "knows") for v in VALUES]
    for name in REQUIREMENTS.names():
        needed = {p.name: "s" if p.name == "of" else 2 for p in list_parameters(REQUIREMENTS.find(name))}
        policies += [{**BASE, "require": [{name: value}]} for value in VALUES]
        policies += [{**BASE, "require": [{name: {**needed, key: value}}]} for key in needed for value in VALUES]
    return policies


def test_no_message_has_words_of_a_library() -> None:
    messages = set()
    for given in list_policies():
        messages.add(explain(lambda given=given: parse_policy(given)))  # type: ignore[misc]
        try:
            text = yaml.safe_dump(given)
        except yaml.YAMLError:
            continue
        messages.add(explain(lambda text=text: Policy.parse(text)))  # type: ignore[misc]
    assert len(messages) > 300
    assert not [text for text in messages if FOREIGN.search(text)]
    assert not [text for text in messages if re.search(r"choose from *([.;]|$)", text)]


@pytest.mark.parametrize(
    "require",
    [{"k-anonymity": 5}, shoal.KAnonymity(5), [{"k-anonymity": "5"}], (shoal.KAnonymity(5),)],
)
def test_a_single_requirement_needs_no_list(require: Any) -> None:
    assert Policy(quasi={"age": "numeric"}, require=require).require == (shoal.KAnonymity(5),)


def test_a_mapping_of_requirements(tmp_path: Path) -> None:
    shoal.Taxonomy.from_nested({"ANY": {"x": ["a"], "y": ["b"]}}).save(tmp_path / "tree.yaml")
    text = """
quasi: {age: numeric}
sensitive: s
require:
  k-anonymity: 3
  t-closeness: {t: 20%, of: s, distance: hierarchical, taxonomy: tree.yaml}
"""
    policy = Policy.parse(text, folder=tmp_path)
    assert [r.name for r in policy.require] == ["k-anonymity", "t-closeness"]
    assert policy.require[1].t == 0.2  # type: ignore[attr-defined]
    assert Policy.parse(policy.to_yaml()) == policy


@pytest.mark.parametrize(
    ("given", "share"), [("5%", 0.05), ("5 %", 0.05), (" 12.5% ", 0.125), ("0.05", 0.05), (0.05, 0.05)]
)
def test_shares_may_be_percentages(given: Any, share: float) -> None:
    assert Policy(quasi={"age": "numeric"}, suppress=given).suppress == share
    assert Policy.parse(f"quasi: {{age: numeric}}\nsuppress: '{given}'").suppress == share
    assert shoal.TCloseness(given, of="s").t == share
    assert shoal.AlphaKAnonymity(given, 2, of="s").alpha == share


def test_a_method_without_parameters_and_a_list_without_choices() -> None:
    assert not shoal.errors.list_choices("a", []).startswith("choose from")


FILES = {
    "certificate.json": "a certificate",
    "recoding.json": "a recoding",
    "ledger.json": "the ledger",
    "groups.json": "the groups",
    "report.html": "is not a policy file",
    "table.csv": "is not a policy file",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed-up")
    policy = Policy(quasi={"zip": {"mask": "right"}, "sex": "categorical"}, require=shoal.KAnonymity(2))
    shoal.anonymize(shoal.datasets.hospital(60, seed=1), policy).save(folder / "release")
    return folder


@pytest.mark.parametrize("name", FILES)
def test_another_file_as_a_policy(name: str, release: Path) -> None:
    file = next(path for path in release.rglob(name))
    with pytest.raises(PolicyError, match=FILES[name]) as caught:
        Policy.load(file)
    assert "policy.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["policy.yaml", "certificate.json", "ledger.json", "groups.json", "table.csv", "none.json"]
)
def test_another_file_as_a_recoding(name: str, release: Path) -> None:
    file = next(release.rglob(name), release / name)
    with pytest.raises(shoal.DataError, match=r"is not a recoding|does not exist") as caught:
        shoal.load_recoding(file)
    assert "damaged" not in str(caught.value) and "recoding.json" in str(caught.value)


def test_folders_of_a_release(release: Path) -> None:
    assert Policy.load(release / "release") == Policy.load(release / "release" / "policy.yaml")
    assert shoal.load_recoding(release / "release.owner").kind
