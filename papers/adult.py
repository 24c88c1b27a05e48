"""UCI Adult as the papers use it: 45,222 records without missing values, of which the first 30,162 are for training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

import shoal

TRAIN = 30_162
CLASS, RICH = "income", ">50K"
NAMES = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
NUMBERS = frozenset({"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"})
RANKED = (  # by C4.5, as section 6.1 of the specialization paper ranks them
    "capital-gain",
    "age",
    "marital-status",
    "education-num",
    "relationship",
    "hours-per-week",
    "sex",
    "education",
    "occupation",
)


def rows() -> pd.DataFrame:
    """The training records and, after them, the test records."""
    frame: pd.DataFrame = shoal.datasets.adult("all", drop_missing=True, kind="pandas")
    if len(frame) != 45_222:
        raise shoal.DataError(f"UCI Adult has 45,222 records without missing values, these are {len(frame):,}")
    return frame


def quasi(names: Iterable[str]) -> dict[str, Any]:
    """Numbers as they are, categories with their trees."""
    trees = shoal.datasets.adult_taxonomies()
    return {name: "numeric" if name in NUMBERS else {"taxonomy": trees[name]} for name in names}


def policy(sets: Iterable[Sequence[str]], k: int, *, keep: bool = True) -> shoal.Policy:
    """k-anonymity on every set of attributes; the other attributes are released as they are, or not at all."""
    sets = [tuple(names) for names in sets]
    held = [name for name in NAMES if any(name in names for names in sets)]
    order = sets[0] if len(sets) == 1 else held
    require = [shoal.KAnonymity(k, on=names) for names in sets] if len(sets) > 1 else [shoal.KAnonymity(k)]
    return shoal.Policy(
        quasi=quasi(order),
        keep=[name for name in NAMES if name not in held] if keep else [],
        target=CLASS,
        require=require,
    )
