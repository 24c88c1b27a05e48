"""`AnonymousClusters`, and audits of centroids: the paper's two examples, exact twins, releases, and wrong input."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import pickle
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.base import clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import shoal
from shoal.engines import open_data
from shoal.mining.cluster_model import ClusterModel
from shoal.mining.clusters import ClusterTable, round_center, round_up
from shoal.mining.readers import read_model
from shoal.models import AnonymousClusters, audit, load_model
from shoal.models.clusters import _list_columns
from shoal.spans import Knowledge
from tests.reference import centroids as twin
from tests.support.models import shuffle

Span = frozenset[int]


@parametrize_with_checks([AnonymousClusters(k=2, max_clusters=3), AnonymousClusters()])
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def list_spans(model: Any, frame: Any, policy: shoal.Policy, public: Sequence[str] | None = None) -> list[Span]:
    """The span of every record by the code under test: the numbers of clusters."""
    read = read_model(model, open_data(frame, policy.with_conventions()), policy, policy.target)
    found = read.find_spans(Knowledge(frozenset(policy.quasi if public is None else public), False))
    return [frozenset(found.cells[s]) for s in found.span.tolist()]


# The paper's examples


def make_customers() -> tuple[dict[str, Any], pd.DataFrame]:
    """Table 5 and four centroids. Figure 3 is lost: the coordinates are ours, chosen for the spans of section 4.2."""
    column = {"values": "numeric"}
    centers = [(11001, 80_000), (13700, 100_000), (13900, 50_000), (15600, 90_000)]
    content = {
        "format": "shoal-clusters",
        "version": 1,
        "distance": "squared",
        "missing": [""],
        "columns": {
            "Zip Code": {**column, "public": True, "width": 4100},
            "Income": {**column, "public": False, "width": 80_000},
        },
        "clusters": [
            {"records": n, "center": {"Zip Code": code, "Income": income}}
            for n, (code, income) in zip((2, 1, 2, 1), centers, strict=True)
        ],
    }
    table = pd.DataFrame(
        {
            "Name": ["John", "Cathy", "Ben", "Laura", "William", "Lisa"],
            "Zip Code": [11001, 11001, 13010, 13010, 14384, 15013],
            "Income": [98_000, 62_000, 36_000, 115_000, 44_000, 100_000],
        }
    )
    return content, table


def test_the_customers_of_section_4_2() -> None:
    content, table = make_customers()
    model = ClusterModel.from_dict(content)
    policy = shoal.Policy(
        identifiers=["Name"], quasi={"Zip Code": "numeric"}, sensitive=["Income"], require=[shoal.KAnonymity(2)]
    )
    spans = dict(zip(table["Name"], list_spans(model, table, policy), strict=True))
    assert spans["John"] == spans["Cathy"] == {0}
    assert spans["Ben"] == spans["Laura"] == spans["William"] == {1, 2}
    assert spans["Lisa"] == {2, 3}
    for rule, tested in (("all", 3), ("claim3", 2)):
        certificate = audit(model, table, policy, rule=rule)
        assert not certificate.holds and certificate.fits
        assert (certificate.smallest, certificate.groups) == (1, tested)
        (failing,) = certificate.failing
        assert str(failing) == "cluster can be 2, 3 (1 person): [cluster 2: 2], [cluster 3: 1]"
    assert not audit(model, table.iloc[:-1], policy).fits, "without Lisa, nobody is in the fourth cluster"


def test_the_customers_of_section_4_2_in_k_means() -> None:
    content, table = make_customers()
    centers = [[c["center"]["Zip Code"] / 4100, c["center"]["Income"] / 80_000] for c in content["clusters"]]
    scaled = table[["Zip Code", "Income"]] / [4100, 80_000]
    model = KMeans(4, init=np.array(centers), n_init=1, max_iter=1).fit(scaled)
    model.cluster_centers_ = np.array(centers)
    policy = shoal.Policy(quasi={"Zip Code": "numeric"}, sensitive=["Income"], require=[shoal.KAnonymity(2)])
    assert list_spans(model, scaled, policy) == [{0}, {0}, {1, 2}, {1, 2}, {1, 2}, {2, 3}]
    assert audit(model, scaled, policy).smallest == 1


def make_results() -> tuple[pd.DataFrame, shoal.Policy]:
    """The seven points of section 5.2. Figure 5 is lost: the coordinates are ours."""
    frame = pd.DataFrame(
        {"name": list("ABCDEFG"), "age": [20, 21, 22, 46, 50, 51, 52], "result": [1, 2, 3, 3, 8, 9, 10]}
    )
    policy = shoal.Policy(
        identifiers=["name"], quasi={"age": "numeric"}, sensitive=["result"], require=[shoal.KAnonymity(3)]
    )
    return frame, policy


def group(frame: pd.DataFrame, labels: Any) -> list[str]:
    """The names of the members of every cluster."""
    return sorted("".join(members) for _, members in frame["name"].groupby(np.asarray(labels)))


def test_the_clusters_of_section_5_2() -> None:
    frame, policy = make_results()
    two = AnonymousClusters(policy, least_members=1, max_clusters=2).fit(frame)
    assert group(frame, two.labels_) == ["ABC", "DEFG"]
    assert list_spans(two, frame, policy) == [{0}] * 3 + [{1}] * 4
    three = AnonymousClusters(policy, least_members=1, max_clusters=3).fit(frame)
    assert group(frame, three.labels_) == ["ABC", "D", "EFG"]
    first, alone, rest = three.labels_[[0, 3, 4]].tolist()
    assert list_spans(three, frame, policy) == [{first}] * 3 + [{alone, rest}] * 4
    assert three.certificate_.holds and three.certificate_.smallest == 3
    assert [span.size for span in three.certificate_.spans] == [4, 3]
    (note,) = three.certificate_.notes
    assert note.startswith("3 clusters have fewer than 20 records.")


def test_the_edges_of_section_5_2() -> None:
    frame, policy = make_results()
    table = ClusterTable.of(_list_columns(policy, open_data(frame)), open_data(frame), policy.missing_texts)
    tree = table.build_spanning_tree(table.find_widths(1), "squared")
    names = [frame["name"][frame["age"] == table.values["age"][c]].item() for c in table.codes[:, 0]]
    edges = ["".join(sorted((names[p], names[tree.parent[p]]))) for p in tree.list_edges()]
    assert edges[:2] == ["CD", "DE"]
    assert sorted(edges[2:]) == ["AB", "BC", "EF", "FG"]
    assert [names[p] for p in np.flatnonzero(tree.is_below(tree.list_edges()[0]))] in (list("ABC"), list("DEFG"))


def test_a_cluster_of_few_records_is_refused_by_default() -> None:
    """Every point has 15 records. 20 are required where columns are private, so D is no cluster of its own."""
    frame, policy = make_results()
    frame = pd.concat([frame] * 15, ignore_index=True)
    model = AnonymousClusters(policy).fit(frame)
    assert group(frame, model.labels_) == ["ABC" * 15, "DEFG" * 15]
    assert model.certificate_.notes == ()
    assert len(AnonymousClusters(policy, least_members=1, max_clusters=3).fit(frame).cluster_model_.centers) == 3


def test_a_private_category_of_few_records_is_not_published() -> None:
    frame = pd.DataFrame(
        {"age": [20] * 30 + [60] * 30, "ill": ["flu"] * 25 + ["gout"] * 5 + [f"r{i % 3}" for i in range(30)]}
    )
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.KAnonymity(5)])
    model = AnonymousClusters(policy, max_clusters=2).fit(frame)
    assert {c["center"]["ill"] for c in model.to_dict()["clusters"]} == {"flu", None}
    with pytest.raises(shoal.DataError, match="differ by more than a number can hold"):
        AnonymousClusters(k=2).fit(np.array([[1e308], [-1e308], [0.0]]))


def test_the_width_of_a_private_column_is_that_of_its_inner_records() -> None:
    """The third smallest and the third largest result are 3 and 8. Ages are public."""
    frame, policy = make_results()
    table = ClusterTable.of(_list_columns(policy, open_data(frame)), open_data(frame), policy.missing_texts)
    assert [table.find_widths(least)["result"] for least in (1, 2, 3)] == [9, 7, 5]
    assert table.find_widths(3)["age"] == 32
    assert table.find_widths(4)["result"] == 10, "nothing is left: a power of ten"


# Twins in exact arithmetic


def exact(value: Any) -> Fraction:
    """A number as it is written in JSON."""
    return Fraction(str(value))


class SlowClusters:
    """The clusters of a JSON file over a frame: distances, nearest centroids and spans in exact arithmetic."""

    def __init__(self, content: Mapping[str, Any], frame: pd.DataFrame) -> None:
        self.columns, self.mixed = content["columns"], content["distance"] == "mixed"
        self.centers = [cluster["center"] for cluster in content["clusters"]]
        self.frame = frame.astype(object).where(frame.notna(), None)

    def is_number(self, name: str) -> bool:
        return "width" in self.columns[name]

    def measure(self, name: str, value: Any, i: int) -> Fraction:
        center = self.centers[i][name]
        if not self.is_number(name):
            return Fraction(value != center)
        gap = (exact(value) - exact(center)) / exact(self.columns[name]["width"])
        return abs(gap) if self.mixed else gap**2

    def sum_up(self, values: Mapping[str, Any]) -> twin.Vector:
        return tuple(
            sum((self.measure(name, v, i) for name, v in values.items()), Fraction(0)) for i in range(len(self.centers))
        )

    def find_nearest(self) -> list[int]:
        rows = self.frame[list(self.columns)].to_dict("records")
        return [twin.find_nearest(self.sum_up(row)) for row in rows]

    def find_spans(self, public: Sequence[str]) -> list[Span]:
        private = [name for name in self.columns if name not in public]
        free = [self.make_free(name) for name in private if self.is_number(name)]
        categories = [name for name in private if not self.is_number(name)]
        choices = list(itertools.product(*(self.frame[name].unique() for name in categories)))
        found = []
        for row in self.frame[[name for name in self.columns if name in public]].to_dict("records"):
            constants = [self.sum_up(row | dict(zip(categories, chosen, strict=True))) for chosen in choices]
            found.append(twin.find_reachable(constants, free, absolute=self.mixed))
        return found

    def make_free(self, name: str) -> twin.Free:
        values = [exact(v) for v in self.frame[name]]
        center = tuple(exact(c[name]) for c in self.centers)
        return twin.Free(center, min(values), max(values), 1 / exact(self.columns[name]["width"]))


PRIVATE = ("pay", "job", "rent")


@st.composite
def tables(draw: st.DrawFn, private: Sequence[str] = PRIVATE) -> pd.DataFrame:
    rows = draw(st.integers(4, 14))
    column = lambda values: draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))  # noqa: E731
    kinds = {"pay": [0, 1, 4, 9], "job": ["x", "y", None], "rent": [0.5, 2.25]}
    columns = {"age": column([20, 21, 30, 45]), "sex": column(["f", "m"])}
    return pd.DataFrame(columns | {name: column(kinds[name]) for name in private})


def make_policy(k: int = 2, private: Sequence[str] = PRIVATE, **changes: Any) -> shoal.Policy:
    given = {"quasi": {"age": "numeric", "sex": "categorical"}, "sensitive": private, "require": [shoal.KAnonymity(k)]}
    return shoal.Policy(**(given | changes))


@settings(max_examples=80)
@given(data=st.data())
def test_whatever_fit_returns_passes_the_audit(data: st.DataObject) -> None:
    distance, rule = data.draw(st.sampled_from(["squared", "mixed"])), data.draw(st.sampled_from(["all", "claim3"]))
    private = data.draw(
        st.sampled_from([(), ("pay",), ("job",), ("pay", "job"), *([PRIVATE] * (distance == "squared"))])
    )
    frame, k = data.draw(tables(private)), data.draw(st.integers(2, 4))
    least = data.draw(st.sampled_from([None, 1, 3]))
    policy = make_policy(k, private)
    model = AnonymousClusters(policy, rule=rule, distance=distance, least_members=least)
    try:
        model.fit(frame)
    except shoal.RequirementNotMet:
        assert len(frame) < k, "one cluster is one span of all records"
        return
    certificate = audit(model, frame, policy, rule=rule)
    assert certificate.holds and certificate.fits
    assert certificate.to_private_dict() | {"notes": ()} == model.certificate_.to_private_dict() | {"notes": ()}
    content = json.loads(json.dumps(model.to_dict(), allow_nan=False))
    slow = SlowClusters(content, frame)
    nearest = slow.find_nearest()
    assert nearest == model.labels_.tolist() == model.predict(frame).tolist()
    counts = [nearest.count(i) for i in range(len(slow.centers))]
    assert counts == [cluster["records"] for cluster in content["clusters"]]
    assert min(counts) >= (k if least is None else least)
    spans = slow.find_spans(["age", "sex"])
    assert list_spans(model, frame, policy) == spans
    assert all(spans.count(span) >= k for span in spans if rule == "all" or len(span) > 1)
    read = ClusterModel.from_dict(content)
    assert read == model.cluster_model_ and read.to_dict() == content
    assert clone(model).fit(shuffle(frame, 3)).to_dict() == model.to_dict(), "the order of the records does not matter"


@given(data=st.data())
def test_the_spanning_tree_is_minimal(data: st.DataObject) -> None:
    frame, distance = data.draw(tables()), data.draw(st.sampled_from(["squared", "mixed"]))
    policy = make_policy()
    engine = open_data(frame)
    table = ClusterTable.of(_list_columns(policy, engine), engine, policy.missing_texts)
    width = table.find_widths(data.draw(st.integers(1, 4)))
    tree = table.build_spanning_tree(width, distance)
    points = frame.astype(object).where(frame.notna(), None).drop_duplicates().to_dict("records")
    assert len(points) == len(tree.parent) and (tree.parent >= 0).sum() == len(points) - 1

    def measure(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
        gaps = [abs(one[n] - other[n]) / width[n] if n in width else float(one[n] != other[n]) for n in one]
        return sum(g if distance == "mixed" else g * g for g in gaps)

    lengths = np.array([[measure(a, b) for b in points] for a in points])
    assert tree.length.sum() == pytest.approx(minimum_spanning_tree(lengths).sum())
    for p in tree.list_edges():
        below = tree.is_below(p)
        assert below[p] and not below[tree.parent[p]]
        assert all(below[tree.parent[q]] for q in np.flatnonzero(below) if q != p)


# Models of scikit-learn


def fix_centers(model: Any, centers: Any, features: Any) -> Any:
    """A fitted model with other centroids, and the labels that belong to them."""
    model.cluster_centers_ = np.array(centers, float)
    model.labels_ = model.predict(features)
    return model


@settings(max_examples=40)
@given(data=st.data())
def test_k_means_in_a_pipeline_has_the_spans_of_the_twin(data: st.DataObject) -> None:
    frame = data.draw(tables(("pay", "rent")))
    kind = data.draw(st.sampled_from([KMeans, MiniBatchKMeans]))
    encoder = make_column_transformer(
        (StandardScaler(), ["age", "pay", "rent"]), (OneHotEncoder(sparse_output=False), ["sex"])
    )
    encoder.fit(frame)
    scaler = encoder.named_transformers_["standardscaler"]
    scaler.mean_, scaler.scale_ = np.array([25.0, 2.0, 0.5]), np.array([8.0, 4.0, 0.5])  # exact in binary
    features = encoder.transform(frame)
    count = data.draw(st.integers(1, min(4, len(frame.drop_duplicates()))))
    quarter = st.integers(-8, 8).map(lambda n: n / 4)
    row = st.lists(quarter, min_size=features.shape[1], max_size=features.shape[1])
    centers = data.draw(st.lists(row, min_size=count, max_size=count))
    final = fix_centers(kind(count, init=features[:count], n_init=1).fit(features), centers, features)
    model = make_pipeline("passthrough", encoder, final)
    public = data.draw(st.lists(st.sampled_from(frame.columns.tolist()), min_size=1, unique=True))
    policy = shoal.Policy(
        quasi={n: "categorical" if n == "sex" else "numeric" for n in public},
        sensitive=[n for n in frame.columns if n not in public],
        require=[shoal.KAnonymity(2)],
    )
    spans = []
    own = {name: [j] for j, name in enumerate(["age", "pay", "rent"])} | {"sex": list(range(3, features.shape[1]))}
    free = [n for n in ("age", "pay", "rent") if n not in public]
    for r in range(len(frame)):
        choices = range(len(frame)) if "sex" not in public else [r]
        constants = [
            tuple(
                sum(
                    (
                        (Fraction(features[other if n == "sex" else r, j]) - Fraction(c[j])) ** 2
                        for n in own
                        if n not in free
                        for j in own[n]
                    ),
                    Fraction(0),
                )
                for c in centers
            )
            for other in choices
        ]
        bounds = [
            twin.Free(
                tuple(Fraction(c[own[n][0]]) for c in centers),
                Fraction(features[:, own[n][0]].min()),
                Fraction(features[:, own[n][0]].max()),
            )
            for n in free
        ]
        spans.append(twin.find_reachable(set(constants), bounds))
    assert list_spans(model, frame, policy) == spans
    certificate = audit(model, frame, policy, rule="all")
    assert certificate.fits
    assert certificate.smallest == min(spans.count(span) for span in spans)
    assert any("hold values of its columns" in note for note in certificate.notes)


def make_people(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, rows),
            "pay": rng.integers(10, 90, rows) * 10.0,
            "job": rng.choice(["clerk", "boss", "farmer"], rows),
            "risk": rng.choice(["good", "bad"], rows),
        }
    )


PAY = shoal.Policy(quasi={"age": "numeric"}, sensitive=["pay", "job"], target="risk", require=[shoal.KAnonymity(5)])


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_k_means_of_any_size_of_numbers(kind: Any, unit: float) -> None:
    frame = make_people()[["age", "pay"]] * unit
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["pay"], require=[shoal.KAnonymity(2)])
    model = kind(5, n_init=1, random_state=0).fit(frame)
    certificate = audit(model, frame, policy)
    assert certificate.fits
    plain = kind(5, n_init=1, random_state=0).fit(make_people()[["age", "pay"]])
    plain.cluster_centers_ = model.cluster_centers_ / unit
    assert list_spans(model, frame, policy) == list_spans(plain, make_people()[["age", "pay"]], policy)


def test_one_very_large_number_does_not_hide_the_other_clusters() -> None:
    frame = pd.concat([make_people()[["age", "pay"]], pd.DataFrame({"age": [1_000_000_000], "pay": [500.0]})])
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["pay"], require=[shoal.KAnonymity(2)])
    model = KMeans(3, init=np.array([[40.0, 300.0], [40.0, 700.0], [1e9, 500.0]]), n_init=1, max_iter=1).fit(frame)
    model.cluster_centers_ = np.array([[40.0, 300.0], [40.0, 700.0], [1e9, 500.0]])
    spans = list_spans(model, frame, policy)
    assert spans == [{0, 1}] * 200 + [{2}]


def test_a_nearest_centroid_model_shows_classes() -> None:
    frame = make_people()
    model = make_pipeline(StandardScaler(), NearestCentroid()).fit(frame[["age", "pay"]], frame["risk"])
    policy = PAY.model_copy(update={"sensitive": ("pay",)})
    certificate = audit(model, frame, policy)
    features = model[:-1].transform(frame[["age", "pay"]])
    centers = model[-1].centroids_
    nearest = lambda points: ((points[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)  # noqa: E731
    grid = np.linspace(features[:, 1].min(), features[:, 1].max(), 400)
    for feature, span in zip(features, list_spans(model, frame, policy), strict=True):
        assert set(nearest(np.column_stack([np.full(400, feature[0]), grid]))) <= span
    assert {c.leaf for span in certificate.spans for c in span.cells} == {"cluster bad", "cluster good"}


@pytest.mark.parametrize("changes", [{"metric": "manhattan"}, {"priors": "empirical"}, {"priors": [0.4, 0.6]}], ids=str)
def test_other_distances_of_nearest_centroids_are_refused(changes: dict[str, Any]) -> None:
    frame = make_people()
    model = NearestCentroid(**changes).fit(frame[["age", "pay"]], frame["risk"])
    with pytest.raises(shoal.DataError, match=r"metric='euclidean' and priors='uniform' only.*audit_predictions"):
        audit(model, frame, PAY)


def test_k_means_after_an_unsupported_step_is_refused() -> None:
    frame = make_people()[["age", "pay"]]
    model = make_pipeline(PCA(1), KMeans(2, n_init=1)).fit(frame)
    with pytest.raises(shoal.DataError, match="step of the type PCA in a pipeline is not supported"):
        audit(model, frame, PAY.model_copy(update={"sensitive": ("pay",)}))
    with pytest.raises(shoal.DataError, match="KMeans is not fitted"):
        audit(KMeans(2), frame, PAY)


def test_private_texts_and_steps_have_the_values_of_the_table_only() -> None:
    """A third centroid between two categories, or between two bins, is never the nearest."""
    frame = pd.DataFrame({"age": [20.0] * 6, "pay": [0.0, 1, 2, 3, 4, 5], "job": ["a", "b", "a", "b", "a", "b"]})
    centers = np.array([[20.0, 0.0], [20.0, 0.5], [20.0, 1.0]])
    bins = KBinsDiscretizer(2, encode="ordinal", strategy="uniform")
    for name, step in (("pay", bins), ("job", OrdinalEncoder())):
        encoder = make_column_transformer(("passthrough", ["age"]), (step, [name]))
        features = encoder.fit_transform(frame[["age", name]])
        final = fix_centers(KMeans(3, init=centers, n_init=1).fit(centers), centers, features)
        policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=[name], require=[shoal.KAnonymity(2)])
        assert list_spans(make_pipeline(encoder, final), frame, policy) == [{0, 2}] * 6
    final = fix_centers(KMeans(3, n_init=1).fit(frame[["age", "pay"]]), centers, frame[["age", "pay"]])
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["pay"], require=[shoal.KAnonymity(2)])
    assert list_spans(final, frame, policy) == [{0, 1, 2}] * 6


def test_an_array_without_names() -> None:
    frame = make_people()[["age", "pay"]]
    policy = PAY.model_copy(update={"sensitive": ("pay",), "target": None})
    model = KMeans(4, n_init=1, random_state=1)
    named = audit(model.fit(frame), frame, policy).to_private_dict()
    assert audit(model.fit(frame.to_numpy()), frame, policy).to_private_dict() == named
    with pytest.raises(shoal.DataError, match=r"2 columns without names, but the table has 3 columns. Fit the model"):
        audit(model, frame.assign(other=1), policy)


def test_other_records_than_those_of_the_fit() -> None:
    frame, policy = make_people()[["age", "pay"]], PAY.model_copy(update={"sensitive": ("pay",)})
    model = KMeans(4, n_init=1, random_state=1).fit(frame)
    assert audit(model, frame, policy).fits
    for other in (frame[:150], make_people(seed=9)[["age", "pay"]]):
        certificate = audit(model, other, policy)
        assert not certificate.fits and not certificate.publishable
        assert any("fitted on" in note for note in certificate.notes)


def test_few_records_in_a_cluster_are_noted() -> None:
    frame = pd.DataFrame({"age": [20, 21, 22, 23, 90], "pay": [1.0, 2, 3, 4, 5]})
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["pay"], require=[shoal.KAnonymity(2)])
    certificate = audit(KMeans(2, n_init=2, random_state=0).fit(frame), frame, policy, rule="claim3")
    assert certificate.holds, "both spans are a single cell"
    assert "although its centroid shows private values" in str(certificate)
    assert any(note.startswith("2 clusters have fewer than 20 records") for note in certificate.notes)
    failing = audit(KMeans(2, n_init=2, random_state=0).fit(frame), frame, policy)
    assert (
        failing.rule == "all"
        and not failing.holds
        and any("shoal.models.AnonymousClusters" in note for note in failing.notes)
    )


# Releases and files


def fitted() -> tuple[AnonymousClusters, pd.DataFrame, shoal.Policy]:
    frame = make_people(300).assign(name=[f"person-{i}" for i in range(300)])
    frame["born"] = [f"19{50 + i % 40}-0{1 + i % 9}-11" for i in range(300)]
    policy = shoal.Policy(
        identifiers=["name"],
        quasi={"age": "numeric", "born": "date", "risk": "categorical"},
        sensitive=["pay", "job"],
        require=[shoal.KAnonymity(10)],
    )
    return AnonymousClusters(policy).fit(frame), frame, policy


def test_a_release(tmp_path: Path) -> None:
    model, frame, policy = fitted()
    folder = model.release(tmp_path / "out")
    assert sorted(p.name for p in folder.iterdir()) == [
        "certificate.json",
        "model.json",
        "model.skops",
        "policy.yaml",
        "report.html",
    ]
    owner = tmp_path / "out.owner"
    assert sorted(p.name for p in owner.iterdir()) == ["ledger.json", "policy.yaml", "report.html", "spans.json"]
    if os.name == "posix":
        assert owner.stat().st_mode & 0o777 == 0o700
    for path in (folder, folder / "model.json", folder / "model.skops"):
        loaded = load_model(path)
        certificate = audit(loaded, frame, policy, rule="all")
        assert certificate.fits and certificate.publishable
        assert certificate.fingerprint == model.certificate_.fingerprint
    published = load_model(folder / "model.skops")
    assert published.predict(frame).tolist() == model.predict(frame).tolist() == model.labels_.tolist()
    assert load_model(folder).find_nearest(open_data(frame)).tolist() == model.labels_.tolist()
    assert published.export_text() == model.export_text()
    assert published.fit(frame) is published and pickle.loads(pickle.dumps(published)).predict(frame[:3]).shape == (3,)  # noqa: S301
    assert json.loads((folder / "model.json").read_text()) == model.to_dict()
    assert len(json.loads((owner / "spans.json").read_text())["spans"]) == len(model.certificate_.spans)


def test_public_files_have_no_spans_and_no_extreme_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "name": [f"person-{i}" for i in range(60)],
            "age": rng.integers(20, 60, 60),
            "pay": [*(rng.integers(1_000_000, 2_000_000, 58) / 1000).tolist(), 3_141.592, 271.828],
        }
    )
    policy = shoal.Policy(
        identifiers=["name"], quasi={"age": "numeric"}, sensitive=["pay"], require=[shoal.KAnonymity(5)]
    )
    folder = AnonymousClusters(policy).fit(frame).release(tmp_path / "out")
    text = "".join(p.read_text(errors="replace") for p in folder.iterdir())
    assert not any(name in text for name in frame["name"])
    assert not any(str(pay) in text for pay in frame["pay"])
    assert "cluster can" not in text and "Spans" not in text
    assert "cluster can" in (tmp_path / "out.owner" / "report.html").read_text()
    assert json.loads((folder / "model.json").read_text())["columns"]["pay"]["width"] < 1000  # of 2869.764
    certificate = json.loads((folder / "certificate.json").read_text())
    assert not {"spans", "certain", "confident", "entropy", "distinct", "single_records"} & set(certificate)
    assert all("worst_size" not in finding for finding in certificate["findings"])


def test_a_pickle_does_not_contain_the_spans_or_the_records() -> None:
    model, frame, _ = fitted()
    stored = pickle.dumps(model)
    assert not any(span.text.encode() in stored for span in model.certificate_.spans)
    assert b"person-" not in stored
    for other in (pickle.loads(stored), copy.deepcopy(model)):  # noqa: S301
        assert other.certificate_.spans == ()
        assert other.predict(frame).tolist() == model.labels_.tolist()
        with pytest.raises(shoal.DataError, match=r"no training records.*Fit it again"):
            other.release("never")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    folder = fitted()[0].release(tmp_path / "out")
    text = (folder / "model.json").read_text()
    for damaged in (
        text[:-20],
        text.replace('"squared"', '"cubic"'),
        text.replace('"records": ', '"records": -'),
        "{}",
    ):
        (folder / "model.json").write_text(damaged)
        with pytest.raises(shoal.DataError):
            load_model(folder)


JUNK: list[Any] = [
    *(None, True, -1, 0, 1, 10**400, 1.5, math.nan, math.inf, "", "x", "\ud800", "numeric", "2020-01-01", [], [[]], {}),
    *([None], [1, 2], {"x": 1}, {"taxonomy": "/etc/passwd"}, {"taxonomy": {"a": ["b"]}}, {"mask": "right"}),
    *({"date": ["day"]}, {"widths": [0]}, {"kind": "date"}),
]


def list_places(body: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    return [way, *(place for key, part in items for place in list_places(part, (*way, key)))]


def replace_at(body: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    copied = dict(body) if isinstance(body, dict) else list(body)
    copied[way[0]] = replace_at(copied[way[0]], way[1:], value)
    return copied


def test_damaged_content_is_refused_or_works() -> None:
    """Every value of the file is replaced by junk. Whatever is read can be written and applied."""
    model, frame, _ = fitted()
    content = model.to_dict()
    content["clusters"] = content["clusters"][:2]
    read = 0
    for way in list_places(content):
        for value in JUNK:
            try:
                damaged = ClusterModel.from_dict(replace_at(content, way, value))
            except shoal.DataError:
                continue
            read += 1
            damaged.export_text(), json.dumps(damaged.to_dict(), allow_nan=False)
            assert ClusterModel.from_dict(damaged.to_dict()) == damaged
            try:
                damaged.find_nearest(open_data(frame[:5]))
            except (shoal.DataError, shoal.PolicyError):
                continue
    assert read
    for key in content:
        with pytest.raises(shoal.DataError, match=key):
            ClusterModel.from_dict({name: value for name, value in content.items() if name != key})
    with pytest.raises(shoal.DataError, match="surplus"):
        ClusterModel.from_dict({**content, "surplus": 1})


@given(width=st.floats(1e-300, 1e300), mean=st.floats(0, 1))
def test_rounding_shows_few_digits(width: float, mean: float) -> None:
    rounded = round_up(width)
    assert width * (1 - 1e-9) <= rounded <= width * 1.1
    assert len(f"{rounded:e}".split("e")[0].rstrip("0")) <= 3  # a digit, a point, a digit
    center = round_center(mean * width, rounded, "numeric")
    assert abs(center - mean * width) <= rounded * 1e-4
    assert json.loads(json.dumps(center)) == center


# Requirements, kinds of columns


def test_l_diversity() -> None:
    frame = make_people(120, seed=3)
    for requirement in (shoal.LDiversity(3, of="job"), shoal.LDiversity(2.5, of="job", kind="entropy")):
        policy = PAY.model_copy(update={"require": (shoal.KAnonymity(3), requirement)})
        model = AnonymousClusters(policy).fit(frame)
        spans = list_spans(model, frame, policy)
        for span in set(spans):
            jobs = frame["job"][[own == span for own in spans]].value_counts(normalize=True)
            reached = len(jobs) if requirement.kind == "distinct" else math.exp(-(jobs * np.log(jobs)).sum())
            assert reached >= requirement.l
        assert len(model.cluster_model_.centers) > 1


def test_requirements_for_attackers_who_know_some_columns() -> None:
    frame = make_people(150, seed=4)
    policy = shoal.Policy(
        quasi={"age": "numeric", "risk": "categorical"},
        sensitive=["pay"],
        require=[shoal.KAnonymity(20, on=["risk"]), shoal.KAnonymity(2)],
    )
    model = AnonymousClusters(policy).fit(frame)
    for known, k in ((["risk"], 20), (["age", "risk"], 2)):
        spans = list_spans(model, frame, policy, known)
        assert min(spans.count(span) for span in spans) >= k
    assert audit(model, frame, policy, rule="all").holds


def test_people_with_several_records() -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"person": np.repeat(np.arange(30), 4), "age": np.repeat(rng.integers(20, 60, 30), 4)})
    frame["pay"] = rng.integers(0, 100, 120)
    policy = shoal.Policy(
        quasi={"age": "numeric"},
        sensitive=["pay"],
        unit={"column": "person", "pseudonym": False, "knows": "record"},
        require=[shoal.KAnonymity(3)],
    )
    model = AnonymousClusters(policy).fit(frame)
    spans = pd.Series([tuple(sorted(span)) for span in list_spans(model, frame, policy)])
    assert frame["person"].groupby(spans).nunique().min() >= 3
    assert model.certificate_.people == 30


def test_the_members_of_a_cluster_are_people() -> None:
    """Six records of one person do not make a cluster: its centroid would show the values of this person."""
    frame = pd.DataFrame({"person": [*range(9), *[99] * 6], "age": 30, "pay": [*range(9), *range(1000, 1006)]})
    unit = {"column": "person", "pseudonym": False, "knows": "record"}
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["pay"], unit=unit, require=[shoal.KAnonymity(3)])
    model = AnonymousClusters(policy, least_members=3).fit(frame)
    assert frame["person"].groupby(model.labels_).nunique().min() >= 3
    paper = AnonymousClusters(policy, least_members=1, max_clusters=2).fit(frame)
    assert group(frame.assign(name=[*"abcdefghi", *"x" * 6]), paper.labels_) == ["abcdefghi", "xxxxxx"]
    (note,) = paper.certificate_.notes
    assert note.startswith("2 clusters have fewer than 20 people")
    alone = AnonymousClusters(policy.model_copy(update={"unit": None}), least_members=3).fit(frame)
    assert frame["person"].groupby(alone.labels_).nunique().min() == 1


def test_a_person_with_many_records_has_the_weight_of_one() -> None:
    frame = pd.DataFrame({"person": [*range(40), *[99] * 200], "age": 30, "pay": [100] * 40 + [90_000] * 200})
    unit = {"column": "person", "pseudonym": False, "knows": "record"}
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["pay"], unit=unit, require=[shoal.KAnonymity(3)])
    (center,) = AnonymousClusters(policy).fit(frame).cluster_model_.centers
    assert center["pay"] == pytest.approx((40 * 100 + 90_000) / 41, rel=0.01)


def test_dates_taxonomies_and_missing_categories() -> None:
    frame = pd.DataFrame(
        {
            "born": ["1950-01-01", "1950-02-01", "1951-01-01", "1990-01-01", "1991-01-01", "1992-01-01"] * 2,
            "job": ["clerk", "boss", None, "farmer", "farmer", None] * 2,
            "ill": ["flu", None, "flu", "cold", "cold", "cold"] * 2,
        }
    )
    tree = {"ANY": {"Office": ["clerk", "boss"], "Field": ["farmer", "fisher"]}}
    policy = shoal.Policy(
        quasi={"born": "date", "job": {"taxonomy": tree}}, sensitive=["ill"], require=[shoal.KAnonymity(2)]
    )
    for distance in ("squared", "mixed"):
        model = AnonymousClusters(policy, distance=distance, least_members=2, max_clusters=2).fit(frame)
        assert group(frame.assign(name=[*"abcdef"] * 2), model.labels_) == ["abcabc", "defdef"]
        centers = [c["center"] for c in model.to_dict()["clusters"]]
        assert sorted(c["born"] for c in centers) == ["1950-05-13", "1991-01-01"]
        assert {c["ill"] for c in centers} == {"flu", "cold"}
        assert ClusterModel.from_dict(json.loads(json.dumps(model.to_dict()))) == model.cluster_model_
        assert "born 1991-01-01" in model.export_text()
        later = pd.DataFrame({"born": ["1989-05-05", "1949-01-01"], "job": ["fisher", "pilot"], "ill": [None, "new"]})
        near, far = model.predict(later)
        assert (near, far) == (model.labels_[3], model.labels_[0])


def test_a_missing_category_is_the_center_of_its_cluster() -> None:
    frame = pd.DataFrame({"age": [20, 20, 20, 60, 60, 60], "job": [None, None, None, "a", "a", "a"]})
    policy = shoal.Policy(quasi={"age": "numeric", "job": "categorical"}, require=[shoal.KAnonymity(3)])
    model = AnonymousClusters(policy).fit(frame)
    assert [c["center"]["job"] for c in model.to_dict()["clusters"]] in ([None, "a"], ["a", None])
    assert "job missing" in model.export_text()
    assert ClusterModel.from_dict(model.to_dict()) == model.cluster_model_


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_any_library_and_files(library: str, tmp_path: Path) -> None:
    frame, policy = make_people(), make_policy(4, ("pay",), quasi={"age": "numeric", "job": "categorical"})
    expected = AnonymousClusters(policy).fit(frame)
    given = {
        "pandas": lambda: frame.set_index(pd.Index([7] * len(frame))),
        "polars": lambda: pytest.importorskip("polars").from_pandas(frame),
        "pyarrow": lambda: pytest.importorskip("pyarrow").Table.from_pandas(frame),
    }[library]()
    assert AnonymousClusters(policy).fit(given).to_dict() == expected.to_dict()
    frame.to_csv(tmp_path / "people.csv", index=False)
    assert AnonymousClusters(policy).fit(tmp_path / "people.csv").to_dict() == expected.to_dict()


def test_more_privacy_never_gives_more_clusters_than_records_allow() -> None:
    frame = make_people()
    for k in (2, 10, 50, 200):
        model = AnonymousClusters(PAY, k=k).fit(frame)
        assert len(model.cluster_model_.centers) <= 200 // max(k, 5)
        assert model.certificate_.smallest >= k


def test_progress_is_reported() -> None:
    frame, policy = make_results()
    seen: list[tuple[str, int, int]] = []
    AnonymousClusters(policy).fit(frame, progress=lambda *step: seen.append(step))
    assert seen[0] == ("clustering", 0, 6) and seen[-1] == ("clustering", 6, 6)


def test_without_a_policy_all_columns_are_public_numbers() -> None:
    points = np.array([[1.0, 5], [2, 5], [3, 5], [11, 5], [12, 5], [13, 5]])
    model = AnonymousClusters(k=3).fit(points)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert model.export_text().splitlines()[0] == "cluster 0 (3 records): x0 2, x1 5"
    assert any("by default" in n for n in AnonymousClusters().fit(points).certificate_.notes)
    with pytest.raises(NotFittedError):
        AnonymousClusters().predict(points)


# Wrong input


def with_policy(**changes: Any) -> AnonymousClusters:
    return AnonymousClusters(make_policy(2, ("pay",), **changes))


def small() -> pd.DataFrame:
    return pd.DataFrame({"age": [20, 30, 40, 50], "sex": list("ffmm"), "pay": [1.0, 2, 3, 4], "rent": [5.0, 6, 7, 8]})


WRONG: dict[str, tuple[AnonymousClusters, Any, type[Exception], str]] = {
    "missing number": (
        with_policy(),
        small().assign(age=[20, None, 40, 50]),
        shoal.DataError,
        "column 'age' has missing numbers, which have no distance to a centroid. Fill them",
    ),
    "missing private number": (
        with_policy(),
        small().assign(pay=[1.0, None, 3.0, 4.0]),
        shoal.DataError,
        "column 'pay' has missing numbers.*Fill them",
    ),
    "k above the table": (
        AnonymousClusters(make_policy(5, ("pay",))),
        small(),
        shoal.PolicyError,
        "at least 5 records, but the table has 4; lower the requirement, or add records",
    ),
    "k above the people": (
        AnonymousClusters(
            make_policy(
                3, ("pay",), unit={"column": "sex", "pseudonym": False, "knows": "record"}, quasi={"age": "numeric"}
            )
        ),
        small(),
        shoal.RequirementNotMet,
        r"not even one cluster meets the requirements.*4 records.*Weaken",
    ),
    "k above an array": (AnonymousClusters(k=5), small()[["age"]], ValueError, "not even one cluster"),
    "two private numbers": (
        AnonymousClusters(make_policy(2, ("pay", "rent")), distance="mixed"),
        small(),
        shoal.PolicyError,
        "supports one private column of numbers, and the policy has 2: pay, rent. Use distance='squared'",
    ),
    "rule": (
        AnonymousClusters(make_policy(2, ("pay",)), rule="some"),
        small(),
        shoal.PolicyError,
        "unknown value 'some' for 'rule'; choose from 'claim3', 'all'",
    ),
    "distance": (
        AnonymousClusters(make_policy(2, ("pay",)), distance="cubic"),
        small(),
        shoal.PolicyError,
        "distance.*squared.*mixed",
    ),
    "refusals": (
        AnonymousClusters(make_policy(2, ("pay",)), max_refusals=0),
        small(),
        shoal.PolicyError,
        "max_refusals",
    ),
    "clusters": (
        AnonymousClusters(make_policy(2, ("pay",)), max_clusters=0),
        small(),
        shoal.PolicyError,
        "max_clusters",
    ),
    "members": (
        AnonymousClusters(make_policy(2, ("pay",)), least_members=0),
        small(),
        shoal.PolicyError,
        "least_members",
    ),
    "k": (AnonymousClusters(k=0), small()[["age"]], shoal.PolicyError, "k"),
    "no requirement": (with_policy(require=[]), small(), shoal.PolicyError, "no requirement; choose from"),
    "no column": (
        AnonymousClusters(shoal.Policy(target="age", require=[shoal.KAnonymity(2)])),
        small(),
        shoal.PolicyError,
        "no quasi-identifier; list under 'quasi:'",
    ),
    "absent column": (with_policy(), small().drop(columns="age"), shoal.ShoalError, "'age'"),
    "no record": (with_policy(), small()[:0], shoal.DataError, "the table is empty; pass a table"),
    "text for a number": (with_policy(), small().assign(age=list("abcd")), shoal.DataError, "'age'"),
    "no frame": (with_policy(), [1, 2], shoal.DataError, "Pass a pandas, polars or pyarrow frame"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name: str) -> None:
    model, frame, kind, text = WRONG[name]
    with pytest.raises(kind, match=text):
        model.fit(frame)


def test_too_many_texts_and_records(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"age": range(1200), "name": [f"n{i}" for i in range(1200)]})
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["name"], require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.DataError, match="nearly all texts of the private column 'name' occur once"):
        AnonymousClusters(policy).fit(frame)
    twice = pd.concat([frame, frame])
    with pytest.raises(shoal.DataError, match=r"'name' has 1,200 different texts; clusters support 1,000. Remove"):
        AnonymousClusters(policy).fit(twice)
    monkeypatch.setattr("shoal.models.clusters.MOST_RECORDS", 100)
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.DataError, match=r"1,200 different records; clusters support 100.*Take a sample"):
        AnonymousClusters(policy).fit(frame)


def test_later_records_without_a_number_are_refused() -> None:
    model = with_policy().fit(small())
    with pytest.raises(shoal.DataError, match="column 'pay' has missing numbers"):
        model.predict(small().assign(pay=None))
    with pytest.raises(shoal.DataError, match="lacks columns that the model uses: 'sex'"):
        model.predict(small().drop(columns="sex"))


def test_the_audit_of_a_model_that_is_not_fitted() -> None:
    with pytest.raises(shoal.DataError, match="AnonymousClusters is not fitted"):
        audit(AnonymousClusters(), small(), make_policy(2, ("pay",)))
    model = with_policy().fit(small())
    with pytest.raises(shoal.PolicyError, match="'pay'"):
        audit(model, small(), make_policy(2, ()))
