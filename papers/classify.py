"""How well the class can be told from a table, raw or released: the error of a pruned decision tree and of naive Bayes.

Both see raw and released tables in one way. A number is a number, an interval is its lower end, a column that is ``*``
throughout is constant; a category is what is published for it, at whatever level of its tree. Everything that is learned,
be it a tree, how much it is pruned or where numbers are cut, is learned from the training rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier

from papers.adult import NUMBERS

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

ALPHAS = np.geomspace(5e-5, 2e-3, 25)
FOLDS = 5
CUTS = ("quartiles", "deciles", "informative")


def tree_error(table: pd.DataFrame, truth: Bools, train: int) -> float:
    """Percent of the rows behind the first ``train`` that a pruned tree gets wrong which was grown on those.

    Splits by entropy, at least two records to a leaf as C4.5 has it, a column of 0 and 1 for each label of a category.
    The tree is pruned by cost and complexity; the price of a leaf is the one with the least error in a cross-validation
    of the training rows, of equals the highest.
    """
    x, y = _columns(table), truth[:train]
    wrong = np.zeros(len(ALPHAS), np.int64)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for some, others in folds.split(x[:train], y):
        grown = _tree(0.0).fit(x[some], y[some])
        wrong += (pruned(grown, x[others], ALPHAS) != y[others][:, None]).sum(axis=0)
    alpha = float(ALPHAS[::-1][np.argmin(wrong[::-1])])
    said = _tree(alpha).fit(x[:train], y).predict(x[train:])
    return 100 * float((said != truth[train:]).mean())


def bayes_error(table: pd.DataFrame, truth: Bools, train: int, cuts: str = "quartiles") -> float:
    """The same for naive Bayes on categories, with Laplace's correction; numbers are cut into categories first.

    ``quartiles`` and ``deciles`` cut the training rows into equal parts, ``informative`` as Fayyad and Irani do.
    """
    parts = []
    for name in table:
        if name in NUMBERS:
            value = lower_ends(table[name])
            at = informative(value[:train], truth[:train]) if cuts == "informative" else _quantiles(value[:train], cuts)
            parts.append(np.searchsorted(at, value, side="left"))
        else:
            parts.append(pd.factorize(table[name], sort=True)[0])
    x = np.column_stack(parts)
    model = CategoricalNB(min_categories=x.max(axis=0) + 1).fit(x[:train], truth[:train])
    return 100 * float((model.predict(x[train:]) != truth[train:]).mean())


def lower_ends(column: pd.Series[Any]) -> Floats:
    """Numbers as they are, intervals as their lower ends, ``*`` as 0.

    >>> lower_ends(pd.Series(["[13, 16]", "[1, 13)", "7", "*"])).tolist()
    [13.0, 1.0, 7.0, 0.0]
    """
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64)
    code, labels = pd.factorize(column)
    ends = [0.0 if text == "*" else float(text.strip("[]()").split(", ")[0]) for text in map(str, labels)]
    return np.array(ends)[code]


def pruned(tree: DecisionTreeClassifier, x: NDArray[Any], alphas: Floats) -> Bools:
    """What a tree says of every row when it is pruned by each alpha: as sklearn prunes, without growing it again.

    A node ends the tree where it costs no more than what is below it: its impurity, weighted by its share of the records,
    plus alpha, against the sum of the same over its leaves.
    """
    t = tree.tree_
    own = (t.impurity * t.weighted_n_node_samples / t.weighted_n_node_samples[0])[:, None] + alphas
    cost, ends = own.copy(), np.ones(own.shape, bool)
    inner = np.flatnonzero(t.children_left >= 0)
    for node in inner[::-1]:  # children have higher numbers
        below = cost[t.children_left[node]] + cost[t.children_right[node]]
        ends[node] = own[node] <= below
        cost[node] = np.minimum(own[node], below)
    said = np.repeat(tree.classes_[t.value[:, 0].argmax(axis=1)][:, None], len(alphas), axis=1)
    for node in inner:
        for child in (t.children_left[node], t.children_right[node]):
            said[child] = np.where(ends[node], said[node], said[child])
            ends[child] |= ends[node]
    return np.asarray(said[tree.apply(x)], bool)


def informative(value: Floats, truth: Bools) -> Floats:
    """Where numbers are cut so that the classes part, as long as that pays for its own description (Fayyad, Irani 1993).

    >>> informative(np.repeat([1.0, 2.0, 3.0], 20), np.repeat([False, False, True], 20)).tolist()
    [2.0]
    """
    values, place = np.unique(value, return_inverse=True)
    counts = np.zeros((len(values), 2))
    np.add.at(counts, (place, truth.astype(int)), 1)
    found, open_parts = [], [(0, len(values))]
    while open_parts:
        lo, hi = open_parts.pop()
        if (at := _cut(counts[lo:hi])) is not None:
            found.append(values[lo + at])
            open_parts += [(lo, lo + at + 1), (lo + at + 1, hi)]
    return np.array(sorted(found))


def _cut(counts: Floats) -> int | None:
    """Behind which value to cut, or nowhere."""
    if len(counts) < 2:
        return None
    whole = counts.sum(axis=0)
    left = counts.cumsum(axis=0)[:-1]
    right = whole - left
    after = (left.sum(axis=1) * _entropy(left) + right.sum(axis=1) * _entropy(right)) / whole.sum()
    at = int(np.argmin(after))
    three = np.array([whole, left[at], right[at]])
    classes = (three > 0).sum(axis=1)
    k, own = classes[0], classes * _entropy(three)
    price = np.log2(whole.sum() - 1) + np.log2(3.0**k - 2) - (own[0] - own[1] - own[2])
    return at if _entropy(whole[None])[0] - after[at] > price / whole.sum() else None


def _entropy(counts: Floats) -> Floats:
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(-(share * np.log2(np.where(share > 0, share, 1))).sum(axis=1))


def _quantiles(value: Floats, cuts: str) -> Floats:
    parts = {"quartiles": 4, "deciles": 10}[cuts]
    return np.unique(np.quantile(value, np.arange(1, parts) / parts))


def _columns(table: pd.DataFrame) -> NDArray[np.float32]:
    """Numbers as a column each, categories as a column of 0 and 1 for each of their labels."""
    parts = []
    for name in table:
        if name in NUMBERS:
            parts.append(lower_ends(table[name])[:, None])
        else:
            code, labels = pd.factorize(table[name], sort=True)
            parts.append(code[:, None] == np.arange(len(labels)))
    return np.hstack(parts).astype(np.float32) if parts else np.zeros((len(table), 1), np.float32)


def _tree(alpha: float) -> DecisionTreeClassifier:
    return DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, ccp_alpha=alpha, random_state=0)
