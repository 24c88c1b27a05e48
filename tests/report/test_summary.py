"""The summary of a release: every figure has the name of its measure and a unit."""

from __future__ import annotations

import pandas as pd
import pytest

import shoal
from shoal.measures import MEASURES
from shoal.report.summary import format_measures

FRAME = pd.DataFrame(
    {"age": range(20, 32), "town": list("abc") * 4, "ill": ["flu", "cold"] * 6, "class": ["x", "y", "y"] * 4}
)
POLICY = shoal.Policy(
    quasi={"age": "numeric", "town": "categorical"},
    sensitive=["ill"],
    target="class",
    truly_sensitive={"ill": ["flu"]},
    require=[shoal.KAnonymity(3)],
)


@pytest.mark.parametrize("method", ["mondrian", "condensation"])
def test_every_figure_has_a_measure_and_a_unit(method: str) -> None:
    release = shoal.anonymize(FRAME, POLICY, method=method, improve=method == "mondrian", seed=1)
    measures = release.measures
    assert set(measures) <= set(MEASURES.names())
    for name, unit, value in format_measures(measures, 0.5):
        assert unit and float(value.replace(",", "")) == pytest.approx(measures[name], rel=1e-5, abs=1e-9)
    summary = release.summary()
    rows = [*summary.risks(), *summary.statistics()]
    assert len(rows) >= 6 and all(name in measures for _, name, _ in rows)
    assert all(
        value.split(" ", 1)[-1] in ("record", "records", "group", "groups", "label", "labels", "of records")
        or "%" in value
        for _, _, value in summary.risks()
    )
    assert all(value.endswith(f"({MEASURES.find(name).unit})") for _, name, value in summary.statistics())
    assert summary.information()[0] == ("all attributes", f"{1 - measures['ncp']:.1%}")


def test_the_threshold_is_part_of_the_unit() -> None:
    assert format_measures({"risk_above": 0.25}, 0.05) == [
        ("risk_above", "share of records with a risk above 0.05", "0.25")
    ]
