"""The node of every record, against a walk of one record at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.engines import open_data
from shoal.mining.tree_model import TreeModel
from shoal.models import AnonymousTree, audit


def walk(model: TreeModel, values: dict[str, Any]) -> int:
    """Go down from the root with the located values of one record."""
    n = 0
    while (column := model.nodes[n].column) is not None:
        child = model.nodes[n].choose(values[column])
        if child < 0:
            return n
        n = child
    return n


@pytest.fixture
def people() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age, city = rng.integers(20, 60, 400).astype(float), rng.choice(["Oslo", "Rome", "Bern"], 400)
    ill = (age > 40) ^ (city == "Oslo") ^ (rng.random(400) < 0.1)
    return pd.DataFrame({"age": age, "city": city, "ill": np.where(ill, "yes", "no")})


@pytest.fixture
def policy() -> shoal.Policy:
    return shoal.Policy(
        quasi={"age": "numeric", "city": "categorical"}, sensitive=["ill"], target="ill", require=[shoal.KAnonymity(5)]
    )


def test_records_go_to_the_same_node_one_by_one(people: pd.DataFrame, policy: shoal.Policy) -> None:
    model = AnonymousTree(policy).fit(people).tree_model_
    later = people.assign(city=np.where(people.index % 7 == 0, "Lima", people["city"]))
    later.loc[later.index % 5 == 0, "age"] = np.nan
    values, codes = model.locate(open_data(later))
    tree = model.cell_tree(values)
    found = tree.route([codes[name] for name in tree.columns], len(later))
    located = [{name: values[name][codes[name][i]] for name in model.columns} for i in range(len(later))]
    assert found.tolist() == [walk(model, one) for one in located]
    inner = [n for n, node in enumerate(model.nodes) if node.column is not None]
    assert len(set(found)) > 5
    assert np.isin(found, inner).any()


def test_a_tree_without_splits_has_all_records_in_its_root(people: pd.DataFrame, policy: shoal.Policy) -> None:
    model = AnonymousTree(policy, max_depth=1, max_leaves=1).fit(people).tree_model_
    assert set(model.find_nodes(open_data(people))) == {0}


def test_the_audit_refuses_a_table_with_an_unknown_value(people: pd.DataFrame, policy: shoal.Policy) -> None:
    tree = AnonymousTree(policy).fit(people)
    with pytest.raises(shoal.DataError, match="values that the model does not know, in 'city'"):
        audit(tree, people.assign(city=np.where(people.index == 3, "Lima", people["city"])), policy)
