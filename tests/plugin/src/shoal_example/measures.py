"""Two measures: one that recipients can compute, and one that compares with the original and is not declared public."""

from __future__ import annotations

from shoal.measures import Measure, MeasureInput


def _find_largest(release: MeasureInput) -> float:
    return float(release.size.max(initial=0.0))


def _find_widest(release: MeasureInput) -> float | None:
    losses = release.collect("ncp")
    return None if losses is None else float(losses.max())


LARGEST = Measure(
    "example_largest",
    "records",
    "records of the largest group",
    needs=frozenset({"table"}),
    public=True,
    compute=_find_largest,
)
WIDEST = Measure(
    "example_widest", "share, 0 to 1", "the largest NCP of an attribute", better="lower", compute=_find_widest
)
