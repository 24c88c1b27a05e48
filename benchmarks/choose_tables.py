"""The tables of `python -m benchmarks.choose`, with their policies. All are on the disk: nothing is downloaded.

UCI Adult is in the folder of SHOAL_DATA; statsmodels and scikit-learn ship four of the tables (`pip install '.[bench]'`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pandas as pd

import shoal
from benchmarks.cases import NUMBERS, QUASI, adult_rows
from shoal.policy import QuasiIdentifier


@dataclass(frozen=True)
class Table:
    """A table about people: its quasi-identifiers, its source, and the trees that replace numbers for bottom-up."""

    name: str
    source: str
    quasi: Mapping[str, Any]
    trees: Mapping[str, Any]
    load: Callable[[], pd.DataFrame]

    def rows(self) -> pd.DataFrame:
        """Return the quasi-identifiers of all records."""
        return self.load()[list(self.quasi)].reset_index(drop=True)

    def policy(self, k: int, *, trees: bool = False) -> shoal.Policy:
        """Return the policy with k-anonymity; with ``trees``, every quasi-identifier has a tree."""
        quasi = {**self.quasi, **(self.trees if trees else {})}
        return shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(k)])

    def describe(self) -> str:
        """Return the quasi-identifiers with their kinds."""
        return ", ".join(f"{name} ({_describe_kind(kind)})" for name, kind in self.quasi.items())


def _describe_kind(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    given = kind.model_dump(exclude_defaults=True) if isinstance(kind, QuasiIdentifier) else kind
    key = next((key for key in ("taxonomy", "mask", "date", "widths") if key in given), "categorical")
    return f"widths {', '.join(map(str, given[key]))}" if key == "widths" else key


def _load_statsmodels(name: str) -> pd.DataFrame:
    frame: pd.DataFrame = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    return frame


def _load_categories(name: str, *categories: str) -> pd.DataFrame:
    """Return a table of statsmodels whose codes of categories are text."""
    frame = _load_statsmodels(name)
    return frame.assign(**{column: frame[column].astype(int).astype(str) for column in categories})


def _load_randhie() -> pd.DataFrame:
    """Return the RAND health insurance experiment, with its three indicators of health as one column."""
    frame = _load_categories("randhie", "idp")
    health = pd.Series("excellent", frame.index)
    for column, text in (("hlthg", "good"), ("hlthf", "fair"), ("hlthp", "poor")):
        health = health.mask(frame[column] == 1, text)
    return frame.assign(health=health)


def _load_diabetes() -> pd.DataFrame:
    frame: pd.DataFrame = import_module("sklearn.datasets").load_diabetes(scaled=False, as_frame=True).frame
    return frame.assign(sex=frame["sex"].astype(int).astype(str))


def _list_tables() -> tuple[Table, ...]:
    adult = shoal.datasets.adult_taxonomies()
    numeric, balanced = "numeric", {"kind": "numeric", "balanced": 3}
    return (
        Table(
            "adult",
            "UCI Adult",
            {name: numeric if name in NUMBERS else {"taxonomy": adult[name]} for name in QUASI},
            {"age": {"widths": [5, 10, 20, 40]}, "education-num": {"widths": [2, 4, 8]}},
            adult_rows,
        ),
        Table(
            "hospital",
            "shoal.datasets.hospital(10_000, seed=7)",
            dict(shoal.datasets.hospital_policy().quasi),
            {},
            lambda: shoal.datasets.hospital(10_000, seed=7, kind="pandas"),
        ),
        Table(
            "randhie",
            "statsmodels: RAND health insurance experiment",
            {
                "lpi": numeric,
                "fmde": numeric,
                "physlm": numeric,
                "disea": {"widths": [5, 10, 20, 40]},
                "idp": "categorical",
                "health": "categorical",
            },
            {"lpi": balanced, "fmde": balanced, "physlm": balanced},
            _load_randhie,
        ),
        Table(
            "fair",
            "statsmodels: survey of Redbook on marriages",
            {
                "age": numeric,
                "yrs_married": numeric,
                "children": numeric,
                "religious": numeric,
                "educ": numeric,
                "occupation": "categorical",
                "occupation_husb": "categorical",
            },
            {
                "age": {"widths": [5, 10, 20]},
                "yrs_married": {"widths": [3, 6, 12]},
                "children": {"widths": [2, 4]},
                "religious": balanced,
                "educ": {"widths": [2, 4, 8]},
            },
            lambda: _load_categories("fair", "occupation", "occupation_husb"),
        ),
        Table(
            "anes96",
            "statsmodels: American National Election Study 1996",
            {
                "age": {"widths": [5, 10, 20, 40]},
                "educ": numeric,
                "income": numeric,
                "popul": numeric,
                "PID": "categorical",
            },
            {"educ": balanced, "income": {"widths": [2, 4, 8]}, "popul": balanced},
            lambda: _load_categories("anes96", "PID"),
        ),
        Table(
            "diabetes",
            "scikit-learn: diabetes patients",
            {"age": numeric, "sex": "categorical", "bmi": numeric, "bp": numeric},
            {"age": {"widths": [5, 10, 20, 40]}, "bmi": {"widths": [2, 4, 8, 16]}, "bp": {"widths": [5, 10, 20, 40]}},
            _load_diabetes,
        ),
    )


TABLES = _list_tables()
