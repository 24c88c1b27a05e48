"""The shortfall of a group with one more record, value by value, against the group counted again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import kernels
from shoal.requirements import Requirement, TableDistribution, combine_limits
from tests.support.kernels import compile_inner

VALUES = 6
TREE = shoal.Taxonomy.from_nested({"all": {"low": ["0", "1", "2"], "high": ["3", {"top": ["4", "5"]}]}})
RULES: dict[str, tuple[Requirement, ...]] = {
    "distinct": (shoal.LDiversity(3, of="ill"),),
    "entropy": (shoal.LDiversity(3, of="ill", kind="entropy"),),
    "recursive": (shoal.LDiversity(2, of="ill", kind="recursive", c=1.5),),
    "equal": (shoal.TCloseness(0.1, of="ill"),),
    "ordered": (shoal.TCloseness(0.1, of="ill", distance="ordered"),),
    "hierarchical": (shoal.TCloseness(0.1, of="ill", distance="hierarchical", taxonomy=TREE),),
    "shares": (shoal.BetaLikeness(0.5, of="ill"),),
    "several": (shoal.TCloseness(0.2, of="ill"), shoal.LDiversity(2, of="job"), shoal.LDiversity(3, of="ill")),
}
counts = st.lists(st.integers(0, 9), min_size=VALUES, max_size=VALUES).map(lambda some: [*some[:-1], some[-1] + 1])


@pytest.mark.parametrize("rule", RULES)
@given(whole=counts, group=counts, jobs=st.lists(st.integers(0, 2), min_size=1, max_size=9))
def test_shortfalls_by_value(rule: str, whole: list[int], group: list[int], jobs: list[int]) -> None:
    table = np.array(whole, float) + 1
    labels = tuple(map(str, range(VALUES)))
    distribution = TableDistribution(
        ("ill", "job"), (VALUES, 3), np.concatenate([table / table.sum(), np.full(3, 1 / 3)]), (labels, labels[:3])
    )
    limits = combine_limits(RULES[rule], distribution).arrays()
    histogram = np.concatenate([group, np.bincount(np.resize(jobs, sum(group)), minlength=3)]).astype(np.int64)
    before, after, total = histogram.copy(), np.ones(len(histogram)), sum(group)
    compile_inner(kernels.limits.shortfalls_by_value)(total + 1, histogram, limits, after)
    assert (histogram == before).all()
    for ill in range(VALUES):
        for job in range(VALUES, VALUES + 3):
            joined = histogram.copy()
            joined[[ill, job]] += 1
            expected = compile_inner(kernels.limits.shortfall)(total + 1, joined, limits)
            assert after[ill] + after[job] == pytest.approx(expected, abs=1e-13)
