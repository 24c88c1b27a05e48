"""Frequent itemsets and association rules, against plain Apriori."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.errors import DataError, PolicyError
from shoal.models import Item, Itemsets, Rules, mine_itemsets, mine_rules
from tests.reference import itemsets as reference

Columns = Mapping[str, Sequence[Any]]

VALUES: tuple[st.SearchStrategy[Any], ...] = (
    st.sampled_from(["a", "b", "ü", ""]),
    st.integers(0, 2),
    st.booleans(),
    st.just("same"),
    st.sampled_from([datetime.date(2024, 1, 31), datetime.date(1985, 6, 14)]),
)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Few values in several types, with missing values and repeated rows."""
    kinds = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=6))
    rows = draw(st.lists(st.tuples(*(st.none() | kind for kind in kinds)), min_size=1, max_size=12))
    times = draw(st.lists(st.integers(1, 70), min_size=len(rows), max_size=len(rows)))
    repeated = [row for row, number in zip(rows, times, strict=True) for _ in range(number)]
    return {f"c{i}": [row[i] for row in repeated] for i in range(len(kinds))}


def to_arrow(columns: Columns) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def as_dict(found: Itemsets) -> dict[reference.ItemSet, int]:
    """The sets as the reference writes them."""
    sets = [frozenset((item.column, item.value) for item in found[s]) for s in range(len(found))]
    assert len(set(sets)) == len(sets)
    return dict(zip(sets, found.count.tolist(), strict=True))


def name_side(rules: Rules, side: Sequence[int]) -> reference.ItemSet:
    return frozenset((rules.items[i].column, rules.items[i].value) for i in side)


def rules_as_dict(rules: Rules) -> dict[tuple[reference.ItemSet, reference.ItemSet], float]:
    sides = [(name_side(rules, a), name_side(rules, b)) for a, b in zip(rules.left, rules.right, strict=True)]
    assert len(set(sides)) == len(sides)
    return dict(zip(sides, rules.confidence.tolist(), strict=True))


def make_people(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    city = rng.choice(["Oslo", "Rome", "Bern", "Lima"], rows, p=[0.4, 0.3, 0.2, 0.1])
    age = rng.integers(20, 60, rows)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "city": city,
            "decade": age // 10 * 10,
            "ill": np.where((age > 40) ^ (city == "Oslo") ^ (rng.random(rows) < 0.1), "yes", "no"),
            "job": rng.choice(["nurse", "cook", None], rows),  # type: ignore[arg-type]
        }
    )


@given(tables(), st.integers(2, 200), st.none() | st.integers(1, 4))
def test_sets_are_those_of_the_reference(columns: dict[str, list[Any]], least: int, max_size: int | None) -> None:
    found = mine_itemsets(to_arrow(columns), support=least, max_size=max_size)
    records = reference.make_records(columns)
    assert found.records == len(records)
    assert as_dict(found) == reference.mine_itemsets(records, least, max_size)


@given(tables(), st.sampled_from([0.01, 0.1, 0.25, 0.5, 0.75, 1, 1.0, "20%"]))
def test_a_share_counts_records_as_a_division_does(columns: dict[str, list[Any]], support: Any) -> None:
    found = mine_itemsets(to_arrow(columns), support=support)
    share = 0.2 if support == "20%" else support
    records = reference.make_records(columns)
    everything = reference.mine_itemsets(records, 1)
    assert as_dict(found) == {items: n for items, n in everything.items() if n / len(records) >= share}


@given(tables(), st.sampled_from([0.0, 0.3, 0.5, 2 / 3, 1.0]), st.none() | st.integers(1, 3))
def test_rules_are_those_of_the_reference(columns: dict[str, list[Any]], confidence: float, right: int | None) -> None:
    found = mine_itemsets(to_arrow(columns), support=3)
    rules = mine_rules(found, confidence=confidence, max_right=right)
    assert rules_as_dict(rules) == reference.mine_rules(as_dict(found), confidence, right)
    counts = as_dict(found)
    for r in range(len(rules)):
        left, right_side = name_side(rules, rules.left[r]), name_side(rules, rules.right[r])
        assert (rules.count[r], rules.left_count[r], rules.right_count[r]) == (
            counts[left | right_side],
            counts[left],
            counts[right_side],
        )
        assert rules.support[r] == counts[left | right_side] / rules.records
        assert rules.lift[r] == pytest.approx(rules.confidence[r] / (counts[right_side] / rules.records))


