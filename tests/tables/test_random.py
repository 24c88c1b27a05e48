"""Random anonymization as a method: its parameters, its certificate, and its release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.recoding import Randomize, SelectionOperator
from tests.support.adult import adult_of_the_paper
from tests.support.steps import needs_data

RECORDS = pd.DataFrame(
    {
        "age": ["50-60", "40-50", "30-40", "30-40", "50-60", "30-40", "50-60", "20-30", "60-70", "30-40"],
        "job": ["Doctor", "Clerk", "Clerk", "Clerk", "Trader", "Clerk", "Engineer", "Trader", "Banker", "Banker"],
        "country": ["USA", "USA", "USA", "Germany", "USA", "UK", "USA", "UK", "USA", "India"],
        "disease": ["Hypertension"] * 4 + ["Diabetes"] * 3 + ["Heart Disease"] + ["Cancer"] * 2,
    }
)
QUASI = dict.fromkeys(("age", "job", "country"), "categorical")


def make_policy(*require: Any, **given: Any) -> shoal.Policy:
    return shoal.Policy(quasi=QUASI, sensitive=["disease"], require=list(require), **given)


def test_the_ten_records_of_the_paper() -> None:
    release = shoal.anonymize(RECORDS, make_policy(shoal.ProbabilisticAnonymity(11)), method="random", attributes=1)
    assert release.certificate.probabilistic_anonymity == pytest.approx(11.30, abs=0.005)
    assert release.certificate.evidence == "operator" and release.certificate.holds
    assert sorted(release.frame["disease"]) == sorted(RECORDS["disease"])
    for name in QUASI:
        assert set(release.frame[name]) <= set(RECORDS[name]), "values are drawn from their column"


def test_one_record_changes_in_one_attribute_at_most() -> None:
    """The diseases are unique here, so that records can be compared."""
    table = pd.concat([RECORDS] * 20, ignore_index=True).assign(disease=[f"d{i}" for i in range(200)])
    for replaced in (1, 2, 3):
        found = shoal.anonymize(table, make_policy(), method="random", attributes=replaced, seed=3).frame
        before, after = (frame.set_index("disease").sort_index() for frame in (table, found))
        changed = (before[[*QUASI]].to_numpy() != after[[*QUASI]].to_numpy()).sum(axis=1)
        assert changed.max() == replaced


def test_the_default_is_the_smallest_number_that_meets_the_policy() -> None:
    table = pd.concat([RECORDS] * 30, ignore_index=True)
    chosen = shoal.anonymize(table, make_policy(shoal.Posterior(0.4)), method="random", seed=1)
    operator = chosen.recoding.operator  # type: ignore[union-attr]
    assert isinstance(operator, SelectionOperator) and operator.replaced > 1
    finding = chosen.certificate.findings[0]
    assert finding.holds and finding.reached <= 0.4 and finding.groups == len(chosen.frame[[*QUASI]].drop_duplicates())
    with pytest.raises(shoal.RequirementNotMet, match="posterior"):
        shoal.anonymize(
            table, make_policy(shoal.Posterior(0.4)), method="random", attributes=operator.replaced - 1, seed=1
        )


def test_an_unreachable_requirement_says_what_is_reached() -> None:
    with pytest.raises(shoal.RequirementNotMet, match=r"shows its original with a probability of 0\.\d+"):
        shoal.anonymize(RECORDS, make_policy(shoal.Posterior(0.01)), method="random")


@pytest.mark.parametrize(
    ("require", "given", "text"),
    [
        (shoal.Posterior(0.01), {}, r"posterior (most = 0.01) is a probability of 0.1 (with attributes=3)."),
        (shoal.ProbabilisticAnonymity(90), {}, r"(anonymity = 90.0) is 53.42 (with attributes=3)."),
        (
            shoal.ProbabilisticAnonymity(90),
            {"attributes": 1},
            "is 11.3 (with attributes=1; without it, larger numbers are tried).",
        ),
    ],
)
def test_an_unreachable_requirement_names_the_best_reachable(require: Any, given: dict[str, int], text: str) -> None:
    with pytest.raises(shoal.RequirementNotMet, match="The best reachable for") as caught:
        shoal.anonymize(RECORDS, make_policy(require), method="random", **given)
    assert str(caught.value).endswith(text)


def test_the_best_reachable_need_not_be_the_last_number() -> None:
    """Pa grows with the number of choices of attributes, which is largest in the middle: four columns of nearly one value."""
    table = pd.DataFrame(np.zeros((200, 4), int), columns=[*"abcd"]).astype(str)
    table.loc[0] = "1"
    policy = shoal.Policy(quasi=dict.fromkeys("abcd", "categorical"), require=[shoal.ProbabilisticAnonymity(90)])
    with pytest.raises(shoal.RequirementNotMet, match=r"is 6\.\d+ \(with attributes=2\)"):
        shoal.anonymize(table, policy, method="random")


def test_the_certificate_says_what_is_not_promised() -> None:
    notes = " ".join(shoal.anonymize(RECORDS, make_policy(), method="random", attributes=1).certificate.notes)
    assert "of the records are unchanged" in notes and "the release is not k-anonymous" in notes
    assert "guesses the original values of a record with a probability of" in notes
    assert "at most 10 times the probability of the second (γ-amplification)" in notes
    assert "over all combinations this ratio is infinite" in notes
    every = " ".join(shoal.anonymize(RECORDS, make_policy(), method="random", attributes=3).certificate.notes)
    assert "(γ-amplification 1)" in every and "infinite" not in every


@needs_data
def test_adult_as_in_the_paper() -> None:
    """Section 7.2: 34 for equal probabilities. The mean posterior is over the records; 46 % of the records are unchanged."""
    table, policy = adult_of_the_paper()
    release = shoal.anonymize(table, policy, method="random", attributes=1, seed=11)
    assert len(table) == 30_162
    assert release.certificate.probabilistic_anonymity == pytest.approx(34.0, abs=0.05)
    notes = " ".join(release.certificate.notes)
    assert "so 46% of the records are unchanged" in notes
    assert "with a probability of 0.70 on average and 1.00 at most; for 70% of the records of this release" in notes
    best = shoal.anonymize(table, policy, method="random", attributes=1, p="optimal", seed=11)
    assert best.certificate.probabilistic_anonymity == pytest.approx(75.3, abs=0.05)


def test_the_same_seed_gives_the_same_release_and_another_one_another() -> None:
    table = pd.concat([RECORDS] * 10, ignore_index=True)
    one, same, other = (shoal.anonymize(table, make_policy(), method="random", attributes=2, seed=s) for s in (1, 1, 2))
    assert one.certificate == same.certificate and one.certificate.fingerprint != other.certificate.fingerprint


def test_one_quasi_identifier_has_no_bias() -> None:
    """m = 1: every value is drawn from the column, so the expected counts are those of the column."""
    table = pd.DataFrame({"age": ["a"] * 700 + ["b"] * 300, "disease": "x"})
    policy = shoal.Policy(quasi={"age": "categorical"}, sensitive=["disease"])
    shares = [
        (shoal.anonymize(table, policy, method="random", attributes=1, seed=s).frame["age"] == "a").mean()
        for s in range(40)
    ]
    assert np.mean(shares) == pytest.approx(0.7, abs=5 * (0.21 / 1000 / 40) ** 0.5)


def test_a_saved_release_keeps_the_seed_and_the_operator_from_the_public(tmp_path: Path) -> None:
    release = shoal.anonymize(RECORDS, make_policy(shoal.Posterior(1.0)), method="random", attributes=2)
    release.save(tmp_path / "out")
    public = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert public["holds"] and public["probabilistic_anonymity"] > 1
    assert not any("recoding" in file.name for file in (tmp_path / "out").iterdir())
    found = Randomize.from_dict(json.loads((tmp_path / "out.owner" / "recoding.json").read_text()))
    assert isinstance(found.operator, SelectionOperator) and found.operator.replaced == 2
    assert isinstance(release.recoding, Randomize) and found.labels == release.recoding.labels
    assert [sorted(map(str, own)) for own in found.labels] == [sorted(set(RECORDS[name])) for name in QUASI]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "random needs the number of attributes"),
        ({"attributes": 4}, "the policy has 3 quasi-identifiers"),
        ({"attributes": 0}, "attributes"),
        ({"attributes": 1, "p": "best"}, "unknown value 'best' for 'p'"),
        ({"attributes": 1, "p": [0.5, 0.6, 0.1]}, "sum to 1"),
        ({"attributes": 1, "p": [0.5, 0.5]}, "3 probabilities"),
        ({"attributes": 1, "p": {"age": 1.0}}, "a probability for each of age, job, country"),
        ({"attributes": 2, "p": "optimal"}, "p has an effect only if one attribute is replaced"),
    ],
)
def test_wrong_parameters(given: dict[str, Any], text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(RECORDS, make_policy(), method="random", **given)


def test_requirements_on_groups_are_refused() -> None:
    with pytest.raises(shoal.PolicyError, match=r"random cannot guarantee k-anonymity \(k = 2\)"):
        shoal.anonymize(RECORDS, make_policy(shoal.KAnonymity(2)), method="random", attributes=1)
    for wrong in (0, 1.5, "x"):
        with pytest.raises(shoal.PolicyError, match="most"):
            shoal.Posterior(wrong)  # type: ignore[arg-type]
    with pytest.raises(shoal.PolicyError, match="at least 1"):
        shoal.ProbabilisticAnonymity(0.5)


def test_a_policy_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "quasi: {age: categorical, job: categorical, country: categorical}\nsensitive: [disease]\n"
        "require: [{probabilistic-anonymity: 30}, {posterior: 0.9}]\n"
    )
    policy = shoal.Policy.load(tmp_path / "p.yaml")
    assert policy.require == (shoal.ProbabilisticAnonymity(30), shoal.Posterior(0.9))
    assert shoal.anonymize(RECORDS, policy, method="random", seed=1).certificate.holds


@pytest.mark.parametrize("p", [None, 5])
def test_p_that_is_no_list(p: Any) -> None:
    with pytest.raises(shoal.PolicyError, match="p must be 'uniform', 'optimal', or a probability for each of"):
        shoal.anonymize(RECORDS, make_policy(), method="random", attributes=1, p=p)


def test_a_release_without_requirements_says_so() -> None:
    release = shoal.anonymize(RECORDS, make_policy(suppress=0.5), method="random", attributes=1)
    assert "the policy has no requirement, so nothing was tested" in release.certificate.notes
    assert any("'suppress' of the policy has no effect" in note for note in release.notes)
