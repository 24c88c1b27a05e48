"""The induction kernel against its slow twin: the same records in the same leaves."""

from __future__ import annotations

from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.models import AnonymousTree
from tests.reference.tree_induction import Attacker, Feature, Induction, Node, entropy, gini
from tests.support.cases import lists_of
from tests.support.outcomes import Outcome, counted

TREE = {"ANY": {"Office": ["clerk", "boss"], "Field": ["farmer", "miner"]}}
VALUES: dict[str, list[Any]] = {
    "age": [20.0, 23.0, 25.0, 40.0, 41.0],
    "job": ["clerk", "boss", "farmer", "miner"],
    "sex": ["f", "m", "x"],
    "rent": [1.0, 2.0, 8.0],
}
PLACE = {"clerk": "Office", "boss": "Office", "farmer": "Field", "miner": "Field"}
WAYS = {"age": "numeric", "job": {"taxonomy": TREE}, "sex": "categorical", "rent": "numeric"}


@st.composite
def cases(draw: st.DrawFn) -> tuple[pd.DataFrame, shoal.Policy, str]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
    rows, holes = draw(st.integers(2, 16)), draw(st.booleans())
    frame = pd.DataFrame(
        {
            name: pd.Series(
                draw(lists_of([*VALUES[name], *VALUES[name], *([None, None] if holes else [])], rows)),
                dtype="float" if name in ("age", "rent") else "str",
            )
            for name in names
        }
    )
    frame["risk"] = pd.Series(draw(lists_of(["g", "b", "h"][: draw(st.integers(2, 3))], rows)), dtype="str")
    public = draw(st.lists(st.sampled_from([*names, "risk"]), min_size=1, unique=True))
    require = [shoal.KAnonymity(draw(st.integers(1, min(3, rows))))]
    if draw(st.booleans()):
        on = draw(st.lists(st.sampled_from(public), min_size=1, unique=True))
        require.append(shoal.KAnonymity(draw(st.integers(1, min(4, rows))), on=on))
    policy = shoal.Policy(
        quasi={name: WAYS.get(name, "categorical") for name in public},
        sensitive=[name for name in names if name not in public],
        target="risk",
        require=require,
    )
    return frame, policy, draw(st.sampled_from(["claim3", "all"]))


def feature_of(name: str, values: list[Any], policy: shoal.Policy) -> Feature:
    """A column as the twin sees it; a private column has no taxonomy."""
    present = sorted((v for v in set(values) if v is not None), key=_order(name, policy))
    codes = [*present, *([None] if None in values else [])]
    if name in ("age", "rent"):
        return Feature(name, codes)
    if name == "job" and name in policy.quasi:
        return Feature(name, codes, [lambda v: PLACE.get(v), lambda v: v])
    return Feature(name, codes, [lambda v: v])


def _order(name: str, policy: shoal.Policy) -> Any:
    return VALUES[name].index if name == "job" and name in policy.quasi else lambda v: v


def leaves_of(root: Node) -> list[list[int]]:
    return sorted(sorted(leaf.rows) for leaf in root.list_leaves() if leaf.rows)


@given(case=cases(), criterion=st.sampled_from(["gain", "gini"]))
@counted
def test_same_leaves_as_the_slow_twin(case: tuple[pd.DataFrame, shoal.Policy, str], criterion: str) -> Outcome:
    frame, policy, rule = case
    plain = frame.astype(object).where(frame.notna(), None)
    records = [dict(zip(plain.columns, row, strict=True)) for row in plain.itertuples(index=False)]
    names = [*(n for n in policy.quasi if n != "risk"), *policy.sensitive]
    sets = {tuple(policy.quasi) if r.on is None else tuple(r.on): 0 for r in policy.require}
    for r in policy.require:
        known = tuple(policy.quasi) if r.on is None else tuple(r.on)
        sets[known] = max(sets[known], r.k)
    slow = Induction(
        records,
        [record["risk"] for record in records],
        [feature_of(name, [record[name] for record in records], policy) for name in names],
        [Attacker(known, "risk" in known, k) for known, k in sets.items()],
        entropy if criterion == "gain" else gini,
        rule == "claim3",
    ).grow()
    try:
        tree = AnonymousTree(policy, criterion=criterion, rule=rule).fit(frame)
    except shoal.RequirementNotMet:
        assert slow is None
        return "not met"
    assert slow is not None
    nodes = tree.apply(frame).tolist()
    assert sorted([r for r, n in enumerate(nodes) if n == leaf] for leaf in set(nodes)) == leaves_of(slow)
    return None
