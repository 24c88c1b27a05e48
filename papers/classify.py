"""The classification error on a raw or released table, of a pruned decision tree and of naive Bayes.

Both classifiers read raw and released tables in the same way. An interval is its lower end, a column that is ``*`` throughout
is constant, a category is its published label at any level of its taxonomy. The tree, its pruning and the cuts of numbers are
learned from the training rows alone.
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
    """Return the error in percent of a pruned tree, trained on the first ``train`` rows, on the rows after them.

    Splits use entropy, a leaf has at least two records as in C4.5, and each label of a category is a column of 0 and 1. The
    tree is pruned by cost complexity, with the alpha of the lowest error in a cross-validation of the training rows; ties: the
    highest alpha.
    """
    x, y = _columns(table), truth[:train]
    wrong = np.zeros(len(ALPHAS), np.int64)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for some, others in folds.split(x[:train], y):
        grown = _tree(0.0).fit(x[some], y[some])
        wrong += (predict_pruned(grown, x[others], ALPHAS) != y[others][:, None]).sum(axis=0)
    alpha = float(ALPHAS[::-1][np.argmin(wrong[::-1])])
    predicted = _tree(alpha).fit(x[:train], y).predict(x[train:])
    return 100 * float((predicted != truth[train:]).mean())


def bayes_error(table: pd.DataFrame, truth: Bools, train: int, cuts: str = "quartiles") -> float:
    """Return the error in percent of naive Bayes on categories, with Laplace's correction; numbers are cut into categories.

    ``quartiles`` and ``deciles`` cut the training rows into equal parts, ``informative`` cuts as Fayyad and Irani do.
    """
    parts = []
    for name in table:
        if name in NUMBERS:
            value = lower_ends(table[name])
            at = (
                find_informative_cuts(value[:train], truth[:train])
                if cuts == "informative"
                else _quantiles(value[:train], cuts)
            )
            parts.append(np.searchsorted(at, value, side="left"))
        else:
            parts.append(pd.factorize(table[name], sort=True)[0])
    x = np.column_stack(parts)
    model = CategoricalNB(min_categories=x.max(axis=0) + 1).fit(x[:train], truth[:train])
    return 100 * float((model.predict(x[train:]) != truth[train:]).mean())


def lower_ends(column: pd.Series[Any]) -> Floats:
    """Return numbers unchanged, the lower ends of intervals, and 0 for ``*``.

    >>> lower_ends(pd.Series(["[13, 16]", "[1, 13)", "7", "*"])).tolist()
    [13.0, 1.0, 7.0, 0.0]
    """
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64)
    code, labels = pd.factorize(column)
    ends = [0.0 if text == "*" else float(text.strip("[]()").split(", ")[0]) for text in map(str, labels)]
    return np.array(ends)[code]


def predict_pruned(tree: DecisionTreeClassifier, x: NDArray[Any], alphas: Floats) -> Bools:
    """Return the predictions of a tree for every row and every alpha: pruned as in scikit-learn, without training it again.

    A node becomes a leaf if its cost is at most the summed cost of its leaves. The cost of a leaf is its impurity, weighted by
    its share of the records, plus alpha.
    """
    t = tree.tree_
    own = (t.impurity * t.weighted_n_node_samples / t.weighted_n_node_samples[0])[:, None] + alphas
    cost, ends = own.copy(), np.ones(own.shape, bool)
    inner = np.flatnonzero(t.children_left >= 0)
    for node in inner[::-1]:  # children have higher numbers
        below = cost[t.children_left[node]] + cost[t.children_right[node]]
        ends[node] = own[node] <= below
        cost[node] = np.minimum(own[node], below)
    predicted = np.repeat(tree.classes_[t.value[:, 0].argmax(axis=1)][:, None], len(alphas), axis=1)
    for node in inner:
        for child in (t.children_left[node], t.children_right[node]):
            predicted[child] = np.where(ends[node], predicted[node], predicted[child])
            ends[child] |= ends[node]
    return np.asarray(predicted[tree.apply(x)], bool)


def find_informative_cuts(value: Floats, truth: Bools) -> Floats:
    """Return the cuts of numbers by entropy and minimum description length (Fayyad, Irani 1993).

    >>> find_informative_cuts(np.repeat([1.0, 2.0, 3.0], 20), np.repeat([False, False, True], 20)).tolist()
    [2.0]
    """
    values, place = np.unique(value, return_inverse=True)
    counts = np.zeros((len(values), 2))
    np.add.at(counts, (place, truth.astype(int)), 1)
    cuts, parts = [], [(0, len(values))]
    while parts:
        lo, hi = parts.pop()
        if (at := _find_cut(counts[lo:hi])) is not None:
            cuts.append(values[lo + at])
            parts += [(lo, lo + at + 1), (lo + at + 1, hi)]
    return np.array(sorted(cuts))


def _find_cut(counts: Floats) -> int | None:
    """Return the last value before the best cut, or None."""
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
    """Return one column per number, and one column of 0 and 1 per label of a category."""
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
