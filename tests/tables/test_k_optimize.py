"""k-Optimize: the best cuts against brute force, the bound, labels of runs, later data, Adult, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal import kernels
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.tables import cut_search
from shoal.tables.cut_search import INFINITE, CutSearch
from shoal.tables.lattice_objective import OBJECTIVES
from shoal.tables.lattice_search import LatticeSearch, LevelLattice
from tests.reference.all_cuts import AllCuts
from tests.reference.k_optimize import Twin
from tests.support.cases import lists_of
from tests.support.outcomes import Outcome, counted
from tests.support.steps import needs_data

TREES: dict[str, Any] = {
    "job": {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": ["sailor"]}}},
    "city": {"ANY": {"North": ["Oulu", "Turku"], "South": {"Italy": ["Rome", "Bari"]}}},
}
ORDERS: dict[str, list[Any]] = {
    "age": [20, 21, 25, 30],
    "job": ["clerk", "manager", "farmer", "miner", "sailor"],
    "city": ["Oulu", "Turku", "Rome", "Bari"],
}
ILL = [shoal.LDiversity(2, of="ill"), shoal.LDiversity(2, of="ill", kind="entropy"), shoal.TCloseness(0.4, of="ill")]


def draw_table(draw: st.DrawFn) -> tuple[pd.DataFrame, shoal.Policy]:
    rows = draw(st.integers(2, 24))
    names = draw(st.lists(st.sampled_from(list(ORDERS)), min_size=1, max_size=3, unique=True))
    missing = draw(st.booleans())
    frame = pd.DataFrame(
        {n: pd.Series(draw(lists_of([*ORDERS[n], *([None] * missing)], rows)), dtype=object) for n in names}
    )
    if "age" in names:
        frame["age"] = frame["age"].astype("float64")
    frame["ill"] = draw(lists_of(["flu", "cold", "gout"], rows))
    frame["grade"] = draw(lists_of(["low", "high"], rows))
    require: list[Any] = [shoal.KAnonymity(draw(st.integers(1, min(4, rows))))]
    more = draw(st.sampled_from(["none", "none", "ill", "on"]))
    if more == "ill":
        require.append(draw(st.sampled_from(ILL)))
    elif more == "on":
        require.append(shoal.KAnonymity(min(3, rows), on=[names[0]]))
    policy = shoal.Policy(
        quasi={n: {"taxonomy": TREES[n]} if n in TREES else "numeric" for n in names},
        sensitive=["ill"],
        target="grade",
        require=require,
        suppress=draw(st.sampled_from([0.0, 0.1, 0.3, 1.0])),
    )
    return frame, policy


tables = st.composite(draw_table)


def twin_of(frame: pd.DataFrame, policy: shoal.Policy, values: dict[str, list[Any]] = ORDERS) -> Twin:
    names = list(policy.quasi)
    rows = [tuple(None if pd.isna(v) else v for v in row) for row in frame[names].astype(object).to_numpy().tolist()]
    orders = [values[name] for name in names]
    return Twin(rows, orders, names, policy.require, policy.suppress, list(frame["ill"]), list(frame["grade"]))


@pytest.mark.parametrize("objective", ["dm", "cm"])
@given(table=tables())
@counted
def test_the_best_cuts_equal_brute_force(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    best = twin.best(objective)
    method = shoal.tables.KOptimize(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert best is None
        return "not met"
    assert best is not None and release.measures[objective] == pytest.approx(method.cost_)
    assert method.bound_ <= best + 1e-9 and method.cost_ >= best - 1e-9
    if method.gap_ == 0:
        assert method.cost_ == pytest.approx(best)
    else:
        assert len(twin.points()) > cut_search.EXACT_CHECKED and release.method_notes
    if not method.lattice_.chosen:
        return None
    full = method.lattice_.find(method.lattice_.chosen).loss
    assert full is not None and method.cost_ <= full + 1e-9
    return None


def search_of(frame: pd.DataFrame, policy: shoal.Policy, objective: str) -> CutSearch:
    codes = encode_and_count(open_data(frame), policy, extra=("grade",))[0]
    lattice = LevelLattice.of(codes, policy, OBJECTIVES[objective])
    return CutSearch(lattice, LatticeSearch(lattice).rules)


@given(table=tables(), objective=st.sampled_from(["dm", "cm"]), chance=st.randoms(use_true_random=False))
def test_the_kernels_rate_cuts_as_brute_force_does(table: Any, objective: str, chance: Any) -> None:
    """Also after the division of an attribute, which is never worse."""
    frame, policy = table
    twin, search = twin_of(frame, policy), search_of(frame, policy, objective)
    points, scale = twin.points(), len(frame) if objective == "cm" else 1
    assert len(points) == len(search.points)
    chosen = [i for i in range(len(points)) if chance.random() < 0.4]
    cut = np.zeros(len(search.best), bool)
    cut[search.points[chosen]] = True
    expected = twin.measure(frozenset(points[i] for i in chosen), objective)
    assert search.rate(cut) == (INFINITE if expected is None else round(expected * scale))
    if not search.decides:
        return
    for j in search.divided.tolist():
        before = search.rate(cut)
        found, lost = kernels.cut_points.divide_attribute(np.int64(j), cut, search.table, search.rules, search.room)
        after = search.rate(cut)
        assert after == (found if lost <= search.lattice.limit else INFINITE)
        if policy.suppress == 1.0:
            assert after <= before


def test_fourteen_cut_points_are_proved() -> None:
    chance = np.random.default_rng(3)
    frame = pd.DataFrame({name: chance.choice(ORDERS[name], 60) for name in ORDERS})
    frame["grade"], frame["ill"] = chance.choice(["low", "high"], 60), "flu"
    for objective, suppress in (("dm", 0.0), ("cm", 0.2)):
        policy = shoal.Policy(
            quasi={n: {"taxonomy": TREES[n]} if n in TREES else "numeric" for n in ORDERS},
            target="grade",
            require=shoal.KAnonymity(5),
            suppress=suppress,
        )
        method = shoal.tables.KOptimize(policy, objective=objective)
        method.release(frame, seed=1)
        assert method.gap_ == 0 and method.notes() == ()
        assert method.cost_ == pytest.approx(twin_of(frame, policy).best(objective))


WIDE: dict[str, list[Any]] = {
    "age": [18, 20, 21, 25, 30, 34, 41, 50],
    "zip": ["a1", "a2", "b1", "b2", "c1", "c2", "c3", "d1"],
    "job": ["clerk", "cook", "nurse", "miner", "sailor", "farmer", "pilot"],
}  # 20 cut points
GROUPED = {"ANY": {"a": ["a1", "a2"], "b": ["b1", "b2"], "cd": {"c": ["c1", "c2", "c3"], "d": ["d1"]}}}


def draw_wide_table(draw: st.DrawFn) -> tuple[pd.DataFrame, shoal.Policy]:
    """A table of few rows with 15 to 20 cut points: all values occur, but for some at the ends of the orders."""
    missing = draw(st.sampled_from([None, None, "age", "job"]))
    left = draw(st.integers(0, 5))
    orders = {
        n: values[: len(values) - left // 2 * (n == "zip") - (left + 1) // 2 * (n == "age")]
        for n, values in WIDE.items()
    }
    if missing is not None:
        orders[missing] = [*orders[missing][1:], None]
    rows = draw(st.integers(10, 24))
    frame = pd.DataFrame(
        {n: pd.Series([*v, *draw(lists_of(v, rows - len(v)))], dtype=object) for n, v in orders.items()}
    )
    frame["age"] = frame["age"].astype("float64")
    frame["ill"] = draw(lists_of(["flu", "cold", "gout"], rows))
    frame["grade"] = draw(lists_of(["low", "high"], rows))
    policy = shoal.Policy(
        quasi={"age": "numeric", "zip": {"taxonomy": GROUPED}, "job": {"taxonomy": {"ANY": WIDE["job"]}}},
        sensitive=["ill"],
        target="grade",
        require=[shoal.KAnonymity(draw(st.integers(2, 4))), *draw(st.sampled_from([[], [], *([r] for r in ILL[:2])]))],
        suppress=draw(st.sampled_from([0.0, 0.1, 0.3, 1.0])),
    )
    return frame, policy


@pytest.mark.parametrize("objective", ["dm", "cm"])
@settings(max_examples=max(settings.default.max_examples // 5, 4))
@given(table=st.composite(draw_wide_table)())
@counted
def test_twenty_cut_points_equal_brute_force(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy, WIDE)
    assert 15 <= len(twin.points()) <= cut_search.EXACT_POINTS == 20
    best = AllCuts(twin).best(objective)
    method = shoal.tables.KOptimize(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert best is None
        return "not met"
    assert method.gap_ == 0 and method.notes() == ()
    assert release.measures[objective] == pytest.approx(best) == pytest.approx(method.cost_)
    return None


@given(table=tables(), objective=st.sampled_from(["dm", "cm"]))
@counted
def test_the_two_brute_forces_agree(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    twin = twin_of(*table)
    if any(r.on or isinstance(r, shoal.TCloseness) for r in twin.require):
        return "not counted by AllCuts"
    assert AllCuts(twin).best(objective) == pytest.approx(twin.best(objective))
    return None


def test_the_local_search_alone_finds_the_best_cuts() -> None:
    """50 cut points, more than are searched to the end; the second column does not matter."""
    chance = np.random.default_rng(1)
    frame = pd.DataFrame({"age": chance.integers(0, 40, 400), "zip": chance.integers(0, 12, 400)})
    frame["grade"] = np.where((frame["age"] >= 7) & (frame["age"] < 31), "high", "low")
    policy = shoal.Policy(
        quasi={"age": "numeric", "zip": "numeric"}, target="grade", require=shoal.KAnonymity(50), suppress=0.5
    )
    method = shoal.tables.KOptimize(policy, objective="cm")
    release = method.release(frame, seed=1)
    assert method.cost_ == method.bound_ == release.measures["cm"] == 0
    assert sorted(release.frame["age"].unique()) == ["[0, 7)", "[31, 39]", "[7, 31)"]


JOBS = ["clerk"] * 2 + ["manager"] * 2 + ["farmer"] * 2 + ["miner"] * 3 + ["sailor"] * 2


def test_a_run_of_leaves_has_a_label_that_measures_and_later_data_read() -> None:
    frame = pd.DataFrame({"job": JOBS})
    policy = shoal.Policy(quasi={"job": {"taxonomy": TREES["job"]}}, require=shoal.KAnonymity(3))
    release = shoal.anonymize(frame, policy, method="k-optimize", seed=1)
    assert sorted(release.frame["job"].unique()) == ["{clerk, manager, farmer}", "{miner, sailor}"]
    assert release.measures["dm"] == 6**2 + 5**2
    labels = dict(zip(frame["job"], release.frame["job"], strict=True))
    later = release.recoding.apply(pd.DataFrame({"job": ["sailor", "clerk", "farmer"]}))
    assert list(later["job"]) == [labels["sailor"], labels["clerk"], labels["farmer"]]
    assert shoal.measure(frame, release.frame, policy)["ncp"] == pytest.approx(release.measures["ncp"])


@pytest.mark.parametrize(
    ("column", "write", "labels"),
    [
        ({"taxonomy": TREES["job"]}, "label", ["{clerk, manager, farmer}", "{miner, sailor}"]),
        ({"taxonomy": TREES["job"], "ordered": True}, "label", ["clerk – farmer", "miner – sailor"]),
        ({"taxonomy": TREES["job"]}, "set", ["{clerk, manager, farmer}", "{miner, sailor}"]),
    ],
)
def test_labels_of_runs(column: Any, write: str, labels: list[str]) -> None:
    frame = pd.DataFrame({"job": ["clerk", "manager", "farmer", "miner", "sailor"] * 2, "y": list("aaabbaaabb")})
    policy = shoal.Policy(quasi={"job": column}, target="y", require=shoal.KAnonymity(4))
    release = shoal.anonymize(frame, policy, method="k-optimize", objective="cm", write=write, seed=1)
    assert release.measures["cm"] == 0 and sorted(release.frame["job"].unique()) == labels
    assert shoal.measure(frame, release.frame, policy)["cm"] == 0
    assert sorted(release.recoding.apply(frame)["job"].unique()) == labels


def test_a_label_does_not_show_a_value_of_suppressed_records_alone() -> None:
    frame = pd.DataFrame({"job": list("aaabbbcccddde"), "sex": ["f"] * 12 + ["m"], "y": ["x"] * 6 + ["z"] * 6 + ["x"]})
    policy = shoal.Policy(
        quasi={"job": "categorical", "sex": "categorical"}, target="y", require=shoal.KAnonymity(6), suppress=0.1
    )
    release = shoal.anonymize(frame, policy, method="k-optimize", objective="cm", seed=1)
    assert release.measures["cm"] == pytest.approx(1 / 13)
    if release.measures["suppressed"]:
        assert sorted(release.frame["job"].unique()) == ["{a, b}", "{c, d}"]
    assert set(release.frame["job"]) <= {"{a, b}", "{c, d}", "{c, d, e}"}


def test_the_time_limit_leaves_a_bound_and_a_gap() -> None:
    frame, policy = shoal.datasets.hospital(500), shoal.datasets.hospital_policy(5)
    method = shoal.tables.KOptimize(policy, seconds=0.2)
    release = method.release(frame, seed=1)
    assert release.certificate.holds and 0 < method.gap_ < 1
    assert method.gap_ == pytest.approx((method.cost_ - method.bound_) / method.cost_)
    assert release.measures["dm"] == pytest.approx(method.cost_)
    (note,) = method.notes()
    assert note.startswith("The search for the best cuts ended after 0.2 seconds. The cuts have dm")


@needs_data
def test_adult_has_the_classification_metric_of_the_paper() -> None:
    """The paper has 5350 to 5410 at k = 50, read from its figure."""
    frame, trees = shoal.datasets.adult(drop_missing=True), shoal.datasets.adult_taxonomies()
    names = ["age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country"]
    policy = shoal.Policy(
        quasi={n: {"taxonomy": trees[n]} if n in trees else "numeric" for n in names},
        target="income",
        require=shoal.KAnonymity(50),
        suppress=1.0,
    )
    codes = encode_and_count(open_data(frame), policy, extra=("income",))[0]
    lattice = LevelLattice.of(codes, policy, OBJECTIVES["cm"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut_search, "ROUNDS", 5)
        search = CutSearch(lattice, LatticeSearch(lattice).rules)
        search.improve(None, lambda *_: None, None)
    assert 4000 < search.cost <= 5200


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"objective": "loss"}, "unknown value 'loss' for 'objective'"),
        ({"objective": "cm"}, "objective='cm' counts the classes of a target"),
        ({"seconds": -1}, "'seconds' must be at least 0"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], text: str) -> None:
    policy = shoal.Policy(quasi={"job": "categorical"}, require=shoal.KAnonymity(2))
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(pd.DataFrame({"job": JOBS}), policy, method="k-optimize", **parameters)


def test_an_unreachable_requirement_says_how_far_it_is() -> None:
    frame = pd.DataFrame({"job": JOBS, "ill": ["flu", "cold"] * 5 + ["flu"]})
    policy = shoal.Policy(
        quasi={"job": "categorical"}, sensitive=["ill"], require=shoal.LDiversity(3, of="ill"), suppress=0
    )
    text = r"l-diversity \(l = 3, of = ill\) cannot be met: the whole table as one group reaches 2 distinct values"
    with pytest.raises(shoal.RequirementNotMet, match=text):
        shoal.anonymize(frame, policy, method="k-optimize")
