"""The audit of scikit-learn trees against a slow twin that enumerates the whole domain, and the examples of the paper."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import shoal
from shoal.datasets import papers
from shoal.spans import Knowledge
from tests.reference import spans as twin
from tests.support.cases import lists_of
from tests.support.models import (
    assert_same_spans,
    find_public_spans,
    leaf_of_scikit_learn,
    list_reports,
    list_twin_reports,
    release_of,
    shuffle,
)
from tests.support.outcomes import Outcome, counted

NUMBERS = {"n0": [1.0, 2.5, 4.0, 1e6], "n1": [-3.0, 0.0, 0.1, 0.2]}
WORDS = {"c0": ["a", "b", "c", "<&>"], "c1": ["x", "y", "1"]}
TARGET = "class"


@dataclass(frozen=True)
class Table:
    """A table with a class, the columns that are public, and k."""

    frame: pd.DataFrame
    public: tuple[str, ...]
    k: int
    rule: str

    @property
    def names(self) -> list[str]:
        return [name for name in self.frame.columns if name != TARGET]

    @property
    def policy(self) -> shoal.Policy:
        kinds = {name: "numeric" if name in NUMBERS else "categorical" for name in self.frame.columns}
        return shoal.Policy(
            quasi={name: kinds[name] for name in self.public},
            sensitive=[name for name in self.names if name not in self.public],
            target=TARGET,
            require=[shoal.KAnonymity(self.k)],
        )

    @property
    def knowledge(self) -> Knowledge:
        return Knowledge(frozenset(self.public), TARGET in self.public)


@st.composite
def tables(draw: st.DrawFn, *, words: bool = False, classes: tuple[Any, ...] = ("no", "yes", "so")) -> Table:
    """Tiny tables: 1 to 3 features with missing values, 1 to 12 rows, any subset of columns public."""
    pool = NUMBERS | (WORDS if words else {})
    names = draw(st.lists(st.sampled_from(sorted(pool)), min_size=1, max_size=3, unique=True))
    rows = draw(st.integers(1, 12))
    holes = draw(st.booleans())
    columns = {}
    for name in names:
        values = [*pool[name], *([None] * len(pool[name]) if holes else [])]
        columns[name] = pd.Series(draw(lists_of(values, rows)), dtype=float if name in NUMBERS else "str")
    columns[TARGET] = pd.Series(draw(lists_of(classes, rows)))
    public = draw(st.lists(st.sampled_from([*names, TARGET]), unique=True))
    return Table(
        pd.DataFrame(columns), tuple(public), draw(st.integers(1, 4)), draw(st.sampled_from(["claim3", "all"]))
    )


def fit(model: Any, table: Table) -> Any:
    """The fitted model; None if scikit-learn refuses the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return model.fit(table.frame[table.names], table.frame[TARGET])
        except ValueError:
            return None


def transform_quietly(model: Any, table: Table) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return leaf_of_scikit_learn(model, table.frame, table.names)


def compare_with_twin(model: Any, table: Table) -> twin.Release:
    slow = release_of(transform_quietly(model, table), table.frame, table.names, TARGET, table.public)
    certificate = shoal.models.audit(model, table.frame, table.policy, rule=table.rule)
    spans = find_public_spans(model, table.frame, table.policy, table.knowledge)
    assert_same_spans(certificate, spans, slow, table.rule)
    assert certificate.holds == slow.holds(table.k, table.rule)
    assert list_reports(certificate) == list_twin_reports(slow, table.k, table.rule)
    return slow


trees = st.builds(
    DecisionTreeClassifier,
    max_depth=st.none() | st.integers(1, 4),
    min_samples_leaf=st.integers(1, 3),
    splitter=st.sampled_from(["best", "random"]),
    random_state=st.just(0),
)


@given(table=tables(), model=trees)
def test_a_tree_of_numbers_has_the_spans_of_the_twin(table: Table, model: Any) -> None:
    compare_with_twin(fit(model, table), table)


@given(table=tables(classes=(1.5, 2.0, 1e9)), depth=st.none() | st.integers(1, 3))
def test_a_regression_tree_has_the_spans_of_the_twin(table: Table, depth: int | None) -> None:
    compare_with_twin(fit(DecisionTreeRegressor(max_depth=depth, random_state=0), table), table)


@given(table=tables(classes=(0, 1)), model=trees)
def test_classes_may_be_numbers_or_true_and_false(table: Table, model: Any) -> None:
    compare_with_twin(fit(model, table), table)
    boolean = Table(table.frame.assign(**{TARGET: table.frame[TARGET] == 1}), table.public, table.k, table.rule)
    compare_with_twin(fit(model, boolean), boolean)


