"""Audits that must not pass: attackers with more knowledge than the audit tests, and models of other classes."""

from __future__ import annotations

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