def test_a_rule_needs_both_of_its_sides() -> None:
    items = (Item("a"), Item("b"), Item("c"))
    start, members = np.array([0, 1, 3, 6]), np.array([0, 1, 2, 0, 1, 2], np.int32)
    sets = Itemsets(items, start, members, np.array([8, 6, 5]), 10)
    rules = mine_rules(sets, confidence=0, max_right=None)
    assert (rules.left, rules.right) == (((1, 2), (0,)), ((0,), (1, 2)))
    assert rules.confidence.tolist() == [5 / 6, 5 / 8]


def test_the_order_is_by_size_then_by_items() -> None:
    found = mine_itemsets(make_people(), support=0.02)
    members = found.list_members()
    assert members == sorted(members, key=lambda numbers: (len(numbers), numbers))
    assert len(found) > 100
    assert list(found.items) == [items for column in ("city", "decade", "ill", "job") for items in _of(found, column)]
    assert [item.value for item in _of(found, "city")] == ["Bern", "Lima", "Oslo", "Rome"]


def _of(found: Itemsets, column: str) -> list[Item]:
    return sorted(item for item in found.items if item.column == column)


def test_frames_and_files_give_the_same_sets(tmp_path: Path) -> None:
    people = make_people(800)
    people.to_csv(tmp_path / "people.csv", index=False)
    pl.from_pandas(people).write_parquet(tmp_path / "people.parquet")
    paths = (tmp_path / "people.csv", str(tmp_path / "people.parquet"))
    tables = (pl.from_pandas(people), pa.Table.from_pandas(people), people.sample(frac=1, random_state=1), *paths)
    first = mine_itemsets(people, support=0.03)
    for table in tables:
        found = mine_itemsets(table, support=0.03)
        assert found.items == first.items
        for name in ("start", "members", "count"):
            assert np.array_equal(getattr(found, name), getattr(first, name))


def test_a_folder_of_files_is_counted_by_duckdb(tmp_path: Path) -> None:
    table = pa.table({"city": ["Rome", "Oslo", "Rome", None] * 5, "ill": [True, False, None, True] * 5})
    for part in ("a", "b"):
        pl.from_arrow(table).write_parquet(tmp_path / f"{part}.parquet")
    found, expected = mine_itemsets(tmp_path, support=2), mine_itemsets(table, support=2)
    assert {items: 2 * n for items, n in as_dict(expected).items()} == as_dict(found)
    assert Item("ill") in found.items


@pytest.mark.parametrize("dtype", ["boolean", "object", "bool[pyarrow]"])
def test_a_column_of_truth_values_is_an_item(dtype: str) -> None:
    frame = pd.DataFrame({"ill": pd.array([True, None, False, True], dtype)})
    found = mine_itemsets(frame, support=1.0 / 4)
    assert found.items == (Item("ill"),)
    assert found.count.tolist() == [2]


def test_only_the_named_columns_are_mined_in_the_order_of_the_table() -> None:
    found = mine_itemsets(make_people(), columns=["ill", "city"])
    assert dict.fromkeys(item.column for item in found.items) == {"city": None, "ill": None}
    assert mine_itemsets(make_people(), columns="ill").count.sum() == 3000


def test_a_column_of_ids_has_no_frequent_item() -> None:
    found = mine_itemsets(make_people(), columns=["id"])
    assert (len(found), found.items, found.start.tolist()) == (0, (), [0])
    assert len(mine_rules(found)) == 0
    assert str(found) == "0 itemsets of 3,000 records"


def test_weights_of_many_equal_records() -> None:
    columns = {"a": ["x"] * 70_001 + ["y"] * 3, "b": ["p"] * 70_000 + ["q"] * 4}
    found = mine_itemsets(to_arrow(columns), support=2)
    assert as_dict(found) == {
        frozenset({("a", "x")}): 70_001,
        frozenset({("a", "y")}): 3,
        frozenset({("b", "p")}): 70_000,
        frozenset({("b", "q")}): 4,
        frozenset({("a", "x"), ("b", "p")}): 70_000,
        frozenset({("a", "y"), ("b", "q")}): 3,
    }


