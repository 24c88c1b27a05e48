"""Losses of trees whose leaves cover several values of the source: parts of dates, intervals of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.encoding.attributes import OBJECTIVES, Attribute, LossTables, encode_attribute
from shoal.engines import Distinct, Reading
from shoal.kernels.boxes import interval_loss
from shoal.policy import QuasiIdentifier
from tests.reference import losses
from tests.support.kernels import compile_inner

DATES = ["1971-01-01", "1975-06-30", "1979-12-31", "1983-05-05", "1983-05-05", "1988-02-29", "1994-07-07", None]
AGES = [21, 23, 23, 39, 45, 77, 79]


def measure_exact(column: list[Any], quasi: Any) -> tuple[shoal.Release, dict[str, float]]:
    """A release of groups of at least one record, and the figures of its column."""
    policy = shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(1)])
    release = shoal.anonymize(pd.DataFrame({"x": column}), policy, method="mondrian")
    return release, dict(release.measures.columns["x"])


def test_decades_lose_the_dates_that_they_cover() -> None:
    release, column = measure_exact(DATES, {"date": ["decade"]})
    assert release.frame["x"].fillna("").tolist() == ["1970s"] * 3 + ["1980s"] * 3 + ["1990s", ""]
    # seven values with the missing one: the 1970s have three, the 1980s two, the 1990s one
    assert column["ncp"] == pytest.approx((3 * 3 / 7 + 3 * 2 / 7) / 8)
    assert column["loss"] == pytest.approx((3 * 2 / 6 + 3 * 1 / 6) / 8)
    assert column["height"] == 0
    assert column["distinct_original"] == 7

    def entropy(*records: int) -> float:
        return -sum(n / sum(records) * math.log(n / sum(records)) for n in records)

    every = entropy(1, 1, 1, 2, 1, 1, 1)
    assert column["entropy"] == pytest.approx((3 * entropy(1, 1, 1) + 3 * entropy(2, 1)) / every / 8)
    assert release.measures["il"] == 0
    assert release.measures["precision"] == 1


def test_intervals_lose_the_numbers_that_they_cover() -> None:
    release, column = measure_exact(AGES, {"widths": [20]})
    assert release.frame["x"].tolist() == ["[20, 40)"] * 4 + ["[40, 60)"] + ["[60, 80)"] * 2
    assert column["ncp"] == pytest.approx((4 * 3 / 6 + 0 + 2 * 2 / 6) / 7)
    assert column["loss"] == pytest.approx((4 * 2 / 5 + 0 + 2 * 1 / 5) / 7)
    assert column["distinct_original"] == 6


def test_one_interval_of_all_values_loses_everything() -> None:
    _, column = measure_exact([1, 2, 3], {"widths": [10]})
    assert (column["ncp"], column["loss"], column["entropy"]) == (1, 1, 1)
    _, column = measure_exact([2, 2], {"widths": [10]})
    assert (column["ncp"], column["loss"], column["entropy"]) == (0, 0, 0)


@pytest.mark.parametrize("quasi", [{"date": ["decade"]}, {"date": ["month", "year"]}])
def test_the_source_itself_loses_nothing(quasi: Any) -> None:
    frame = pd.DataFrame({"x": DATES})
    policy = shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(1)])
    assert shoal.measure(frame, frame, policy)["ncp"] == 0


def test_labels_between_the_levels_count_their_values() -> None:
    policy = shoal.Policy(quasi={"x": {"date": ["decade"]}}, require=[shoal.KAnonymity(1)])
    frame = pd.DataFrame({"x": ["1983-05-05", "1983-12-31T14:30:00", "1988-02-29", "1994-07-07"]})
    assert shoal.measure(frame, pd.DataFrame({"x": ["1983"] * 4}), policy)["ncp"] == pytest.approx(2 / 4)
    assert shoal.measure(frame, pd.DataFrame({"x": ["1988"] * 4}), policy)["ncp"] == 0
    assert shoal.measure(frame, pd.DataFrame({"x": ["1980s"] * 4}), policy)["ncp"] == pytest.approx(3 / 4)


@pytest.mark.parametrize("method", ["mondrian", "tds", "bottom-up", "peel", "kmember", "agglomerative"])
@pytest.mark.parametrize("objective", ["ncp", "loss_mean"])
def test_a_measured_table_has_the_measures_of_its_release(method: str, objective: str) -> None:
    draw = np.random.default_rng(3)
    days = pd.Timestamp("1950-01-01") + pd.to_timedelta(draw.integers(0, 20_000, 60), unit="D")
    ages = pd.Series(draw.integers(0, 90, 60)).astype("Int64").mask(draw.random(60) < 0.1)
    frame = pd.DataFrame({"birth": days.strftime("%Y-%m-%d"), "age": ages})
    quasi = {"birth": {"date": ["year", "decade"]}, "age": {"widths": [10, 20]}}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(3)])
    release = shoal.anonymize(frame, policy, method=method, objective=objective, seed=1)
    again = shoal.measure(frame, release.frame, policy)
    assert {name: release.measures[name] for name in again} == pytest.approx(dict(again))
    assert 0 < again["ncp"] <= 1


def encode(quasi: QuasiIdentifier, values: list[float], missing: int) -> Attribute:
    distinct = Distinct(np.array(sorted(values), np.float64), np.ones(len(values), np.int64), missing)
    return encode_attribute("x", quasi, distinct, Reading())[0]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("missing", [0, 2])
@pytest.mark.parametrize("ranges", [None, False])
@pytest.mark.parametrize("widths", [[10], [10, 20], [5, 10, 40]])
def test_kernels_and_attributes_count_source_values(
    widths: list[int], ranges: Any, missing: int, objective: str
) -> None:
    values = [1.0, 2, 3, 11, 23, 24, 25, 26, 41, 49, 55, 81, 82]
    policy = shoal.Policy(quasi={"x": {"widths": widths} | ({} if ranges is None else {"ranges": ranges})})
    attribute = encode(policy.quasi["x"], values, missing)
    finest = [int(v // widths[0]) for v in values]
    assert attribute.source is not None
    assert attribute.source.count.tolist() == [finest.count(f) for f in sorted(set(finest))] + [1] * (missing > 0)
    tables = LossTables.of([attribute], objective)
    for hi in range(attribute.size):
        for lo in range(hi + 1):
            slow = losses.interval_loss(attribute, lo, hi, objective)
            assert compile_inner(interval_loss)(0, lo, hi, tables.ints, tables.floats) == pytest.approx(slow)
            if objective == "ncp":
                assert attribute.loss(np.array([lo]), np.array([hi]))[0] == pytest.approx(slow)


@pytest.mark.parametrize("quasi", [{"boundaries": [3, 30]}, {"widths": [1, 10]}, {"kind": "numeric", "balanced": 2}])
def test_a_tree_of_single_values_counts_its_leaves(quasi: Any) -> None:
    attribute = encode(shoal.Policy(quasi={"x": quasi}).quasi["x"], [1, 2, 5, 11, 12, 40], 1)
    tree = attribute.taxonomy
    assert attribute.source is None
    assert tree is not None
    lo, hi = (codes.astype(np.int32) for codes in np.triu_indices(tree.size))
    first, last = attribute.publish_nodes(lo, hi)
    leaves = (tree.hi[last] - tree.lo[first] + 1) / tree.size
    assert (attribute.loss(lo, hi) == np.where(first == last, tree.share[first], leaves)).all()


def test_leaves_of_a_taxonomy_without_records_are_values() -> None:
    tree = {"Any": {"Craft": ["Baker", "Painter"], "Office": ["Clerk", "Typist"]}}
    policy = shoal.Policy(quasi={"x": {"taxonomy": tree}}, require=[shoal.KAnonymity(2)])
    frame = pd.DataFrame({"x": ["Baker", "Painter", "Clerk", "Clerk"]})
    release = shoal.anonymize(frame, policy, method="mondrian")
    assert release.frame["x"].tolist() == ["Craft", "Craft", "Clerk", "Clerk"]
    assert release.measures["ncp"] == pytest.approx(2 * 2 / 4 / 4)


def test_a_note_names_columns_with_alphabetical_stretches() -> None:
    frame = pd.DataFrame({"job": ["baker", "clerk", "nurse", "porter"], "age": [1, 2, 3, 4]})
    quasi = {"job": {"balanced": 2}, "age": {"kind": "numeric", "balanced": 2}}
    notes = shoal.anonymize(frame, shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(2)]), method="mondrian").notes
    (note,) = (n for n in notes if "alphabet" in n)
    assert "'job'" in note
    assert "'age'" not in note
    exact = shoal.anonymize(frame, shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(1)]), method="mondrian").notes
    assert not any("alphabet" in n for n in exact)
