"""Wrong models, tables, policies and parameters: every error is an error of Shoal that names the cause and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import shoal
from shoal.attacks import linking
from shoal.models import AnonymousTree, audit

NUMBERS = ["age", "rent"]
POLICY: dict[str, Any] = {
    "quasi": {"age": "numeric", "sex": "categorical"},
    "sensitive": ["rent"],
    "target": "risk",
    "require": [shoal.KAnonymity(2)],
}


def make_frame(**changes: Any) -> pd.DataFrame:
    columns = {
        "age": [20, 30, 30, 40, 50, 60.0],
        "sex": list("fmfmfm"),
        "rent": [1.5, 2, 2, 3, 8, 9],
        "risk": list("ggbbgb"),
    }
    return pd.DataFrame(columns | changes)


def policy_of(**changes: Any) -> shoal.Policy:
    return shoal.Policy(**(POLICY | changes))


def fit(model: Any, columns: list[str] | None = None) -> Any:
    frame = make_frame()
    return model.fit(frame[columns or NUMBERS], frame["risk"])


def tree() -> Any:
    return fit(DecisionTreeClassifier(random_state=0))


def own(**changes: Any) -> AnonymousTree:
    return AnonymousTree(policy_of(**changes)).fit(make_frame())


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "not fitted": (DecisionTreeClassifier, r"DecisionTreeClassifier is not fitted\. Call its method fit first"),
    "own not fitted": (AnonymousTree, r"AnonymousTree is not fitted\. Call its method fit first"),
    "pipeline not fitted": (
        lambda: make_pipeline(StandardScaler(), DecisionTreeClassifier()),
        "Pipeline is not fitted",
    ),
    "boosting of stumps": (
        lambda: fit(AdaBoostClassifier(n_estimators=2)),
        "AdaBoostClassifier is not supported.*AnonymousTree.*DecisionTreeClassifier.*OneHotEncoder",
    ),
    "regression": (lambda: fit(LogisticRegression()), "LogisticRegression is not supported.*DecisionTreeClassifier"),
    "pipeline of boosting": (
        lambda: fit(make_pipeline(StandardScaler(), AdaBoostClassifier(n_estimators=2))),
        "AdaBoostClassifier is not supported",
    ),
    "PCA": (
        lambda: fit(make_pipeline(PCA(1), DecisionTreeClassifier())),
        "type PCA in a pipeline is not supported.*Scaler",
    ),
    "function": (
        lambda: fit(make_pipeline(FunctionTransformer(np.log), DecisionTreeClassifier())),
        "FunctionTransformer in a pipeline is not supported",
    ),
    "PCA of columns": (
        lambda: fit(make_pipeline(ColumnTransformer([("a", PCA(1), NUMBERS)]), DecisionTreeClassifier())),
        "type PCA in a pipeline is not supported",
    ),
    "polynomials": (
        lambda: fit(make_pipeline(PolynomialFeatures(), DecisionTreeClassifier())),
        "PolynomialFeatures in a pipeline is not supported",
    ),
    "union": (
        lambda: fit(make_pipeline(FeatureUnion([("s", StandardScaler())]), DecisionTreeClassifier())),
        "FeatureUnion in a pipeline is not supported",
    ),
    "several targets": (
        lambda: DecisionTreeClassifier().fit(make_frame()[NUMBERS], make_frame()[["risk", "sex"]]),
        "several targets is not supported. Fit one model per target",
    ),
    "no names": (
        lambda: DecisionTreeClassifier().fit(make_frame()[NUMBERS].to_numpy(), make_frame()["risk"]),
        "2 columns without names, but the table has 3 columns.*Fit the model on a frame with column names",
    ),
    "none": (lambda: None, "type NoneType is not supported. Shoal audits"),
    "text": (lambda: "model.joblib", "type str is not supported. Shoal audits"),
    "a class": (lambda: DecisionTreeClassifier, "is a class, not a model. Make an object"),
    "an own class": (lambda: AnonymousTree, "is a class, not a model. Make an object"),
}


@pytest.mark.parametrize("name", MODELS)
def test_wrong_models(name: str) -> None:
    make, text = MODELS[name]
    model = make()
    for attempt in (audit, linking):
        with pytest.raises(shoal.DataError, match=text):
            attempt(model, make_frame(), policy_of())


def test_a_model_without_names_and_a_table_with_its_columns_only() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(make_frame()[NUMBERS].to_numpy(), make_frame()["risk"])
    policy = policy_of(quasi={"age": "numeric"})
    given = audit(model, make_frame()[[*NUMBERS, "risk"]], policy)
    assert given.to_private_dict() == audit(tree(), make_frame(), policy).to_private_dict()


TABLES: dict[str, tuple[Callable[[], Any], str]] = {
    "a column less": (lambda: make_frame().drop(columns="rent"), "rent.*(Pass|Add)"),
    "other names": (lambda: make_frame().rename(columns={"age": "years", "rent": "cost"}), "'age', 'rent'.*(Pass|Add)"),
    "no target": (lambda: make_frame().drop(columns="risk"), "lacks the target 'risk'.*Add this column"),
    "unknown class": (lambda: make_frame(risk=list("ggbbgx")), "'x'. The model knows 'b', 'g'. Pass the table"),
    "a missing class": (lambda: make_frame(risk=["g", "g", "b", "b", "g", None]), "'risk' has classes.*Pass the table"),
    "texts": (lambda: make_frame(age=list("abcdef"), rent=list("abcdef")), "(Pass the table|Correct)"),
    "empty": (lambda: make_frame()[:0], "the table is empty; pass a table with at least one record"),
    "no columns": (pd.DataFrame, "."),
    "repeated columns": (lambda: pd.concat([make_frame(), make_frame()], axis=1), "more than once.*Rename or drop"),
    "an array": (lambda: make_frame()[NUMBERS].to_numpy(), "Pass a pandas, polars or pyarrow frame"),
    "a list": (lambda: [1, 2], "Pass a pandas, polars or pyarrow frame"),
    "none": (lambda: None, "Pass a pandas, polars or pyarrow frame"),
    "no file": (lambda: "there is no such file.csv", "no such file"),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("make_model", [tree, own])
def test_wrong_tables(name: str, make_model: Callable[[], Any]) -> None:
    make, text = TABLES[name]
    policy = policy_of(quasi={"age": "numeric"}, sensitive=["rent", "sex"])
    with pytest.raises(shoal.DataError, match=text):
        audit(make_model(), make(), policy)
    with pytest.raises((shoal.DataError, shoal.PolicyError), match=f"{text}|column 'age' is not in the table"):
        linking(make_model(), make(), policy)


def test_unseen_categories() -> None:
    model = fit(make_pipeline(OneHotEncoder(), DecisionTreeClassifier()), ["sex"])
    with pytest.raises(
        shoal.DataError, match=r"does not know the category 'x'.*Pass the table that the model was fitted on"
    ):
        audit(model, make_frame(sex=list("fmfmfx")), policy_of())
    policy = shoal.Policy(quasi={"sex": "categorical"}, target="risk", require=[shoal.KAnonymity(1)])
    small = AnonymousTree(policy).fit(make_frame()[["sex", "risk"]])
    with pytest.raises(shoal.DataError, match=r"values that the model does not know, in 'sex'. Pass the table"):
        audit(small, make_frame(sex=list("fmfmfx")), policy)


def test_a_table_of_one_record_and_a_constant_target() -> None:
    for model in (tree(), own()):
        assert audit(model, make_frame()[:1], policy_of()).smallest == 1
        assert not audit(model, make_frame()[:1], policy_of()).holds
        assert len(linking(model, make_frame()[:1], policy_of()).links) == 1
    single = AnonymousTree(policy_of(require=[shoal.KAnonymity(1)])).fit(make_frame()[:1])
    assert single.export_text() == "all records: g 1\n"
    constant = make_frame(risk="g")
    model = DecisionTreeClassifier().fit(constant[NUMBERS], constant["risk"])
    for certificate in (audit(model, constant, policy_of()), AnonymousTree(policy_of()).fit(constant).certificate_):
        assert certificate.holds
        assert (certificate.groups, certificate.single_spans, certificate.smallest) == (1, 0, 6)
        assert "nan" not in str(certificate) and "nan" not in certificate._repr_html_()


def test_a_regression_tree_of_one_value() -> None:
    frame = make_frame(risk=1.5)
    certificate = audit(DecisionTreeRegressor().fit(frame[NUMBERS], frame["risk"]), frame, policy_of())
    assert certificate.holds and (certificate.groups, certificate.smallest) == (1, 6)


POLICIES: dict[str, tuple[Callable[[], Any], str]] = {
    "no requirement": (lambda: policy_of(require=[]), "no requirement. Add one, such as 'k-anonymity: 10'"),
    "columns without a role": (
        lambda: policy_of(quasi={"sex": "categorical"}, sensitive=[]),
        "which the model uses: 'age', 'rent'. List a column under 'quasi' if they may know it, otherwise under 'sensitive'",
    ),
    "an identifier": (
        lambda: policy_of(identifiers=["rent"], sensitive=[]),
        "the model uses identifiers: 'rent'. Fit the model without these columns, or list them under 'quasi'",
    ),
    "no target": (
        lambda: policy_of(target=None, sensitive=["rent", "risk"]),
        "does not name the column that the model predicts. Add 'target:'",
    ),
    "an unknown sensitive column": (
        lambda: policy_of(sensitive=["rent", "shoe"], require=[shoal.LDiversity(2, of="shoe")]),
        "column 'shoe' is not in the table",
    ),
    "no policy": (lambda: None, "a policy must be a shoal.Policy"),
    "a number": (lambda: 5, "a policy must be a shoal.Policy"),
    "no such file": (lambda: "there is no such policy.yaml", "there is no policy file"),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("make_model", [tree, own])
def test_wrong_policies(name: str, make_model: Callable[[], Any]) -> None:
    make, text = POLICIES[name]
    with pytest.raises(shoal.PolicyError, match=text):
        audit(make_model(), make_frame(), make())


def test_a_policy_may_name_columns_that_the_model_does_not_use() -> None:
    expected = audit(tree(), make_frame(), policy_of()).to_private_dict()
    quasi = {**POLICY["quasi"], "shoe": "numeric"}
    more = audit(tree(), make_frame(), policy_of(quasi=quasi)).to_private_dict()
    for finding in more["findings"]:
        assert finding["on"].pop() == "shoe"
    assert more == expected
    assert audit(tree(), make_frame(), policy_of(sensitive=["rent", "hat"])).to_private_dict() == expected


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rule": "claim"}, "unknown value 'claim' for 'rule'; choose from 'claim3', 'all'"),
        ({"rule": ["all"]}, "unknown value .* for 'rule'; choose from"),
        ({"populations": "bin"}, "for 'populations'; choose from 'bins', 'frequencies', 'majority', 'nothing'"),
        ({"populations": None}, "unknown value None for 'populations'"),
        ({"confidence": 3}, "confidence must be between 0 and 1, not 3"),
        ({"confidence": "high"}, "confidence must be a number, not 'high'"),
        ({"confidence": float("nan")}, "confidence"),
    ],
)
def test_wrong_parameters_of_an_audit(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        audit(tree(), make_frame(), policy_of(), **changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"criterion": "entropy"}, "unknown value 'entropy' for 'criterion'; choose from 'gain', 'gain-ratio', 'gini'"),
        ({"criterion": ["gain"]}, "for 'criterion'; choose from"),
        ({"criterion": None}, "unknown value None for 'criterion'"),
        ({"rule": "claim2"}, "for 'rule'; choose from 'claim3', 'all'"),
        ({"populations": "counts"}, "for 'populations'; choose from"),
        ({"populations": ["bins"]}, "for 'populations'; choose from"),
        ({"populations": "nothing"}, "predicts nothing. Choose populations='majority'"),
        ({"k": 0}, "k must be at least 1, not 0"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"k": True}, "k must be a whole number"),
        ({"max_depth": 0}, "max_depth must be at least 1"),
        ({"max_leaves": -3}, "max_leaves must be at least 1"),
        ({"max_leaves": 1.5}, "max_leaves must be a whole number"),
    ],
)
@pytest.mark.parametrize("policy", [True, False])
def test_wrong_parameters_of_a_tree(changes: dict[str, Any], text: str, policy: bool) -> None:
    frame = make_frame()
    with pytest.raises(shoal.PolicyError, match=text):
        if policy:
            AnonymousTree(policy_of(), **changes).fit(frame)
        else:
            AnonymousTree(**({"k": 2} | changes)).fit(frame[NUMBERS], frame["risk"])


FITS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no requirement": (
        lambda: AnonymousTree(policy_of(require=[])).fit(make_frame()),
        shoal.PolicyError,
        "no requirement",
    ),
    "no quasi-identifier": (
        lambda: AnonymousTree(policy_of(quasi={}, sensitive=["age", "rent"])).fit(make_frame()),
        shoal.PolicyError,
        "no quasi-identifier; list under 'quasi:'",
    ),
    "policy of another type": (lambda: AnonymousTree(5).fit(make_frame()), shoal.PolicyError, "must be a shoal.Policy"),
    "empty": (lambda: AnonymousTree(policy_of()).fit(make_frame()[:0]), shoal.DataError, "the table is empty"),
    "k above the rows": (
        lambda: AnonymousTree(policy_of(), k=7).fit(make_frame()),
        shoal.PolicyError,
        "at least 7 records, but the table has 6; lower the requirement, or add records",
    ),
    "no split": (
        lambda: AnonymousTree(policy_of(require=[shoal.LDiversity(3, of="risk")])).fit(make_frame()),
        shoal.RequirementNotMet,
        "not even a tree without splits meets.*Weaken the requirements, or add records",
    ),
    "no target": (
        lambda: AnonymousTree(policy_of()).fit(make_frame().drop(columns="risk")),
        shoal.DataError,
        "lacks the target 'risk'. Add this column, or pass the classes as y",
    ),
    "no quasi column": (
        lambda: AnonymousTree(policy_of()).fit(make_frame().drop(columns="sex")),
        shoal.PolicyError,
        "column 'sex' is not in the table",
    ),
    "no sensitive column": (
        lambda: AnonymousTree(policy_of()).fit(make_frame().drop(columns="rent")),
        shoal.PolicyError,
        "column 'rent' is not in the table",
    ),
    "too few classes": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(), list("gbg")),
        shoal.DataError,
        "3 classes for 6 records. Pass one class per record",
    ),
    "too few classes for an array": (
        lambda: AnonymousTree(k=2).fit(make_frame()[NUMBERS], list("gbg")),
        shoal.DataError,
        "inconsistent numbers of samples",
    ),
    "no classes for an array": (lambda: AnonymousTree(k=2).fit(make_frame()[NUMBERS]), shoal.DataError, "requires y"),
    "texts without a policy": (
        lambda: AnonymousTree(k=2).fit(make_frame()[["sex"]], make_frame()["risk"]),
        shoal.DataError,
        "could not convert string to float",
    ),
    "missing numbers without a policy": (
        lambda: AnonymousTree(k=2).fit(make_frame(age=None)[["age"]].astype(float), make_frame()["risk"]),
        shoal.DataError,
        "NaN",
    ),
    "missing classes": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(risk=["g", None, "b", "b", "g", ""])),
        shoal.DataError,
        "class 'risk' of 2 records is missing. Remove these records, or write a class",
    ),
    "missing class numbers": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(risk=[1, np.nan, 0, 0, 1, 0])),
        shoal.DataError,
        "class 'risk' of 1 record is missing",
    ),
    "missing classes as y": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(), pd.Series([1, None, 0, 0, 1, 0], dtype="Int64")),
        shoal.DataError,
        "class 'risk' of 1 record is missing",
    ),
    "texts that mean missing": (
        lambda: AnonymousTree(policy_of(missing=["?"])).fit(make_frame(risk=list("g?bbgb"))),
        shoal.DataError,
        "class 'risk' of 1 record is missing",
    ),
    "continuous classes": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(risk=[0.5, 1.5, 2.5, 3, 4, 5])),
        shoal.DataError,
        "must be texts, whole numbers or true and false. Convert them to text",
    ),
    "infinite classes": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(risk=[np.inf, 1, 2, 3, 4, 5])),
        shoal.DataError,
        "must be texts, whole numbers or true and false",
    ),
    "classes of several types": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(), np.array([1, "1", 1, "1", 1, "1"], object)),
        shoal.DataError,
        "must be texts, whole numbers",
    ),
    "two targets": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(), make_frame()[["risk", "sex"]]),
        shoal.DataError,
        "1d array",
    ),
    "infinite numbers": (
        lambda: AnonymousTree(policy_of()).fit(make_frame(age=[1, 2, np.inf, 4, 5, 6])),
        shoal.DataError,
        "column 'age' holds infinite numbers. Correct these values",
    ),
    "an array": (
        lambda: AnonymousTree(policy_of()).fit(make_frame().to_numpy()),
        shoal.DataError,
        "Pass a pandas, polars or pyarrow frame",
    ),
    "prediction without a column": (
        lambda: own().predict(make_frame()[["sex"]]),
        shoal.DataError,
        "lacks columns that the model uses: .*Add these columns",
    ),
    "prediction of texts": (lambda: own().predict(make_frame(age="old")), shoal.DataError, "'age'.*'old'. Correct"),
    "prediction of private texts": (
        lambda: own().predict(make_frame(rent="high")),
        shoal.DataError,
        "column 'rent' must contain numbers.*'high'. Correct these values",
    ),
    "prediction of other widths": (
        lambda: AnonymousTree(k=2).fit(make_frame()[NUMBERS], make_frame()["risk"]).predict(make_frame()[["age"]]),
        shoal.DataError,
        "feature names",
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_wrong_training_and_later_tables(name: str) -> None:
    attempt, kind, text = FITS[name]
    with pytest.raises(kind, match=text):
        attempt()


def test_no_weights() -> None:
    frame = make_frame()
    with pytest.raises(TypeError, match="sample_weight"):
        AnonymousTree(policy_of()).fit(frame, frame["risk"], sample_weight=np.ones(6))


def test_a_table_that_is_not_in_memory() -> None:
    relation = pytest.importorskip("duckdb").from_df(make_frame())
    for attempt in (lambda: audit(tree(), relation, policy_of()), lambda: AnonymousTree(policy_of()).fit(relation)):
        with pytest.raises(
            shoal.DataError, match=r"needs a table in memory.*Pass a pandas or polars frame, or the path"
        ):
            attempt()


def test_linking_names_an_unknown_public_column() -> None:
    with pytest.raises(shoal.PolicyError, match="column 'shoe' is not in the table"):
        linking(tree(), make_frame(), policy_of(quasi={"shoe": "numeric"}))
