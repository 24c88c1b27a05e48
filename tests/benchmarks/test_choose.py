"""Parts of the measurement of all methods; `python -m benchmarks.choose` measures them."""

from __future__ import annotations

import importlib.util

import pytest

import shoal
from benchmarks import choose
from benchmarks.choose import Run
from shoal.pipeline.method import GroupingMethod
from shoal.tables import BUILT_IN, METHODS


def run_of(table: str, k: int, method: str, improve: bool, ncp: float) -> Run:
    return Run(table, k, method, improve, ncp, 0.5, 10)


def test_every_method_with_labels_is_measured() -> None:
    grouping = {name for name in BUILT_IN if issubclass(METHODS.find(name), GroupingMethod)}
    assert set(choose.list_methods()) >= grouping - {"condensation", "local-suppression", choose.NEEDS_TARGET}
    table = shoal.datasets.hospital(100, seed=1, kind="pyarrow")
    with pytest.raises(shoal.PolicyError, match="target"):
        policy = shoal.Policy(quasi={"sex": "categorical"}, require=[shoal.KAnonymity(5)])
        shoal.anonymize(table, policy, method=choose.NEEDS_TARGET)
    assert not {"anatomy", "condensation", "local-suppression", "random"} & set(choose.list_methods())


def test_the_alternative_has_the_largest_median_reduction() -> None:
    figures = {"mondrian": (10.0, 10.0, 10.0), "peel": (4.0, 7.0, 6.0), "kmember": (9.0, 1.0, 9.5)}
    runs = [
        run_of(t, 5, m, m != "mondrian", ncp)
        for m, found in figures.items()
        for t, ncp in zip("abc", found, strict=True)
    ]
    assert choose.choose_alternatives({run.key: run for run in runs}) == {5: ("peel", 0.4)}


def test_every_table_has_a_policy_for_every_method() -> None:
    for package in ("statsmodels", "sklearn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; pip install '.[bench]'")
    from benchmarks.choose_tables import TABLES

    for table in TABLES:
        if table.name == "adult":
            continue  # needs SHOAL_DATA
        rows = table.rows().head(120)
        for method in ("mondrian", "bottom-up"):
            run = choose.measure_run(table, rows, 5, method, improve=False)
            assert 0 < run.ncp <= 100 and run.groups >= 1
