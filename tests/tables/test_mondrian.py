"""Mondrian against its slow twin, record for record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from tests.reference.losses import interval_loss
from tests.reference.mondrian import Record, mondrian
from tests.reference.requirements import passes
from tests.support.cases import Case, cases
from tests.support.outcomes import Outcome, counted


def records_of(codes: Codes) -> list[Record]:
    counts = codes.counts
    found: list[Record] = []
    for u in range(len(codes.quasi)):
        for c in range(counts.start[u], counts.start[u + 1]):
            record = (tuple(codes.quasi[u].tolist()), tuple(counts.sensitive[c].tolist()))
            found += [record] * int(counts.size[c])
    return found


def plain_loss(attribute: Attribute, weight: float = 1.0) -> Callable[[int, int], float]:
    """The loss of an interval, from its definition, times a weight."""

    def loss(lo: int, hi: int) -> float:
        return weight * unweighted(lo, hi)

    def unweighted(lo: int, hi: int) -> float:
        if attribute.flat and lo < hi:
            return (hi - lo + 1) / attribute.size
        return interval_loss(attribute, lo, hi)

    return loss


def fits_of(policy: shoal.Policy, everyone: Sequence[Record], codes: Codes) -> Callable[[Sequence[Record]], bool]:
    labels = codes.sensitive[0].labels if codes.sensitive else ()

    def secrets(records: Sequence[Record]) -> list[str | None]:
        return [labels[secret[0]] if secret else None for _, secret in records]

    def fits(group: Sequence[Record]) -> bool:
        return all(passes(r, secrets(group), secrets(everyone)) for r in policy.require)

    return fits


def class_of(codes: Codes, target: str) -> Callable[[Record], int]:
    names = [a.name for a in codes.attributes]
    if target in names:
        return lambda record: record[0][names.index(target)]
    return lambda record: record[1][[s.name for s in codes.sensitive].index(target)]


def fast_groups(
    codes: Codes, policy: shoal.Policy, cut: str, weights: Mapping[str, float] | str | None = None
) -> list[list[Record]]:
    plain = "median" if cut == "relaxed" else cut
    method = shoal.tables.Mondrian(policy, cut=plain, relaxed=cut == "relaxed", weights=weights)
    decision = method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)
    combination = np.repeat(np.arange(len(codes.quasi)), np.diff(codes.counts.start))
    groups: list[list[Record]] = [[] for _ in range(len(decision.lo))]
    place = decision.placement
    for cell, group, weight in zip(place.cell, place.group, place.count, strict=True):
        record = (tuple(codes.quasi[combination[cell]].tolist()), tuple(codes.counts.sensitive[cell].tolist()))
        groups[group] += [record] * int(weight)
    return sorted(sorted(g) for g in groups)


@pytest.mark.parametrize("cut", ["gain", "median", "relaxed"])
@given(case=cases(least=2, most=60))
@counted
def test_same_groups_as_the_slow_twin(case: Case, cut: str) -> Outcome:
    codes, _ = encode_and_count(open_data(case.frame), case.policy)
    everyone = records_of(codes)
    fits = fits_of(case.policy, everyone, codes)
    if not fits(everyone):
        with pytest.raises(shoal.RequirementNotMet):
            shoal.anonymize(case.frame, case.policy)
        return "not met"
    slow = mondrian(everyone, [plain_loss(a) for a in codes.attributes], fits, cut)
    assert fast_groups(codes, case.policy, cut) == sorted(slow)
    return None


@given(case=cases(least=2, most=60))
def test_same_groups_as_the_slow_twin_for_a_target(case: Case) -> None:
    target = case.policy.target
    assume(target is not None)
    codes, _ = encode_and_count(open_data(case.frame), case.policy, extra=(target,))
    everyone = records_of(codes)
    fits = fits_of(case.policy, everyone, codes)
    assume(fits(everyone))
    slow = mondrian(everyone, [plain_loss(a) for a in codes.attributes], fits, "target", class_of(codes, target))
    assert fast_groups(codes, case.policy, "target") == sorted(slow)


weights = st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0, 1e-3, 1 / 3]) | st.floats(0.0, 9.0), min_size=8, max_size=8)


@pytest.mark.parametrize("cut", ["gain", "median", "relaxed"])
@given(case=cases(least=2, most=40), weights=weights)
def test_same_groups_as_the_slow_twin_with_weights(case: Case, weights: list[float], cut: str) -> None:
    codes, _ = encode_and_count(open_data(case.frame), case.policy)
    everyone = records_of(codes)
    fits = fits_of(case.policy, everyone, codes)
    assume(fits(everyone))
    named = dict(zip(case.policy.quasi, weights, strict=False))
    largest = max(named.values()) or 1.0  # the others count in proportion to it
    losses = [plain_loss(a, named[a.name] / largest) for a in codes.attributes]
    slow = mondrian(everyone, losses, fits, cut)
    assert fast_groups(codes, case.policy, cut, named) == sorted(slow)


@pytest.mark.parametrize("cut", ["gain", "median", "relaxed", "target"])
def test_many_rows_are_cut_in_parts_with_the_same_result(cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import shoal.tables.mondrian as module

    frame = shoal.datasets.hospital(4_000, seed=3)
    policy = shoal.datasets.hospital_policy(5)
    policy = policy.model_copy(update={"target": "diagnosis"})
    codes, _ = encode_and_count(open_data(frame), policy, extra=("diagnosis",))
    whole = fast_groups(codes, policy, cut)
    monkeypatch.setattr(module, "PIECE", 50)
    assert fast_groups(codes, policy, cut) == whole


@pytest.mark.parametrize("cut", ["gain", "median"])
def test_wide_domains_are_sorted_not_tabled(cut: str) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": rng.integers(0, 10, 300)})
    policy = shoal.Policy(quasi={"x": "numeric", "y": "numeric"}, require=[shoal.KAnonymity(7)])
    codes, _ = encode_and_count(open_data(frame), policy)
    everyone = records_of(codes)
    slow = mondrian(everyone, [plain_loss(a) for a in codes.attributes], lambda g: len(g) >= 7, cut)
    assert fast_groups(codes, policy, cut) == sorted(slow)


@pytest.mark.parametrize("classes", [2, 40])
@pytest.mark.parametrize("require", [[], [shoal.LDiversity(3, of="grade")]], ids=["k", "l"])
def test_classes_are_counted_by_code_or_in_order_with_the_same_result(classes: int, require: list[object]) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"x": rng.normal(size=250).round(2), "y": rng.integers(0, 10, 250)})
    frame["grade"] = (3 * frame["x"] + frame["y"] + rng.normal(size=250)).rank(pct=True).mul(classes).astype(int)
    quasi = {"x": "numeric", "y": "numeric"}
    policy = shoal.Policy(quasi=quasi, sensitive=["grade"], target="grade", require=[shoal.KAnonymity(4), *require])
    codes, _ = encode_and_count(open_data(frame), policy, extra=("grade",))
    everyone = records_of(codes)
    fits = fits_of(policy, everyone, codes)
    slow = mondrian(everyone, [plain_loss(a) for a in codes.attributes], fits, "target", class_of(codes, "grade"))
    assert fast_groups(codes, policy, "target") == sorted(slow)


def test_a_target_is_told_apart_where_the_loss_would_not_do_it() -> None:
    """Age is wide and says nothing of the class, the ward is all; cuts by loss halve age first."""
    people = [(age, ward, "ill" if ward == "a" else "well") for age in range(20, 60) for ward in "ab"]
    frame = pd.DataFrame(people, columns=["age", "ward", "state"])
    policy = shoal.Policy(
        quasi={"age": "numeric", "ward": "categorical"}, target="state", require=[shoal.KAnonymity(40)]
    )
    told, plain = (shoal.anonymize(frame, policy, cut=cut) for cut in ("target", "gain"))
    assert set(told.frame["ward"]) == {"a", "b"}
    assert told.measures["cm"] == 0
    policy = policy.model_copy(update={"require": (shoal.KAnonymity(10),)})
    told = shoal.anonymize(frame, policy, cut="target")
    assert told.certificate.groups == 8  # pure groups are cut on, by the loss
    assert plain.certificate.groups == 2


def test_a_target_must_be_named() -> None:
    with pytest.raises(shoal.PolicyError, match=r"name it as 'target' in the policy, or use cut='gain'"):
        shoal.anonymize(shoal.datasets.hospital(50), shoal.datasets.hospital_policy(5), cut="target")


def test_only_the_cut_by_a_target_counts_it() -> None:
    policy = shoal.datasets.hospital_policy(5).model_copy(update={"target": "diagnosis"})
    assert shoal.tables.Mondrian(policy).extra_columns() == ()
    assert shoal.tables.Mondrian(policy, cut="target").extra_columns() == ("diagnosis",)


@pytest.fixture(scope="module")
def patients() -> pd.DataFrame:
    return shoal.datasets.hospital(600, seed=2)


@pytest.mark.parametrize("cut", ["gain", "median"])
def test_equal_weights_are_no_weights(patients: pd.DataFrame, cut: str) -> None:
    policy = shoal.datasets.hospital_policy(5)
    codes, _ = encode_and_count(open_data(patients), policy)
    plain = fast_groups(codes, policy, cut)
    for weight in (1, 2, 1e-12, 1e200):
        assert fast_groups(codes, policy, cut, dict.fromkeys(policy.quasi, weight)) == plain
    assert fast_groups(codes, policy, cut, {}) == plain


@pytest.mark.parametrize("cut", ["gain", "median"])
def test_what_weighs_more_is_kept_better(patients: pd.DataFrame, cut: str) -> None:
    policy = shoal.datasets.hospital_policy(5)
    plain, heavy, none = (
        shoal.anonymize(patients, policy, cut=cut, weights=w) for w in (None, {"birth": 5}, {"birth": 0})
    )
    kept = [r.measures.columns["birth"]["ncp"] for r in (heavy, plain, none)]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


def test_weights_of_zero_leave_one_group(patients: pd.DataFrame) -> None:
    policy = shoal.datasets.hospital_policy(5)
    for cut in ("gain", "median"):
        release = shoal.anonymize(patients, policy, cut=cut, weights=dict.fromkeys(policy.quasi, 0))
        assert release.certificate.groups == 1


def test_weights_as_the_command_line_gives_them(patients: pd.DataFrame) -> None:
    policy = shoal.datasets.hospital_policy(5)
    codes, _ = encode_and_count(open_data(patients), policy)
    named = fast_groups(codes, policy, "gain", {"birth": 3, "zip": 0.5})
    assert fast_groups(codes, policy, "gain", "birth=3,zip=0.5") == named
    assert fast_groups(codes, policy, "gain", " birth : 3, zip : 0.5 ") == named


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"births": 1}, r"weights name 'births', which is no quasi-identifier; choose from .*did you mean 'birth'"),
        ({"diagnosis": 1}, "'diagnosis', which is no quasi-identifier; choose from 'birth', 'zip'"),
        ({"zip": -1}, "the weight of 'zip' must be at least 0, not -1"),
        ({"zip": math.inf}, "the weight of 'zip' must be a finite number"),
        ({"zip": math.nan}, "the weight of 'zip' must be a finite number"),
        ({"zip": "much"}, "the weight of 'zip' must be a number, not 'much'"),
        ({"zip": None}, "the weight of 'zip' must be a number, not None"),
        ({"zip": True}, "the weight of 'zip' must be a finite number, not True"),
        ([1, 2], "numbers by column name, such as {'birth': 2}"),
        (2, "numbers by column name"),
        ("zip", "NAME=NUMBER"),
        ("zip=1,zip=2", "NAME=NUMBER, once per column"),
        ("zip=", "the weight of 'zip' must be a number, not ''"),
    ],
)
def test_wrong_weights_are_told(patients: pd.DataFrame, weights: object, said: str) -> None:
    with pytest.raises(shoal.PolicyError, match=said):
        shoal.anonymize(patients, shoal.datasets.hospital_policy(5), weights=weights)


def test_unknown_cut_lists_the_choices() -> None:
    policy = shoal.datasets.hospital_policy(5)
    with pytest.raises(shoal.PolicyError, match="'gain', 'median', 'target'"):
        shoal.anonymize(shoal.datasets.hospital(50), policy, cut="mode")


@dataclass(frozen=True)
class AtMost(shoal.KAnonymity):
    """Groups of at most k records: what no union keeps."""

    name: ClassVar[str] = "at-most"
    monotone: ClassVar[bool] = False


def test_a_requirement_that_unions_break_is_refused() -> None:
    policy = shoal.Policy(quasi={"sex": "categorical"}, require=[AtMost(5)])
    with pytest.raises(shoal.PolicyError, match="a union of passing groups"):
        shoal.anonymize(shoal.datasets.hospital(50), policy)
