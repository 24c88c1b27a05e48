"""The published form of a tree: round cuts, JSON, and files that are damaged on purpose."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.attributes import Attribute
from shoal.formats.dates import format_date, parse_date
from shoal.mining.tree_model import TreeModel, find_round_number
from shoal.models import AnonymousTree


def number(*values: float) -> Attribute:
    return Attribute("n", "numeric", np.array(values), None, 1.0)


@pytest.mark.parametrize(
    ("low", "high", "cut"),
    [
        (30, 40, 30),  # not 35: one digit is rounder than two
        (37, 38, 37),
        (37, 45, 40),
        (99, 1_001, 1_000),
        (-3, 4, 0),
        (0.123, 0.124, 0.123),
        (1e-9, 2e-9, 1e-9),
        (1234.5, 1234.75, 1234.6),
    ],
)
def test_a_cut_is_the_roundest_number_between_the_values(low: float, high: float, cut: float) -> None:
    assert find_round_number(number(low, high), 0) == cut


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_a_cut_separates_the_values(one: float, other: float) -> None:
    low, high = sorted((one, other))
    if low < high:
        assert low <= find_round_number(number(low, high), 0) < high


def test_a_cut_before_missing_values_is_infinite() -> None:
    assert find_round_number(number(3, np.inf), 0) == math.inf


@pytest.mark.parametrize(
    ("low", "high", "first"),
    [
        ("1985-03-02", "1987-05-06", "1987-01-01"),
        ("1985-03-02", "1985-05-06", "1985-05-01"),
        ("1985-03-02", "1985-03-06", "1985-03-06"),
        ("1985-03-02T08:00:00", "1985-03-02T09:30:00", "1985-03-02T09:00:00"),
    ],
)
def test_a_cut_of_dates_is_the_start_of_a_unit(low: str, high: str, first: str) -> None:
    values = [float(parse_date(text) or 0) for text in (low, high)]
    cut = find_round_number(Attribute("d", "date", np.array(values), None, 1.0), 0)
    assert values[0] <= cut < values[1] and format_date(math.ceil(cut)) == first


def fitted() -> tuple[AnonymousTree, pd.DataFrame]:
    patients = shoal.datasets.hospital(800, seed=5, kind="pandas")
    policy = shoal.Policy(
        quasi={
            "birth": "date",
            "zip": {"mask": "right"},
            "sex": "categorical",
            "education": {"taxonomy": shoal.datasets.hospital_policy().quasi["education"].taxonomy},
        },
        sensitive=["cost"],
        target="diagnosis",
        require=[shoal.KAnonymity(5)],
    )
    return AnonymousTree(policy).fit(patients), patients


def test_json_and_back() -> None:
    tree, patients = fitted()
    again = TreeModel.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again.to_dict() == tree.to_dict()
    assert again.export_text() == tree.export_text()
    engine = shoal.engines.open_data(patients)
    assert (again.find_nodes(engine) == tree.tree_model_.find_nodes(engine)).all()


def test_a_published_tree_has_no_raw_values() -> None:
    """Cuts are no costs of patients, and labels of ZIP codes are those of groups."""
    tree, patients = fitted()
    text = json.dumps(tree.to_dict())
    assert {"birth", "cost"} & set(tree.to_dict()["columns"])
    assert not any(str(cost) in text for cost in patients["cost"] if not float(cost).is_integer())
    assert not any(f'"{code}"' in text for code, n in patients["zip"].value_counts().items() if n < 5)


DAMAGES: list[tuple[str, Any]] = [
    ("format", "other"),
    ("version", 2),
    ("classes", []),
    ("classes", [1, 2]),
    ("populations", "all"),
    ("missing", [1]),
    ("columns", []),
    ("columns", {"age": {"values": "nothing", "public": True}}),
    ("nodes", []),
    ("nodes", [{"leaf": [1]}]),
    ("nodes", [{"leaf": [-1, 2]}]),
    ("nodes", [{"leaf": ["a", "b"]}]),
    ("nodes", [{"column": "age", "at_most": 3, "children": [0, 0]}]),
    ("nodes", [{"column": "age", "at_most": 3, "children": [1, 2]}, {"leaf": [1, 1]}]),
    ("nodes", [{"column": "other", "at_most": 3, "children": [1, 2]}, {"leaf": [1, 1]}, {"leaf": [1, 1]}]),
    ("nodes", [{"column": "age", "at_most": "3", "children": [1, 2]}, {"leaf": [1, 1]}, {"leaf": [1, 1]}]),
    ("nodes", [{"column": "age", "children": [1, 2]}, {"leaf": [1, 1]}, {"leaf": [1, 1]}]),
    ("nodes", [{"column": "age", "labels": ["a"], "children": [1, 2]}, {"leaf": [1, 1]}, {"leaf": [1, 1]}]),
    ("nodes", [{"column": "age", "before": "soon", "children": [1, 2]}, {"leaf": [1, 1]}, {"leaf": [1, 1]}]),
    ("nodes", [[1, 2]]),
    ("surprise", 1),
]


@pytest.mark.parametrize(("key", "value"), DAMAGES)
def test_damaged_files_are_refused(key: str, value: Any, tmp_path: Any) -> None:
    valid = {
        "format": "shoal-tree",
        "version": 1,
        "target": "ill",
        "classes": ["yes", "no"],
        "populations": "bins",
        "missing": [""],
        "columns": {"age": {"values": "numeric", "public": True}},
        "nodes": [{"column": "age", "at_most": 3, "children": [1, 2]}, {"leaf": [1, 1]}, {"leaf": [1, 1]}],
    }
    file = tmp_path / "model.json"
    file.write_text(json.dumps(valid))
    assert shoal.models.load_model(file).target == "ill"
    file.write_text(json.dumps({**valid, key: value}))
    with pytest.raises(shoal.DataError, match="model"):
        shoal.models.load_model(file)
