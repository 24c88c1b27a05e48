"""Codes: the order of every attribute with missing values last; losses and counts against plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.attributes import OBJECTIVES, Attribute, LossTables
from shoal.encoding.codes import Codes, encode_and_count
from shoal.encoding.published_table import read_published_groups
from shoal.engines import open_data
from shoal.engines.memory import list_record_cells
from shoal.errors import DataError
from shoal.kernels.boxes import interval_loss
from tests.reference import losses
from tests.support.kernels import compile_inner
from tests.support.strategies import Tree, trees

JOBS = {"ANY": [{"Office": ["clerk", "manager"]}, {"Field": {"Sea": ["sailor"]}}, "none"]}


def encode_values(values: Sequence[Any], quasi: Any, **more: Any) -> tuple[Attribute, list[int]]:
    """The attribute of a single column, and the code of every record."""
    codes = encode_columns({"x": values}, {"x": quasi}, **more)
    return codes.attributes[0], of_records(codes)[:, 0].tolist()


def encode_columns(columns: dict[str, Any], quasi: dict[str, Any], **more: Any) -> Codes:
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    return encode_and_count(open_data(table), shoal.Policy(quasi=quasi, **more))[0]


def of_records(codes: Codes) -> np.ndarray:
    """The codes of every record, in the order of the table."""
    return codes.quasi[np.searchsorted(codes.counts.start, list_record_cells(codes.counts), side="right") - 1]


def label(attribute: Attribute, lo: int, hi: int) -> str | None:
    assert attribute.taxonomy is not None
    return attribute.taxonomy.text(attribute.taxonomy.cover(lo, hi))


# Kinds


def test_numbers_are_ranked() -> None:
    attribute, codes = encode_values([36.5, -2, 36.5, 100], "numeric")
    assert attribute.position.tolist() == [-2, 36.5, 100]
    assert codes == [1, 0, 1, 2]
    assert (attribute.kind, attribute.span, attribute.missing, attribute.size) == ("numeric", 102, -1, 3)
    assert attribute.taxonomy is None


def test_a_missing_number_is_the_last_code() -> None:
    for values in ([5, None, 3], [5.0, float("nan"), 3.0], ["5", "?", "3"], ["5.0", " ", "3"]):
        attribute, codes = encode_values(values, "numeric", missing=["", "?"])
        assert attribute.position.tolist() == [3, 5, np.inf]
        assert codes == [1, 2, 0]
        assert (attribute.missing, attribute.span) == (2, 2)


def test_bounds_give_the_span() -> None:
    attribute, _ = encode_values([20, 30], {"bounds": [0, 100]})
    assert attribute.span == 100
    assert attribute.loss(np.array([0]), np.array([1])).tolist() == [0.1]
    with pytest.raises(DataError, match=r"'x' holds values outside its bounds 25 to 100: '20', '21\.5'"):
        encode_values([20, 30, 21.5], {"bounds": [25, 100]})
    edge, _ = encode_values([0, 100, None], {"bounds": [0, 100]})
    assert edge.loss(np.array([0, 0]), np.array([1, 2])).tolist() == [1, 1]


def test_dates_are_ranked_by_their_moment() -> None:
    days = ["2000-03-01", None, "1969-12-31", "2000-02-29"]
    attribute, codes = encode_values(days, "date")
    assert codes == [2, 3, 0, 1]
    assert attribute.position.tolist() == [-86400, 951782400, 951868800, np.inf]
    typed, same = encode_values([None if d is None else dt.date.fromisoformat(d) for d in days], "date")
    assert same == codes
    assert typed.position.tolist() == attribute.position.tolist()


def test_a_taxonomy_gives_the_codes_of_its_leaves() -> None:
    attribute, codes = encode_values(["sailor", "clerk", None, "clerk"], {"taxonomy": JOBS})
    assert attribute.taxonomy is not None
    assert attribute.taxonomy.leaves == (
        "clerk",
        "manager",
        "sailor",
        "none",
        None,
    )  # `manager` is a leaf without records
    assert codes == [2, 0, 4, 0]
    assert attribute.missing == 4
    assert attribute.position.tolist() == [0, 1, 2, 3, np.inf]
    assert not attribute.flat
    with pytest.raises(DataError, match="column 'x' contains values that are not in the taxonomy: 'Sea', 'pilot'"):
        encode_values(["clerk", "pilot", "Sea"], {"taxonomy": JOBS})


def test_a_taxonomy_meets_numbers_by_their_text() -> None:
    assert encode_values([2, 1, None], {"taxonomy": ["1", "2"]})[1] == [1, 0, 2]
    assert encode_values([2.0, 1.0, float("nan")], {"taxonomy": [1, 2]})[1] == [1, 0, 2]


def test_without_a_taxonomy_the_most_frequent_value_comes_first() -> None:
    attribute, codes = encode_values(["c", "b", None, "c", "a", "b", "c"], "categorical")
    assert attribute.taxonomy is not None
    assert attribute.taxonomy.leaves == ("c", "b", "a", None)
    assert attribute.taxonomy.derived
    assert attribute.flat
    assert codes == [0, 1, 3, 0, 2, 1, 0]
    tied, _ = encode_values(["b", "a"], "categorical")
    assert tied.taxonomy is not None
    assert tied.taxonomy.leaves == ("a", "b")


def test_no_value_but_missing() -> None:
    for quasi in ("numeric", "categorical", "date", {"mask": "right"}, {"date": ["day", "year"]}):
        attribute, codes = encode_values([None, "", None], quasi)
        assert codes == [0, 0, 0]
        assert (attribute.size, attribute.missing) == (1, 0)
        assert attribute.loss(np.array([0]), np.array([0])).tolist() == [0]


def test_one_value() -> None:
    for quasi in ("numeric", "categorical", {"mask": "left"}):
        attribute, codes = encode_values(["7", "7"], quasi)
        assert codes == [0, 0]
        assert attribute.loss(np.array([0]), np.array([0])).tolist() == [0]


# Masks


def test_masks_of_different_lengths() -> None:
    values = ["47906", "4790", "47907", "7", "479", "10115"]
    attribute, codes = encode_values(values, {"mask": "right"})
    assert attribute.taxonomy is not None
    assert attribute.taxonomy.leaves == ("7", "479", "4790", "10115", "47906", "47907")
    assert attribute.taxonomy.to_nested() == {
        "*": [
            "7",
            {"4**": {"47*": ["479"]}},
            {"4***": {"47**": {"479*": ["4790"]}}},
            {"1****": {"10***": {"101**": {"1011*": ["10115"]}}}},
            {"4****": {"47***": {"479**": {"4790*": ["47906", "47907"]}}}},
        ]
    }
    assert codes == [4, 2, 5, 0, 1, 3]
    left, _ = encode_values(values, {"mask": "left"})
    assert left.taxonomy is not None
    assert label(left, *(left.taxonomy.leaves.index(v) for v in ("10115", "47906"))) == "*"
    assert left.taxonomy.to_nested()["*"][1] == {"**9": {"*79": ["479"]}}


@pytest.mark.parametrize("side", ["right", "left"])
@given(values=st.lists(st.one_of(st.none(), st.text("01", min_size=1, max_size=4)), min_size=1, max_size=12))
def test_a_masked_label_is_the_common_part(side: str, values: list[str | None]) -> None:
    attribute, codes = encode_values(values, {"mask": side})
    leaves = attribute.taxonomy.leaves if attribute.taxonomy else ()
    assert [leaves[code] for code in codes] == values
    ends = [(codes[i], codes[j]) for i in range(len(codes)) for j in range(len(codes)) if codes[i] <= codes[j]]
    for lo, hi in ends:
        inside = [leaves[code] for code in range(lo, hi + 1)]
        if lo == hi:
            assert label(attribute, lo, hi) == inside[0]
        elif None in inside or len({len(v) for v in inside if v is not None}) > 1:
            assert label(attribute, lo, hi) == "*"
        else:
            texts = [v for v in inside if v is not None]
            size = len(texts[0])
            ways = [
                (v[:n] + "*" * (size - n), "*" * (size - n) + v[size - n :]) for n in range(size, 0, -1) for v in texts
            ]
            shared = [way[side == "left"] for way in ways]
            assert label(attribute, lo, hi) == next((w for w in shared if shared.count(w) == len(texts)), "*")


def test_a_mask_among_the_values_is_named() -> None:
    """A table that was masked before: 479** is a value here and a branch there."""
    with pytest.raises(DataError, match=r"column 'x'.*479\*\*"):
        encode_values(["47906", "479**"], {"mask": "right"})


def test_values_too_long_to_mask_are_refused_without_their_content() -> None:
    attribute, codes = encode_values(["x" * 90, "y" * 90], {"mask": "right"})
    assert codes == [0, 1]
    assert label(attribute, 0, 1) == "*"
    with pytest.raises(DataError, match="column 'x' contains 2 values of more than 100 characters"):
        encode_values(["x" * 2000, "y" * 2000], {"mask": "right"})


# Parts of dates


def test_parts_of_dates_nest() -> None:
    values = ["1985-05-30", "1985-05-31T23:59:59", "1985-06-01", "1989-01-01", "1990-01-01", None]
    attribute, codes = encode_values(values, {"date": ["day", "month", "year", "decade"]})
    assert codes == [0, 1, 2, 3, 4, 5]
    assert attribute.taxonomy is not None
    assert attribute.taxonomy.leaves == ("1985-05-30", "1985-05-31", "1985-06-01", "1989-01-01", "1990-01-01", None)
    ranges = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (4, 5)]
    assert [label(attribute, *r) for r in ranges] == ["1985-05-30", "1985-05", "1985", "1980s", "*", "*"]


def test_days_that_share_their_finest_part_share_a_code() -> None:
    attribute, codes = encode_values(["1985-05-30", "1985-05-31", "1986-01-01"], {"date": ["month", "year"]})
    assert codes == [0, 0, 1]
    assert [attribute.position.tolist(), label(attribute, 0, 0)] == [[0, 1], "1985-05"]


def test_weeks_nest_in_their_own_years() -> None:
    """The last days of 2024 belong to the first week of 2025."""
    attribute, codes = encode_values(["2024-12-29", "2024-12-30", "2025-01-05"], {"date": ["day", "week", "year"]})
    assert codes == [0, 1, 2]
    assert [label(attribute, 1, 2), label(attribute, 0, 1)] == ["2025-W01", "*"]
    attribute, codes = encode_values(
        ["2020-12-30", "2021-01-01", "2021-01-05"], {"date": ["day", "week", "year", "decade"]}
    )
    assert label(attribute, 0, 1) == "2020-W53"
    attribute, codes = encode_values(["2020-12-01", "2021-01-01"], {"date": ["day", "week", "year"]})
    assert label(attribute, 0, 1) == "2020-W*"  # the calendar year of the second date is 2021
    with pytest.raises(DataError, match="outside 1 to 9999"):
        encode_and_count(
            open_data(pa.table({"x": pa.array([4_000_000], pa.date32())})),
            shoal.Policy(quasi={"x": {"date": ["day", "year"]}}, require=[shoal.KAnonymity(1)]),
        )


def test_quarters_and_days_before_1970() -> None:
    attribute, codes = encode_values(
        ["1969-12-31", "1970-01-01", "1969-10-01", "1900-02-28"], {"date": ["day", "quarter", "year"]}
    )
    assert codes == [2, 3, 1, 0]
    assert [label(attribute, 1, 2), label(attribute, 0, 0)] == ["1969-Q4", "1900-02-28"]


@given(st.lists(st.dates(dt.date(1600, 1, 1), dt.date(2300, 1, 1)), min_size=2, max_size=8, unique=True))
def test_a_label_of_dates_is_the_part_they_share(days: list[dt.date]) -> None:
    attribute, codes = encode_values([d.isoformat() for d in days], {"date": ["day", "month", "year", "decade"]})
    assert sorted(range(len(days)), key=lambda i: days[i]) == sorted(range(len(days)), key=lambda i: codes[i])
    for one, other in pairwise(sorted(days)):
        lo, hi = (codes[days.index(d)] for d in (one, other))
        shared = ["*", f"{one.year // 10 * 10}s", str(one.year), one.isoformat()[:7]]
        same = [True, one.year // 10 == other.year // 10, one.year == other.year]
        same.append(same[-1] and one.month == other.month)
        assert label(attribute, lo, hi) == shared[sum(same) - 1]


# Losses


@given(
    values=st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=1, max_size=10),
    bounded=st.booleans(),
)
def test_the_loss_of_a_range_is_its_width(values: list[int | None], bounded: bool) -> None:
    attribute, _ = encode_values(values, {"bounds": [-60, 60]} if bounded else "numeric")
    present: list[int | None] = [*sorted({v for v in values if v is not None})]
    span = 120 if bounded else max(present, default=0) - min(present, default=0)  # type: ignore[operator, type-var]
    domain = present + ([None] if None in values else [])
    pairs = [(lo, hi) for hi in range(len(domain)) for lo in range(hi + 1)]
    expected = []
    for lo, hi in pairs:
        low, high = domain[lo], domain[hi]
        expected.append(0.0 if lo == hi else 1.0 if high is None or low is None else (high - low) / span)
    lo, hi = np.array(pairs, np.int32).T
    assert attribute.loss(lo, hi).tolist() == pytest.approx(expected)


@given(trees(), st.booleans())
def test_the_loss_of_a_tree_is_the_part_of_its_leaves(made: Tree, holes: bool) -> None:
    leaves = [way[-1] for way in made.ways]
    attribute, _ = encode_values([*leaves, *([None] if holes else [])], {"taxonomy": made.nested}, missing=[])
    ways = [*made.ways, *([(made.ways[0][0], "")] if holes else [])]
    pairs = [(lo, hi) for hi in range(len(ways)) for lo in range(hi + 1)]
    expected = []
    for lo, hi in pairs:
        common = ways[lo]
        while any(way[: len(common)] != common for way in ways[lo : hi + 1]):
            common = common[:-1]
        below = sum(way[: len(common)] == common for way in ways)
        expected.append(0.0 if lo == hi else below / len(ways))
    lo, hi = np.array(pairs, np.int32).T
    assert attribute.loss(lo, hi).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("count_values", [False, True])
def test_the_kernels_compute_the_same_losses(objective: str, count_values: bool) -> None:
    codes = encode_columns(
        {"age": [30, 20, None, 25], "job": ["clerk", "sailor", "none", None], "sex": ["F", "M", None, "X"]},
        {"age": "numeric", "job": {"taxonomy": JOBS}, "sex": "categorical"},
    )
    tables = LossTables.of(codes.attributes, objective, count_values=count_values)
    for place, attribute in enumerate(codes.attributes):
        for hi in range(attribute.size):
            for lo in range(hi + 1):
                loss = compile_inner(interval_loss)(place, lo, hi, tables.ints, tables.floats)
                if attribute.flat and count_values and objective != "il":
                    assert loss == (0 if lo == hi else (hi - lo + 1) / attribute.size)
                else:
                    assert loss == pytest.approx(losses.interval_loss(attribute, lo, hi, objective))
                    if objective == "ncp":
                        assert loss == attribute.loss(np.array([lo]), np.array([hi]))[0]


# Tables


@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 3)),
            st.one_of(st.none(), st.sampled_from(["clerk", "manager", "sailor"])),
            st.one_of(st.none(), st.sampled_from("ab")),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_counted_cells_against_pandas(rows: list[tuple[Any, ...]]) -> None:
    frame = pd.DataFrame(rows, columns=["age", "job", "disease"], dtype=object)
    policy = shoal.Policy(
        quasi={"age": "numeric", "job": {"taxonomy": JOBS}},
        sensitive=["disease"],
        require=[shoal.LDiversity(1, of="disease")],
    )
    codes, _ = encode_and_count(open_data(frame), policy)
    assert codes.records == len(rows)
    sizes = frame.groupby(["age", "job"], dropna=False).size()
    assert sorted(codes.size) == sorted(sizes)
    assert sorted(codes.counts.size) == sorted(frame.groupby(["age", "job", "disease"], dropna=False).size())
    assert [len(s.labels) for s in codes.sensitive] == [frame["disease"].nunique(dropna=False)]
    assert codes.quasi.tolist() == sorted(codes.quasi.tolist())
    for (age, job, _), (first, second) in zip(rows, of_records(codes).tolist(), strict=True):
        position = codes.attributes[0].position[first]
        assert (None if np.isinf(position) else position) == age
        assert codes.attributes[1].taxonomy is not None
        assert codes.attributes[1].taxonomy.leaves[second] == job
    groups = codes.raw_groups
    assert groups.names == ("age", "job")
    assert groups.records == len(rows)


@pytest.mark.parametrize("quasi", ["categorical", "numeric"])
def test_seventy_columns_of_a_hundred_values(quasi: str) -> None:
    """Their product is 10^140, far past 2^63; counts must still be those of pandas."""
    rng = np.random.default_rng(7)
    names = [f"c{j:02}" for j in range(70)]
    pool = rng.integers(0, 101, (150, 70))
    pool[1] = pool[0]
    pool[1, 69] = (pool[0, 69] + 1) % 100  # rows that differ in the last column alone
    pool[2] = pool[0]
    pool[2, 0] = (pool[0, 0] + 1) % 100
    pool = np.vstack([pool, np.repeat(np.arange(101), 70).reshape(101, 70)])  # every value in every column
    chosen = np.concatenate((np.arange(251), rng.integers(0, 251, 749)))
    frame = pd.DataFrame(pool[rng.permutation(chosen)], columns=names, dtype=object).replace({100: None})
    codes, _ = encode_and_count(open_data(frame), shoal.Policy(quasi=dict.fromkeys(names, quasi)))
    assert all(a.size == 101 and a.missing == 100 for a in codes.attributes)
    expected = frame.astype("Float64").groupby(names, dropna=False)["c00"].transform("size")
    assert codes.size[list_record_cells(codes.counts)].tolist() == expected.tolist()
    assert codes.records == 1000
    back = np.array([a.position[of_records(codes)[:, j]] for j, a in enumerate(codes.attributes)]).T
    if quasi == "numeric":
        assert np.array_equal(np.isinf(back), frame.isna().to_numpy())
        assert np.array_equal(back[~np.isinf(back)], frame.to_numpy()[~frame.isna().to_numpy()].astype(float))


def test_sensitive_values_are_sorted_by_number_if_all_are_numbers() -> None:
    policy = shoal.Policy(
        quasi={"age": "numeric"},
        sensitive=["cost", "disease"],
        require=[shoal.TCloseness(0.5, of="cost", distance="ordered"), shoal.LDiversity(1, of="disease")],
    )
    frame = pd.DataFrame({"age": [1, 1, 1], "cost": ["10", "9", "100"], "disease": ["b", None, "10"]})
    codes, _ = encode_and_count(open_data(frame), policy.model_copy(update={"missing": ("?",)}))
    assert [s.labels for s in codes.sensitive] == [("9", "10", "100"), ("10", "b", None)]
    assert sorted(map(tuple, codes.counts.sensitive.tolist())) == [(0, 2), (1, 1), (2, 0)]


def test_published_groups_have_labels_and_two_columns_for_a_range() -> None:
    policy = shoal.Policy(
        quasi={"age": "numeric", "sex": "categorical"},
        sensitive=["disease"],
        require=[shoal.LDiversity(1, of="disease")],
    )
    frame = pd.DataFrame(
        {
            "age_lo": [20, 20, None, None],
            "age_hi": [36, 36, None, None],
            "sex": ["*", "*", "F", None],
            "disease": ["flu", None, "flu", "flu"],
        }
    )
    groups, labels = read_published_groups(open_data(frame), policy)
    assert groups.names == ("age_lo", "age_hi", "sex")
    assert sorted(groups.size) == [1, 1, 2]
    assert groups.sensitive == ("disease",)
    assert labels["age_lo"] == ("20", None)
    assert labels["sex"] == ("*", "F", None)
    assert groups.domains == (2,)
