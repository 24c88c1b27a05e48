"""Anonymous trees of random policies: their spans by a slow twin, and the guarantee that whatever is returned passes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import shoal
from shoal.mining.tree_model import TreeModel
from shoal.models import AnonymousTree
from shoal.spans import Knowledge
from tests.reference import spans as twin
from tests.reference.requirements import passes
from tests.support.cases import TREES, lists_of
from tests.support.models import (
    Leaf,
    assert_same_spans,
    find_public_spans,
    key,
    leaf_of_published_tree,
    list_reports,
    release_of,
    shuffle,
)
from tests.support.outcomes import Outcome, counted

TARGET, PERSON = "grade", "person"
JOBS = {"clerk": "Office", "manager": "Office", "farmer": "Land Field", "miner": "Land Field", "sailor": "Sea Field"}
CITIES = {"Oulu": "Far North", "Rome": "South", "Bari": "South"}
VALUES: dict[str, list[Any]] = {
    "age": [20, 23, 25, 29],
    "score": [-0.5, 0.1, 3.0, 1e6],
    "job": list(JOBS),
    "city": list(CITIES),
    "sex": ["f", "m", "<&>"],
    "zip": ["01234", "01235", "99", "47906"],
    "birth": ["1985-05-30", "1985-06-01", "1990-01-01", "2001-12-31"],
    "seen": ["2024-02-29T23:59:59.7", "2024-03-01", "2024-03-01T00:00:00.25", "2023-12-31T08:00:00"],
}
WAYS: dict[str, list[Any]] = {
    "age": [
        "numeric",
        {"kind": "numeric", "widths": [5, 10]},
        {"kind": "numeric", "boundaries": [22, 25, 28]},
        {"kind": "numeric", "balanced": 2},
    ],
    "score": ["numeric", {"bounds": [-20, 2e6]}],
    "job": [{"taxonomy": TREES["job"]}, {"taxonomy": TREES["job"], "ordered": True}, "categorical"],
    "city": [{"taxonomy": TREES["city"]}, {"balanced": 2}],
    "sex": ["categorical"],
    "zip": [{"mask": "right"}, {"mask": "left"}],
    "birth": ["date", {"date": ["day", "month", "year"]}, {"date": ["month", "year", "decade"]}],
    "seen": ["date"],
}


def above(start: str, tops: dict[str, str]) -> set[str]:
    return {start, *tops.get(start, "").split()}


def interval(value: float, ends: list[float]) -> str:
    low = max((e for e in ends if e <= value), default=None)
    high = min((e for e in ends if e > value), default=None)
    return f"{'(-inf' if low is None else f'[{low}'}, {'inf' if high is None else high})"


LABELS: dict[str, Callable[[Any], Collection[str]]] = {
    "age": lambda v: {
        f"{v:g}",
        f"[{v // 5 * 5:g}, {v // 5 * 5 + 5:g})",
        f"[{v // 10 * 10:g}, {v // 10 * 10 + 10:g})",
        interval(v, [22, 25, 28]),
    },
    "job": lambda v: above(v, JOBS),
    "city": lambda v: above(v, CITIES),
    "sex": lambda v: {v},
    "zip": lambda v: {
        *(v[: len(v) - i] + "*" * i for i in range(len(v))),
        *("*" * i + v[i:] for i in range(len(v))),
    },
    "birth": lambda v: {v, v[:7], v[:4], f"{v[:3]}0s"},
    "seen": lambda v: {v},
}


@dataclass(frozen=True)
class Case:
    frame: pd.DataFrame
    policy: shoal.Policy

    @property
    def names(self) -> list[str]:
        return [name for name in self.frame.columns if name not in (TARGET, PERSON)]


@st.composite
def policies(draw: st.DrawFn, frame: pd.DataFrame, *, least: int = 1, strict: bool = True) -> shoal.Policy:
    """Any subset of at least ``least`` columns public, any requirements (not ``strict``: k = 1)."""
    names = [name for name in frame.columns if name not in (TARGET, PERSON)]
    public = draw(st.lists(st.sampled_from([*names, TARGET]), min_size=least, unique=True))
    private = [name for name in names if name not in public]
    quasi = {name: "categorical" if name == TARGET else draw(st.sampled_from(WAYS[name])) for name in public}
    some = st.none() | st.lists(st.sampled_from(public), min_size=1, unique=True) if public else st.none()
    require: list[Any] = [shoal.KAnonymity(draw(st.integers(1, 3)), on=draw(some))]
    of = [*private, *([TARGET] if TARGET not in public else [])]
    if of and draw(st.booleans()):
        require.append(
            draw(
                st.sampled_from(
                    [
                        shoal.LDiversity(2, of=of[-1]),
                        shoal.LDiversity(2, of=of[0], kind="entropy"),
                        shoal.LDiversity(2, of=of[0], kind="recursive", c=3.0),
                        shoal.TCloseness(0.4, of=of[-1]),
                        shoal.TCloseness(0.5, of=of[0], distance="ordered"),
                    ]
                )
            )
        )
        require[-1] = replace(require[-1], on=draw(some))
    if draw(st.booleans()):
        require.append(shoal.KAnonymity(draw(st.integers(1, 4)), on=draw(some)))
    return shoal.Policy(
        quasi=quasi,
        sensitive=private,
        target=TARGET,
        require=require if strict else [shoal.KAnonymity(1)],
        unit=PERSON if PERSON in frame.columns else None,
    )


@st.composite
def frames(draw: st.DrawFn, *, people: bool | None = None) -> pd.DataFrame:
    """Tiny tables with 1 to 3 features of all kinds, missing values, and perhaps several records per person."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
    rows, holes = draw(st.integers(1, 12)), draw(st.booleans())
    columns: dict[str, Any] = {}
    for name in names:
        values = VALUES[name]
        kind = "float" if name in ("age", "score") else "str"
        cells = [*values, *values, *([None] * len(values) if holes else [])]
        columns[name] = pd.Series(draw(lists_of(cells, rows)), dtype=kind)
    columns[TARGET] = pd.Series(draw(lists_of(["low", "high", "top"][: draw(st.integers(1, 3))], rows)), dtype="str")
    if draw(st.booleans()) if people is None else people:
        columns[PERSON] = pd.Series(draw(lists_of(["p", "q", "r", "s", "t", None], rows)), dtype="str")
    return pd.DataFrame(columns)


