"""The synthetic hospital: columns, types, dependencies and planted rules."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shoal.datasets import hospital, hospital_policy
from shoal.datasets.hospital_figures import (
    COUNTRY,
    EDUCATION,
    ILLNESSES,
    MARITAL,
    MISSING,
    OCCUPATION,
    OLDEST,
    PLANTED,
    SEXES,
    YEAR,
    Planted,
    Tree,
)
from shoal.datasets.synthetic_hospital import draw_columns, leaves
from shoal.errors import DataError
from shoal.policy import Policy
from shoal.requirements import KAnonymity
from shoal.taxonomy import Taxonomy

TREES = {"education": EDUCATION, "occupation": OCCUPATION, "marital": MARITAL, "country": COUNTRY}
ORDER = [
    *("name", "birth", "zip", "sex", "education", "occupation", "marital", "country"),
    *("admission", "diagnosis", "cost"),
]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    frame: pd.DataFrame = hospital(60_000, seed=3, kind="pandas")
    return frame


@pytest.fixture(scope="module")
def age(table: pd.DataFrame) -> pd.Series[float]:
    return (table["admission"] - table["birth"]).dt.days // YEAR


def fits(rule: Planted, table: pd.DataFrame, age: pd.Series[float]) -> pd.Series[bool]:
    mask = age.between(*rule.age)
    for name, chosen in rule.when.items():
        mask &= table[name].isin(chosen)
    return mask


def nodes(tree: Tree) -> list[str]:
    if isinstance(tree, list):
        return list(tree)
    return [name for branch, below in tree.items() for name in (branch, *nodes(below))]


def test_columns_and_their_types(table: pd.DataFrame) -> None:
    assert list(table.columns) == ORDER
    assert len(table) == 60_000
    assert table["birth"].dtype.kind == table["admission"].dtype.kind == "M"
    assert table["cost"].dtype == np.float64
    drawn = draw_columns(5, np.random.default_rng(0))
    assert list(drawn) == ORDER
    assert drawn["birth"].values.dtype == drawn["admission"].values.dtype == np.dtype("datetime64[D]")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_every_kind_of_frame(kind: str) -> None:
    frame = hospital(20, kind=kind)
    assert type(frame).__module__.startswith(kind)
    assert frame.shape == (20, len(ORDER))


def test_a_seed_settles_the_table() -> None:
    first = hospital(500, seed=11, kind="pandas")
    pd.testing.assert_frame_equal(first, hospital(500, seed=11, kind="pandas"))
    assert not first.equals(hospital(500, seed=12, kind="pandas"))


@pytest.mark.parametrize("n", [0, 1])
def test_small_tables(n: int) -> None:
    assert hospital(n, kind="pyarrow").num_rows == n


def test_a_negative_number_is_an_error() -> None:
    with pytest.raises(DataError, match="-1 patients"):
        hospital(-1)


@pytest.mark.parametrize("name", TREES)
def test_trees_hold_exactly_the_values(name: str, table: pd.DataFrame) -> None:
    assert set(table[name].dropna()) == set(leaves(TREES[name]))


@pytest.mark.parametrize("name", TREES)
def test_trees_are_well_formed(name: str) -> None:
    tree = TREES[name]
    assert list(tree) == ["ANY"]
    assert len(set(nodes(tree))) == len(nodes(tree))
    assert Taxonomy.from_nested(tree).leaves == leaves(tree)


def test_missing_shares(table: pd.DataFrame) -> None:
    share = table.isna().mean()
    for name in ORDER:
        assert share[name] == pytest.approx(MISSING.get(name, 0.0), abs=0.004)


def test_zip_codes_are_text_with_five_digits_and_skewed(table: pd.DataFrame) -> None:
    zips = table["zip"].dropna()
    assert zips.str.fullmatch(r"\d{5}").all()
    assert zips.str.startswith("0").mean() > 0.05
    counts = zips.value_counts()
    assert counts.head(len(counts) // 10).sum() > 0.3 * len(zips)
    assert zips.str[:3].nunique() < 30


def test_dates(table: pd.DataFrame, age: pd.Series[float]) -> None:
    assert table["admission"].between("2023-01-01", "2025-12-31").all()
    assert (table["birth"] <= table["admission"]).all()
    assert age.between(0, OLDEST).all()
    assert (age >= 60).mean() > 0.35


def test_names_go_with_sexes(table: pd.DataFrame) -> None:
    given = table["name"].str.split().str[0]
    assert table["sex"].groupby(given).nunique().max() == 1


def test_costs_follow_the_diagnosis(table: pd.DataFrame) -> None:
    assert (table["cost"] > 0).all()
    assert (table["cost"].round(2) == table["cost"]).all()
    middle = table.groupby("diagnosis")["cost"].median()
    assert set(middle.index) == set(ILLNESSES)
    assert middle["Lung cancer"] > 3 * middle["Influenza"]


@pytest.mark.parametrize("rule", PLANTED, ids=str)
def test_planted_rules_can_be_found(rule: Planted, table: pd.DataFrame, age: pd.Series[float]) -> None:
    ill = table["diagnosis"] == rule.diagnosis
    share = ill[fits(rule, table, age)].mean()
    assert share > 0.75 * rule.share
    assert share / ill.mean() > 2.5


def test_impossible_combinations_do_not_occur(table: pd.DataFrame, age: pd.Series[float]) -> None:
    ill, work, man = table["diagnosis"], table["occupation"], table["sex"] == "Male"
    birth = ill.isin(["Childbirth", "Pregnancy complication"])
    assert not (birth & (man | ~age.between(18, 44))).any()
    assert not ((ill == "Prostate cancer") & (~man | (age < 45))).any()
    assert not ((ill == "Alzheimer disease") & (age < 65)).any()
    assert not ((ill == "Bronchiolitis") & (age >= 6)).any()
    assert (table["marital"][age < 18] == "Never married").all()
    assert not ((work == "Retired") & (age < 45)).any()
    assert not (work.isin(["Pupil", "Preschool child"]) & (age >= 18)).any()
    assert work[age < 18].dropna().isin(["Pupil", "Preschool child"]).all()
    known = table["education"].notna()
    learned = table["education"].isin(["Professional degree", "Doctorate"])
    assert not (work.isin(["Physician", "Pharmacist"]) & known & ~learned).any()
    assert not ((work == "Lawyer") & known & (table["education"] != "Professional degree")).any()
    assert not (learned & (age < 28)).any()


def test_life_goes_its_way(table: pd.DataFrame, age: pd.Series[float]) -> None:
    old, grown = age >= 75, age.between(28, 59)
    assert (table["occupation"][old] == "Retired").mean() > 0.85
    assert (table["marital"][old] == "Widowed").mean() > 3 * (table["marital"][grown] == "Widowed").mean()
    widowed = (table["marital"] == "Widowed")[old].groupby(table["sex"]).mean()
    assert widowed["Female"] > widowed["Male"]
    assert set(table["sex"]) == set(SEXES)


def test_the_policy_names_every_column_but_the_admission() -> None:
    policy = hospital_policy(k=4)
    assert isinstance(policy, Policy)
    roles = {*policy.identifiers, *policy.quasi, *policy.sensitive, *policy.keep}
    assert set(ORDER) - roles == {"admission"}
    (asked,) = policy.require
    assert isinstance(asked, KAnonymity)
    assert asked.k == 4
