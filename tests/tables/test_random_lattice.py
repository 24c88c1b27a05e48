"""The genetic search and simulated annealing: they reach the optimum of small lattices, by the seed, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal

BOTH = pytest.mark.parametrize("method", ["genetic", "annealing"])
JOB = {"ANY": {"Office": {"Desk": ["clerk"], "Lead": ["manager", "boss"]}, "Field": {"Land": ["farmer", "miner"]}}}
CITY = {"ANY": {"North": {"Far": ["Oulu"], "Near": ["Turku"]}, "South": {"Italy": ["Rome", "Bari"]}}}


def hospital(**given: Any) -> tuple[pd.DataFrame, shoal.Policy]:
    chance = np.random.default_rng(4)
    rows = 300
    frame = pd.DataFrame(
        {
            "age": chance.integers(20, 80, rows),
            "job": chance.choice(["clerk", "manager", "boss", "farmer", "miner"], rows),
            "city": chance.choice(["Oulu", "Turku", "Rome", "Bari"], rows, p=[0.1, 0.2, 0.3, 0.4]),
            "sex": chance.choice(["f", "m"], rows),
            "ward": chance.choice(["a", "b", "c"], rows),
            "smokes": chance.choice(["yes", "no"], rows),
            "grade": chance.choice(["low", "high"], rows),
        }
    )
    policy = shoal.Policy(
        quasi={
            "age": "numeric",
            "job": {"taxonomy": JOB},
            "city": {"taxonomy": CITY},
            **dict.fromkeys(["sex", "ward", "smokes"], "categorical"),
        },
        target="grade",
        require=shoal.KAnonymity(given.pop("k", 5)),
        **given,
    )
    return frame, policy


@BOTH
@pytest.mark.parametrize(("objective", "suppress"), [("loss", 0.0), ("loss_mean", 0.1), ("cm", 0.1)])
def test_nine_of_ten_seeds_reach_the_optimum(method: str, objective: str, suppress: float) -> None:
    frame, policy = hospital(suppress=suppress)
    optimal = shoal.tables.FullDomain(policy, objective=objective)
    optimal.release(frame, seed=1)
    assert 800 < optimal.lattice_.size < 1000
    best = optimal.lattice_.find(optimal.lattice_.chosen).loss
    reached = 0
    for seed in range(10):
        search = shoal.tables.METHODS.find(method)(policy, objective=objective)
        search.release(frame, seed=seed)
        loss = search.lattice_.find(search.lattice_.chosen).loss
        assert loss >= best - 1e-9
        reached += loss == pytest.approx(best)
    assert reached >= 9, reached


@BOTH
def test_a_seed_gives_one_search(method: str) -> None:
    frame, policy = hospital(suppress=0.1)
    given = {"steps": 12} if method == "annealing" else {"population": 4, "generations": 3}
    found = [shoal.tables.METHODS.find(method)(policy, **given) for _ in range(3)]
    for search, seed in zip(found, (3, 3, 4), strict=True):
        assert search.release(frame, seed=seed).certificate.holds
    nodes = [[(n.levels, n.loss) for n in search.lattice_ if n.suppressed is not None] for search in found]
    assert nodes[0] == nodes[1] != nodes[2]


@BOTH
def test_the_root_is_found_where_nothing_else_passes(method: str) -> None:
    frame, policy = hospital(k=300)
    release = shoal.anonymize(frame, policy, method=method, seed=1)
    assert set(release.frame["age"]) == set(release.frame["job"]) == {"*"}


@pytest.mark.parametrize(
    ("method", "parameters", "text"),
    [
        ("genetic", {"population": 1}, "population must be at least 2, not 1"),
        ("genetic", {"generations": "many"}, "generations must be a whole number of at least 1, not 'many'"),
        ("genetic", {"objective": "il"}, "unknown value 'il' for 'objective'"),
        ("annealing", {"steps": 0}, "steps must be at least 1, not 0"),
        ("annealing", {"temperature": 0}, "'temperature' must be above 0, not 0"),
    ],
)
def test_wrong_parameters_are_refused(method: str, parameters: dict[str, Any], text: str) -> None:
    frame, policy = hospital()
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(frame, policy, method=method, **parameters)


@BOTH
def test_an_unreachable_requirement_is_refused(method: str) -> None:
    frame, policy = hospital()
    policy = policy.model_copy(update={"require": [shoal.LDiversity(3, of="grade")], "sensitive": ["grade"]})
    with pytest.raises(shoal.RequirementNotMet, match="the whole table as one group reaches 2 distinct values"):
        shoal.anonymize(frame, policy, method=method)