@st.composite
def cases(draw: st.DrawFn, *, people: bool | None = None) -> Case:
    frame = draw(frames(people=people))
    return Case(frame, draw(policies(frame)))


parameters = st.fixed_dictionaries(
    {
        "criterion": st.sampled_from(["gain", "gain-ratio", "gini"]),
        "rule": st.sampled_from(["claim3", "all"]),
        "populations": st.sampled_from(["bins", "bins", "frequencies", "majority"]),
        "max_depth": st.sampled_from([None, None, 1, 2]),
        "max_leaves": st.sampled_from([None, None, 1, 3]),
    }
)


def known_to(policy: shoal.Policy, on: tuple[str, ...] | list[str] | None = None) -> Knowledge:
    names = tuple(policy.quasi) if on is None else tuple(on)
    return Knowledge(frozenset(names), TARGET in names)


def as_text(value: Any) -> str | None:
    """A value as requirements count it."""
    if key(value) is None:
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


def span_passes(requirement: Any, frame: pd.DataFrame, rows: list[int]) -> bool:
    """Whether the records of a span meet a requirement; people are counted if the frame has them."""
    people = [(r,) if PERSON not in frame or key(frame[PERSON][r]) is None else frame[PERSON][r] for r in frame.index]
    values = [None] * len(frame) if requirement.of is None else [as_text(v) for v in frame[requirement.of]]

    def list_pairs(chosen: list[int]) -> list[str | None]:
        return [value for _, value in dict.fromkeys((people[r], values[r]) for r in chosen)]

    everyone = list(frame.index)
    if PERSON not in frame:
        return passes(requirement, [values[r] for r in rows], values)
    counted_people = len({people[r] for r in rows})
    if requirement.of is None:
        return counted_people >= requirement.k
    return passes(requirement, list_pairs(rows), list_pairs(everyone), counted_people, len(set(people)))


def requirement_holds(
    requirement: Any, leaf: Leaf, case: Case, rule: str, public: Collection[str]
) -> tuple[bool, twin.Release]:
    slow = release_of(leaf, case.frame, case.names, TARGET, public)
    return all(span_passes(requirement, case.frame, slow.records_of(s)) for s in slow.tested(rule)), slow


def try_fit(case: Case, given: dict[str, Any]) -> AnonymousTree | None:
    """The fitted tree; None if the requirements fail for the whole table, which the twin confirms."""
    if max(r.least for r in case.policy.require) > len(case.frame):
        with pytest.raises(shoal.PolicyError, match="requires groups of at least"):
            AnonymousTree(case.policy, **given).fit(case.frame)
        return None
    try:
        return AnonymousTree(case.policy, **given).fit(case.frame)
    except shoal.RequirementNotMet as error:
        if PERSON in case.frame and "the audit of the finished tree" in str(error):
            return None
        assert "not even a tree without splits" in str(error)
    verdicts = [
        requirement_holds(r, lambda _: 0, case, given.get("rule", "claim3"), known_to(case.policy, r.on).columns)[0]
        for r in case.policy.require
    ]
    assert PERSON in case.frame or not all(verdicts)
    return None


def leaf_of(tree: AnonymousTree) -> Leaf:
    return leaf_of_published_tree(tree.to_dict(), LABELS)