encoders = st.one_of(
    st.builds(
        OneHotEncoder,
        drop=st.sampled_from([None, "first", "if_binary"]),
        min_frequency=st.sampled_from([None, 2, 3]),
        handle_unknown=st.sampled_from(["error", "ignore", "infrequent_if_exist"]),
        sparse_output=st.just(False),
    ),
    st.builds(OneHotEncoder, handle_unknown=st.just("ignore"), sparse_output=st.booleans()),
    st.builds(OrdinalEncoder, encoded_missing_value=st.sampled_from([np.nan, -1])),
    st.builds(
        OrdinalEncoder, handle_unknown=st.just("use_encoded_value"), unknown_value=st.just(-2), min_frequency=st.just(2)
    ),
    st.builds(
        lambda strategy, indicator, last: Pipeline(
            [
                ("impute", SimpleImputer(strategy=strategy, fill_value="?", add_indicator=indicator)),
                ("encode", OneHotEncoder(sparse_output=last, handle_unknown="ignore")),
            ]
        ),
        st.sampled_from(["most_frequent", "constant"]),
        st.just(False),
        st.booleans(),
    ),
)
imputers = st.builds(
    SimpleImputer,
    strategy=st.sampled_from(["mean", "median", "most_frequent", "constant"]),
    add_indicator=st.booleans(),
    keep_empty_features=st.booleans(),
)
bins = st.builds(
    KBinsDiscretizer,
    n_bins=st.integers(2, 3),
    encode=st.sampled_from(["ordinal", "onehot", "onehot-dense"]),
    strategy=st.sampled_from(["uniform", "quantile"]),
    quantile_method=st.just("averaged_inverted_cdf"),
)
numbers = st.one_of(
    st.just("passthrough"),
    st.builds(StandardScaler),
    st.builds(MinMaxScaler),
    imputers,
    st.builds(lambda *steps: Pipeline(list(zip("abc", steps, strict=False))), imputers, st.builds(MinMaxScaler), bins),
    st.builds(lambda *steps: Pipeline(list(zip("abc", steps, strict=False))), imputers, bins, st.just("passthrough")),
)


@st.composite
def column_choices(draw: st.DrawFn, name: str, names: list[str]) -> Any:
    """One column, written in any way that a ColumnTransformer accepts."""
    at = names.index(name)
    ways: list[Any] = [
        [name],
        [at],
        [at - len(names)],
        slice(at, at + 1),
        slice(name, name),
        [n == name for n in names],
        np.array([n == name for n in names]),
        np.array([name], object),
        pd.Index([name]),
        lambda frame: [name],
        make_column_selector(f"^{name}$"),
    ]
    return draw(st.sampled_from(ways))


@st.composite
def pipelines(draw: st.DrawFn, table: Table) -> Pipeline:
    """A pipeline whose columns are transformed one by one or together, some of them not at all."""
    parts: list[tuple[str, Any, Any]] = []
    names = table.names
    for name in draw(st.permutations(names)):
        way = draw(st.sampled_from(["own", "own", "own", "remainder"]))
        if way == "own":
            step = draw(numbers if name in NUMBERS else encoders)
            parts.append((f"{name}s", step, draw(column_choices(name, names))))
    mixed = [name for name in names if name in NUMBERS]
    if len(mixed) > 1 and draw(st.booleans()):
        parts = [part for part in parts if part[0][:-1] not in mixed]
        parts.append(("all numbers", draw(numbers), mixed))
    left = draw(st.sampled_from(["drop", "passthrough"]))
    columns = ColumnTransformer(parts, remainder=left, sparse_threshold=draw(st.sampled_from([0.0, 1.0])))
    steps: list[tuple[str, Any]] = [("columns", columns)]
    if draw(st.booleans()):
        steps = [("first", Pipeline([*steps, ("nothing", "passthrough")]))]
    if draw(st.booleans()):
        steps.append(("scale", MaxAbsScaler()))
    return Pipeline([*steps, ("tree", draw(trees))])


