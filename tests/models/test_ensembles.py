"""Forests, bagging and boosting against an enumeration of the domain; scores, flags and distilled trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

import shoal
from shoal.datasets import papers
from shoal.engines import open_data
from shoal.mining.readers import read_model
from shoal.models import audit, choose_best, distill, find_flags, score_exposed, score_k
from shoal.spans import Knowledge
from tests.support.models import every_record, release_of

NAMES = ("age", "sex", "rent")
MAKERS: dict[str, Any] = {
    "forest": lambda seed: RandomForestClassifier(3, random_state=seed),
    "extra trees": lambda seed: ExtraTreesClassifier(3, random_state=seed),
    "bagging": lambda seed: BaggingClassifier(
        DecisionTreeClassifier(), n_estimators=3, max_features=0.7, random_state=seed
    ),
    "boosting": lambda seed: GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=seed),
    "histograms": lambda seed: HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=1, random_state=seed),
    "forest of numbers": lambda seed: RandomForestRegressor(3, random_state=seed),
    "boosting of numbers": lambda seed: GradientBoostingRegressor(n_estimators=2, max_depth=2, random_state=seed),
    "histograms of numbers": lambda seed: HistGradientBoostingRegressor(
        max_iter=2, min_samples_leaf=1, random_state=seed
    ),
}


@st.composite
def tables(draw: st.DrawFn, numbers: bool) -> pd.DataFrame:
    rows = draw(st.integers(4, 12))
    column = lambda values: draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))  # noqa: E731
    frame = pd.DataFrame(
        {"age": column([20.0, 30.0, 40.0]), "sex": column(["f", "m", "x"]), "rent": column([1.0, 5.0])}
    )
    classes = column([1.0, 2.0, 3.0]) if numbers else ["g", "b", *column(["g", "b", "h"])[2:]]
    return frame.assign(risk=classes)


def leaves_of(model: Any, frame: pd.DataFrame) -> Any:
    """The leaves of one record in all trees of a pipeline, by scikit-learn itself or by a walk of the nodes.

    The model is applied to the whole domain at once.
    """
    final = model[-1]
    domain, records = every_record(frame, NAMES)
    rows = np.asarray(model[:-1].transform(domain))
    if hasattr(final, "_predictors"):
        trees = [tree.nodes for step in final._predictors for tree in step]
        found = [[walk_histogram(nodes, row) for nodes in trees] for row in rows]
    elif hasattr(final, "estimators_features_"):
        pairs = zip(final.estimators_, final.estimators_features_, strict=True)
        found = np.column_stack([tree.apply(rows[:, columns]) for tree, columns in pairs]).tolist()
    else:
        found = final.apply(rows).reshape(len(rows), -1).astype(int).tolist()
    leaves = {record: tuple(own) for record, own in zip(records, found, strict=True)}
    return lambda record: leaves[tuple(record[name] for name in NAMES)]


def walk_histogram(nodes: Any, row: Any) -> int:
    n = 0
    while not nodes[n]["is_leaf"]:
        n = int(nodes[n]["left" if row[nodes[n]["feature_idx"]] <= nodes[n]["num_threshold"] else "right"])
    return n


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=15)
@given(data=st.data())
def test_joint_spans_are_those_of_an_enumeration(name: str, data: st.DataObject) -> None:
    numbers = name.endswith("numbers")
    frame = data.draw(tables(numbers))
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["sex"]), remainder="passthrough")
    model = make_pipeline(encoder, MAKERS[name](data.draw(st.integers(0, 99))))
    model.fit(frame[list(NAMES)], frame["risk"])
    public = data.draw(st.lists(st.sampled_from([*NAMES, "risk"]), min_size=1, unique=True))
    k, rule = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(["claim3", "all"]))
    kinds = {"age": "numeric", "rent": "numeric", "risk": "numeric" if numbers else "categorical"}
    policy = shoal.Policy(
        quasi={n: kinds.get(n, "categorical") for n in public},
        sensitive=[n for n in NAMES if n not in public],
        target="risk",
        require=[shoal.KAnonymity(k)],
    )
    certificate = audit(model, frame, policy, rule=rule)
    slow = release_of(leaves_of(model, frame), frame, NAMES, "risk", public)
    assert certificate.smallest == slow.smallest(rule)
    assert certificate.holds == slow.holds(k, rule)
    assert certificate.groups == len(slow.tested(rule))
    read = read_model(model, open_data(frame), policy, "risk")
    found = read.find_spans(Knowledge(frozenset(public), "risk" in public))
    same = [[one == other for other in slow.spans] for one in slow.spans]
    assert (found.span[:, None] == found.span[None, :]).tolist() == same
    assert [bool(found.single[s]) for s in found.span] == [len(span) == 1 for span in slow.spans]
    assert len(certificate.tree_smallest) == len(found.tree_span)
    for span in certificate.spans:
        assert str(span)


def test_categories_of_histograms_are_traced() -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "sex": pd.Categorical(rng.choice(["f", "m", "x", "y"], 300)),
            "age": rng.integers(20, 60, 300).astype(float),
            "job": pd.Categorical(rng.choice(list("abcdefgh"), 300)),
        }
    )
    frame.loc[:20, "age"] = np.nan
    frame["ill"] = np.where((frame["sex"] == "f") ^ frame["job"].isin(list("ace")) ^ (rng.random(300) < 0.1), "y", "n")
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype", min_samples_leaf=5)
    model.fit(frame[["sex", "age", "job"]], frame["ill"])
    assert any(tree.nodes["is_categorical"].any() for step in model._predictors for tree in step)
    policy = shoal.Policy(
        quasi={"sex": "categorical", "age": "numeric"}, sensitive=["job"], target="ill", require=[shoal.KAnonymity(2)]
    )
    assert audit(model, frame, policy).records == 300  # the traced leaves are compared with the model


def test_a_forest_with_public_columns_shows_almost_everybody_and_says_what_to_do() -> None:
    patients = shoal.datasets.hospital(600, seed=2, kind="pandas").dropna()
    patients["age"] = 2024 - patients["birth"].dt.year
    columns = ["age", "sex", "marital"]
    encoder = make_column_transformer((OrdinalEncoder(), ["sex", "marital"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestClassifier(20, random_state=0)).fit(patients[columns], patients["sex"])
    policy = shoal.Policy(
        quasi={"age": "numeric", "sex": "categorical", "marital": "categorical"},
        target="diagnosis",
        require=[shoal.KAnonymity(10)],
    )
    model.fit(patients[columns], patients["diagnosis"])
    certificate = audit(model, patients, policy)
    assert not certificate.holds and certificate.smallest == 1
    assert len(certificate.tree_smallest) == 20
    assert any("shoal.models.distill" in note for note in certificate.notes)
    assert "tree_smallest" not in certificate.to_dict()
    tree = distill(model, patients, policy)
    assert audit(tree, patients.assign(diagnosis=model.predict(patients[columns])), policy).holds
    assert tree.certificate_.smallest >= 10
    assert 0 < tree.fidelity_ <= 1 and tree.model_accuracy_ >= tree.accuracy_ > 0


class Custom(DecisionTreeClassifier):
    """A tree with another name."""


def test_what_cannot_be_audited() -> None:
    frame, policy = papers.mortgage(kind="pandas"), papers.mortgage_policy(3)
    numbers = (
        (frame[["Gender", "Age"]] == frame[["Gender", "Age"]].iloc[0]).astype(float).assign(risk=frame["Loan Risk"])
    )
    policy = shoal.Policy(quasi={"Gender": "numeric", "Age": "numeric"}, target="risk", require=[shoal.KAnonymity(2)])
    points, classes = numbers[["Gender", "Age"]], numbers["risk"]
    custom = BaggingClassifier(Custom(), n_estimators=2).fit(points, classes)
    with pytest.raises(shoal.DataError, match="models of the type Custom, which are not supported"):
        audit(custom, numbers, policy)
    started = RandomForestClassifier(3, warm_start=True).fit(points, classes).set_params(n_estimators=5)
    with pytest.raises(shoal.DataError, match="has 3 trees, but 5 are set"):
        audit(started, numbers, policy)
    with pytest.raises(shoal.DataError, match="not fitted"):
        audit(RandomForestClassifier(3), numbers, policy)
    with pytest.raises(shoal.DataError, match=r"LogisticRegression is not supported.*RandomForestClassifier"):
        audit(LogisticRegression().fit(points, classes), numbers, policy)
    with pytest.raises(shoal.DataError, match="fitted on columns that the table lacks: 'Gender'"):
        audit(RandomForestClassifier(3).fit(points, classes), numbers.drop(columns="Gender"), policy)
    with pytest.raises(shoal.DataError, match="single tree"):
        shoal.attacks.linking(RandomForestClassifier(3).fit(points, classes), numbers, policy)


# Scores and flags


def people() -> tuple[pd.DataFrame, shoal.Policy]:
    rng = np.random.default_rng(1)
    age = rng.integers(20, 60, 400).astype(float)
    frame = pd.DataFrame({"age": age, "ill": np.where((age > 40) ^ (rng.random(400) < 0.2), "y", "n")})
    return frame, shoal.Policy(quasi={"age": "numeric"}, target="ill", require=[shoal.KAnonymity(30)])


def test_a_search_under_a_privacy_limit() -> None:
    frame, policy = people()
    search = GridSearchCV(
        DecisionTreeClassifier(random_state=0),
        {"min_samples_leaf": [1, 10, 30, 150]},
        scoring={"accuracy": "accuracy", "k": score_k(policy), "exposed": score_exposed(policy)},
        refit=choose_best("accuracy", k=30),
        return_train_score=True,
        cv=3,
    ).fit(frame[["age"]], frame["ill"])
    assert search.best_params_["min_samples_leaf"] in (30, 150)
    assert search.cv_results_["mean_train_k"].tolist() == sorted(search.cv_results_["mean_train_k"])
    assert (search.cv_results_["mean_train_exposed"] <= 0).all()
    with pytest.raises(shoal.PolicyError, match="no candidate reaches k = 1000"):
        search.set_params(refit=choose_best("accuracy", k=1000)).fit(frame[["age"]], frame["ill"])


def test_scores_are_those_of_the_audit() -> None:
    frame, policy = people()
    model = DecisionTreeClassifier(min_samples_leaf=7, random_state=0).fit(frame[["age"]], frame["ill"])
    certificate = audit(model, frame, policy)
    assert score_k(policy)(model, frame[["age"]], frame["ill"]) == certificate.smallest
    assert score_exposed(policy)(model, frame[["age"]], frame["ill"]) == -certificate.certain / 400
    assert np.isnan(score_k(policy)(model, frame[["age"]].assign(age="x"), frame["ill"]))


def test_flags_are_structural() -> None:
    frame, policy = people()
    small = DecisionTreeClassifier(min_samples_leaf=50, random_state=0).fit(frame[["age"]], frame["ill"])
    flags = find_flags(small, frame, policy, test=frame.iloc[::2])
    assert flags.residual_degrees == 400 - small.get_n_leaves()
    assert flags.smallest_leaf >= 50 and flags.pure_leaves == 0
    assert flags.gap == pytest.approx(
        small.score(frame[["age"]], frame["ill"]) - small.score(frame[["age"]].iloc[::2], frame["ill"].iloc[::2])
    )
    forest = RandomForestClassifier(10, random_state=0).fit(frame[["age"]], frame["ill"])
    assert find_flags(forest, frame, policy).residual_degrees < flags.residual_degrees
    own = shoal.models.AnonymousTree(policy).fit(frame)
    assert find_flags(own, frame, policy).smallest_leaf >= 30


@pytest.mark.parametrize("name", ["forest", "boosting", "histograms"])
def test_trees_without_a_split_are_one_span(name: str) -> None:
    frame = pd.DataFrame({"age": [30.0] * 12, "sex": ["f"] * 12, "rent": [1.0] * 12, "risk": ["g", "b"] * 6})
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["sex"]), remainder="passthrough")
    model = make_pipeline(encoder, MAKERS[name](0)).fit(frame[list(NAMES)], frame["risk"])
    policy = shoal.Policy(
        quasi={"age": "numeric", "sex": "categorical"},
        sensitive=["rent"],
        target="risk",
        require=[shoal.KAnonymity(12)],
    )
    certificate = audit(model, frame, policy)
    assert certificate.holds and (certificate.groups, certificate.smallest) == (1, 12)