def compare_with_twin(tree: AnonymousTree, case: Case, certificate: Any, rule: str) -> None:
    leaf = leaf_of(tree)
    slow = release_of(leaf, case.frame, case.names, TARGET, tuple(case.policy.quasi))
    spans = find_public_spans(tree, case.frame, case.policy, known_to(case.policy))
    assert_same_spans(certificate, spans, slow, rule, smallest=PERSON not in case.frame)
    for requirement, finding in zip(case.policy.require, certificate.findings, strict=True):
        expected, _ = requirement_holds(requirement, leaf, case, rule, known_to(case.policy, requirement.on).columns)
        assert finding.holds == expected, str(requirement)
    assert certificate.holds == all(finding.holds for finding in certificate.findings)


@given(case=cases(), given=parameters)
@counted
def test_what_fit_returns_passes_the_audit_and_the_twin(case: Case, given: dict[str, Any]) -> Outcome:
    tree = try_fit(case, given)
    if tree is None:
        return "not met"
    rule = given["rule"]
    assert tree.certificate_.holds
    certificate = shoal.models.audit(tree, case.frame, case.policy, rule=rule, populations=given["populations"])
    assert certificate.to_private_dict() == tree.certificate_.to_private_dict()
    compare_with_twin(tree, case, certificate, rule)
    return None


@given(data=st.data(), rule=st.sampled_from(["claim3", "all"]))
@counted
def test_a_tree_audited_with_another_policy_has_the_verdict_of_the_twin(data: st.DataObject, rule: str) -> Outcome:
    frame = data.draw(frames())
    policy = data.draw(policies(frame, strict=False))
    tree = try_fit(Case(frame, policy), {})
    if tree is None:
        return "not met"
    other = Case(frame, data.draw(policies(frame, least=0)))
    compare_with_twin(tree, other, shoal.models.audit(tree, frame, other.policy, rule=rule), rule)
    return None


@given(case=cases(), given=parameters)
@counted
def test_populations_and_predictions_are_those_of_the_records(case: Case, given: dict[str, Any]) -> Outcome:
    tree = try_fit(case, given | {"populations": "bins"})
    if tree is None:
        return "not met"
    leaf = leaf_of(tree)
    nodes = [leaf(record) for record in _records(case)]
    assert tree.apply(case.frame).tolist() == nodes
    classes = tree.to_dict()["classes"]
    expected = pd.crosstab(pd.Series(nodes), case.frame[TARGET])
    for n, node in enumerate(tree.to_dict()["nodes"]):
        if "leaf" in node:
            own = [int(expected.loc[n, c]) if n in expected.index and c in expected else 0 for c in classes]
            assert node["leaf"] == own
    most = [max(tree.classes_, key=lambda c: (expected.loc[n, c], -list(tree.classes_).index(c))) for n in nodes]
    assert tree.predict(case.frame).tolist() == most
    return None


def _records(case: Case) -> list[dict[str, Any]]:
    return [{name: key(case.frame[name][r]) for name in case.names} for r in case.frame.index]


@given(case=cases(people=False), given=parameters, seed=st.integers(0, 9))
@counted
def test_the_order_of_rows_does_not_matter(case: Case, given: dict[str, Any], seed: int) -> Outcome:
    tree = try_fit(case, given)
    if tree is None:
        return "not met"
    other = AnonymousTree(case.policy, **given).fit(shuffle(case.frame, seed))
    assert other.to_dict() == tree.to_dict()
    assert other.certificate_.to_dict() == tree.certificate_.to_dict()
    assert list_reports(other.certificate_) == list_reports(tree.certificate_)
    return None


@given(case=cases(), given=parameters)
@counted
def test_a_tree_is_the_same_after_json_and_pickle(case: Case, given: dict[str, Any]) -> Outcome:
    tree = try_fit(case, given)
    if tree is None:
        return "not met"
    plain = json.loads(json.dumps(tree.to_dict()))
    again = TreeModel.from_dict(plain)
    assert again.to_dict() == tree.to_dict()
    assert again.export_text() == tree.export_text()
    rule = given["rule"]
    one = shoal.models.audit(again, case.frame, case.policy, rule=rule, populations=given["populations"])
    assert one.to_private_dict() == tree.certificate_.to_private_dict()
    copy = pickle.loads(pickle.dumps(tree))  # noqa: S301
    assert copy.predict(case.frame).tolist() == tree.predict(case.frame).tolist()
    assert copy.predict_proba(case.frame).tolist() == tree.predict_proba(case.frame).tolist()
    assert copy.certificate_.to_dict() == tree.certificate_.to_dict()
    assert copy.certificate_.spans == ()
    fresh = clone(tree).fit(case.frame) if PERSON not in case.frame else tree
    assert fresh.to_dict() == tree.to_dict()
    return None
