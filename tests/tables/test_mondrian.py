"""Mondrian against its slow twin, record for record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import shoal
from shoal.codes import Attribute, Codes, encode
from shoal.engines import open_data
from tests.contract.cases import Case, cases
from tests.reference.mondrian import Record, mondrian
from tests.reference.requirements import passes


def records_of(codes: Codes) -> list[Record]:
    counts = codes.counts
    found: list[Record] = []
    for u in range(len(codes.quasi)):
        for c in range(counts.start[u], counts.start[u + 1]):
            record = (tuple(codes.quasi[u].tolist()), tuple(counts.secret[c].tolist()))
            found += [record] * int(counts.weight[c])
    return found


def plain_loss(attribute: Attribute) -> Callable[[int, int], float]:
    """The loss of an interval, from its definition."""

    def loss(lo: int, hi: int) -> float:
        if lo == hi:
            return 0.0
        tree = attribute.taxonomy
        if tree is None:
            if math.isinf(attribute.position[hi]):
                return 1.0
            return float((attribute.position[hi] - attribute.position[lo]) / attribute.span)
        if attribute.flat:
            return (hi - lo + 1) / attribute.size
        over = [n for n in range(len(tree.label)) if tree.lo[n] <= lo and hi <= tree.hi[n]]
        lowest = min(over, key=lambda n: tree.hi[n] - tree.lo[n])
        return float((tree.hi[lowest] - tree.lo[lowest] + 1) / (tree.hi[0] + 1))

    return loss


def fits_of(policy: shoal.Policy, everyone: Sequence[Record], codes: Codes) -> Callable[[Sequence[Record]], bool]:
    labels = codes.secrets[0].labels if codes.secrets else ()

    def secrets(records: Sequence[Record]) -> list[str | None]:
        return [labels[secret[0]] if secret else None for _, secret in records]

    def fits(group: Sequence[Record]) -> bool:
        return all(passes(r, secrets(group), secrets(everyone)) for r in policy.require)

    return fits


def fast_groups(codes: Codes, policy: shoal.Policy, cut: str) -> list[list[Record]]:
    method = shoal.tables.Mondrian(policy, cut="median" if cut == "relaxed" else cut, relaxed=cut == "relaxed")
    decision = method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)
    combination = np.repeat(np.arange(len(codes.quasi)), np.diff(codes.counts.start))
    groups: list[list[Record]] = [[] for _ in range(len(decision.lo))]
    place = decision.placement
    for cell, group, weight in zip(place.cell, place.group, place.weight, strict=True):
        record = (tuple(codes.quasi[combination[cell]].tolist()), tuple(codes.counts.secret[cell].tolist()))
        groups[group] += [record] * int(weight)
    return sorted(sorted(g) for g in groups)


@pytest.mark.parametrize("cut", ["gain", "median", "relaxed"])
@given(case=cases(least=2, most=60))
def test_same_groups_as_the_slow_twin(case: Case, cut: str) -> None:
    codes, _ = encode(open_data(case.frame), case.policy)
    everyone = records_of(codes)
    fits = fits_of(case.policy, everyone, codes)
    if not fits(everyone):
        with pytest.raises(shoal.RequirementNotMet):
            shoal.anonymize(case.frame, case.policy)
        return
    slow = mondrian(everyone, [plain_loss(a) for a in codes.attributes], fits, cut)
    assert fast_groups(codes, case.policy, cut) == sorted(slow)


@pytest.mark.parametrize("cut", ["gain", "median", "relaxed"])
def test_many_rows_are_cut_in_parts_with_the_same_result(cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import shoal.tables.mondrian as module

    frame = shoal.datasets.hospital(4_000, seed=3)
    policy = shoal.datasets.hospital_policy(5)
    codes, _ = encode(open_data(frame), policy)
    whole = fast_groups(codes, policy, cut)
    monkeypatch.setattr(module, "PIECE", 50)
    assert fast_groups(codes, policy, cut) == whole


@pytest.mark.parametrize("cut", ["gain", "median"])
def test_wide_domains_are_sorted_not_tabled(cut: str) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": rng.integers(0, 10, 300)})
    policy = shoal.Policy(quasi={"x": "numeric", "y": "numeric"}, require=[shoal.KAnonymity(7)])
    codes, _ = encode(open_data(frame), policy)
    everyone = records_of(codes)
    slow = mondrian(everyone, [plain_loss(a) for a in codes.attributes], lambda g: len(g) >= 7, cut)
    assert fast_groups(codes, policy, cut) == sorted(slow)


def test_unknown_cut_lists_the_choices() -> None:
    policy = shoal.datasets.hospital_policy(5)
    with pytest.raises(shoal.PolicyError, match="'gain', 'median'"):
        shoal.anonymize(shoal.datasets.hospital(50), policy, cut="mode")


@dataclass(frozen=True)
class AtMost(shoal.KAnonymity):
    """Groups of at most k records: what no union keeps."""

    name: ClassVar[str] = "at-most"
    monotone: ClassVar[bool] = False


def test_a_requirement_that_unions_break_is_refused() -> None:
    policy = shoal.Policy(quasi={"sex": "categorical"}, require=[AtMost(5)])
    with pytest.raises(shoal.PolicyError, match="a union of groups"):
        shoal.anonymize(shoal.datasets.hospital(50), policy)
