"""Audits that must not pass: attackers with more knowledge than the audit tests, and models of other classes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import shoal
from shoal.models import AnonymousTree, audit


def make_frame() -> pd.DataFrame:
    """Twenty people with two records each."""
    rows = np.arange(40)
    return pd.DataFrame(
        {
            "person": [f"p{r // 2}" for r in rows],
            "age": rows % 7,
            "risk": np.where(rows % 7 > 3, "bad", "good"),
            "other": np.where(rows % 2 > 0, "bad", "good"),
        }
    )


def make_policy(**changes: Any) -> shoal.Policy:
    return shoal.Policy(**({"quasi": {"age": "numeric"}, "target": "risk", "require": [shoal.KAnonymity(2)]} | changes))


@pytest.mark.parametrize("unit", [{"column": "person", "knows": "history"}, {"column": "person", "pseudonym": True}])
def test_an_attacker_who_knows_all_records_of_a_person_is_refused(unit: dict[str, Any]) -> None:
    frame, policy = make_frame(), make_policy(unit=unit)
    model = DecisionTreeClassifier().fit(frame[["age"]], frame["risk"])
    with pytest.raises(shoal.PolicyError, match="knows all records of a person"):
        audit(model, frame, policy)
    with pytest.raises(shoal.PolicyError, match="knows all records of a person"):
        AnonymousTree(policy).fit(frame)


def test_the_classes_in_the_leaves_of_a_model_are_compared_with_the_table() -> None:
    frame, policy = make_frame(), make_policy()
    model = DecisionTreeClassifier(max_depth=1)
    assert audit(model.fit(frame[["age"]], frame["risk"]), frame, policy).notes == ()
    (note,) = audit(model.fit(frame[["age"]], frame["other"]), frame, policy).notes
    assert "differ from those of the table" in note


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_weights_of_classes_are_no_other_records(weight: str | None) -> None:
    frame, policy = make_frame(), make_policy()
    model = DecisionTreeClassifier(max_depth=2, class_weight=weight).fit(frame[["age"]], frame["other"])
    assert audit(model, frame, make_policy(target="other")).notes == ()
    assert (
        audit(DecisionTreeRegressor().fit(frame[["age"]], frame["age"]), frame.assign(risk=frame["age"]), policy).notes
        == ()
    )


def test_a_private_class_with_one_value_must_meet_the_requirements() -> None:
    frame = pd.DataFrame({"age": range(30), "hiv": ["yes"] * 30})
    diverse = shoal.Policy(
        quasi={"age": "numeric"}, target="hiv", require=[shoal.KAnonymity(5), shoal.LDiversity(2, of="hiv")]
    )
    with pytest.raises(shoal.RequirementNotMet):
        AnonymousTree(diverse).fit(frame)
    policy = diverse.model_copy(update={"require": (shoal.KAnonymity(5),)})
    tree = AnonymousTree(policy).fit(frame)
    assert tree.certificate_.smallest == 30 and tree.certificate_.certain == 30
    assert not audit(tree, frame, policy.model_copy(update={"require": (shoal.KAnonymity(31),)})).holds


def test_a_model_of_other_records_is_not_publishable() -> None:
    frame = pd.DataFrame({"age": np.arange(100.0), "ill": ["y", "n"] * 50})
    policy = shoal.Policy(quasi={"age": "numeric"}, target="ill", require=[shoal.KAnonymity(2)])
    model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(frame[["age"]][40:46], frame["ill"][40:46])
    certificate = audit(model, frame, policy)
    assert certificate.holds and not certificate.fits and not certificate.publishable
    assert "not for the records of the model" in str(certificate)


def test_private_dates_are_cut_and_rare_texts_are_not_tested() -> None:
    days = pd.date_range("2020-01-01", periods=60, freq="D").astype(str)
    frame = pd.DataFrame(
        {
            "sex": ["f", "m"] * 30,
            "day": days,
            "note": [f"note about {n}" for n in range(60)],
            "ill": ["y"] * 30 + ["n"] * 30,
        }
    )
    policy = shoal.Policy(
        quasi={"sex": "categorical"}, sensitive=["day", "note"], target="ill", require=[shoal.KAnonymity(10)]
    )
    tree = AnonymousTree(policy).fit(frame)
    assert tree.export_text() == (
        "all records\n|-- day is before 2020-01-31: y 30\n|-- day is 2020-01-31 or later: n 30\n"
    )
    alone = policy.model_copy(update={"sensitive": ("note",)})
    notes = AnonymousTree(alone).fit(frame.drop(columns="day"))
    assert "note" not in notes.export_text()


def test_a_copied_tree_has_no_figures_of_the_owner() -> None:
    frame = pd.DataFrame({"age": np.repeat([20.0, 40.0], 20), "ill": ["y"] * 20 + ["n"] * 20})
    policy = shoal.Policy(quasi={"age": "numeric"}, target="ill", require=[shoal.KAnonymity(5)])
    tree = AnonymousTree(policy).fit(frame)
    assert tree.certificate_.certain == 40
    copied = pickle.loads(pickle.dumps(tree)).certificate_  # noqa: S301
    assert (copied.certain, copied.distinct, copied.entropy, len(copied.spans)) == (0, 0, 0.0, 0)
