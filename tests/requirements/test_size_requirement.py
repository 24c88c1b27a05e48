"""A requirement on sizes alone is treated as k-anonymity is, whatever its class."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.specialization.attribute_sets import SetCombinations, SuppressionAllowance, list_attribute_sets
from tests.plugin.src.shoal_example.cell_rule import CellRule


def policy_of(kind: Any, k: int, *, suppress: float) -> shoal.Policy:
    """Two attribute sets, as k-anonymity or as the rule of another package."""
    make = shoal.KAnonymity if kind is shoal.KAnonymity else lambda k, on=None: CellRule(k - 1, on=on)
    return shoal.Policy(
        quasi={"zip": {"mask": "right"}, "sex": "categorical", "birth": {"date": ["day", "month", "year", "decade"]}},
        target="diagnosis",
        require=[make(k, on=["zip", "sex"]), make(2 * k, on=["sex", "birth"])],
        suppress=suppress,
    )


@pytest.mark.parametrize("method", ["tds", "mondrian", "kmember"])
@given(k=st.integers(2, 8), suppress=st.sampled_from([0.0, 0.1]), seed=st.integers(0, 5))
def test_a_size_requirement_gives_the_release_of_k_anonymity(method: str, k: int, suppress: float, seed: int) -> None:
    frame = shoal.datasets.hospital(150, seed=seed)
    both = [
        shoal.anonymize(frame, policy_of(kind, k, suppress=suppress), method=method, seed=seed)
        for kind in (shoal.KAnonymity, CellRule)
    ]
    assert both[0].certificate.fingerprint == both[1].certificate.fingerprint
    assert [str(step) for step in both[0].path or ()] == [str(step) for step in both[1].path or ()]


def test_the_search_takes_the_same_shortcuts() -> None:
    """The fast paths of tds: sizes without histograms, refusals that are final, and suppression counted by size."""
    frame, policy = shoal.datasets.hospital(150, seed=1), policy_of(CellRule, 3, suppress=0.1)
    codes = encode_and_count(open_data(frame), policy)[0]
    assert all(SetCombinations.of_set(codes, names).size_only for names in list_attribute_sets(policy))
    allowance = SuppressionAllowance.of(policy, codes)
    assert allowance.is_refusal_final and allowance.counts_all_failing
