"""Synthesis: the moments of groups against plain pandas, and the synthetic records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.engines.memory import list_record_cells
from shoal.recoding import Field, Output, Placement, Synthesis, expand_placement, load_recoding
from shoal.recoding.grouping import Grouping
from shoal.recoding.synthesis import Scale

SIGMAS = 5.0  # a sound draw strays further once in two million


def learned(frame: pd.DataFrame, group: list[int], quasi: dict[str, object]) -> Synthesis:
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(1)])
    codes, _ = encode_and_count(open_data(frame), policy)
    place = Grouping.from_records(codes, list_record_cells(codes.counts), np.array(group, np.int32)).placement
    fields = tuple(Field.of(a, policy) for a in codes.attributes)
    bounds = {name: q.bounds for name, q in policy.quasi.items()}
    return Synthesis.of(codes, place, fields, Output((), ("",)), bounds)


def drawn(synthesis: Synthesis, seed: int = 1) -> pd.DataFrame:
    columns = synthesis.draw(np.random.default_rng(seed))
    return pd.DataFrame({n: [None if i < 0 else w.values[i] for i in w.index] for n, w in columns})


def group_of(synthesis: Synthesis) -> np.ndarray:
    return np.repeat(np.arange(len(synthesis.size)), synthesis.size)


def numbers(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(rows, 3)) @ np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 1.5], [0.0, 0.0, 0.4]])
    return pd.DataFrame(mixed + np.array([100.0, -20.0, 3.0]), columns=["a", "b", "c"])


WIDE = {name: {"bounds": [-1e4, 1e4]} for name in "abc"}


def test_moments_are_those_of_the_members() -> None:
    frame = numbers(60)
    group = np.arange(60) % 7
    found = learned(frame, group.tolist(), dict.fromkeys("abc", "numeric")).moments
    order = [frame[group == g] for g in range(7)]  # groups are numbered by what they hold: compare as sets
    means = sorted(map(tuple, np.array([part.mean() for part in order]).round(9)))
    assert sorted(map(tuple, found.mean.round(9))) == means
    traces = sorted(float(np.trace(part.cov(ddof=0))) for part in order)
    assert sorted(np.trace(found.covariance, axis1=1, axis2=2)) == pytest.approx(traces)
    assert not found.absent.any()


def test_moments_of_a_group_with_missing_numbers_follow_the_written_rule() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 6.0, None], "b": [4.0, None, 8.0, 9.0], "c": [None] * 4})
    found = learned(frame, [0] * 4, dict.fromkeys("abc", "numeric")).moments
    assert found.mean[0].tolist() == [3.0, 7.0, 0.0]
    assert found.absent[0].tolist() == [0.25, 0.25, 1.0]
    both = ((1 - 3) * (4 - 7) + (6 - 3) * (8 - 7)) / 3  # members 1 and 3 have both; three have the one, three the other
    assert found.covariance[0, 0, 1] == pytest.approx(both)
    assert found.covariance[0, 0, 0] == pytest.approx((4 + 1 + 9) / 3)
    assert not found.covariance[0, 2].any()


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-9, 9))] * 3), min_size=1, max_size=12))
def test_no_direction_has_a_negative_variance(rows: list[tuple[int | None, ...]]) -> None:
    frame = pd.DataFrame(rows, columns=list("abc"), dtype=float)
    found = learned(frame, [0] * len(rows), dict.fromkeys("abc", "numeric")).moments
    assert np.linalg.eigvalsh(found.covariance[0]).min() >= -1e-9


def test_draws_lie_within_the_ranges_along_the_principal_components() -> None:
    frame = numbers(40)
    synthesis = learned(frame, (np.arange(40) % 4).tolist(), WIDE)
    values, group = drawn(synthesis).to_numpy(), group_of(synthesis)
    for g, (mean, covariance) in enumerate(zip(synthesis.moments.mean, synthesis.moments.covariance, strict=True)):
        variance, direction = np.linalg.eigh(covariance)  # all attributes have the same width here
        along = (values[group == g] - mean) @ direction
        assert (np.abs(along) <= np.sqrt(12 * variance) / 2 + 1e-9).all()


def test_means_and_covariances_of_draws_approach_those_of_the_group() -> None:
    rows = 200_000
    synthesis = learned(numbers(rows), [0] * rows, WIDE)
    values = drawn(synthesis).to_numpy()
    mean, covariance = synthesis.moments.mean[0], synthesis.moments.covariance[0]
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(values.mean(axis=0) - mean) <= SIGMAS * sd / np.sqrt(rows)).all()
    reach = np.abs(values - mean).max(axis=0)  # |x y| <= reach |y|, so that its variance is at most reach^2 var(y)
    error = SIGMAS * np.outer(reach, sd) / np.sqrt(rows)
    assert (np.abs(np.cov(values.T, ddof=0) - covariance) <= error).all()


@given(
    st.floats(0, 1),
    st.floats(-5, 5),
    st.floats(-1e6, 1e6),
    st.floats(0, 1e6),
)
def test_values_beyond_the_ends_are_reflected_around_the_mean(
    at: float, deviation: float, low: float, width: float
) -> None:
    scale = Scale("x", 1.0, None, low, low + width)
    mean = np.array([low + at * (scale.high - low)])
    there, back = (scale.fold(mean, np.array([d * scale.width])) for d in (deviation, -deviation))
    slack = 1e-9 * max(1.0, abs(low), width)
    assert scale.low - slack <= there[0] <= scale.high + slack
    assert there[0] + back[0] == pytest.approx(2 * mean[0], abs=slack)


@given(st.floats(-50, 50), st.integers(0, 3))
def test_rounding_keeps_the_mean_and_the_ends(value: float, places: int) -> None:
    scale = Scale("x", 1.0, places, -50.0, 50.0)
    chance = (np.arange(1000) + 0.5) / 1000
    found = scale.round(np.full(1000, value), chance)
    assert found.mean() == pytest.approx(value, abs=2e-3 * 10.0**-places)
    assert ((found >= -50) & (found <= 50)).all()
    assert (np.abs(found - value) <= 10.0**-places + 1e-9).all()
    assert (np.round(found, places) == found).all()


def test_bounds_of_the_policy_are_kept_also_where_they_are_no_values() -> None:
    frame = pd.DataFrame({"a": [0, 0, 0, 0, 9] * 40})
    found = drawn(learned(frame, [0] * 200, {"a": {"bounds": [-0.5, 9.5]}}))["a"]
    assert found.min() >= 0 and found.max() <= 9


@pytest.mark.parametrize(
    ("values", "kind", "like"),
    [
        ([1, 5, 9], "numeric", lambda v: v == int(v)),
        ([1.25, 5.5, 9.0], "numeric", lambda v: round(v, 2) == v),
        (["1985-05-30", "1990-01-01", "2001-12-31"], "date", lambda v: len(v) == 10),
        (["1985-05-30T10:00:01", "1990-01-01", "2001-12-31"], "date", lambda v: len(v) in (10, 19)),
        (["1985-05-30", "1990-01-01", "2001-12-31"], {"date": ["day", "year"]}, lambda v: len(v) == 10),
        ([23, 27, 31], {"kind": "numeric", "widths": [5, 10]}, lambda v: v in ("[20, 25)", "[25, 30)", "[30, 35)")),
        (["1985-05-30", "1990-01-01"], {"date": ["month", "year"]}, lambda v: v in ("1985-05", "1990-01")),
    ],
)
def test_values_are_as_fine_as_the_column(values: list[object], kind: object, like: object) -> None:
    frame = pd.DataFrame({"x": values * 30})
    found = drawn(learned(frame, [0] * len(frame), {"x": kind}))["x"]
    assert all(like(v) for v in found)
    assert found.nunique() > 2 or len(values) == 2
    assert found.min() >= min(frame["x"].astype(found.dtype)) or kind == {"date": ["month", "year"]}


def test_synthetic_records_of_equal_records_are_equal_to_them() -> None:
    frame = pd.DataFrame(
        {"a": [0.1] * 3 + [0.7] * 3, "b": [3] * 3 + [1 / 3] * 3, "c": ["x"] * 3 + [None] * 3, "d": ["2001-12-31"] * 6}
    )
    synthesis = learned(frame, [0] * 3 + [1] * 3, {"a": "numeric", "b": "numeric", "c": "categorical", "d": "date"})
    found = drawn(synthesis)
    assert sorted(map(str, found.itertuples(index=False))) == sorted(
        map(str, frame.astype({"b": float}).itertuples(index=False))
    )


def test_categories_and_blanks_come_with_their_shares() -> None:
    rows = 30_000
    frame = pd.DataFrame({"c": ["x", "x", "x", "y", None] * (rows // 5), "a": [1.0, 2.0, None, 4.0, 5.0] * (rows // 5)})
    found = drawn(learned(frame, [0] * rows, {"c": "categorical", "a": "numeric"}))
    for value, share in (("x", 0.6), ("y", 0.2)):
        assert abs((found["c"] == value).mean() - share) <= SIGMAS * np.sqrt(share * (1 - share) / rows)
    for name in "ca":
        assert abs(found[name].isna().mean() - 0.2) <= SIGMAS * np.sqrt(0.2 * 0.8 / rows)


def test_every_synthetic_category_occurs_in_its_group() -> None:
    frame = pd.DataFrame({"c": list("aabbccdd")})
    synthesis = learned(frame, [0, 0, 0, 0, 1, 1, 1, 1], {"c": "categorical"})
    group = group_of(synthesis)
    for seed in range(20):
        found = drawn(synthesis, seed)["c"]
        sets = {frozenset(found[group == g]) for g in range(2)}
        assert any(s <= {"a", "b"} for s in sets) and any(s <= {"c", "d"} for s in sets)


def test_it_is_kept_as_json_and_draws_the_same(tmp_path: Path) -> None:
    frame = numbers(30).round(1).assign(d=["x", None, "y"] * 10, e=[None, "1990-01-01"] * 15)
    quasi = {**dict.fromkeys("abc", "numeric"), "d": "categorical", "e": "date"}
    synthesis = learned(frame, (np.arange(30) % 5).tolist(), quasi)
    (tmp_path / "recoding.json").write_text(synthesis.to_json(), encoding="utf-8")
    back = load_recoding(tmp_path / "recoding.json")
    assert isinstance(back, Synthesis) and back.kind == "synthesis"
    pd.testing.assert_frame_equal(drawn(back), drawn(synthesis))


def test_it_cannot_be_applied_to_later_data() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    synthesis = learned(frame, [0, 0, 0], {"a": "numeric"})
    with pytest.raises(shoal.DataError, match=r"cannot be applied to later data.*Anonymize the later table on its own"):
        synthesis.apply(frame)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 3), st.integers(1, 3)), min_size=1, max_size=12))
def test_records_one_by_one(entries: list[tuple[int, int, int]]) -> None:
    entries = sorted({(c, g): (c, g, w) for c, g, w in entries}.values())
    numbered = {g: i for i, g in enumerate(sorted({g for _, g, _ in entries if g >= 0}))} | {-1: -1}
    cell, group, weight = (np.array(column) for column in zip(*entries, strict=True))
    group = np.array([numbered[int(g)] for g in group], np.int32)
    each, of = expand_placement(Placement(cell, group, weight))
    assert (np.diff(each.cell) >= 0).all()
    assert sorted(each.group[each.group >= 0]) == list(range(len(of)))
    assert (np.diff(of) >= 0).all()
    before, after = pd.DataFrame({"c": cell, "g": group, "w": weight}), pd.DataFrame({"c": each.cell, "w": each.count})
    after["g"] = np.where(each.group >= 0, np.append(of, -1)[each.group], -1)
    sums = [t.groupby(["c", "g"])["w"].sum().to_dict() for t in (before, after)]
    assert sums[0] == sums[1]
