"""Ranges and rounded ends: the information that single columns keep, before and after.

`python -m benchmarks.ranges` prints the shares of information kept (1 - ncp) by Mondrian at k = 10, the share of records
published as ``*``, and the labels with an end that occurs once in the source. The tables are generated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import shoal

K = 10
PARTS = {"date": ["day", "month", "year", "decade"]}


def senators(seed: int = 0) -> pd.DataFrame:
    """Birth dates and parties of 100 senators, aged 40 to 90."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("1933-01-01") + rng.integers(0, 50 * 365, 100)
    return pd.DataFrame(
        {"birth": days.astype(str), "party": rng.choice(["R", "D"], 100), "state": rng.integers(0, 50, 100)}
    )


def stops(rows: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """Times to the second and places to eight decimals of police stops in one year."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 365 * 86_400, rows)
    return pd.DataFrame(
        {
            "time": (np.datetime64("2017-01-01T00:00:00") + seconds).astype(str),
            "latitude": (44.96 + rng.normal(0, 0.03, rows)).round(8),
            "longitude": (-93.27 + rng.normal(0, 0.03, rows)).round(8),
        }
    )


CASES: list[tuple[str, pd.DataFrame, dict[str, Any], dict[str, Any]]] = [
    (
        "senators",
        senators(),
        {"birth": {**PARTS, "ranges": False}, "party": "categorical"},
        {"birth": PARTS, "party": "categorical"},
    ),
    (
        "hospital",
        shoal.datasets.hospital(50_000, seed=1),
        {"birth": {**PARTS, "ranges": False}, "zip": {"mask": "right"}, "sex": "categorical"},
        {"birth": PARTS, "zip": {"mask": "right"}, "sex": "categorical"},
    ),
    (
        "stops",
        stops(),
        {name: {"kind": "date" if name == "time" else "numeric", "round": "none"} for name in stops(1)},
        {name: "date" if name == "time" else "numeric" for name in stops(1)},
    ),
]


def main() -> None:
    """Print one line per column."""
    print("| table, column | kept before | kept after | `*` before | `*` after | unique ends before | after |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for table, frame, *policies in CASES:
        found = []
        for quasi in policies:
            policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(K)])
            found.append(shoal.anonymize(frame, policy, seed=1))
        for column in policies[0]:
            kept = [f"{1 - release.measures.columns[column]['ncp']:.1%}" for release in found]
            roots = [f"{(release.frame[column] == '*').mean():.1%}" for release in found]
            ends = [f"{release.measures['unique_ends']:,.0f}" for release in found]
            print(f"| {table}, {column} | {' | '.join((*kept, *roots, *ends))} |")


if __name__ == "__main__":
    main()
