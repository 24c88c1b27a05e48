"""Ranges over ordered taxonomies and rounded ends: the shorter label is published, and no end shows a person."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import kernels
from shoal.cli.program import UNENCODABLE
from shoal.encoding.attributes import LossTables, encode_attribute
from shoal.encoding.rounding import CalendarUnit, SignificantDigits, Step
from shoal.engines import Distinct, Reading
from shoal.formats.labels import RUN_SEPARATORS
from shoal.policy import QuasiIdentifier
from shoal.taxonomy import Runs, Taxonomy
from tests.support.kernels import compile_inner

GRADES = {"ANY": {"primary": ["1st", "2nd"], "middle": ["5th", "6th"], "high": ["9th", "10th", "11th"]}}


@st.composite
def trees(draw: st.DrawFn) -> Taxonomy:
    """Unbalanced trees; a branch may have one child."""
    names = iter(range(1000))

    def branch(depth: int) -> Any:
        children = draw(st.integers(1, 3))
        below = [branch(depth - 1) if depth and draw(st.booleans()) else f"leaf {next(names)}" for _ in range(children)]
        return {f"node {next(names)}": below}

    return Taxonomy.from_nested({"ANY": [branch(2) for _ in range(draw(st.integers(1, 4)))]})


def list_ancestors(tree: Taxonomy, code: int) -> list[int]:
    """The nodes over a leaf, from the leaf to the root."""
    found = [int(tree.leaf[code])]
    while tree.parent[found[-1]] >= 0:
        found.append(int(tree.parent[found[-1]]))
    return found


def publish_slowly(tree: Taxonomy, height: int, lo: int, hi: int) -> tuple[int, int]:
    """The nodes of the label, by comparing the lowest node with the run of the highest nodes that are not too high."""
    single = next(n for n in list_ancestors(tree, lo) if tree.hi[n] >= hi)
    first, last = ([n for n in list_ancestors(tree, code) if tree.height[n] <= height][-1] for code in (lo, hi))
    missing = tree.leaves[hi] is None
    shorter = len(range(tree.lo[first], tree.hi[last])) < len(range(tree.lo[single], tree.hi[single]))
    return (first, last) if shorter and not missing else (single, single)


@given(tree=trees(), height=st.integers(0, 3), holes=st.booleans())
def test_the_shorter_of_node_and_run_is_published(tree: Taxonomy, height: int, holes: bool) -> None:
    tree = tree.with_missing() if holes else tree
    lo, hi = np.triu_indices(tree.size)
    first, last = Runs.of(tree, height).publish(tree, lo.astype(np.int32), hi.astype(np.int32))
    slow = [publish_slowly(tree, height, int(a), int(b)) for a, b in zip(lo, hi, strict=True)]
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == slow


@given(
    tree=trees(), height=st.integers(0, 3), holes=st.booleans(), objective=st.sampled_from(["ncp", "loss_mean", "il"])
)
def test_kernels_count_the_leaves_of_the_label(tree: Taxonomy, height: int, holes: bool, objective: str) -> None:
    height = min(height, int(tree.height[0]) - 1)
    quasi = QuasiIdentifier(taxonomy=tree, ordered=True, ranges=height)
    values = np.array(sorted(tree.leaves, key=str), object)
    attribute, _ = encode_attribute("x", quasi, Distinct(values, np.ones(len(values), np.int64), int(holes)), Reading())
    whole = attribute.taxonomy
    assert whole is not None
    tables = LossTables.of([attribute], objective)
    first_codes = tables.first_codes([attribute])
    lo, hi = (codes.astype(np.int32) for codes in np.triu_indices(whole.size))
    for a, b, ncp in zip(lo.tolist(), hi.tolist(), attribute.loss(lo, hi).tolist(), strict=True):
        first, last = publish_slowly(whole, height, a, b)
        leaves = int(whole.hi[last] - whole.lo[first]) + 1
        is_leaf = first == last and whole.height[first] == 0
        expected = {
            "ncp": 0.0 if is_leaf else leaves / whole.size,
            "loss_mean": 0.0 if is_leaf else (leaves - 1) / max(whole.size - 1, 1),
            "il": whole.height[next(n for n in list_ancestors(whole, a) if whole.hi[n] >= b)] / whole.height[0],
        }
        assert compile_inner(kernels.boxes.interval_loss)(0, a, b, tables.ints, tables.floats) == pytest.approx(
            expected[objective]
        )
        assert ncp == pytest.approx(expected["ncp"])
        if objective != "il":
            widened = compile_inner(kernels.boxes.widen_to_label)(0, a, b, tables.ints, first_codes)
            assert tuple(map(int, widened)) == (whole.lo[first], whole.hi[last])


def label_of(quasi: Any, values: list[Any], **more: Any) -> set[Any]:
    """The labels of a column whose values form one group."""
    frame = pd.DataFrame({"x": values})
    policy = shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(len(values))])
    released = shoal.anonymize(frame, policy, method="mondrian", **more).frame
    return set((released if isinstance(released, pd.DataFrame) else released.df())["x"])


@pytest.mark.parametrize(
    ("quasi", "values", "label"),
    [
        ({"date": ["day", "month", "year", "decade"]}, ["1966-05-04", "1966-07-30", "1983-01-02"], "1966-05 – 1983-01"),
        (
            {"date": ["day", "month", "year"], "ranges": "year"},
            ["1966-05-04", "1967-07-30", "1983-01-02"],
            "1966 – 1983",
        ),
        ({"date": ["month", "year"]}, ["1966-05-04", "1966-05-30"], "1966-05"),
        ({"date": ["day", "month"], "ranges": False}, ["1966-05-04", "1966-07-30"], "*"),
        ({"widths": [5, 10, 20]}, [23, 26, 36], "[20, 40)"),
        ({"widths": [5, 10, 20]}, [17, 23], "[15, 25)"),
        ({"widths": [20]}, [23], "[20, 40)"),
        ({"boundaries": [18, 30, 65]}, [20, 40, 50], "[18, 65)"),
        ({"boundaries": [18, 30, 65]}, [3, 20], "(-inf, 30)"),
        ({"taxonomy": GRADES, "ordered": True}, ["1st", "2nd", "6th"], "primary – middle"),
        ({"taxonomy": GRADES, "ordered": True, "ranges": 0}, ["2nd", "5th", "6th"], "2nd – 6th"),
        ({"taxonomy": GRADES, "ordered": True}, ["5th", "6th"], "middle"),
        ({"taxonomy": GRADES}, ["1st", "2nd", "6th"], "*"),
        ({"taxonomy": ["low", "medium", "high"], "ordered": True}, ["low", "medium"], "low – medium"),
        ({"taxonomy": GRADES, "ordered": True}, ["1st", "6th", None], "*"),
    ],
)
def test_labels(quasi: Any, values: list[Any], label: str) -> None:
    others = {"taxonomy": ["11th", "high"], "widths": [99], "boundaries": [99, 99], "date": ["2031-01-01"]}
    kind = next(key for key in others if key in quasi)
    rest = [o for o in others[kind] if kind != "taxonomy" or o in shoal.Taxonomy.from_nested(quasi["taxonomy"]).leaves]
    frame = pd.DataFrame({"x": [*values, *rest[:1] * len(values)], "g": ["a"] * len(values) + ["b"] * len(values)})
    policy = shoal.Policy(quasi={"g": "categorical", "x": quasi}, require=[shoal.KAnonymity(len(values))], missing=[""])
    release = shoal.anonymize(frame, policy, method="mondrian")
    assert set(release.frame.loc[release.frame["g"] == "a", "x"]) == {label}
    assert shoal.check(release.frame, policy).holds
    kept = shoal.measure(frame, release.frame, policy)
    assert kept["ncp"] == pytest.approx(release.measures["ncp"])


def test_a_run_may_be_written_without_the_dash() -> None:
    frame = pd.DataFrame({"x": ["1st", "6th", "9th", "9th"]})
    policy = shoal.Policy(quasi={"x": {"taxonomy": GRADES, "ordered": True}}, require=[shoal.KAnonymity(2)])
    other = frame.assign(x=["primary -- middle"] * 2 + ["9th"] * 2)
    same = frame.assign(x=["primary – middle"] * 2 + ["9th"] * 2)
    assert shoal.measure(frame, other, policy) == shoal.measure(frame, same, policy)
    assert shoal.measure(frame, other, policy)["ncp"] == pytest.approx(2 / 4 * 4 / 7)
    assert shoal.measure(frame, other, policy)["il"] == pytest.approx(shoal.measure(frame, same, policy)["il"])


def test_a_terminal_without_the_dash_shows_two_hyphens() -> None:
    assert f"1966{RUN_SEPARATORS[0]}1983 …".encode("ascii", errors=UNENCODABLE) == b"1966 -- 1983 ?"


@pytest.mark.parametrize(
    ("quasi", "message"),
    [
        ({"taxonomy": ["a – b", "c"], "ordered": True}, "contains 'a – b'.*rename the value, or add 'ranges: false'"),
        ({"taxonomy": ["a -- b", "c"], "ordered": True}, "contains 'a -- b'"),
        ({"kind": "numeric", "ordered": True}, "'ordered' needs 'taxonomy'"),
        ({"kind": "numeric", "ranges": 1}, "'ranges' needs an ordered tree"),
        ({"taxonomy": GRADES, "ranges": 1}, "'ranges' needs an ordered tree"),
        ({"taxonomy": GRADES, "ordered": True, "ranges": 2}, "a whole number from 0 to 1, not 2"),
        ({"date": ["day", "month"], "ranges": "year"}, "one of the parts of 'date', not 'year'"),
        ({"widths": [5, 10], "ranges": 20}, "one of the widths, not 20.*choose from 5, 10"),
        ({"widths": [5], "round": 5}, "'round' is for numbers and dates without levels"),
        ({"kind": "date", "round": 5}, "'round' must be a unit of the calendar, not 5"),
        ({"kind": "date", "round": "fortnight"}, "'round' must be a unit of the calendar"),
        ({"kind": "numeric", "round": "day"}, "'round' must be a number above 0 or 'none', not 'day'"),
        ({"kind": "numeric", "round": -1}, "'round' must be a number above 0 or 'none', not -1"),
        ({"kind": "numeric", "round": True}, "True is neither a word nor a number"),
    ],
)
def test_errors_say_what_to_do(quasi: Any, message: str) -> None:
    with pytest.raises(shoal.PolicyError, match=message):
        shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(2)])


@pytest.mark.parametrize(
    "quasi", [{"taxonomy": ["a – b", "c"], "ordered": True, "ranges": False}, {"taxonomy": ["a – b"]}]
)
def test_a_separator_does_no_harm_without_ranges(quasi: Any) -> None:
    assert shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(2)]).quasi["x"].range_height is None


@given(values=st.lists(st.decimals(-1000, 1000, places=3), min_size=1), step=st.sampled_from([0.01, 0.1, 1, 5, 1000]))
def test_steps_are_the_nearest_multiples_outside(values: list[Any], step: float) -> None:
    numbers = np.array([float(v) for v in values])
    low, high = Step(step).outward(numbers, numbers)
    exact = Fraction(str(step))
    for number, below, above in zip(values, low.tolist(), high.tolist(), strict=True):
        assert below == float(Fraction(number) // exact * exact)
        assert above == float(-(-Fraction(number) // exact * exact))


def begin_slowly(moment: datetime, unit: str) -> datetime:
    """The first moment of a unit, by counting down."""
    day = datetime(moment.year, moment.month, moment.day)
    year = day.replace(month=1, day=1)
    return {
        "minute": lambda: moment.replace(second=0),
        "hour": lambda: moment.replace(minute=0, second=0),
        "day": lambda: day,
        "week": lambda: day - timedelta(days=day.weekday()),
        "month": lambda: day.replace(day=1),
        "quarter": lambda: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "year": lambda: year,
        "decade": lambda: year.replace(year=year.year // 10 * 10),
    }[unit]()


@given(
    moments=st.lists(st.datetimes(datetime(1901, 1, 1), datetime(2099, 1, 1)), min_size=1),
    unit=st.sampled_from(["minute", "hour", "day", "week", "month", "quarter", "year", "decade"]),
    days=st.booleans(),
)
def test_units_of_the_calendar_contain_the_moment(moments: list[datetime], unit: str, days: bool) -> None:
    moments = [m.replace(microsecond=0, **({"hour": 0, "minute": 0, "second": 0} if days else {})) for m in moments]
    epoch = datetime(1970, 1, 1)
    seconds = np.array([(m - epoch).total_seconds() for m in moments])
    low, high = CalendarUnit(unit, days).outward(seconds, seconds)
    for moment, below, above in zip(moments, low.tolist(), high.tolist(), strict=True):
        begin, end = epoch + timedelta(seconds=below), epoch + timedelta(seconds=above)
        assert begin == begin_slowly(moment, unit)
        assert moment <= end
        if days and unit not in ("minute", "hour"):  # the last day of the unit
            assert begin_slowly(end, unit) == begin and begin_slowly(end + timedelta(days=1), unit) > begin
        else:
            assert begin_slowly(end, unit) == end and (
                end == moment or begin_slowly(end - timedelta(seconds=1), unit) == begin
            )


@given(low=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6))
def test_three_digits_of_the_width_are_kept(low: float, width: float) -> None:
    ends = np.array([low]), np.array([low + width])
    below, above = (float(end[0]) for end in SignificantDigits(1.0).outward(*ends))
    assert below <= low and low + width <= above
    assert above - below <= (ends[1][0] - low) * 1.021


@pytest.mark.parametrize(
    ("values", "more", "label"),
    [
        ([1234.5678, 1299.123], {}, "[1234.5, 1299.2]"),
        ([1234.5678, 1299.123], {"round": "none"}, "[1234.5678, 1299.123]"),
        ([1234.5678, 1299.123], {"round": 100}, "[1200, 1300]"),
        ([1234.5678, 1299.123], {"bounds": [1234.5678, 2000]}, "[1234.5678, 1299.2]"),
        ([1.5, 2.25], {}, "[1.5, 2.25]"),  # at most three significant digits
        ([20, 36], {}, "[20, 36]"),
        ([20, 36], {"round": 10}, "[20, 40]"),
        ([23, 23], {"round": 10}, "[20, 30]"),
        ([20, 20], {"round": 10}, "20"),
    ],
)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_ends_of_numbers(values: list[float], more: dict[str, Any], label: str, engine: str) -> None:
    assert label_of({"kind": "numeric", **more}, values, engine=engine) == {label}


@pytest.mark.parametrize(
    ("values", "more", "label"),
    [
        (["1985-06-14", "1985-06-30"], {}, "[1985-06-01, 1985-06-30]"),
        (["1985-06-14", "1990-02-03"], {}, "[1985-06-01, 1990-02-28]"),
        (["1985-06-14", "1990-02-03"], {"round": "year"}, "[1985-01-01, 1990-12-31]"),
        (["1985-06-14", "1990-02-03"], {"round": "none"}, "[1985-06-14, 1990-02-03]"),
        (["1985-06-14T10:20:30", "1985-06-14T12:00:00"], {}, "[1985-06-14T10:00:00, 1985-06-14T12:00:00]"),
        (["1985-06-14T10:20:30", "1985-06-14T12:00:01"], {"round": "day"}, "[1985-06-14, 1985-06-15]"),
    ],
)
def test_ends_of_dates(values: list[str], more: dict[str, Any], label: str) -> None:
    assert label_of({"kind": "date", **more}, values) == {label}


@pytest.mark.parametrize(("write", "value"), [("midpoint", 1260.0), ("mean", 1260.0), ("median", 1230.0)])
def test_averages_are_rounded_to_the_nearest_step(write: str, value: float) -> None:
    values = [1234.5678, 1230.2, 1299.123, 1302.0, 1229.9]
    assert label_of({"kind": "numeric", "round": 10}, values, write=write) == {value}


def test_balanced_numbers_have_rounded_ends_and_measures_read_them() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.gamma(2.0, 20_000, 500).round(2)})
    policy = shoal.Policy(quasi={"x": {"kind": "numeric", "balanced": 4}}, require=[shoal.KAnonymity(5)])
    for method in ("mondrian", "tds", "kmember"):
        release = shoal.anonymize(frame, policy, method=method, seed=1)
        assert release.measures["unique_ends"] == 0
        for raw, label in zip(frame["x"], release.frame["x"], strict=True):
            low, high = map(float, label[1:-1].split(", "))
            assert low <= raw <= high and label[0] + label[-1] == "[]"
        assert shoal.measure(frame, release.frame, policy)["ncp"] == pytest.approx(release.measures["ncp"])


@pytest.mark.parametrize("method", ["mondrian", "kmember", "tds", "peel", "agglomerative"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_no_end_is_the_exact_value_of_a_person(method: str, engine: str) -> None:
    rng = np.random.default_rng(1)
    seconds = rng.integers(0, 10**8, 2000)
    frame = pd.DataFrame(
        {
            "stopped": [str(np.datetime64("2017-01-01") + np.timedelta64(int(s), "s")) for s in seconds],
            "latitude": (44.9 + rng.normal(0, 0.03, 2000)).round(8),
            "income": rng.gamma(2.0, 20_000, 2000).round(2),
        }
    )
    policy = shoal.Policy(
        quasi={"stopped": "date", "latitude": "numeric", "income": "numeric"},
        require=[shoal.KAnonymity(10)],
    )
    release = shoal.anonymize(frame, policy, method=method, engine=engine, seed=3)
    exact = shoal.Policy(
        quasi={name: {"kind": quasi.kind, "round": "none"} for name, quasi in policy.quasi.items()},
        require=policy.require,
    )
    before = shoal.anonymize(frame, exact, method=method, engine=engine, seed=3)
    assert before.measures["unique_ends"] > 20
    assert release.measures["unique_ends"] <= 2
    assert release.measures["ncp"] <= before.measures["ncp"] * 1.05 + 0.01
    assert release.certificate.smallest >= 10


def test_search_counts_the_published_ends() -> None:
    frame = pd.DataFrame({"x": [1, 9, 11, 19, 21, 29]})
    policy = shoal.Policy(quasi={"x": {"kind": "numeric", "round": 10}}, require=[shoal.KAnonymity(2)])
    for method in ("mondrian", "kmember", "agglomerative", "peel"):
        release = shoal.anonymize(
            frame, policy, method=method, seed=1, **({} if method == "mondrian" else {"improve": True})
        )
        assert sorted(set(release.frame["x"])) == ["[0, 10]", "[10, 20]", "[20, 30]"], method
        assert release.measures["ncp"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("method", ["mondrian", "kmember", "tds"])
def test_later_rows_get_the_same_ranges(method: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(2)
    days = [date(1940, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 20_000, 600)]
    frame = pd.DataFrame(
        {"born": map(str, days), "age": rng.integers(18, 90, 600), "pay": rng.normal(50, 9, 600).round(4)}
    )
    policy = shoal.Policy(
        quasi={"born": {"date": ["day", "month", "year"]}, "age": {"widths": [5, 10]}, "pay": "numeric"},
        require=[shoal.KAnonymity(5)],
    )
    release = shoal.anonymize(frame, policy, method=method, seed=1)
    folder = release.save(tmp_path / "release")
    later = shoal.anonymize(frame[:300], recoding=folder.with_name("release.owner") / "recoding.json")
    assert set(map(tuple, later.frame.astype(str).values)) <= set(map(tuple, release.frame.astype(str).values))


def test_labels_of_a_tree_with_very_many_nodes() -> None:
    """The square of the number of nodes does not fit into 32 bits."""
    days = pd.date_range("1850-01-01", periods=60_000, freq="D").strftime("%Y-%m-%d")
    frame = pd.DataFrame({"birth": days})
    policy = shoal.Policy(quasi={"birth": {"date": ["day", "month", "year", "decade"]}}, require=[shoal.KAnonymity(50)])
    labels = shoal.anonymize(frame, policy, seed=1).frame["birth"]
    ends = labels.str.partition(" – ")
    first, last = ends[0], ends[2].where(ends[2] != "", ends[0])
    assert (first.str[:7] <= days.str[:7]).all() and (last.str[:7] >= days.str[:7]).all()
