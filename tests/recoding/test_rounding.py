"""Rounded ends: labels contain their values for all magnitudes, and averages stay near their groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.rounding import CalendarUnit, SignificantDigits, Step, default_rounding

numbers = st.floats(-1e15, 1e15) | st.floats(-1e-3, 1e-3) | st.floats(-1e3, 1e3)
RNG = np.random.default_rng(0)


def release(values: object, quasi: object, k: int, **more: object) -> shoal.Release:
    policy = shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(k)])
    return shoal.anonymize(pd.DataFrame({"x": values}), policy, seed=1, **more)


@given(one=numbers, other=numbers, step=st.sampled_from([1e-300, 1e-12, 1e-9, 0.01, 0.3, 1.0, 7.0, 1000.0]))
def test_rounded_ends_contain_the_range(one: float, other: float, step: float) -> None:
    low, high = np.array([min(one, other)]), np.array([max(one, other)])
    for rounding in (Step(step), SignificantDigits(max(float(high[0] - low[0]), 1e-9))):
        first, last = rounding.outward(low + 0.0, high + 0.0)
        assert first[0] <= low[0] and high[0] <= last[0]
        assert str(first[0]) != "-0.0" and str(last[0]) != "-0.0"
        near = rounding.nearest(low / 2 + high / 2 + 0.0, low, high)
        assert np.isfinite(near[0]) and str(near[0]) != "-0.0"


def test_times_with_microseconds_are_in_their_ranges() -> None:
    values = 1.7e9 + RNG.integers(0, 3000, 500) / 1e6
    found = release(values, "numeric", 2, write="lo-hi")
    assert ((found.frame["x_lo"] <= values) & (values <= found.frame["x_hi"])).all()
    assert len(found.recoding.apply(pd.DataFrame({"x": values}))) == len(values)


def test_an_outlier_does_not_coarsen_other_groups() -> None:
    values = RNG.lognormal(10, 1.2, 300).round(2)
    values[0] = 5_000_000.75
    means = release(values, "numeric", 5, method="mdav").frame["x"]
    assert (np.abs(means - values) / values).median() < 0.05
    single = release([0.1234] * 3 + [0.71] * 3 + [1e6 + 0.5, 1e6 + 1.25, 1e6 + 2.5], "numeric", 3)
    assert set(single.frame["x"]) == {"[0.123, 0.124]", "0.71", "[1000000.5, 1000002.5]"}


def test_a_few_times_do_not_make_dates_to_times() -> None:
    days = np.arange(0.0, 100 * 86400.0, 86400.0)
    assert default_rounding(days, dates=True, span=1.0) == CalendarUnit("month", True)
    dirty = days.copy()
    dirty[3] += 1.0
    assert default_rounding(dirty, dates=True, span=1.0) == CalendarUnit("month", False)
    assert default_rounding(days - 3600.0, dates=True, span=1.0) == CalendarUnit("month", False)
    assert default_rounding(days + np.arange(100.0), dates=True, span=1.0) == CalendarUnit("hour", False)


def test_midpoints_of_cuts_are_rounded() -> None:
    days = [str(d.date()) for d in pd.to_datetime(RNG.integers(0, 9000, 100), unit="D")]
    found = release(days, {"kind": "date", "round": "year"}, 20, method="tds", write="midpoint")
    assert all(str(value).endswith("-01-01") for value in found.frame["x"])
    again = found.recoding.apply(pd.DataFrame({"x": days}))
    assert sorted(map(str, again["x"])) == sorted(map(str, found.frame["x"]))


def test_sets_of_rounded_numbers_have_each_member_once() -> None:
    values = np.linspace(1.2345, 9.8765, 12).round(4)
    for method in ("tds", "kmember", "mondrian"):
        labels = set(release(values, {"kind": "numeric", "balanced": 3}, 3, method=method, write="set").frame["x"])
        assert not any(str(value) in label for value in values for label in labels), labels
        coarse = release(values, {"kind": "numeric", "balanced": 3, "round": 10}, 3, method=method, write="set")
        assert set(coarse.frame["x"]) == {"[0, 10]"}


@pytest.mark.parametrize("ends", ["tight", "cut"])
def test_later_rows_within_a_rounded_range_are_accepted(ends: str) -> None:
    found = release([1, 5, 9, 21, 25, 29], {"kind": "numeric", "round": 10}, 3, method="tds", ends=ends)
    again = found.recoding.apply(pd.DataFrame({"x": [0, 10, 20, 30]}))
    assert len(again) == 4


def test_times_at_the_end_of_the_calendar_can_be_released() -> None:
    times = ["9999-12-31T23:30:00"] * 3 + ["2020-01-01T10:10:10"] * 3 + ["2021-01-01T11:11:11"] * 3
    assert set(release(times, "date", 3).frame["x"]) == {
        "[9999-12-31T23:00:00, 9999-12-31T23:59:59]",
        "[2020-01-01T10:00:00, 2020-01-01T11:00:00]",
        "[2021-01-01T11:00:00, 2021-01-01T12:00:00]",
    }


def test_days_alone_are_published_as_ranges_of_days() -> None:
    found = release(["2020-01-01", "2020-01-05", "2020-02-01", "2020-02-03"], {"date": ["day"]}, 2)
    assert set(found.frame["x"]) == {"2020-01-01 – 2020-01-05", "2020-02-01 – 2020-02-03"}


def test_ordered_labels_may_have_spaces_at_their_ends() -> None:
    found = release(["a ", "b", "c", "c"], {"taxonomy": ["a ", "b", "c"], "ordered": True}, 2)
    assert set(found.frame["x"]) == {"a  – b", "c"}


def test_ranges_that_end_at_single_values_are_noted() -> None:
    found = release(RNG.normal(75, 15, 200).round(2), "numeric", 5)
    labels = int(found.measures["unique_ends"])
    assert labels > 0
    assert any(note.startswith(f"{labels:,} labels of ranges end at a value that occurs once") for note in found.notes)


SUPPRESSED = [  # a suppressed record has an age that the rounded range of the next interval contains
    ({"age": [21, 21, 24, 26, 26, 27, 27, 28, 28]}, {"age": {"kind": "numeric", "round": 3}}, 4),
    (  # no range contains its score and its day
        {
            "age": [29, 23, 26, 20, 25, 26, 21],
            "score": [0.25, -0.5, 0.25, 3.0, 0.0, 3.0, -0.5],
            "day": [7, 7, 7, 6, 1, 5, 7],
        },
        {"age": {"kind": "numeric", "round": 3}, "score": "numeric", "day": "numeric"},
        2,
    ),
]


@pytest.mark.parametrize(("columns", "quasi", "k"), SUPPRESSED, ids=["inside one range", "outside every box"])
def test_a_suppressed_record_stays_suppressed_though_a_rounded_range_contains_it(
    columns: dict[str, list[float]], quasi: dict[str, object], k: int
) -> None:
    frame = pd.DataFrame(columns)
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(k)], suppress=1.0)
    found = shoal.anonymize(frame, policy, method="tds", seed=3)
    assert found.certificate.suppressed > 0
    pd.testing.assert_frame_equal(found.recoding.apply(frame), found.frame)


@pytest.mark.parametrize("method", ["samarati", "datafly", "incognito", "optimal"])
def test_values_of_one_rounded_label_stay_together_after_suppression(method: str) -> None:
    frame = pd.DataFrame({"x": [20] * 18 + [21, 22]})
    quasi = {"x": {"kind": "numeric", "round": 4}}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(2)], suppress=0.1)
    found = shoal.anonymize(frame, policy, method=method, seed=1)
    assert found.frame["x"].tolist() == ["[20, 24]"] * 19 and found.certificate.suppressed == 1
    assert found.recoding.apply(frame)["x"].tolist() == ["[20, 24]"] * 19


@given(
    values=st.lists(st.sampled_from([20, 21, 22, 24, 25, 29, 40, 41, 60]), min_size=8, max_size=30),
    step=st.sampled_from([2, 4, 5]),
    suppress=st.sampled_from([0.1, 0.3]),
    method=st.sampled_from(["tds", "samarati", "datafly", "incognito", "optimal", "mondrian"]),
    more=st.sampled_from([{}, {"balanced": 2}]),
)
def test_rounding_and_suppression_never_fail_the_audit(
    values: list[int], step: int, suppress: float, method: str, more: dict[str, int]
) -> None:
    frame = pd.DataFrame({"x": values, "y": [v % 3 for v in values]})
    quasi = {"x": {"kind": "numeric", "round": step, **more}, "y": "categorical"}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(3)], suppress=suppress)
    found = shoal.anonymize(frame, policy, method=method, seed=1)
    assert found.frame.groupby(["x", "y"]).size().min() >= 3
    again = found.recoding.apply(frame)
    assert sorted(again.itertuples(index=False)) == sorted(found.frame.itertuples(index=False))
