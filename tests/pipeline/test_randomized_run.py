"""Randomizing methods: one kernel, keyed random numbers, requirements on the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import kernels
from shoal.recoding import load_recoding
from shoal.requirements import Transition
from tests.plugin.src.shoal_example.flip import Flip
from tests.plugin.src.shoal_example.kept import Kept


def people(rows: int = 400) -> pd.DataFrame:
    chance = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": chance.integers(20, 26, rows),
            "sex": chance.choice(["f", "m", None], rows, p=[0.6, 0.3, 0.1]),
            "ill": chance.choice(["flu", "cold"], rows),
            "note": np.arange(rows),
        }
    )


def policy_of(*require: Any) -> shoal.Policy:
    quasi = {"age": "numeric", "sex": "categorical"}
    return shoal.Policy(quasi=quasi, sensitive=["ill"], keep=["note"], accept={"note": "a test"}, require=require)


def draw_one(code: int, uniform: float, keep: list[float], draw: list[list[float]]) -> int:
    """The slow twin of the kernel for one record."""
    if uniform < keep[code]:
        return code
    rest = (uniform - keep[code]) / (1 - keep[code])
    total = 0.0
    row = draw[code] if len(draw) > 1 else draw[0]
    for published, probability in enumerate(row):
        total += probability
        if rest < total:
            return published
    return len(row) - 1


@given(st.data(), st.integers(1, 5), st.booleans())
def test_kernel_agrees_with_its_twin(data: st.DataObject, codes: int, shared: bool) -> None:
    share = st.integers(0, 4).map(float)
    keep = [data.draw(st.sampled_from([0.0, 0.25, 0.5])) for _ in range(codes)]
    rows = [[data.draw(share) for _ in range(codes)] for _ in range(1 if shared else codes)]
    rows = [[v / sum(row) for v in row] if sum(row) else [1.0 / codes] * codes for row in rows]
    records = data.draw(st.lists(st.tuples(st.integers(0, codes - 1), st.integers(0, 1023)), max_size=30))
    code = np.array([c for c, _ in records], np.int32)
    uniform = np.array([u / 1024 for _, u in records])
    cumulative = np.cumsum(np.array(rows), axis=1)
    found = kernels.randomize.draw_codes(code, uniform, np.array(keep), cumulative)
    assert found.tolist() == [draw_one(c, u / 1024, keep, rows) for c, u in records]


def test_values_change_with_the_stated_probabilities() -> None:
    frame = people(4_000)
    release = Flip(policy_of(), keep=0.7).release(frame, seed=2**70)
    share = frame["age"].value_counts(normalize=True)
    unchanged = frame["age"].to_numpy() == release.frame["age"].to_numpy()
    expected = 0.7 + 0.3 * float((share**2).sum())
    assert abs(unchanged.mean() - expected) < 0.03
    assert list(release.frame["note"]) == list(frame["note"])
    assert list(release.frame["ill"]) == list(frame["ill"])


def test_the_release_depends_on_the_secret_and_not_on_the_order() -> None:
    frame = people()
    first, again, other = (Flip(policy_of()).release(frame, seed=s) for s in (2**70, 2**70, 2**71))
    shuffled = Flip(policy_of()).release(frame.sample(frac=1, random_state=3), seed=2**70)
    assert first.certificate.fingerprint == again.certificate.fingerprint == shuffled.certificate.fingerprint
    assert first.certificate.fingerprint != other.certificate.fingerprint


def test_engines_agree() -> None:
    memory, duck = (
        Flip(policy_of(Kept(0.9))).release(shoal.engines.open_data(people(), shoal.engines.Resources(engine=e)), seed=7)
        for e in ("memory", "duckdb")
    )
    assert memory.certificate == duck.certificate


def test_a_failing_operator_is_not_released() -> None:
    with pytest.raises(shoal.RequirementNotMet, match=r"worst attribute reaches a probability of 0\.8"):
        Flip(policy_of(Kept(0.4)), keep=0.5).release(people(), seed=1)


def test_each_family_refuses_requirements_of_the_other() -> None:
    with pytest.raises(shoal.PolicyError, match=r"example-flip cannot guarantee k-anonymity \(k = 2\)"):
        Flip(policy_of(shoal.KAnonymity(2))).release(people())
    with pytest.raises(shoal.PolicyError, match=r"mondrian cannot guarantee example-kept .* randomizing methods"):
        shoal.anonymize(people(), policy_of(Kept(0.9)))
    with pytest.raises(shoal.PolicyError, match="cannot be tested on a table"):
        shoal.check(people(), policy_of(Kept(0.9)))
    with pytest.raises(shoal.PolicyError, match="the policy has no requirement"):
        shoal.anonymize(people(), policy_of())


def test_files_of_a_randomized_release(tmp_path: Path) -> None:
    release = Flip(policy_of()).release(people(), seed=2**70)
    release.save(tmp_path / "out")
    assert "changed at random" in (tmp_path / "out" / "report.html").read_text()
    assert "changed at random" in str(release.certificate)
    assert not (tmp_path / "out.owner" / "groups.json").exists()
    recoding = load_recoding(tmp_path / "out.owner" / "recoding.json")
    assert recoding.to_json() == release.recoding.to_json()
    with pytest.raises(shoal.DataError, match="no rule for later data"):
        recoding.apply(people())
    with pytest.raises(shoal.DataError, match="no rule for later data"):
        shoal.anonymize(people(), recoding=tmp_path / "out.owner" / "recoding.json")


@pytest.mark.parametrize(
    ("keep", "draw"),
    [([0.5, 1.5], [0.5, 0.5]), ([0.5, 0.5], [0.5, 0.4]), ([0.5], [0.5, 0.5]), ([0.5, 0.5], [1.5, -0.5])],
)
def test_invalid_probabilities_are_refused(keep: list[float], draw: list[float]) -> None:
    with pytest.raises(ValueError, match="A transition needs"):
        Transition(np.array(keep), np.array(draw))
