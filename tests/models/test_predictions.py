"""The audit of predictions against a plain enumeration, for models and for tables of predictions."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

import shoal
from shoal.models import audit, audit_predictions
from tests.reference import spans as twin
from tests.support.models import every_record, list_reports

INPUTS = ("age", "sex", "pay")


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(4, 12))
    column = lambda values: draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))  # noqa: E731
    frame = pd.DataFrame({"age": column([20, 30, 40]), "sex": column(["f", "m"]), "pay": column([1.5, 2.0, 8.0])})
    return frame.assign(risk=["g", "b", *column(["g", "b", "h"])[2:]])


def fit(frame: pd.DataFrame, model: Any = None) -> Any:
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["sex"]), remainder="passthrough")
    return make_pipeline(encoder, model or LogisticRegression(max_iter=10_000)).fit(frame[list(INPUTS)], frame["risk"])


def make_policy(public: Any = ("age", "sex"), k: int = 2, **changes: Any) -> shoal.Policy:
    given = {
        "quasi": {n: "categorical" if n == "sex" else "numeric" for n in public},
        "sensitive": [n for n in INPUTS if n not in public],
        "target": "risk",
        "require": [shoal.KAnonymity(k)],
    }
    return shoal.Policy(**(given | changes))


def ask(model: Any, frame: pd.DataFrame, outputs: str) -> dict[tuple[Any, ...], Any]:
    """The output for every combination of the values of a table."""
    domain, combinations = every_record(frame, INPUTS)
    found = model.predict(domain) if outputs == "classes" else model.predict_proba(domain).round(12)
    return {key: (str(np.asarray(row).tolist()), None) for key, row in zip(combinations, found, strict=True)}


def release_of(model: Any, frame: pd.DataFrame, public: Any, outputs: str) -> twin.Release:
    answers = ask(model, frame, outputs)
    domains = {name: frame[name].unique().tolist() for name in INPUTS}
    return twin.release(
        lambda record: answers[tuple(record[n] for n in INPUTS)],
        frame[list(INPUTS)].to_dict("records"),
        domains,
        public,
    )


def assert_twin(certificate: Any, slow: twin.Release, k: int, rule: str) -> None:
    tested = slow.tested(rule)
    assert certificate.holds == slow.holds(k, rule)
    assert certificate.smallest == slow.smallest(rule)
    assert certificate.groups == len(tested)
    assert certificate.records == len(slow.spans)
    expected = sorted((size, len(span) == 1, len(span)) for span, size in slow.span_populations.items())
    assert sorted((span.size, span.single, len(span.cells)) for span in certificate.spans) == expected
    counts = {span: sorted(slow.cell_populations[cell] for cell in span) for span in slow.span_populations}
    found = sorted(sorted(cell.population for cell in span.cells) for span in certificate.spans)
    assert found == sorted(counts.values())


@settings(max_examples=40)
@given(data=st.data())
def test_predictions_have_the_spans_of_an_enumeration(data: st.DataObject) -> None:
    frame = data.draw(tables())
    public = data.draw(st.lists(st.sampled_from(INPUTS), min_size=1, unique=True))
    k, rule = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(["claim3", "all"]))
    outputs = data.draw(st.sampled_from(["classes", "probabilities"]))
    final = data.draw(
        st.sampled_from([KNeighborsClassifier(1), KNeighborsClassifier(3), LogisticRegression(max_iter=10_000)])
    )
    model, policy = fit(frame, final), make_policy(public, k)
    certificate = audit_predictions(model, frame, policy, outputs=outputs, rule=rule)
    assert_twin(certificate, release_of(model, frame, public, outputs), k, rule)
    assert certificate.populations == "outputs"
    assert any("predictions only" in note for note in certificate.notes)
    assert "spans" not in json.loads(json.dumps(certificate.to_dict(), allow_nan=False))


def list_predictions(model: Any, frame: pd.DataFrame, outputs: str = "classes") -> pd.DataFrame:
    """A table with the prediction for every combination of values."""
    domain, _ = every_record(frame, INPUTS)
    if outputs == "classes":
        return domain.assign(answer=model.predict(domain))
    shares = model.predict_proba(domain).round(12)
    return domain.assign(**{f"share {c}": shares[:, j] for j, c in enumerate(model.classes_)})


@settings(max_examples=10)
@given(frame=tables(), outputs=st.sampled_from(["classes", "probabilities"]))
def test_a_table_of_predictions_is_as_good_as_the_model(
    frame: pd.DataFrame, outputs: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model, policy = fit(frame), make_policy()
    expected = audit_predictions(model, frame, policy, outputs=outputs)
    table = list_predictions(model, frame, outputs).sample(frac=1, random_state=3)
    path = tmp_path_factory.mktemp("predictions") / "predictions.csv"
    table.to_csv(path, index=False)
    for source in (table, path, str(path), pd.concat([table, table])):
        certificate = audit_predictions(source, frame, policy)
        assert list_reports(certificate) == list_reports(expected)
        assert (certificate.holds, certificate.smallest) == (expected.holds, expected.smallest)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = 80
    frame = pd.DataFrame({"age": rng.integers(20, 26, rows), "sex": rng.choice(["f", "m"], rows)})
    frame["pay"] = rng.choice([1.5, 2.0, 8.0], rows)
    return frame.assign(risk=np.where((frame["pay"] > 3) ^ (frame["age"] > 23), "good", "bad"))


def test_records_of_a_file_and_of_polars(people: pd.DataFrame, tmp_path: Path) -> None:
    model, policy = fit(people), make_policy()
    expected = audit_predictions(model, people, policy).to_private_dict()
    polars = pytest.importorskip("polars").from_pandas(people)
    table = list_predictions(model, people)
    by_table = audit_predictions(table, people, policy).to_private_dict()
    assert by_table["spans"] == expected["spans"]
    assert audit_predictions(table, polars, policy).to_private_dict() == by_table
    assert (
        audit_predictions(pytest.importorskip("polars").from_pandas(table), polars, policy).to_private_dict()
        == by_table
    )
    people.to_csv(tmp_path / "people.csv", index=False)
    table.to_csv(tmp_path / "table.csv", index=False)
    assert audit_predictions(tmp_path / "table.csv", tmp_path / "people.csv", policy).to_private_dict() == by_table
    indexed = people.set_index(pd.Index([1] * len(people)))
    assert audit_predictions(model, indexed, policy).to_private_dict() == expected


def test_polars_with_a_model_without_column_names(people: pd.DataFrame) -> None:
    numbers = people[["age", "pay", "risk"]]
    model = GaussianNB().fit(numbers[["age", "pay"]].to_numpy(), numbers["risk"])
    policy = make_policy(("age",), sensitive=["pay"])
    for outputs in ("classes", "probabilities"):
        expected = audit_predictions(model, numbers, policy, outputs=outputs).to_private_dict()
        polars = pytest.importorskip("polars").from_pandas(numbers)
        assert audit_predictions(model, polars, policy, outputs=outputs).to_private_dict() == expected


def test_values_are_compared_by_value(people: pd.DataFrame) -> None:
    """Numbers may be written as 20, 20.0 or ' 20'; missing values are equal."""
    frame = people.astype({"age": float})
    frame.loc[frame["sex"] == "m", "sex"] = None
    table = pd.DataFrame(
        [
            (f" {age:.0f}", sex, f"{pay:.3f}", pay > 3)
            for age in range(20, 26)
            for sex in ("f", None)
            for pay in (1.5, 2, 8)
        ],
        columns=["age", "sex", "pay", "answer"],
    )
    certificate = audit_predictions(table, frame, make_policy())
    (span,) = certificate.spans
    assert span.size == 80 and {c.leaf for c in span.cells} == {"prediction True", "prediction False"}


def test_attackers_who_know_some_columns(people: pd.DataFrame) -> None:
    model = fit(people)
    policy = make_policy(require=[shoal.KAnonymity(30, on=["sex"]), shoal.KAnonymity(2)])
    certificate = audit_predictions(model, people, policy)
    everything, some = (release_of(model, people, known, "classes") for known in (("age", "sex"), ("sex",)))
    assert certificate.holds == (everything.holds(2) and some.holds(30))
    assert certificate.smallest == everything.smallest()
    assert sum("knows only sex" in span.text for span in certificate.spans) == len(some.span_populations)


def test_regressions_and_other_models(people: pd.DataFrame) -> None:
    frame = people.assign(risk=people["pay"] * 2 + people["age"])
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["sex"]), remainder="passthrough")
    model = make_pipeline(encoder, LinearRegression()).fit(frame[list(INPUTS)], frame["risk"])
    certificate = audit_predictions(model, frame, make_policy())
    assert all(len(span.cells) == 3 for span in certificate.spans), "three values of pay"

    class Plain:
        """Anything with a method predict is a model."""

        feature_names_in_ = np.array(["age", "pay"])

        def predict(self, given: Any) -> Any:
            return [f"{a}/{p}" for a, p in zip(given["age"], given["pay"], strict=True)]

    certificate = audit_predictions(Plain(), people, make_policy(("age",), 3, sensitive=["pay"]))
    assert len(certificate.spans) == 6 and all(len(span.cells) == 3 for span in certificate.spans)


def test_classes_show_less_than_probabilities(people: pd.DataFrame) -> None:
    model, policy = fit(people), make_policy(k=20)
    classes = audit_predictions(model, people, policy)
    shares = audit_predictions(model, people, policy, outputs="probabilities")
    assert shares.smallest <= classes.smallest
    assert not shares.holds and any("without probabilities" in note for note in shares.notes)


def test_a_tree_shows_at_least_its_predictions(people: pd.DataFrame) -> None:
    from sklearn.tree import DecisionTreeClassifier

    model, policy = fit(people, DecisionTreeClassifier(max_depth=3, random_state=0)), make_policy()
    spans = release_of(model, people, ("age", "sex"), "classes")
    assert audit_predictions(model, people, policy).smallest == spans.smallest()
    assert audit(model, people, policy, populations="nothing").smallest <= spans.smallest()


def test_the_fingerprint_does_not_depend_on_private_values(people: pd.DataFrame) -> None:
    """A public digest of the prediction of every record could be inverted for a small table."""
    model, policy = fit(people), make_policy()
    shuffled = people.assign(pay=people["pay"].sample(frac=1, random_state=1).to_numpy())
    one, other = (audit_predictions(model, frame, policy) for frame in (people, shuffled))
    assert model.predict(people[list(INPUTS)]).tolist() != model.predict(shuffled[list(INPUTS)]).tolist()
    assert one.fingerprint == other.fingerprint
    opposite = fit(
        people.assign(risk=people["risk"].map({"good": "bad", "bad": "bad"}).where(people["sex"] == "f", "good"))
    )
    assert audit_predictions(opposite, people, policy).fingerprint != one.fingerprint


# Wrong input


def test_too_many_predictions(people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    model, policy = fit(people), make_policy()
    needed = len(people[["age", "sex"]].drop_duplicates()) * 3
    monkeypatch.setattr("shoal.mining.outputs.MOST_PREDICTIONS", needed - 1)
    text = rf"needs {needed} predictions: {needed // 3} combinations of public values, each with 3 .*'pay'.*Round the values"
    with pytest.raises(shoal.DataError, match=text):
        audit_predictions(model, people, policy)
    monkeypatch.setattr("shoal.mining.outputs.MOST_PREDICTIONS", needed)
    assert audit_predictions(model, people, policy).records == 80


def test_small_batches_change_nothing(people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    model, policy = fit(people), make_policy()
    expected = audit_predictions(model, people, policy, outputs="probabilities").to_private_dict()
    monkeypatch.setattr("shoal.mining.outputs.BATCH", 4)
    assert audit_predictions(model, people, policy, outputs="probabilities").to_private_dict() == expected


def test_wrong_tables_of_predictions(people: pd.DataFrame, tmp_path: Path) -> None:
    table, policy = list_predictions(fit(people), people), make_policy()
    with pytest.raises(shoal.DataError, match=r"lacks [1-3] of .* combinations, such as age = .* Add a row for every"):
        audit_predictions(table[3:], people, policy)
    twice = pd.concat([table, table[:1].assign(answer="other")])
    with pytest.raises(shoal.DataError, match=r"two different predictions for the same inputs: .*Keep one"):
        audit_predictions(twice, people, policy)
    with pytest.raises(shoal.DataError, match=r"no column with predictions beside the inputs. Add one"):
        audit_predictions(table[list(INPUTS)], people, policy)
    with pytest.raises(shoal.PolicyError, match=r"no column of the policy. List its inputs under 'quasi'"):
        audit_predictions(table[["answer"]], people, policy)
    with pytest.raises(shoal.DataError, match=r"lacks columns of the predictions: 'pay'. Add these columns"):
        audit_predictions(table, people.drop(columns="pay"), policy.model_copy(update={"sensitive": ("pay",)}))
    with pytest.raises(shoal.DataError, match="there is no file"):
        audit_predictions(tmp_path / "absent.csv", people, policy)


def test_a_table_that_lacks_an_input_has_fewer_inputs(people: pd.DataFrame) -> None:
    table = pd.DataFrame({"age": range(20, 26), "answer": list("aabbbb")})
    certificate = audit_predictions(table, people, make_policy(), rule="all")
    assert all(span.single for span in certificate.spans)
    assert sorted(span.size for span in certificate.spans) == sorted((people["age"] < 22).value_counts())


def test_wrong_models_and_policies(people: pd.DataFrame) -> None:
    model, policy = fit(people), make_policy()
    with pytest.raises(shoal.DataError, match=r"type LinearSVC has no method 'predict_proba'.*table of predictions"):
        numbers = people[["age", "pay"]]
        svc = LinearSVC().fit(numbers, people["risk"])
        audit_predictions(svc, people, make_policy(("age",), sensitive=["pay"]), outputs="probabilities")
    with pytest.raises(shoal.DataError, match="type object has no method 'predict'"):
        audit_predictions(object(), people, make_policy(sensitive=["pay", "risk"]))
    with pytest.raises(shoal.PolicyError, match="whether attackers know these columns, which the model uses: 'pay'"):
        audit_predictions(model, people, make_policy(sensitive=[]))
    with pytest.raises(shoal.PolicyError, match="the model uses identifiers: 'pay'"):
        audit_predictions(model, people, make_policy(sensitive=[], identifiers=["pay"]))
    with pytest.raises(shoal.PolicyError, match="no requirement"):
        audit_predictions(model, people, make_policy(require=[]))
    with pytest.raises(shoal.PolicyError, match=r"outputs.*classes.*probabilities"):
        audit_predictions(model, people, policy, outputs="everything")
    with pytest.raises(shoal.PolicyError, match="rule"):
        audit_predictions(model, people, policy, rule="some")
    with pytest.raises(shoal.DataError, match="lacks columns that the model was fitted on: 'pay'"):
        audit_predictions(model, people.drop(columns="pay"), policy)
    with pytest.raises(shoal.DataError, match="the table is empty"):
        audit_predictions(model, people[:0], policy)


def test_the_combinations_are_all_asked(people: pd.DataFrame) -> None:
    seen: set[tuple[Any, ...]] = set()

    class Spy:
        feature_names_in_ = np.array(INPUTS)

        def predict(self, given: Any) -> Any:
            seen.update(given[list(INPUTS)].itertuples(index=False, name=None))
            return np.zeros(len(given))

    audit_predictions(Spy(), people, make_policy(("age",)))
    expected = itertools.product(people["age"].unique(), people["sex"].unique(), people["pay"].unique())
    assert seen == set(expected)
