"""Everything that is registered, together: methods x requirements x engines x ways of writing, and visible measures."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.measures import MEASURES, Measures
from shoal.pipeline.method import GroupingMethod, Need, list_constructor_parameters
from shoal.recoding import STYLES
from shoal.requirements import REQUIREMENTS
from shoal.tables import BUILT_IN, METHODS
from tests.support.cases import KINDS, Case, holds, suited
from tests.support.engines import SLOW, each_engine, each_server_engine, place, to_pandas
from tests.support.pairs import Row, cover_pairs
from tests.support.ways import (
    allows_style,
    evidence,
    list_bucketing,
    list_engines,
    list_methods,
    list_randomizing,
    list_requirements,
    list_styles,
    list_unwritten,
    list_ways,
    write_as,
)

ROWS = 60
FAMILIES = ("tds", "mondrian", "kmember")
EVIDENCE = ("table", "groups", "buckets", "union", "operator")


def table() -> pd.DataFrame:
    """Few values, so that every example of a requirement can be met; some values are missing."""
    chance = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": chance.integers(20, 30, ROWS),
            "sex": chance.choice(["f", "m", None], ROWS, p=[0.45, 0.45, 0.1]),
            "illness": np.tile(["flu", "cold", "gout"], ROWS // 3),
            "note": np.arange(ROWS),
        }
    )


def policy_of(*require: Any) -> shoal.Policy:
    quasi = {"age": {"kind": "numeric", "balanced": 3}, "sex": "categorical"}
    return shoal.Policy(
        quasi=quasi, sensitive=["illness"], keep=["note"], accept={"note": "a test"}, require=require, suppress=0.3
    )


def test_every_method_is_in_the_ways() -> None:
    assert {name for name, _ in list_ways()} | {*list_randomizing(), *list_bucketing()} == set(METHODS.names())
    assert len(METHODS.names()) >= 7 and len(REQUIREMENTS.names()) >= 7 and len(list_engines()) >= 2


def suit_policy(method: str, needs: frozenset[Need], **numbers: Any) -> shoal.Policy:
    """A policy that a method can serve, with what it needs and nothing else; ``numbers`` describe the ages."""
    asked: list[Any] = [shoal.KAnonymity(3)]
    if "operator" in METHODS.find(method).tests:
        asked = [shoal.Posterior(1.0)]
    elif method in list_bucketing():
        asked = [shoal.LDiversity(2, of="illness")]
    numbers |= {"balanced": 3} if "trees" in needs else {}
    return shoal.Policy(
        quasi={"age": {"kind": "numeric", **numbers}, "sex": "categorical"},
        sensitive=["illness"] if "sensitive" in needs else [],
        truly_sensitive={"illness": ["gout"]} if "truly sensitive" in needs else {},
        target="illness" if "target" in needs else None,
        unit=None if "no unit" in needs else "note",
        suppress=0.0 if "no suppression" in needs else 0.3,
        require=asked,
    )


@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_declares_its_parameters(method: str) -> None:
    """Every example is possible with a policy that has its needs and nothing else, and every parameter is in an example."""
    kind = METHODS.find(method)
    assert kind.examples and ("examples" in vars(kind) or kind.name not in BUILT_IN)
    common = kind.list_common_examples() if issubclass(kind, GroupingMethod) else ()
    for example in (*kind.examples, *common):
        needs = kind.list_needs(example)
        numbers = {} if "exact ends" in needs else {"round": 2}
        kind(suit_policy(method, needs, **numbers), **example).check_parameters()
    for example in kind.examples:  # some parameters are checked with the table
        release = kind(suit_policy(method, kind.list_needs(example)), **example).release(table(), seed=1)
        assert release.certificate.holds
    named = {name for example in kind.examples for name in example} | {*kind.column_examples, *kind.column_names}
    shared = set(list_constructor_parameters(GroupingMethod)) if common else {"policy"}
    assert set(list_constructor_parameters(kind)) == named | shared


@pytest.mark.parametrize("method", list_methods(GroupingMethod))
def test_other_ways_of_writing_are_refused(method: str) -> None:
    kind = METHODS.find(method)
    for style in set(STYLES) - set(kind.styles):
        with pytest.raises(shoal.PolicyError, match=style):
            kind(policy_of(shoal.KAnonymity(3)), **kind.examples[0], write=style).release(table(), seed=1)
    if not kind.improvable:
        with pytest.raises(shoal.PolicyError, match="improve"):
            kind(policy_of(shoal.KAnonymity(3)), improve=True).check_parameters()


@functools.cache
def list_runs() -> list[Row]:
    """All pairs of ways, requirements, ways of writing, engines and kinds of frames; the cheapest engine and frame first."""
    factors = {
        "way": list_unwritten(),
        "requirement": list_requirements("illness"),
        "style": [*STYLES],
        "engine": list_engines(),
        "kind": [*KINDS],
    }
    return cover_pairs(factors, allows_style)


@pytest.mark.parametrize("requirement", list_requirements("illness"), ids=str)
@pytest.mark.parametrize("method", list_methods(GroupingMethod))
def test_every_method_meets_every_requirement(method: str, requirement: Any) -> None:
    """With every example of its parameters, recounted by plain pandas, and the same in memory and in another engine."""
    runs = [run for run in list_runs() if run["way"][0] == method and run["requirement"] == requirement]
    assert len(runs) >= len({str(run["way"]) for run in list_runs() if run["way"][0] == method})
    for run in runs:
        parameters = write_as(run["way"], run["style"])
        case = suited(Case(table(), policy_of(shoal.KAnonymity(3), requirement)), method, parameters)
        given: dict[str, Any] = {**parameters, "method": method, "seed": 2**70}
        release = shoal.anonymize(case.of_kind(run["kind"]).frame, case.policy, engine="memory", **given)
        assert release.certificate.holds and release.certificate.evidence == evidence(method), run
        assert release.certificate.suppressed <= 0.3 * ROWS, run
        if evidence(method) == "table":
            assert holds(to_pandas(release.frame), case.policy), run
        if run["engine"] != "memory":
            other = shoal.anonymize(
                place(case.of_kind(run["kind"]).frame, run["engine"]), case.policy, engine=run["engine"], **given
            )
            assert other.certificate == release.certificate and dict(other.measures) == dict(release.measures), run
            if evidence(method) == "table":
                assert holds(to_pandas(other.frame), case.policy), run


@pytest.mark.engines
@pytest.mark.parametrize("method", list_methods(GroupingMethod))
def test_every_method_meets_requirements_in_a_database(method: str) -> None:
    """Every method with two of the requirements and ways of writing, other ones for every method."""
    frame, styles, requirements = table(), list_styles(method), list_requirements("illness")
    first = list_methods(GroupingMethod).index(method)
    for number in (first, first + len(requirements) // 2):
        policy = policy_of(shoal.KAnonymity(3), requirements[number % len(requirements)])
        given: dict[str, Any] = {**METHODS.find(method).examples[0], "method": method, "seed": 2**70}
        given["write"] = styles[number % len(styles)]
        memory, database = (
            shoal.anonymize(place(frame, engine), policy, engine=engine, **given) for engine in ("memory", "ibis")
        )
        assert database.certificate == memory.certificate and dict(database.measures) == dict(memory.measures)


@pytest.mark.engines
@each_server_engine
@pytest.mark.parametrize("requirement", list_requirements("illness"), ids=str)
def test_every_requirement_with_a_server(requirement: Any, engine: str) -> None:
    """A method of each family: cuts, boxes, and clusters that divide equal records."""
    frame, policy = table(), policy_of(shoal.KAnonymity(3), requirement)
    for method in FAMILIES:
        first, release = (
            shoal.anonymize(place(frame, e), policy, method=method, engine=e, seed=2**70) for e in ("memory", engine)
        )
        assert release.certificate == first.certificate and dict(release.measures) == dict(first.measures), method


@each_engine()
@pytest.mark.parametrize("method", list_randomizing())
def test_every_randomizing_method_is_the_same_in_every_engine(method: str, engine: str, tmp_path: Path) -> None:
    asked = list_requirements("illness", tested_on=("operator",))
    first, release = (
        shoal.anonymize(place(table(), e), policy_of(*asked), method=method, engine=e, seed=2**70)
        for e in ("memory", engine)
    )
    assert release.certificate == first.certificate and release.certificate.evidence == "operator"
    assert release.certificate.records == ROWS and len(release.certificate.findings) == len(asked)
    release.save(tmp_path / "release")
    assert json.loads((tmp_path / "release" / "certificate.json").read_text())["holds"]


@each_engine()
@pytest.mark.parametrize("method", list_bucketing())
def test_every_bucketing_method_meets_every_requirement_on_values(method: str, engine: str, tmp_path: Path) -> None:
    requirements = list_requirements("illness")
    for requirement in requirements[::4] if engine in SLOW else requirements:
        asked = policy_of(requirement)
        if requirement.counts_records:
            with pytest.raises(shoal.PolicyError, match="cannot guarantee"):
                shoal.anonymize(table(), asked, method=method)
            continue
        first, release = (
            shoal.anonymize(place(table(), e), asked, method=method, engine=e, seed=2**70) for e in ("memory", engine)
        )
        assert release.certificate == first.certificate and dict(release.measures) == dict(first.measures)
        assert release.certificate.evidence == "buckets" and release.certificate.records == ROWS
        folder = release.save(tmp_path / "release", format="csv", overwrite=True)
        again = shoal.check(folder / "table.csv", asked, sensitive=folder / "sensitive.csv")
        assert again.publishable and again.fingerprint == release.certificate.fingerprint


@pytest.mark.parametrize("evidence_", EVIDENCE)
def test_only_declared_measures_are_public(evidence_: str) -> None:
    every = Measures({measure.name: 1.0 for measure in MEASURES} | {"a_figure_of_a_method": 1.0}, {})
    shown = every.public(evidence=evidence_)
    assert shown and all(MEASURES.find(name).public for name in shown)
    assert not {"ncp", "il", "isolated_ends", "improved", "a_figure_of_a_method"} & set(shown)


@pytest.mark.parametrize("method", list_methods(GroupingMethod))
def test_no_private_measure_is_written_to_the_public_folder(method: str, tmp_path: Path) -> None:
    example = METHODS.find(method).examples[0]
    release = shoal.anonymize(table(), policy_of(shoal.KAnonymity(3)), method=method, **example)
    release.save(tmp_path / "release")
    private = {name for name in release.measures if name not in MEASURES.names() or not MEASURES.find(name).public}
    certificate = json.loads((tmp_path / "release" / "certificate.json").read_text())
    report = (tmp_path / "release" / "report.html").read_text()
    assert private and not private & set(certificate["measures"])
    assert not [name for name in private if f"<td>{name}</td>" in report]
    owner = (tmp_path / "release.owner" / "report.html").read_text()
    assert all(f"<td>{name}</td>" in owner for name in private)
