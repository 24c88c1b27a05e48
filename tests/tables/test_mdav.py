"""MDAV against its slow twin, record for record; optimal groups against all there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.recoding.grouping import Grouping
from shoal.tables import mdav as module
from shoal.tables.mdav import Space
from tests.reference.mdav import Point, least_squares, mdav, mean, mode, squares
from tests.support.cases import Case, averaged, cases, holds, recount
from tests.support.outcomes import Outcome, counted

JOB = {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": ["sailor"]}}}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, dict[str, object], dict[str, float]]:
    """A few columns of few values, so that there are ties and equal records, and weights for some."""
    rows = draw(st.integers(2, 45))
    kinds: dict[str, tuple[object, st.SearchStrategy[object]]] = {
        "age": ("numeric", st.integers(0, 4)),
        "pay": ("numeric", st.sampled_from([0.1, 0.2, 0.3, 7.7, 1e9])),
        "born": ("date", st.sampled_from(["1985-05-30", "1985-06-01", "1990-01-01"])),
        "sex": ("categorical", st.sampled_from(["f", "m", "x"])),
        "job": ({"taxonomy": JOB}, st.sampled_from(["clerk", "manager", "farmer", "miner", "sailor"])),
    }
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, unique=True))
    holes = draw(st.booleans())
    frame = pd.DataFrame()
    for name in chosen:
        cell = st.none() | kinds[name][1] if holes else kinds[name][1]
        frame[name] = pd.Series(draw(st.lists(cell, min_size=rows, max_size=rows)), dtype=object)
    frame["ill"] = draw(st.lists(st.sampled_from(["flu", "gout"]), min_size=rows, max_size=rows))
    weights = draw(st.dictionaries(st.sampled_from(chosen), st.sampled_from([0.0, 0.3, 1.0, 2.0, 5.0])))
    return frame, {name: kinds[name][0] for name in chosen}, weights


def coded(frame: pd.DataFrame, policy: shoal.Policy) -> Codes:
    return encode_and_count(open_data(frame), policy, extra=[c for c in ("ill",) if c in frame])[0]


def decided(codes: Codes, policy: shoal.Policy, **parameters: object) -> Grouping:
    method = shoal.tables.MDAV(policy, **parameters)
    return method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)


def groups_of(decision: Grouping) -> list[list[int]]:
    """The cells of the records of every group."""
    groups: list[list[int]] = [[] for _ in range(len(decision.lo))]
    place = decision.placement
    for cell, group, weight in zip(place.cell, place.group, place.count, strict=True):
        groups[group] += [int(cell)] * int(weight)
    return sorted(groups)


def slow_groups(codes: Codes, k: int, weights: dict[str, float]) -> list[list[int]]:
    weight = np.array([weights.get(a.name, 1.0) for a in codes.attributes])
    space = Space.of(codes, weight)
    trees = [a for a, w in zip(codes.attributes, weight, strict=True) if w and a.taxonomy is not None and a.size > 1]
    numbers, unit = len(space.number), 2.0 ** -int(np.frexp(weight.max())[1])
    grid = 2.0 ** (62 - codes.records.bit_length())

    def distance(x: Point, y: Point) -> float:
        total = 0.0
        for j in range(numbers):
            if np.inf in (x[j], y[j]):
                total += 0.0 if x[j] == y[j] else space.missing_distance[j]
            else:
                total += (x[j] - y[j]) * (x[j] - y[j]) * space.factor[j]
        for j, attribute in enumerate(trees, numbers):
            far = attribute.distance(np.array([x[j]], np.int32), np.array([y[j]], np.int32))[0]
            total += unit * weights.get(attribute.name, 1.0) * (far * far)
        return total

    def centroid(points: Sequence[Point]) -> Point:
        columns = list(zip(*points, strict=True))
        means = [mean(columns[j], grid) for j in range(numbers)]
        return (*means, *(mode(columns[j], a.missing) for j, a in enumerate(trees, numbers)))

    cell = np.repeat(np.arange(len(codes.counts.size)), codes.counts.size)
    rows = np.vstack([space.number, space.code]).T.tolist()
    points = [(*rows[u][:numbers], *map(int, rows[u][numbers:])) for u in codes.combination[cell]]
    return sorted(sorted(int(cell[i]) for i in group) for group in mdav(points, k, distance, centroid))


@given(table=tables(), k=st.integers(2, 6))
@counted
def test_same_groups_as_the_slow_twin(
    table: tuple[pd.DataFrame, dict[str, object], dict[str, float]], k: int
) -> Outcome:
    frame, quasi, weights = table
    policy = shoal.Policy(quasi=quasi, sensitive="ill", require=[shoal.KAnonymity(k)])
    codes = coded(frame, policy)
    if codes.records < k:
        return "too few records"
    found = groups_of(decided(codes, policy, weights=weights, optimal=False))
    assert found == slow_groups(codes, k, weights)
    assert all(k <= len(group) < 2 * k for group in found)
    return None


@given(table=tables(), k=st.integers(2, 6))
@counted
def test_threads_do_not_change_the_groups(
    table: tuple[pd.DataFrame, dict[str, object], dict[str, float]], k: int
) -> Outcome:
    frame, quasi, weights = table
    policy = shoal.Policy(quasi=quasi, sensitive="ill", require=[shoal.KAnonymity(k)])
    codes = coded(frame, policy)
    if codes.records < k:
        return "too few records"
    alone = groups_of(decided(codes, policy, weights=weights, optimal=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", 1)
        patch.setattr(module.threads, "CORES", 3)
        assert groups_of(decided(codes, policy, weights=weights, optimal=False)) == alone
    return None


def test_many_rows_are_closed_up_with_the_same_result() -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=400), "y": rng.integers(0, 9, 400), "sex": rng.choice(list("fmx"), 400)})
    policy = shoal.Policy(quasi={"x": "numeric", "y": "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(7)])
    codes = coded(frame, policy)
    assert groups_of(decided(codes, policy)) == slow_groups(codes, 7, {})


@given(
    values=st.lists(st.none() | st.sampled_from([0.1, 0.2, 7.0, -3.5, 1e9]), min_size=2, max_size=20),
    weight=st.sampled_from([0.3, 1.0, 5.0]),
)
@counted
def test_differences_count_by_the_variance_of_the_records(values: list[float | None], weight: float) -> Outcome:
    frame = pd.DataFrame({"age": pd.Series(values, dtype="Float64")})
    codes = coded(frame, policy_of(1))
    space = Space.of(codes, np.array([weight]))
    if len(set(values)) == 1:
        assert len(space.number) == 0  # it tells nobody apart
        return "one value"
    known = np.array([v for v in values if v is not None])
    if len(set(known)) == 1:
        assert space.factor.tolist() == [0.0]
        return "one number"
    shown = space.number[0][np.isfinite(space.number[0])]
    unit = (shown.max() - shown.min()) / (known.max() - known.min())  # a power of two
    assert space.factor[0] / space.missing_distance[0] == pytest.approx(1 / (unit * known.std()) ** 2, rel=1e-9)
    return None


# ---- what a reader can follow by hand


def build_frame(*values: object, name: str = "age") -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(values)})


def policy_of(k: int, **quasi: object) -> shoal.Policy:
    return shoal.Policy(quasi=quasi or {"age": "numeric"}, require=[shoal.KAnonymity(k)])


def ages(release: shoal.Release) -> list[float]:
    return release.frame["age"].tolist()


def test_the_outskirts_are_grouped_first() -> None:
    """The mean is 11 1/3, 22 is furthest from it and 1 from 22; the last three are left."""
    frame = build_frame(1, 10, 20, 2, 11, 21, 3, 12, 22)
    release = shoal.anonymize(frame, policy_of(3), method="mdav", optimal=False)
    assert ages(release) == [2.0, 11.0, 21.0] * 3
    assert release.recoding.kind == "assignment"


def test_of_two_groups_and_a_half_the_furthest_and_its_nearest_are_one() -> None:
    frame = build_frame(1, 2, 3, 4, 5, 89, 90, 91)
    assert ages(shoal.anonymize(frame, policy_of(3), method="mdav", optimal=False)) == [3.0] * 5 + [90.0] * 3


def test_categories_have_a_mode_and_a_distance_in_the_tree() -> None:
    job = ["clerk", "clerk", "manager", "farmer", "miner", "farmer"]
    release = shoal.anonymize(build_frame(*job, name="job"), policy_of(3, job={"taxonomy": JOB}), method="mdav")
    assert release.frame["job"].tolist() == ["clerk"] * 3 + ["farmer"] * 3


def test_a_weight_says_what_counts() -> None:
    frame = pd.DataFrame({"age": [1, 1, 1, 2, 2, 2], "pay": [1, 2, 1, 2, 1, 2]})
    policy = policy_of(3, age="numeric", pay="numeric")
    by_age = shoal.anonymize(frame, policy, method="mdav", weights={"age": 2})
    by_pay = shoal.anonymize(frame, policy, method="mdav", weights={"age": 0})
    assert ages(by_age) == [1, 1, 1, 2, 2, 2] and by_age.frame["pay"].tolist() == [1, 1, 1, 2, 2, 2]
    assert ages(by_pay) == [1, 2, 1, 2, 1, 2] and by_pay.frame["pay"].tolist() == [1, 2, 1, 2, 1, 2]


def test_missing_numbers_are_near_one_another() -> None:
    frame = pd.DataFrame({"age": [1.0, None, 1.1, None, 9.0, 9.2, 1.2, None, 9.1], "pay": [1] * 9})
    release = shoal.anonymize(frame, policy_of(3, age="numeric", pay="numeric"), method="mdav")
    assert release.frame["age"].fillna(-1).tolist() == [1.1, -1, 1.1, -1, 9.1, 9.1, 1.1, -1, 9.1]


# ---- optimal groups


@given(values=st.lists(st.integers(0, 30), min_size=1, max_size=14), k=st.integers(1, 5))
@counted
def test_optimal_groups_have_the_least_squares_there_are(values: list[int], k: int) -> Outcome:
    if len(values) < k:
        return "too few records"
    policy = policy_of(k)
    codes = coded(build_frame(*values), policy)
    found = groups_of(decided(codes, policy))
    position = codes.attributes[0].position.astype(int).tolist()
    assert all(len(group) >= k for group in found)
    assert sum(squares([position[c] for c in group]) for group in found) == least_squares(values, k)
    return None


@given(values=st.lists(st.integers(0, 6), min_size=4, max_size=9), k=st.integers(2, 3))
def test_no_other_groups_are_better_than_neighbours(values: list[int], k: int) -> None:
    """Against all groupings there are, not only those of neighbours."""

    def least(rest: tuple[int, ...]) -> object:
        if len(rest) < 2 * k:
            return squares(rest)
        first, others = rest[0], range(1, len(rest))
        tried = [
            squares([first, *(rest[i] for i in chosen)]) + least(tuple(rest[i] for i in others if i not in chosen))
            for size in range(k - 1, len(rest) - k)
            for chosen in combinations(others, size)
        ]
        return min([*tried, squares(rest)])

    assert least(tuple(values)) == least_squares(values, k)


@pytest.mark.parametrize("kind", ["numeric", "date"])
def test_a_single_number_or_date_is_grouped_optimally(kind: str) -> None:
    """MDAV cuts in threes; the gap is behind the fourth."""
    days = [1, 2, 3, 4, 21, 22, 23]
    frame = build_frame(*(days if kind == "numeric" else [f"2001-01-{d:02d}" for d in days]))
    policy = policy_of(3, age={"kind": kind, "round": "none"})
    plain, best = (shoal.anonymize(frame, policy, method="mdav", optimal=o) for o in (False, None))
    shown = [2.0] * 4 + [22.0] * 3 if kind == "numeric" else ["2001-01-02"] * 4 + ["2001-01-22"] * 3
    assert ages(best) == shown
    assert best.measures["ncp"] <= plain.measures["ncp"]


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ([1, 2, 3, 4, None, None], [2, 2, 2]),
        ([1, 2, 8, 9, None], [2, 3]),
        ([1, None, None, None], [4]),
        ([None, None, None], [3]),
        ([1, 2, 3, None], [4]),
    ],
)
def test_missing_numbers_are_a_group_where_they_are_enough(values: list[object], sizes: list[int]) -> None:
    policy = policy_of(2)
    codes = coded(pd.DataFrame({"age": pd.Series(values, dtype="Float64")}), policy)
    found = groups_of(decided(codes, policy, optimal=True))
    assert [len(group) for group in found] == sizes


@pytest.mark.parametrize(
    "quasi", [{"age": "numeric", "pay": "numeric"}, {"age": "categorical"}, {"age": {"kind": "numeric", "balanced": 2}}]
)
def test_optimal_grouping_of_anything_else_is_refused(quasi: dict[str, object]) -> None:
    frame = pd.DataFrame({"age": [1, 2, 3], "pay": [1, 2, 3]})
    with pytest.raises(shoal.PolicyError, match=r"exactly one quasi-identifier.*leave 'optimal' out"):
        shoal.anonymize(frame, policy_of(2, **quasi), method="mdav", optimal=True)


# ---- odd input


def test_fewer_records_than_k_are_an_error() -> None:
    with pytest.raises(shoal.PolicyError, match="at least 3 records"):
        shoal.anonymize(build_frame(1, 2), policy_of(3), method="mdav")


@pytest.mark.parametrize("optimal", [True, False])
def test_k_records_are_one_group(optimal: bool) -> None:
    assert ages(shoal.anonymize(build_frame(1, 2, 6), policy_of(3), method="mdav", optimal=optimal)) == [3.0] * 3


@pytest.mark.parametrize("optimal", [True, False])
def test_equal_records_are_published_as_they_are(optimal: bool) -> None:
    release = shoal.anonymize(build_frame(*[0.1] * 11), policy_of(3), method="mdav", optimal=optimal)
    assert ages(release) == [0.1] * 11
    assert release.certificate.groups == 1 and release.certificate.smallest == 11


@pytest.mark.parametrize("optimal", [True, False])
def test_groups_of_one_are_the_records(optimal: bool) -> None:
    release = shoal.anonymize(build_frame(3, 1, 1), policy_of(1), method="mdav", optimal=optimal)
    assert ages(release) == ["3", "1", "1"]  # labels, since means need groups of 3


@pytest.mark.parametrize("kind", ["numeric", "categorical", "date"])
def test_a_column_may_be_all_missing(kind: str) -> None:
    frame = pd.DataFrame({"age": pd.Series([None] * 6, dtype=object), "pay": [1, 9, 1, 9, 1, 9]})
    release = shoal.anonymize(frame, policy_of(3, age=kind, pay="numeric"), method="mdav")
    assert release.frame["age"].isna().all()
    assert release.frame["pay"].tolist() == [1, 9] * 3
    alone = shoal.anonymize(frame, policy_of(3, age=kind), method="mdav")
    assert alone.frame["age"].isna().all()


def test_weights_of_zero_leave_groups_of_k() -> None:
    frame = pd.DataFrame({"age": range(10), "sex": list("fm") * 5})
    policy = policy_of(3, age="numeric", sex="categorical")
    sizes = decided(coded(frame, policy), policy, weights={"age": 0, "sex": 0}).size()
    assert sorted(sizes) == [3, 3, 4]


@pytest.mark.parametrize(
    "values", [[1e149, -1e149, 1.7e149, 0.0], [1e-308, 2e-308, 9e-308, 1e-307], [1e15, 1e15 + 1, 0, 1]]
)
def test_huge_and_tiny_numbers_are_told_apart(values: list[float]) -> None:
    policy = policy_of(2)
    codes = coded(build_frame(*values), policy)
    found = [groups_of(decided(codes, policy, optimal=optimal, weights={"age": 1e300})) for optimal in (True, False)]
    assert found == [[[0, 1], [2, 3]]] * 2


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"weights": {"agee": 1}}, "did you mean 'age'"),
        ({"weights": {"age": -1}}, "at least 0"),
        ({"weights": {"age": "much"}}, "must be a number"),
        ({"weights": [1]}, "weights must be numbers by column name"),
        ({"optimal": "yes"}, "optimal must be true or false"),
        ({"write": "average"}, "unknown value 'average' for 'write'"),
        ({"weight": {}}, "mdav has no parameter 'weight'"),
    ],
)
def test_wrong_parameters_name_the_remedy(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(build_frame(1, 2, 3), policy_of(2), method="mdav", **parameters)


@dataclass(frozen=True)
class AtMost(shoal.KAnonymity):
    """Groups of at most k records: what no union keeps."""

    name: ClassVar[str] = "at-most"
    monotone: ClassVar[bool] = False


def test_a_requirement_that_unions_break_is_refused() -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[AtMost(5)])
    with pytest.raises(shoal.PolicyError, match="a union of passing groups"):
        shoal.anonymize(build_frame(*range(9)), policy, method="mdav")


@pytest.mark.parametrize("optimal", [True, False])
def test_progress_counts_the_records_up(optimal: bool) -> None:
    told: list[tuple[str, int, int]] = []
    policy = policy_of(3)
    shoal.tables.MDAV(policy, optimal=optimal).release(
        build_frame(*range(500)), progress=lambda *step: told.append(step)
    )
    done = [step[1] for step in told if step[0] == "grouping"]
    assert done[0] == 0 and done[-1] == 500 and done == sorted(done) and 20 < len(done) < 200
    assert {step[2] for step in told if step[0] == "grouping"} == {500}


# ---- the release


def anonymized(case: Case, **parameters: object) -> shoal.Release | None:
    try:
        return shoal.anonymize(case.frame, case.policy, method="mdav", **parameters)
    except shoal.RequirementNotMet:
        return None


@given(case=cases(), write=st.sampled_from(["mean", "median", "label", "midpoint", "set"]))
@counted
def test_the_release_holds_when_recounted(case: Case, write: str) -> Outcome:
    case = averaged(case) if write in ("mean", "median") else case
    release = anonymized(case, write=write)
    if release is None:  # then even one group for all does not do
        assert not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy)
        return "not met"
    assert holds(release.frame, case.policy)
    assert release.certificate.smallest == recount(release.frame, list(case.policy.quasi)).min()
    stayed = case.frame["note"].isin(release.frame["note"])
    assert list(release.frame["note"]) == list(case.frame["note"][stayed])
    assert (~stayed).sum() == release.certificate.suppressed <= case.policy.suppress * len(stayed) + 1e-9
    return None


@given(case=cases(), seed=st.integers(0, 2**32 - 1))
@counted
def test_row_order_does_not_matter(case: Case, seed: int) -> Outcome:
    order = np.random.default_rng(seed).permutation(len(case.frame))
    first, second = anonymized(case), anonymized(Case(case.frame.iloc[order], case.policy))
    assert (first is None) == (second is None)
    if first is None or second is None:
        return "not met"
    assert first.certificate.fingerprint == second.certificate.fingerprint
    return None


@given(table=tables(), k=st.integers(3, 5))
@counted
def test_means_keep_the_mean(table: tuple[pd.DataFrame, dict[str, object], dict[str, float]], k: int) -> Outcome:
    frame, quasi, _ = table
    numbers = {c: q for c, q in quasi.items() if q == "numeric" and frame[c].notna().all()}
    if not numbers or len(frame) < k:
        return "no column of numbers"
    release = shoal.anonymize(frame, shoal.Policy(quasi=numbers, require=[shoal.KAnonymity(k)]), method="mdav")
    for name in numbers:
        values = frame[name].astype(float)
        half = next((0.5 / 10**p for p in range(7) if (values.round(p) == values).all()), 0.0)  # means are rounded
        assert release.frame[name].mean() == pytest.approx(values.mean(), abs=half + 1e-9)
    return None
