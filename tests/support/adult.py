"""UCI Adult with the roles of the random anonymization paper."""

from __future__ import annotations

from functools import cache

import pandas as pd

import shoal

QUASI = (
    "age",
    "workclass",
    "education",
    "marital-status",
    "relationship",
    "race",
    "sex",
    "native-country",
    "income",
)


@cache
def adult_of_the_paper() -> tuple[pd.DataFrame, shoal.Policy]:
    """The 30,162 training records without missing values, nine quasi-identifiers, and the occupation as sensitive."""
    table = shoal.datasets.adult("train", drop_missing=True, kind="pandas")[[*QUASI, "occupation"]]
    kinds = {name: "numeric" if name == "age" else "categorical" for name in QUASI}
    return table, shoal.Policy(quasi=kinds, sensitive=["occupation"])