STEPS: dict[str, Any] = {
    "k best": SelectKBest(k=1),
    "variance": VarianceThreshold(),
    "power": PowerTransformer(),
    "quantiles": QuantileTransformer(n_quantiles=5),
    "robust": RobustScaler(),
    "two values": Binarizer(threshold=0.15),
    "frames": StandardScaler().set_output(transform="pandas"),
    "a column twice": ColumnTransformer([("a", "passthrough", ["n0"]), ("b", StandardScaler(), ["n1", "n0"])]),
    "missing": ColumnTransformer([("a", MissingIndicator(features="all"), ["n1", "n0"])], remainder="passthrough"),
    "columns of columns": ColumnTransformer(
        [
            (
                "a",
                Pipeline([("b", StandardScaler()), ("c", ColumnTransformer([("d", MinMaxScaler(), [1])]))]),
                ["n1", "n0"],
            )
        ],
        remainder=MaxAbsScaler(),
    ),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("public", [(), ("n0",), ("n1", TARGET), ("n0", "n1")])
def test_other_steps_of_a_pipeline_have_the_spans_of_the_twin(name: str, public: tuple[str, ...]) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({n: rng.choice(NUMBERS[n], 12) for n in ("n0", "n1")} | {TARGET: list("ababbaabbbab")})
    table = Table(frame, public, 2, "claim3")
    model = fit(Pipeline([("step", clone(STEPS[name])), ("tree", DecisionTreeClassifier(random_state=0))]), table)
    assert model is not None
    compare_with_twin(model, table)


@given(data=st.data())
@counted
def test_a_pipeline_has_the_spans_of_the_twin(data: st.DataObject) -> Outcome:
    table = data.draw(tables(words=True))
    model = fit(data.draw(pipelines(table)), table)
    if model is None:
        return "refused by scikit-learn"
    compare_with_twin(model, table)
    return None


@given(table=tables(), model=trees)
def test_any_set_of_public_columns_has_the_spans_of_the_twin(table: Table, model: Any) -> None:
    fit(model, table)
    for width in range(len(table.names) + 1):
        for public in itertools.combinations(table.names, width):
            compare_with_twin(model, Table(table.frame, public, table.k, table.rule))


@given(table=tables(), model=trees, seed=st.integers(0, 9))
def test_the_order_of_rows_does_not_matter(table: Table, model: Any, seed: int) -> None:
    fit(model, table)
    one = shoal.models.audit(model, table.frame, table.policy, rule=table.rule)
    other = shoal.models.audit(model, shuffle(table.frame, seed), table.policy, rule=table.rule)
    assert one.to_dict() == other.to_dict()
    assert list_reports(one) == list_reports(other)
    assert {str(s) for s in one.spans} == {str(s) for s in other.spans}


@given(table=tables(), model=trees)
def test_all_public_and_a_private_class_need_k_in_every_leaf(table: Table, model: Any) -> None:
    """Section 4.1: such a tree is k-anonymous if and only if every leaf contains k examples or none."""
    everything = Table(table.frame, tuple(table.names), table.k, "claim3")
    fit(model, everything)
    _, sizes = np.unique(model.apply(everything.frame[everything.names]), return_counts=True)
    expected = bool((sizes >= table.k).all())
    assert shoal.models.audit(model, everything.frame, everything.policy).holds == expected


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library_give_the_same_certificate(kind: str) -> None:
    frame = papers.mortgage(kind="pandas")
    features = ["Gender", "Married", "Age", "Sports Car"]
    model = Pipeline([("encode", OneHotEncoder()), ("tree", DecisionTreeClassifier(max_depth=2, random_state=0))])
    model.fit(frame[features], frame["Loan Risk"])
    one = shoal.models.audit(model, frame, papers.mortgage_policy(3))
    other = shoal.models.audit(model, papers.mortgage(kind=kind), papers.mortgage_policy(3))
    assert other.to_private_dict() == one.to_private_dict()


COLUMNS: dict[str, Any] = {
    "category": pd.Categorical(list("xyzxyz") * 2, categories=list("zyxw")),
    "whole numbers": pd.array([1, 2, None, 3] * 3, dtype="Int64"),
    "true and false": pd.array([True, False, None] * 4, dtype="boolean"),
    "small numbers": np.arange(-6, 6).astype("int8"),
    "large numbers": 2**60 + np.arange(12) % 5,
    "signed zeros": np.array([0.0, -0.0, 1.0] * 4),
    "dates": pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"] * 4),
    "objects": pd.Series([1, 2, 3] * 4, dtype=object),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("public", [(), ("c0",), ("n0",), ("c0", "n0")])
def test_columns_of_any_type_have_the_spans_of_the_twin(name: str, public: tuple[str, ...]) -> None:
    frame = pd.DataFrame({"c0": COLUMNS[name], "n0": [1.0, 2.0, 2.0, 3.0] * 3, TARGET: list("ababbaabbbab")})
    table = Table(frame, public, 2, "claim3")
    encode = ColumnTransformer([("encode", OrdinalEncoder(), ["c0"])], remainder="passthrough")
    own = [Pipeline([("encode", encode), ("tree", DecisionTreeClassifier(random_state=0))])]
    if name not in ("category", "dates"):
        own.append(DecisionTreeClassifier(random_state=0))
    for model in own:
        compare_with_twin(fit(model, table), table)


def test_a_file_gives_the_same_certificate_as_its_frame(tmp_path: Any) -> None:
    frame = pd.DataFrame({"age": [20, 30, 30, 40, 50, 60], "rent": [1.5, 2, 2, 3, 8, 9], "risk": list("ggbbgb")})
    frame.to_csv(tmp_path / "people.csv", index=False)
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(frame[["age", "rent"]], frame["risk"])
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["rent"], target="risk", require=[shoal.KAnonymity(2)])
    one = shoal.models.audit(model, frame, policy)
    assert shoal.models.audit(model, str(tmp_path / "people.csv"), policy).to_private_dict() == one.to_private_dict()


class TestTheExamplesOfThePaper:
    """Friedman, Wolff and Schuster, sections 1, 3, 4.1 and 5.1."""

    def test_figure_1_is_the_tree_of_table_1(self) -> None:
        tree = shoal.models.AnonymousTree(papers.mortgage_policy(3)).fit(papers.mortgage())
        lines = tree.export_text().splitlines()
        assert set(lines[2:4]) == {"|   |-- Married is Yes: bad 3", "|   |-- Married is No: bad 1, good 2"}
        assert set(lines[5:7]) == {"|   |-- Age is Young: good 3", "|   |-- Age is Old: bad 2, good 1"}
        assert [lines[i] for i in (0, 1, 4)] == ["all records", "|-- Gender is Female", "|-- Gender is Male"]
        assert len(lines) == 7
        assert tree.certificate_.smallest == 3
        assert sorted(span.size for span in tree.certificate_.spans) == [3, 3, 3, 3]

    def test_donna_emily_and_fiona_are_linked_to_bad(self) -> None:
        tree = shoal.models.AnonymousTree(papers.mortgage_policy(3)).fit(papers.mortgage())
        attack = shoal.attacks.linking(tree, papers.mortgage(), papers.mortgage_policy(3))
        link = next(link for link in attack.links if "Donna" in link.people)
        assert link.people == ("Donna", "Emily", "Fiona")
        assert link.certain == "bad"
        assert sorted((label, count) for _, label, count in link.cells) == [("bad", 3), ("good", 0)]
        good = dict.fromkeys(["Anthony", "Brian", "Charles"], "good")
        assert attack.learned == {**dict.fromkeys(["Donna", "Emily", "Fiona"], "bad"), **good}
        assert attack.smallest == 3

    @staticmethod
    def figure_2() -> shoal.models.AnonymousTree:
        return shoal.models.AnonymousTree(papers.borrowers_policy(3)).fit(papers.borrowers())

    def test_algorithm_1_gives_figure_2(self) -> None:
        assert self.figure_2().export_text() == (
            "all records\n"
            "|-- Sports Car is No: bad 3\n"
            "|-- Sports Car is Yes\n"
            "|   |-- Marital Status is Married: good 1\n"
            "|   |-- Marital Status is Unmarried: bad 1, good 1\n"
        )

    def test_a_private_sports_car_gives_two_spans_that_share_a_leaf(self) -> None:
        certificate = shoal.models.audit(self.figure_2(), papers.borrowers(), papers.borrowers_policy(3))
        assert certificate.holds and certificate.smallest == 3
        car_no, married, unmarried = (
            "Sports Car is No",
            "Sports Car is Yes, Marital Status is Married",
            "Sports Car is Yes, Marital Status is Unmarried",
        )
        spans = {s.text: {(c.leaf, c.label, c.population) for c in s.cells} for s in certificate.spans}
        shared = {(car_no, "good", 0), (car_no, "bad", 3)}
        assert spans == {
            "Marital Status is Married": shared | {(married, "good", 1), (married, "bad", 0)},
            "Marital Status is Unmarried": shared | {(unmarried, "good", 1), (unmarried, "bad", 1)},
        }
        attack = shoal.attacks.linking(self.figure_2(), papers.borrowers(), papers.borrowers_policy(3))
        assert {link.people for link in attack.links} == {("John", "Ben", "Laura"), ("Lisa", "Robert", "Anna")}
        assert attack.learned == {}

    def test_a_public_sports_car_leaves_john_alone(self) -> None:
        policy = papers.borrowers_policy(3, public_car=True)
        certificate = shoal.models.audit(self.figure_2(), papers.borrowers(), policy)
        assert not certificate.holds and certificate.smallest == 1
        assert certificate.failing[0].text == "Sports Car is Yes, Marital Status is Married"
        attack = shoal.attacks.linking(self.figure_2(), papers.borrowers(), policy)
        assert attack.links[0].people == ("John",)
        assert attack.links[0].certain == "good"

    def test_a_scikit_learn_tree_of_table_4_has_the_same_spans(self) -> None:
        frame = papers.borrowers(kind="pandas")
        model = Pipeline([("encode", OrdinalEncoder()), ("tree", DecisionTreeClassifier(random_state=0))])
        model.fit(frame[["Sports Car", "Marital Status"]], frame["Loan Risk"])
        own = shoal.models.audit(model, frame, papers.borrowers_policy(3))
        assert list_reports(own) == list_reports(shoal.models.audit(self.figure_2(), frame, papers.borrowers_policy(3)))
        assert not shoal.models.audit(model, frame, papers.borrowers_policy(3, public_car=True)).holds
