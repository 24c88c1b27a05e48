"""Minimized inputs against their definition and against all cuts of tiny tables; later inputs; bad input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import shoal
from shoal.models import MinimizedInputs, coarsest_inputs, minimize
from tests.reference import minimization as twin
from tests.support.models import key, records_of
from tests.support.outcomes import Outcome, counted

TREE = {"all": ["north", "d", "south"], "north": ["a", "b"], "south": ["c", "e"]}  # no record has an e
TAXONOMY = {"all": [{"north": ["a", "b"]}, "d", {"south": ["c", "e"]}]}
AGES, RENTS, TOWNS, NOTES = (20, 30, 40, 50, 60), (1.0, 1.5, 4.25), ("a", "b", "c", "d"), (0, 1)
INPUTS = ["age", "town", "rent", "note"]
SLACK = 1e-9


class Lookup:
    """A model that knows a class, or a number, for every combination of its inputs by chance."""

    def __init__(self, names: Sequence[str], values: Sequence[Any], seed: int) -> None:
        self.feature_names_in_ = np.array(names, object)
        self.values, self.seed = np.array(values), seed
        if self.values.dtype.kind != "f":
            self.classes_ = self.values

    def predict(self, X: Any) -> Any:  # noqa: N803
        rows = [tuple(str(key(v)) for v in row) for row in X[list(self.feature_names_in_)].itertuples(index=False)]
        return self.values[[random.Random(f"{self.seed} {row}").randrange(len(self.values)) for row in rows]]


class Rule:
    """A model whose classes follow from a rule."""

    classes_ = np.array(["n", "y"])

    def __init__(self, names: Sequence[str], rule: Any) -> None:
        self.feature_names_in_ = np.array(names, object)
        self.rule = rule

    def predict(self, X: Any) -> Any:  # noqa: N803
        assert list(X.columns) == list(self.feature_names_in_)
        return np.where(np.asarray(self.rule(X), bool), "y", "n")


def is_ill(frame: Any) -> Any:
    return (frame["age"] >= 40) ^ (frame["town"] == "a")


# Against the definition


class Case(NamedTuple):
    frame: pd.DataFrame
    policy: shoal.Policy
    model: Any
    keep: float
    k: int


def make_encoder() -> Any:
    return make_column_transformer((OrdinalEncoder(), ["town"]), remainder="passthrough")


@st.composite
def models(draw: st.DrawFn, frame: pd.DataFrame, inputs: list[str], numbers: bool) -> Any:
    kind, seed = draw(st.sampled_from(["lookup", "rule", "tree"])), draw(st.integers(0, 99))
    if kind == "rule" and not numbers:
        at, towns = draw(st.sampled_from(AGES)), draw(st.sets(st.sampled_from(TOWNS)))
        return Rule(inputs, lambda x: (x["age"] >= at) ^ x["town"].isin(towns))
    classes = [1.0, 2.0, 4.5] if numbers else ["n", "y", "z"]
    if kind == "lookup":
        return Lookup(inputs, classes[: draw(st.integers(2, 3))], seed)
    y = [classes[n] for n in np.random.default_rng(seed).integers(0, 3, len(frame))]
    tree = (DecisionTreeRegressor if numbers else DecisionTreeClassifier)(max_depth=4, random_state=0)
    return make_pipeline(make_encoder(), tree).fit(frame[inputs], y)


@st.composite
def cases(draw: st.DrawFn, *, columns: Sequence[str] = INPUTS, rows: int = 40, missing: bool = True) -> Case:
    """Tables whose quasi-identifiers are all columns but the note."""
    random_number = np.random.default_rng(draw(st.integers(0, 999)))
    count = draw(st.integers(6, rows))
    values = {"age": AGES, "town": TOWNS, "rent": RENTS, "note": NOTES}
    frame = pd.DataFrame({name: random_number.choice(values[name], count) for name in columns})
    if missing and draw(st.booleans()):
        frame["age"] = frame["age"].where(random_number.random(count) > 0.2)
    if missing and draw(st.booleans()):
        frame["town"] = frame["town"].astype(object).where(random_number.random(count) > 0.2, None)
    numbers = draw(st.booleans())
    inputs = [name for name in columns if name != "rent" or draw(st.booleans())]
    model = draw(models(frame, inputs, numbers))
    target = draw(st.sampled_from(["ill", None]))
    predicted = model.predict(frame[inputs])
    frame["ill"] = np.where(random_number.random(count) > 0.15, predicted, predicted[::-1])
    k = draw(st.sampled_from([1, 1, 2, 3, 4]))
    quasi = {"age": "numeric", "town": {"taxonomy": TAXONOMY}, "rent": "numeric"}
    policy = shoal.Policy(
        quasi={name: kind for name, kind in quasi.items() if name in columns},
        target=target,
        keep=["note"] if "note" in columns else [],
        require=[shoal.KAnonymity(k)] if k > 1 else [],
    )
    return Case(frame, policy, model, draw(st.sampled_from([0.5, 0.8, 0.98, 1.0])), k)


def make_twin(case: Case, labels: twin.Labels) -> twin.Minimized:
    frame, model = case.frame, case.model
    names = list(model.feature_names_in_)

    def predict(records: Sequence[twin.Record]) -> Any:
        given = {name: pd.Series([r[name] for r in records], dtype=frame[name].dtype) for name in names}
        return model.predict(pd.DataFrame(given)).tolist()

    columns: list[twin.Column] = []
    for name, values in ((name, [key(v) for v in frame[name]]) for name in case.policy.quasi):
        columns.append(twin.Categories(name, values, TREE) if name == "town" else twin.Numbers(name, values))
    records = records_of(frame)
    truth = predict(records) if case.policy.target is None else frame["ill"].tolist()
    return twin.Minimized(columns, records, predict, truth, not hasattr(model, "classes_"), labels)


def minimize_case(case: Case) -> MinimizedInputs | None:
    """None if the model is of no use for the records, or no inputs keep enough."""
    try:
        return minimize(case.model, case.frame, case.policy, case.keep)
    except shoal.RequirementNotMet:
        return None
    except shoal.DataError as error:
        assert "no accuracy to keep" in str(error)
        return None


def labels_of(found: MinimizedInputs) -> dict[str, tuple[str, ...]]:
    return {column.name: column.labels for column in found.columns}


def clean(values: dict[Any, Any]) -> dict[Any, Any]:
    return {label: key(value) for label, value in values.items()}


@settings(max_examples=80)
@given(case=cases())
@counted
def test_the_result_is_that_of_the_definition(case: Case) -> Outcome:
    found = minimize_case(case)
    if found is None:
        return "not met"
    slow = make_twin(case, labels_of(found))
    assert found.accuracy == pytest.approx(slow.score())
    assert found.full_accuracy == pytest.approx(slow.score_full())
    assert found.kept >= case.keep - SLACK
    assert slow.count_smallest() >= case.k
    assert found.release.certificate.holds and found.release.certificate.smallest == slow.count_smallest()
    assert {name: clean(r) for name, r in found.representatives.items()} == slow.choose_representatives()
    for column, of_twin in zip(found.columns, slow.columns, strict=True):
        assert column.loss == pytest.approx(slow.measure_loss(of_twin))
        assert column.has_missing == (None in slow.choose_representatives()[column.name] and column.needed)
    assert found.loss == pytest.approx(slow.measure_losses())
    replaced = slow.transform(slow.records)
    inputs = list(case.model.feature_names_in_)
    assert records_of(found.transform(case.frame)) == [{name: r[name] for name in inputs} for r in replaced]
    assert found.predict(case.frame).tolist() == slow.predict(replaced)
    pd.testing.assert_frame_equal(found.represent(found.generalize(case.frame)), found.transform(case.frame))
    collected = records_of(found.generalize(case.frame))
    for column, of_twin in zip(found.columns, slow.columns, strict=True):
        given = [record[column.name] for record in collected] if column.needed else ["*"] * len(collected)
        assert given == [slow.find_label(of_twin, value) for value in of_twin.values]
    return None


@settings(max_examples=80)
@given(case=cases())
@counted
def test_no_column_can_be_dropped_and_no_branch_can_be_joined(case: Case) -> Outcome:
    found = minimize_case(case)
    if found is None:
        return "not met"
    slow = make_twin(case, labels_of(found))
    goal = case.keep * slow.score_full()
    for column in found.columns:
        if column.needed:
            assert slow.with_labels({column.name: twin.ROOT}).score() < goal
    towns = labels_of(found)["town"]
    for node in ("north", "south"):
        if set(TREE[node]) <= set(towns):
            kept = tuple(label for label in towns if label not in TREE[node])
            assert slow.with_labels({"town": (*kept, node)}).score() < goal
    return None


@settings(max_examples=40)
@given(case=cases(columns=("age", "town"), rows=20))
@counted
def test_the_loss_is_at_most_that_of_the_best_of_all_cuts(case: Case) -> Outcome:
    found = minimize_case(case)
    if found is None:
        return "not met"
    slow = make_twin(case, labels_of(found))
    goal = case.keep * slow.score_full()
    valid = [s for s in slow.list_all() if s.count_smallest() >= case.k and s.score() >= goal - SLACK]
    assert found.loss <= max(s.measure_losses() for s in valid) + SLACK
    return None


# Ordinary use


def make_frame(count: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 60, count),
            "town": rng.choice(list("abcd"), count),
            "rent": rng.integers(1, 9, count) / 2,
            "note": rng.integers(0, 2, count),
        }
    )
    return frame.assign(ill=np.where(is_ill(frame), "y", "n"))


QUASI = {"age": "numeric", "town": {"taxonomy": TAXONOMY}, "rent": "numeric"}


def make_policy(**changes: Any) -> shoal.Policy:
    return shoal.Policy(**({"quasi": QUASI, "target": "ill", "keep": ["note"]} | changes))


def make_rule() -> Rule:
    return Rule(INPUTS, is_ill)


def minimize_rule(**changes: Any) -> MinimizedInputs:
    return minimize(make_rule(), make_frame(), make_policy(**changes), keep=1)


def test_the_inputs_of_a_rule_are_found() -> None:
    found = minimize_rule()
    assert labels_of(found) == {"age": ("[20, 40)", "[40, 59]"), "town": ("a", "b", "d", "south"), "rent": ("*",)}
    assert found.not_needed == ("rent",) and found.unchanged == ("note",)
    assert (found.accuracy, found.full_accuracy, found.kept, found.measure) == (1, 1, 1, "accuracy")
    assert 0 < found.loss < 1 and found.columns[2].loss == 1
    assert "rent" in str(found).splitlines()[0] and "[20, 40)" in str(found) and "[20, 40)" in found._repr_html_()


def test_columns_that_are_not_needed_may_be_absent() -> None:
    found, frame = minimize_rule(), make_frame()
    without = frame.drop(columns="rent")
    pd.testing.assert_frame_equal(found.transform(without), found.transform(frame))
    assert list(found.generalize(without).columns) == ["age", "town", "note", "ill"]
    assert found.predict(without).tolist() == frame["ill"].tolist()


def test_the_order_and_the_index_of_records_are_kept() -> None:
    found, frame = minimize_rule(), make_frame()
    for index in ([f"r{i}" for i in range(200)], [7] * 200, list(range(199, -1, -1))):
        other = frame.sample(frac=1, random_state=1).set_axis(index)
        for result in (found.transform(other), found.generalize(other), found.represent(found.generalize(other))):
            assert result.index.tolist() == index
            assert result["note"].tolist() == other["note"].tolist()
        assert ((found.transform(other)["age"] >= 40) == (other["age"] >= 40)).all()


def test_collected_values_are_represented_as_the_original_values() -> None:
    found, frame = minimize_rule(), make_frame()
    collected = found.generalize(frame)
    assert set(collected["age"]) == {"[20, 40)", "[40, 59]"} and "rent" not in collected
    pd.testing.assert_frame_equal(found.represent(collected), found.transform(frame))


def test_inputs_keep_their_types_and_others_stay_unchanged() -> None:
    found, frame = minimize_rule(), make_frame()
    result = found.transform(frame)
    assert list(result.columns) == INPUTS and result.dtypes.tolist() == frame[INPUTS].dtypes.tolist()
    assert result["note"].tolist() == frame["note"].tolist()
    assert set(result["age"]) <= set(frame["age"]) and result["rent"].nunique() == 1


def test_numbers_outside_all_intervals_get_the_nearest() -> None:
    found = minimize_rule()
    later = pd.DataFrame({"age": [1, 99], "town": ["a", "b"], "note": [0, 0]})
    assert found.generalize(later)["age"].tolist() == ["[20, 40)", "[40, 59]"]
    assert found.predict(later).tolist() == ["y", "y"]


def test_columns_that_the_model_does_not_use_are_not_collected() -> None:
    frame = make_frame()
    found = minimize(Rule(["age", "town"], is_ill), frame, make_policy(), keep=1)
    assert found.not_needed == ("rent",) and found.inputs == ("age", "town") and found.unchanged == ()
    assert list(found.transform(frame).columns) == ["age", "town"]


def test_the_same_result_twice() -> None:
    model = make_pipeline(make_encoder(), DecisionTreeClassifier(max_depth=5, random_state=0))
    frame = make_frame()
    frame["ill"] = np.where(np.random.default_rng(1).random(200) < 0.2, "y", frame["ill"])
    model.fit(frame[INPUTS], frame["ill"])
    one, other = (minimize(model, frame, make_policy(require=[shoal.KAnonymity(5)]), 0.9) for _ in range(2))
    assert str(one) == str(other) and one.representatives == other.representatives
    assert one.cut.to_json() == other.cut.to_json()
    assert one.release.certificate.smallest == other.release.certificate.smallest >= 5


def test_the_order_of_the_records_does_not_matter() -> None:
    other = minimize(make_rule(), make_frame().sample(frac=1, random_state=3), make_policy(), keep=1)
    found = minimize_rule()
    assert labels_of(other) == labels_of(found) and other.representatives == found.representatives


def test_a_polars_frame() -> None:
    class Tree:
        """A pipeline that gets frames of pandas."""

        def __init__(self, frame: pd.DataFrame) -> None:
            self.feature_names_in_ = np.array(INPUTS, object)
            self.model = make_pipeline(make_encoder(), DecisionTreeClassifier(random_state=0))
            self.classes_ = self.model.fit(frame[INPUTS], frame["ill"]).classes_

        def predict(self, X: pl.DataFrame) -> Any:  # noqa: N803
            assert isinstance(X, pl.DataFrame)
            return self.model.predict(X.to_pandas())

    frame = make_frame()
    polars = pl.from_pandas(frame)
    found = minimize(Tree(frame), polars, make_policy(), keep=1)
    assert isinstance(found.transform(polars), pl.DataFrame) and isinstance(found.generalize(polars), pl.DataFrame)
    assert found.transform(polars).equals(found.represent(found.generalize(polars)))
    assert found.transform(polars).rows() == [tuple(row) for row in found.transform(frame).itertuples(index=False)]
    assert found.predict(polars).tolist() == frame["ill"].tolist()
    assert found.representatives.keys() == {"age", "town", "rent"}


def test_the_path_of_a_file(tmp_path: Path) -> None:
    frame = make_frame()
    frame.to_csv(tmp_path / "people.csv", index=False)
    model = make_pipeline(make_encoder(), DecisionTreeClassifier(random_state=0)).fit(frame[INPUTS], frame["ill"])
    found = minimize(model, tmp_path / "people.csv", make_policy(), keep=1)
    assert labels_of(found) == labels_of(minimize(model, frame, make_policy(), keep=1))
    assert found.predict(tmp_path / "people.csv").tolist() == frame["ill"].tolist()
    assert len(found.generalize(tmp_path / "people.csv")) == 200


def test_categories_of_histograms() -> None:
    frame = make_frame(400)
    frame["town"] = pd.Categorical(frame["town"], categories=list("abcdz"))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5, min_samples_leaf=3)
    model.fit(frame[INPUTS], frame["ill"])
    found = minimize(model, frame, make_policy(require=[shoal.KAnonymity(5)]))
    assert found.kept >= 0.98 and found.not_needed == ("rent",)
    result = found.transform(frame)
    assert result["town"].dtype == frame["town"].dtype
    assert (found.predict(frame) == frame["ill"]).mean() == found.accuracy
    pd.testing.assert_frame_equal(found.represent(found.generalize(frame)), result)


def test_a_model_without_names_of_columns() -> None:
    frame = make_frame()[["age", "rent"]].assign(ill=lambda f: np.where(f["age"] >= 40, 1, 0))
    model = DecisionTreeClassifier(random_state=0).fit(frame[["age", "rent"]].to_numpy(), frame["ill"])
    found = minimize(model, frame, shoal.Policy(quasi={"age": "numeric", "rent": "numeric"}, target="ill"))
    assert found.inputs == ("age", "rent") and found.not_needed == ("rent",)
    assert found.predict(frame[["age", "rent"]]).tolist() == frame["ill"].tolist()


@pytest.mark.parametrize("kind", [float, bool, str])
def test_classes_that_are_numbers_are_compared_as_numbers(kind: type) -> None:
    frame = make_frame()[["age"]].assign(ill=lambda f: np.where(f["age"] >= 40, 1, 0))
    model = DecisionTreeClassifier(random_state=0).fit(frame[["age"]], frame["ill"])
    found = minimize(model, frame.astype({"ill": kind}), shoal.Policy(quasi={"age": "numeric"}, target="ill"))
    assert found.full_accuracy == 1 and labels_of(found) == {"age": ("[20, 40)", "[40, 59]")}


def test_a_pipeline_with_one_hot_codes() -> None:
    frame = make_frame(400)
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]), remainder="passthrough")
    model = make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(frame[INPUTS], frame["ill"])
    found = minimize(model, frame, make_policy(require=[shoal.KAnonymity(10)]))
    assert found.kept >= 0.98 and found.release.certificate.smallest >= 10
    assert (model.predict(found.transform(frame)) == frame["ill"]).mean() == found.accuracy


def test_a_regressor_keeps_its_r2() -> None:
    rng = np.random.default_rng(0)
    frame = make_frame(300).assign(cost=lambda f: 10.0 * f["age"] + f["rent"] + rng.normal(0, 5, 300))
    model = LinearRegression().fit(frame[["age", "rent"]], frame["cost"])
    policy = shoal.Policy(quasi={"age": "numeric", "rent": "numeric"}, target="cost", require=[shoal.KAnonymity(4)])
    found = minimize(model, frame, policy, keep=0.9)
    truth = frame["cost"] - frame["cost"].mean()
    predicted = found.predict(frame)
    assert found.measure == "R²" and found.kept >= 0.9 and "rent" in found.not_needed
    assert found.accuracy == pytest.approx(1 - ((frame["cost"] - predicted) ** 2).sum() / (truth**2).sum())
    assert found.full_accuracy == pytest.approx(model.score(frame[["age", "rent"]], frame["cost"]))


def test_without_a_target_the_predictions_are_kept() -> None:
    frame = make_frame()
    found = minimize(make_rule(), frame, make_policy(target=None, keep=["note", "ill"]), keep=0.9)
    assert found.measure == "agreement with the full inputs" and found.full_accuracy == 1
    assert found.accuracy == (found.predict(frame) == make_rule().predict(frame[INPUTS])).mean() >= 0.9


def test_missing_values_are_kept_and_have_a_representative() -> None:
    frame = make_frame()
    frame["age"] = frame["age"].where(frame.index % 9 > 0)
    frame["town"] = frame["town"].where(frame.index % 7 > 0)
    model = Rule(INPUTS, lambda x: (x["age"] >= 40) ^ x["town"].isna() ^ x["age"].isna())
    frame["ill"] = model.predict(frame[INPUTS])
    found = minimize(model, frame, make_policy(), keep=1)
    assert {c.name for c in found.columns if c.has_missing} == {"age", "town"}
    assert pd.isna(found.representatives["age"][None]) and pd.isna(found.representatives["town"][None])
    assert (found.transform(frame)[["age", "town"]].isna() == frame[["age", "town"]].isna()).all(axis=None)
    assert (found.generalize(frame)[["age", "town"]].isna() == frame[["age", "town"]].isna()).all(axis=None)
    pd.testing.assert_frame_equal(found.represent(found.generalize(frame)), found.transform(frame))
    assert found.predict(frame).tolist() == frame["ill"].tolist()


def count_days(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.apply(lambda c: (c - pd.Timestamp("2000-01-01")).dt.days)


def test_dates_through_a_pipeline() -> None:
    frame = make_frame()[["rent"]].assign(day=pd.date_range("2020-01-01", periods=200, freq="D"))
    frame["ill"] = np.where(frame["day"] >= "2020-03-01", "y", "n")
    days = make_column_transformer((FunctionTransformer(count_days), ["day"]), remainder="passthrough")
    model = make_pipeline(days, DecisionTreeClassifier(random_state=0)).fit(frame[["day", "rent"]], frame["ill"])
    policy = shoal.Policy(quasi={"day": "date", "rent": "numeric"}, target="ill", require=[shoal.KAnonymity(20)])
    found = minimize(model, frame, policy, keep=1)
    assert labels_of(found) == {"day": ("[2020-01-01, 2020-03-01)", "[2020-03-01, 2020-07-18]"), "rent": ("*",)}
    assert found.transform(frame)["day"].dtype == frame["day"].dtype
    assert found.representatives["day"]["[2020-01-01, 2020-03-01)"] == pd.Timestamp("2020-01-30").to_pydatetime()
    assert found.predict(frame).tolist() == frame["ill"].tolist()


def test_people_are_counted_instead_of_records() -> None:
    frame = make_frame(300).assign(person=[f"p{r % 60}" for r in range(300)])
    policy = make_policy(unit="person", require=[shoal.KAnonymity(8)])
    found = minimize(make_rule(), frame, policy, keep=0.8)
    groups = found.generalize(frame).groupby([c.name for c in found.columns if c.needed])["person"].nunique()
    assert groups.min() >= 8 and found.kept >= 0.8
    assert found.release.certificate.holds


@pytest.mark.parametrize("kind", [{}, {"kind": "entropy"}, {"kind": "recursive", "c": 3.0}])
def test_diverse_groups(kind: dict[str, Any]) -> None:
    frame = make_frame(300).assign(job=np.random.default_rng(4).choice(["x", "y", "z"], 300, p=[0.6, 0.3, 0.1]))
    policy = make_policy(sensitive=["job"], require=[shoal.KAnonymity(3), shoal.LDiversity(2, of="job", **kind)])
    found = minimize(make_rule(), frame, policy, keep=0.9)
    assert found.kept >= 0.9 and found.release.certificate.holds
    columns = [c.name for c in found.columns if c.needed]
    assert found.generalize(frame).groupby(columns)["job"].nunique().min() >= 2


def test_requirements_on_some_of_the_columns() -> None:
    frame = make_frame(300)
    found = minimize(make_rule(), frame, make_policy(require=[shoal.KAnonymity(60, on=["town"])]), keep=0.9)
    assert found.release.certificate.holds and found.not_needed == ("rent",)
    assert found.generalize(frame).groupby("town").size().min() >= 60


@pytest.mark.parametrize("require", [[], [shoal.KAnonymity(6)]])
def test_a_search_on_some_records_keeps_the_accuracy_on_all(
    require: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coarsest_inputs, "SEARCHED", 25)
    rng = np.random.default_rng(2)
    for numbers in (False, True):
        frame = make_frame(300)
        frame["ill"] = frame["age"] + 3.0 * frame["rent"] if numbers else frame["ill"].where(rng.random(300) > 0.1, "y")
        tree = (DecisionTreeRegressor if numbers else DecisionTreeClassifier)(max_depth=6, random_state=0)
        model = make_pipeline(make_encoder(), tree).fit(frame[INPUTS], frame["ill"])
        found = minimize(model, frame, make_policy(require=require), keep=0.8)
        score = model.score(found.transform(frame), frame["ill"])
        assert score >= 0.8 * model.score(frame[INPUTS], frame["ill"]) - SLACK
        assert found.accuracy == pytest.approx(score) and found.loss > 0


def test_a_class_that_the_model_predicts_only_for_minimized_inputs_counts() -> None:
    frame = pd.DataFrame({"age": [20] * 6 + [40] * 5, "town": ["a"] * 6 + ["b"] * 5, "ill": ["no"] * 6 + ["other"] * 5})
    model = Lookup(["age", "town"], ["no", "yes", "other"], 0)
    table = {("20", "a"): "no", ("40", "b"): "yes", ("20", "b"): "other"}
    model.predict = lambda x: np.array(  # type: ignore[method-assign]
        [table[str(a), b] for a, b in x[["age", "town"]].itertuples(index=False)]
    )
    policy = shoal.Policy(quasi={"age": "numeric"}, keep=["town"], target="ill")
    found = minimize(model, frame, policy, keep=1)
    assert found.not_needed == ("age",)
    assert found.accuracy == (found.predict(frame) == frame["ill"]).mean() == 1


def test_the_release_holds_and_can_be_saved_and_checked(tmp_path: Path) -> None:
    policy = make_policy(require=[shoal.KAnonymity(5)])
    found = minimize(make_rule(), make_frame(), policy, keep=0.9)
    assert found.release.certificate.holds
    found.release.save(tmp_path / "release")
    (table,) = (tmp_path / "release").rglob("*.csv")
    certificate = shoal.check(table, policy)
    assert certificate.holds and certificate.smallest == found.release.certificate.smallest
    assert shoal.check(found.release.frame, policy).holds
    (path,) = tmp_path.rglob("recoding.json")
    assert shoal.load_recoding(path).to_json() == found.cut.to_json()


def test_progress_is_reported() -> None:
    calls: list[tuple[str, int, int]] = []
    minimize(make_rule(), make_frame(), make_policy(), progress=lambda *call: calls.append(call))
    assert any(stage == "generalizing inputs" for stage, _, _ in calls)
    assert all(done <= total for _, done, total in calls)


# Bad input


@pytest.mark.parametrize("keep", [0, 1.5, -0.1, "abc", None, float("nan"), True])
def test_a_share_that_cannot_be_kept(keep: Any) -> None:
    with pytest.raises(shoal.PolicyError, match="keep must be"):
        minimize(make_rule(), make_frame(), make_policy(), keep)


def test_the_share_may_be_a_percentage() -> None:
    assert minimize(make_rule(), make_frame(), make_policy(), "98%").kept >= 0.98  # type: ignore[arg-type]


class Raising(Rule):
    def predict(self, X: Any) -> Any:  # noqa: N803
        raise RuntimeError("out of order")


def answer(predicted: Any) -> Rule:
    """A model with the same answer for all records."""
    model = make_rule()
    model.predict = lambda x: predicted(x) if callable(predicted) else predicted  # type: ignore[method-assign]
    return model


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (None, "the type NoneType has no method 'predict'"),
        (object(), "the type object has no method 'predict'"),
        (OneHotEncoder(), "OneHotEncoder has no method 'predict'"),
        (DecisionTreeClassifier(), "cannot predict these records: .*not fitted"),
        (Rule, "cannot predict these records"),
        (Raising(INPUTS, is_ill), "type Raising cannot predict these records: out of order. Pass"),
        (Rule([*INPUTS, "weight"], is_ill), "lacks columns that the model was fitted on: 'weight'"),
        (answer("y"), "1 prediction for 200 records"),
        (answer(["y", "n"]), "2 predictions for 200 records"),
        (answer(np.zeros((200, 2))), "predicts 2 columns at once"),
        (answer(lambda x: [None] * len(x)), "predicts missing values"),
        (answer(lambda x: np.full(len(x), np.nan)), "predicts missing values"),
        (answer(lambda x: ["sick"] * len(x)), "the target 'ill' of no record, so there is no accuracy to keep"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:20],
)
def test_models_that_cannot_be_used(model: Any, match: str) -> None:
    with pytest.raises(shoal.DataError, match=match):
        minimize(model, make_frame(), make_policy())


def test_a_regressor_needs_numbers_as_target() -> None:
    frame = make_frame()
    model = DecisionTreeRegressor().fit(frame[["age"]], frame["age"])
    with pytest.raises(shoal.DataError, match="'ill' has values that are no numbers"):
        minimize(model, frame, make_policy())
    for value in (np.nan, np.inf):
        odd = frame.assign(ill=frame["age"].where(frame.index > 0, value))
        with pytest.raises(shoal.DataError, match="'ill' has values that are no numbers"):
            minimize(model, odd, make_policy())


@pytest.mark.parametrize("target", ["age_again", None])
def test_a_constant_regressor_has_no_accuracy_to_keep(target: str | None) -> None:
    frame = make_frame().assign(age_again=lambda f: f["age"])
    model = DummyRegressor().fit(frame[["age"]], frame["age"])
    with pytest.raises(shoal.DataError, match="no better than their mean"):
        minimize(model, frame, make_policy(target=target))


def test_requirements_that_no_inputs_meet() -> None:
    with pytest.raises(shoal.PolicyError, match="at least 201 records, but the table has 200"):
        minimize_rule(require=[shoal.KAnonymity(201)])
    with pytest.raises(shoal.RequirementNotMet, match=r"keep 100.0% of the accuracy; the best keep \d+\.\d%"):
        minimize_rule(require=[shoal.KAnonymity(200)])


def test_tables_and_policies_that_do_not_fit() -> None:
    frame = make_frame()
    with pytest.raises(shoal.DataError, match="empty"):
        minimize(make_rule(), frame[:0], make_policy())
    with pytest.raises(shoal.PolicyError, match="quasi-identifier"):
        minimize(make_rule(), frame, make_policy(quasi={}))
    with pytest.raises(shoal.PolicyError, match="'ilness' is not in the table"):
        minimize(make_rule(), frame, make_policy(target="ilness"))
    with pytest.raises(shoal.DataError, match="list"):
        minimize(make_rule(), frame["age"].tolist(), make_policy())
    with pytest.raises(shoal.DataError, match="no file"):
        minimize(make_rule(), "nowhere.csv", make_policy())


@pytest.mark.parametrize("call", ["transform", "predict", "generalize"])
def test_later_records_with_unknown_values(call: str) -> None:
    found, frame = minimize_rule(), make_frame()
    method = getattr(found, call)
    with pytest.raises(shoal.DataError, match="'town' has values that the table of the search did not have: 'Oslo'"):
        method(frame.assign(town="Oslo"))
    with pytest.raises(shoal.DataError, match="'age' is numeric in the policy but holds text: 'old'"):
        method(frame.assign(age="old"))
    with pytest.raises(shoal.ShoalError, match="'town'"):
        method(frame.drop(columns="town"))


@pytest.mark.parametrize("call", ["transform", "predict"])
def test_later_records_with_values_without_a_representative(call: str) -> None:
    frame = make_frame()
    flat = {"age": "numeric", "town": {"taxonomy": list("abcde")}, "rent": "numeric"}
    found = minimize(make_rule(), frame, make_policy(quasi=flat), keep=1)
    assert "e" not in found.representatives["town"] and found.columns[1].absent == ("e",)
    method = getattr(found, call)
    with pytest.raises(shoal.DataError, match="'town' has values that the table of the search did not have: 'e'"):
        method(frame.assign(town="e"))
    for name in ("age", "town"):
        with pytest.raises(shoal.DataError, match=f"{name!r} has missing values, but the table of the search had none"):
            method(frame.assign(**{name: None}))
    with pytest.raises(shoal.DataError, match="lacks inputs of the model: 'note'"):
        method(frame.drop(columns="note"))


def test_values_that_are_not_collected_are_not_represented() -> None:
    found, frame = minimize_rule(), make_frame()
    collected = found.generalize(frame)
    with pytest.raises(shoal.DataError, match=r"'age' has values that are not collected: .* or transform\(\)"):
        found.represent(frame)
    with pytest.raises(shoal.DataError, match=r"'town' has values that are not collected: 'Oslo'\. Use 'a', 'b'"):
        found.represent(collected.assign(town="Oslo"))
    with pytest.raises(shoal.DataError, match="'town' has missing values"):
        found.represent(collected.assign(town=None))
    with pytest.raises(shoal.DataError, match="lacks the column 'town'"):
        found.represent(collected.drop(columns="town"))


def test_labels_of_neighbouring_intervals_do_not_overlap() -> None:
    """A form that offers the labels leaves no choice, also for decimals, whose ends are rounded outward in other releases."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(100, 20, 300)})
    model = LinearRegression().fit(frame, 3 * frame["size"])
    found = shoal.models.minimize(model, frame, shoal.Policy(quasi={"size": "numeric"}), 0.9)
    ends = [label.strip("[)]").split(", ") for label in found.columns[0].labels]
    assert len(ends) > 2 and all(one[1] == other[0] for one, other in pairwise(ends))