def test_many_columns_that_are_always_true() -> None:
    columns = {f"c{i:02}": [True] * 5 for i in range(12)}
    found = mine_itemsets(to_arrow(columns), support=1.0)
    assert len(found) == 2**12 - 1
    assert len(mine_rules(found, max_right=None)) == 3**12 - 2 * 2**12 + 1
    assert len(mine_itemsets(to_arrow(columns), support=1.0, most=2**12 - 1)) == 2**12 - 1


def test_too_many_sets_or_rules_are_refused() -> None:
    wide = to_arrow({f"c{i}": [True] * 5 for i in range(200)})
    with pytest.raises(
        PolicyError, match=r"more than 5,000,000 sets .* at least 3 of 5 records .*support = 0.5"
    ) as error:
        mine_itemsets(wide, support=0.5)
    assert "larger support, or a smaller max_size" in str(error.value)
    assert len(mine_itemsets(wide, support=0.5, max_size=2)) == 200 + 200 * 199 // 2
    found = mine_itemsets(wide, columns=[f"c{i}" for i in range(8)], support=0.5)
    with pytest.raises(PolicyError, match=r"more than 100 rules with a confidence of at least 0\.5"):
        mine_rules(found, max_right=None, most=100)


@pytest.mark.parametrize("support", [0, -0.1, 1.5, "often", float("nan"), True, None, "0%", 0.0])
def test_a_wrong_support_is_refused(support: Any) -> None:
    with pytest.raises(PolicyError, match="support must be"):
        mine_itemsets(make_people(10), support=support)


def test_wrong_parameters_are_refused() -> None:
    people = make_people(10)
    with pytest.raises(PolicyError, match=r"'citi' is not in the table \(did you mean 'city'"):
        mine_itemsets(people, columns=["ill", "citi"])
    with pytest.raises(PolicyError, match="names no column"):
        mine_itemsets(people, columns=[])
    with pytest.raises(PolicyError, match="max_size must be at least 1"):
        mine_itemsets(people, max_size=0)
    found = mine_itemsets(people, support=0.5)
    for confidence in (-0.1, 1.1, "high", None):
        with pytest.raises(PolicyError, match="confidence must be"):
            mine_rules(found, confidence=confidence)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="max_right must be at least 1"):
        mine_rules(found, max_right=0)


def test_a_table_without_records_or_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the table is empty"):
        mine_itemsets(pd.DataFrame({"a": []}))
    with pytest.raises(DataError, match="the table has no columns"):
        mine_itemsets(pd.DataFrame(index=range(3)))
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="the table is empty"):
        mine_itemsets(tmp_path / "empty.csv")


def test_progress_is_reported_by_branch() -> None:
    steps: list[tuple[str, int, int]] = []
    found = mine_itemsets(make_people(), support=0.1, progress=lambda *step: steps.append(step))
    assert steps == [("mining", i + 1, len(found.items)) for i in range(len(found.items))]


def test_texts_and_columns_for_a_frame() -> None:
    people = make_people()
    found = mine_itemsets(people, support=0.1)
    rules = mine_rules(found, confidence=0.3)
    assert len(str(found).splitlines()) == len(str(rules).splitlines()) == 12
    assert str(found).splitlines()[1] == f"  {100 * (people['city'] == 'Bern').mean():.1f} %  city=Bern"
    assert str(found).endswith(f"… and {len(found) - 10:,} more")
    table = pd.DataFrame(found.to_dict())
    assert table["itemset"].tolist() == [found[s] for s in range(len(found))]
    assert table["support"].tolist() == found.support.tolist()
    assert pd.DataFrame(rules.to_dict()).shape == (len(rules), 6)
    odd = mine_itemsets(pa.table({"<b>": ["\x1b[31m", "\x1b[31m"]}))
    assert "<b>" not in odd._repr_html_()
    assert "\x1b" not in odd._repr_html_() + str(odd)
    assert rules._repr_html_().count("<tr>") == 11


def test_the_sets_are_those_of_mlxtend() -> None:
    frequent_patterns = pytest.importorskip("mlxtend.frequent_patterns")
    people = make_people()[["city", "decade", "ill", "job"]]
    wide = pd.get_dummies(people.astype(object))
    expected = frequent_patterns.fpgrowth(wide, min_support=0.02)
    found = mine_itemsets(people, support=0.02)
    assert sorted(found.support.tolist()) == sorted(expected["support"].tolist())


def test_the_names_are_public() -> None:
    assert shoal.models.mine_itemsets is mine_itemsets
    assert shoal.models.Rules is Rules
