"""UCI Adult as in the papers: 45,222 records without missing values; the first 30,162 are the training records."""

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
RANKED = (  # by C4.5, in the order of section 6.1 of the specialization paper
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
    """Return the training records, followed by the test records."""
    frame: pd.DataFrame = shoal.datasets.adult("all", drop_missing=True, kind="pandas")
    if len(frame) != 45_222:
        raise shoal.DataError(
            f"UCI Adult must have 45,222 records without missing values, but has {len(frame):,}. Download the files again."
        )
    return frame


def quasi(names: Iterable[str]) -> dict[str, Any]:
    """Return the quasi-identifiers of a policy: numbers, and categories with their taxonomies."""
    trees = shoal.datasets.adult_taxonomies()
    return {name: "numeric" if name in NUMBERS else {"taxonomy": trees[name]} for name in names}


def policy(sets: Iterable[Sequence[str]], k: int, *, keep: bool = True) -> shoal.Policy:
    """Return a policy with k-anonymity on every attribute set; other attributes are kept unchanged (``keep``) or removed."""
    sets = [tuple(names) for names in sets]
    used = [name for name in NAMES if any(name in names for names in sets)]
    order = sets[0] if len(sets) == 1 else used
    require = [shoal.KAnonymity(k, on=names) for names in sets] if len(sets) > 1 else [shoal.KAnonymity(k)]
    return shoal.Policy(
        quasi=quasi(order),
        keep=[name for name in NAMES if name not in used] if keep else [],
        target=CLASS,
        require=require,
    )
