"""`AnonymousTree` as an estimator of scikit-learn, and the published tree: text, JSON, picture."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import shoal
from shoal.datasets import papers
from shoal.encoding.attributes import Attribute
from shoal.formats.dates import format_date, parse_date
from shoal.mining.tree_model import TreeModel, find_round_number
from shoal.models import AnonymousTree
from shoal.models.tree_picture import TreePicture

# Nothing is expected to fail. `fit` has no parameter `sample_weight`: a weight is not a number of people.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks([AnonymousTree(k=2)], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


LARGEST = float(np.finfo(float).max)


def parse_xml(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314


def make_numbers(rows: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    features = rng.integers(0, 20, (rows, 3)).astype(float)
    return features, np.where(features[:, 0] + features[:, 1] > 18, "high", "low")


def policy_of(**changes: Any) -> shoal.Policy:
    given = {
        "quasi": {"age": "numeric", "job": {"taxonomy": {"ANY": {"Office": ["clerk", "boss"], "Field": ["farmer"]}}}},
        "sensitive": ["rent"],
        "target": "risk",
        "require": [shoal.KAnonymity(2)],
    }
    return shoal.Policy(**(given | changes))


def make_people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 22, 25, 41, 45, 47, 60, 61, 62, None, 33, 34],
            "job": [
                "clerk",
                "clerk",
                "boss",
                "farmer",
                "farmer",
                "clerk",
                "boss",
                "boss",
                None,
                "clerk",
                "farmer",
                "boss",
            ],
            "rent": [5, 5, 6, 6, 7, 7, 8, 8, 9, 9, None, 5],
            "risk": list("ggggbbbbbgbg"),
        }
    )


def test_cross_validation_and_grid_search_over_k() -> None:
    features, y = make_numbers()
    assert cross_val_score(AnonymousTree(k=3), features, y, cv=3).mean() > 0.7
    search = GridSearchCV(AnonymousTree(), {"k": [2, 5, 40], "criterion": ["gain", "gini"]}, cv=3).fit(features, y)
    assert search.best_params_["k"] in (2, 5)
    assert search.best_estimator_.certificate_.smallest >= search.best_params_["k"]


def test_cross_validation_with_a_policy_and_a_frame() -> None:
    frame = pd.concat([make_people()] * 3, ignore_index=True)
    folds = StratifiedKFold(3)
    features = frame.drop(columns="risk")
    scores = cross_val_score(AnonymousTree(policy_of()), features, frame["risk"], cv=folds)
    assert len(scores) == 3 and np.isfinite(scores).all()
    assert len(cross_val_predict(AnonymousTree(policy_of(), k=3), features, frame["risk"], cv=folds)) == len(frame)


def test_the_last_step_of_a_pipeline() -> None:
    features, y = make_numbers()
    model = make_pipeline(StandardScaler(), AnonymousTree(k=4)).fit(features, y)
    assert model.score(features, y) > 0.8
    assert model[-1].certificate_.smallest >= 4


def test_predictions_of_unseen_categories_and_missing_values() -> None:
    tree = AnonymousTree(policy_of(), k=1).fit(make_people())
    later = pd.DataFrame({"age": [None, 1e9, -5.0], "job": ["pilot", None, "clerk"], "rent": ["none", None, "5"]})
    later["rent"] = later["rent"].replace("none", None)
    shares = tree.predict_proba(later)
    assert shares.shape == (3, 2)
    assert np.allclose(shares.sum(axis=1), 1.0)
    assert set(tree.predict(later)) <= {"g", "b"}


def test_an_unseen_category_gets_the_shares_of_its_node() -> None:
    frame = pd.DataFrame({"sex": list("ffffmmmm"), "risk": list("gggbbbbb")})
    policy = shoal.Policy(quasi={"sex": "categorical"}, target="risk", require=[shoal.KAnonymity(2)])
    tree = AnonymousTree(policy).fit(frame)
    assert tree.predict_proba(pd.DataFrame({"sex": ["f", "m", "x", None]})).tolist() == [
        [0.25, 0.75],
        [1.0, 0.0],
        [0.625, 0.375],
        [0.625, 0.375],
    ]


def test_missing_numbers_have_a_branch_of_their_own() -> None:
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0, None, None, None], "risk": list("gggbbb")})
    policy = shoal.Policy(quasi={"age": "numeric"}, target="risk", require=[shoal.KAnonymity(3)])
    tree = AnonymousTree(policy).fit(frame)
    assert tree.export_text() == "all records\n|-- age is not missing: g 3\n|-- age is missing: b 3\n"
    assert tree.predict(frame).tolist() == list("gggbbb")
    assert sorted(span.size for span in shoal.models.audit(tree, frame, policy).spans) == [3, 3]
    assert TreeModel.from_dict(tree.to_dict()).export_text() == tree.export_text()


def test_moments_within_a_second_go_to_their_leaf() -> None:
    moments = ["2020-01-01T00:00:00.2", "2020-01-01T00:00:00.7", "2020-01-01T00:00:01", "2020-01-01T00:00:01.000001"]
    policy = shoal.Policy(quasi={"seen": "date"}, target="risk", require=[shoal.KAnonymity(1)])
    for classes in ("gbbb", "ggbb", "gggb", "gbgb"):
        frame = pd.DataFrame({"seen": moments, "risk": list(classes)})
        tree = AnonymousTree(policy).fit(frame)
        assert tree.predict(frame).tolist() == list(classes)
        assert TreeModel.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree.tree_model_


@pytest.mark.parametrize(
    "texts", [["1", "1.0", "01", "2", "inf", "nan"], [str(2**60), str(2**60 + 1), "3", "4", "5", "6"], list("abc123")]
)
def test_private_texts_that_no_cut_separates_are_categories(texts: list[str]) -> None:
    frame = pd.DataFrame({"rent": pd.Series(texts, dtype="str"), "risk": list("gbgbgb")})
    frame["sex"] = "f"
    policy = shoal.Policy(
        quasi={"sex": "categorical"}, sensitive=["rent"], target="risk", require=[shoal.KAnonymity(6)]
    )
    tree = AnonymousTree(policy).fit(frame)
    counts = pd.crosstab(tree.apply(frame), frame["risk"])
    for n, row in counts.iterrows():
        assert tree.to_dict()["nodes"][int(str(n))]["leaf"] == [int(row["b"]), int(row["g"])]
    assert tree.predict(frame).tolist() == frame["risk"].tolist()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("values", [[1.0, 0.0], [1, 0], [True, False], [1234567.0, 0.5e7], [2**60, 2**60 + 1]])
@pytest.mark.parametrize("role", ["private", "categorical", "numeric"])
def test_classes_of_any_type_are_audited_again(values: list[Any], role: str, kind: str) -> None:
    frame = make_people()[["age", "risk"]]
    frame["risk"] = [values[r == "g"] for r in frame["risk"]]
    if role == "numeric" and isinstance(values[0], bool):
        pytest.skip("true and false are no numbers")
    known = {} if role == "private" else {"risk": role}
    policy = policy_of(quasi={"age": "numeric", **known}, sensitive=())
    given = frame if kind == "pandas" else pytest.importorskip("polars").from_pandas(frame)
    tree = AnonymousTree(policy).fit(given)
    again = shoal.models.audit(tree, given, policy)
    assert again.to_private_dict() == tree.certificate_.to_private_dict()
    assert sorted(tree.classes_.tolist()) == sorted(values)
    assert set(tree.predict(given).tolist()) <= set(values)


def test_a_normalized_target_and_a_normalized_private_column() -> None:
    frame = pd.DataFrame(
        {"age": [1, 2, 3, 4], "job": ["Boss", "BOSS ", "clerk", "Clerk"], "risk": ["B", "b", "g", "G"]}
    )
    policy = shoal.Policy(
        quasi={"age": "numeric"},
        sensitive=["job"],
        target="risk",
        normalize=["job", "risk"],
        require=[shoal.KAnonymity(4)],
    )
    tree = AnonymousTree(policy).fit(frame)
    assert tree.classes_.tolist() == ["b", "g"]
    assert tree.predict(frame).tolist() == ["b", "b", "g", "g"]
    assert shoal.models.audit(tree, frame, policy).holds
    again = TreeModel.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert shoal.models.audit(again, frame, policy).to_dict() == tree.certificate_.to_dict()


def test_a_pickle_does_not_contain_the_spans_or_the_records() -> None:
    frame = papers.borrowers(kind="pandas")
    tree = AnonymousTree(papers.borrowers_policy(3)).fit(frame)
    stored = pickle.dumps(tree)
    for span in tree.certificate_.spans:
        assert span.text.encode() not in stored
        assert all(cell.leaf.encode() not in stored for cell in span.cells)
    assert not any(name.encode() in stored for name in frame["Name"])
    for other in (pickle.loads(stored), copy.deepcopy(tree)):  # noqa: S301
        assert other.certificate_.spans == ()
        assert other.predict(frame).tolist() == tree.predict(frame).tolist()
        assert other.export_text() == tree.export_text()
    assert tree.certificate_.spans
    fresh = clone(tree)
    assert not hasattr(fresh, "certificate_")
    assert fresh.fit(frame).to_dict() == tree.to_dict()


def test_the_public_certificate_has_no_spans() -> None:
    tree = AnonymousTree(papers.borrowers_policy(3)).fit(papers.borrowers())
    text = json.dumps(tree.certificate_.to_dict(), allow_nan=False)
    assert "Married" not in text and "spans" not in tree.certificate_.to_dict()
    assert tree.certificate_.public().spans == ()
    json.dumps(tree.certificate_.to_private_dict(), allow_nan=False)


def test_k_and_the_policy_add_up() -> None:
    frame = make_people()
    assert AnonymousTree(policy_of(), k=6).fit(frame).certificate_.smallest >= 6
    assert AnonymousTree(policy_of(require=[]), k=4).fit(frame).certificate_.smallest >= 4


def test_a_policy_may_be_a_mapping_or_a_file(tmp_path: Any) -> None:
    policy = policy_of()
    (tmp_path / "policy.yaml").write_text(policy.to_yaml(), encoding="utf-8")
    expected = AnonymousTree(policy).fit(make_people()).to_dict()
    assert AnonymousTree(str(tmp_path / "policy.yaml")).fit(make_people()).to_dict() == expected
    assert AnonymousTree(policy.to_dict()).fit(make_people()).to_dict() == expected


def test_not_fitted() -> None:
    for call in ("export_text", "to_dict", "plot"):
        with pytest.raises(NotFittedError):
            getattr(AnonymousTree(), call)()


def test_a_deep_tree_is_written_and_drawn() -> None:
    tree = TreeModel.from_dict(make_chain(3_000))
    lines = tree.export_text().splitlines()
    assert len(lines) == 6_001 and lines[0] == "all records"
    assert "more leaves" in TreePicture(tree).svg
    parse_xml(TreePicture(tree).svg)


def make_chain(length: int) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for i in range(length):
        nodes += [{"column": "x", "at_most": i, "children": [2 * i + 1, 2 * i + 2]}, {"leaf": [1, 0]}]
    return {
        "format": "shoal-tree",
        "version": 1,
        "target": "y",
        "classes": ["a", "b"],
        "populations": "bins",
        "missing": [""],
        "columns": {"x": {"values": "numeric", "public": True}},
        "nodes": [*nodes, {"leaf": [0, 1]}],
    }


@pytest.mark.parametrize("populations", ["bins", "frequencies", "majority"])
def test_the_picture_is_valid_xml(populations: str, tmp_path: Any) -> None:
    hostile = '<script>&"]]>'
    frame = pd.DataFrame({hostile: [f"{hostile}{i % 2}" for i in range(8)], "b\x07": [f"c<{i % 2}&" for i in range(8)]})
    policy = shoal.Policy(quasi={hostile: "categorical"}, target=frame.columns[1], require=[shoal.KAnonymity(2)])
    tree = AnonymousTree(policy, populations=populations).fit(frame)
    picture = tree.plot()
    root = parse_xml(picture.svg)
    assert hostile in "".join(root.itertext())
    assert root.find(".//{*}script") is None
    saved = picture.save(tmp_path / "tree.svg")
    assert saved.read_text(encoding="utf-8") == picture.svg
    with pytest.raises(shoal.EngineError, match="cannot write"):
        picture.save(tmp_path / "no" / "folder.svg")


floats = st.floats(allow_nan=False, allow_infinity=False)


@example(pair=(-LARGEST, LARGEST))
@example(pair=(0.0, 5e-324))
@example(pair=(5e-324, 1e-323))
@example(pair=(-5e-324, 0.0))
@example(pair=(1.0, math.nextafter(1.0, 2.0)))
@given(pair=st.tuples(floats, floats).filter(lambda p: p[0] != p[1]))
def test_a_round_cut_separates_its_two_numbers(pair: tuple[float, float]) -> None:
    low, high = sorted(pair)
    cut = find_round_number(Attribute("x", "numeric", np.array([low, high]), None, 1.0), 0)
    assert low <= cut < high
    assert json.loads(json.dumps(cut)) == cut


@given(first=st.integers(-6 * 10**16, 2 * 10**17), gap=st.sampled_from([1, 999, 10**6, 86_400 * 10**6, 10**15]))
def test_a_round_date_separates_its_two_moments(first: int, gap: int) -> None:
    low, high = first / 1e6, (first + gap) / 1e6
    assume(low < high)  # moments of a distant year that are one number are one value
    cut = find_round_number(Attribute("x", "date", np.array([low, high]), None, 1.0), 0)
    assert low <= cut < high
    day = parse_date(format_date(math.nextafter(cut, math.inf)))
    assert day is not None and low < day <= high


def test_numbers_of_any_size() -> None:
    public = [-1e150, -1e100, -5e-324, 0.0, 5e-324, 1e-300, 1e100, 1e150]
    private = [-LARGEST, -1e300, -5e-324, 0.0, 5e-324, 1e-300, 1e300, LARGEST]
    frame = pd.DataFrame({"x": public * 2, "z": private * 2, "y": list("ababbaba") * 2})
    for name in ("x", "z"):
        other = "z" if name == "x" else "x"
        policy = shoal.Policy(quasi={"x": "numeric"}, sensitive=["z"], target="y", require=[shoal.KAnonymity(2)])
        tree = AnonymousTree(policy).fit(frame.assign(**{other: 1.0}))
        assert tree.predict(frame).tolist() == frame["y"].tolist()
        assert TreeModel.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree.tree_model_


JUNK: list[Any] = [
    *(None, True, -1, 0, 1, 10**400, 1.5, math.nan, math.inf, "", "x", "\ud800", "numeric", "2020-01-01", [], [[]], {}),
    *([None], ["g", "g"], [1, 2], [2, 1], [0], {"x": 1}, {"leaf": []}, {"leaf": [1, 2]}, {"taxonomy": "/etc/passwd"}),
    *({"taxonomy": {"a": ["b"]}}, {"mask": "right"}, {"date": ["day"]}, {"widths": [0]}, {"kind": "date"}),
]


def places_of(body: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [way]
    if isinstance(body, dict):
        for key, part in body.items():
            found += places_of(part, (*way, key))
    elif isinstance(body, list):
        for i, part in enumerate(body):
            found += places_of(part, (*way, i))
    return found


def replace_at(body: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    copied = dict(body) if isinstance(body, dict) else list(body)
    copied[way[0]] = replace_at(copied[way[0]], way[1:], value)
    return copied


def publish_tree(populations: str = "bins") -> dict[str, Any]:
    people = make_people().assign(born=["1990-01-01", "1991-02-03"] * 6)
    policy = policy_of(quasi={**policy_of().quasi, "born": "date"}, require=[shoal.KAnonymity(1)])
    return AnonymousTree(policy, populations=populations).fit(people).to_dict()


@pytest.mark.parametrize("populations", ["bins", "frequencies", "majority"])
def test_a_damaged_tree_is_refused_or_works(populations: str) -> None:
    """Every value of a published tree is replaced by junk. Whatever is read can be written, drawn and applied."""
    tree = publish_tree(populations)
    people = make_people().assign(born="1990-05-05")
    read = 0
    for way in places_of(tree):
        for value in JUNK:
            try:
                damaged = TreeModel.from_dict(replace_at(tree, way, value))
            except shoal.DataError:
                continue
            read += 1
            parse_xml(TreePicture(damaged).svg)
            damaged.export_text(), json.dumps(damaged.to_dict(), allow_nan=False)
            assert TreeModel.from_dict(damaged.to_dict()) == damaged
            try:
                damaged.find_nodes(shoal.engines.open_data(people))
            except (shoal.DataError, shoal.PolicyError):
                continue
    assert read


@pytest.mark.parametrize("content", [None, 5, "tree", [], [1], {"format": "shoal-tree"}, {1: 2}])
def test_other_content_is_no_tree(content: Any) -> None:
    with pytest.raises(shoal.DataError):
        TreeModel.from_dict(content)


def test_keys_that_are_missing_or_surplus_are_named() -> None:
    tree = publish_tree()
    for key in tree:
        with pytest.raises(shoal.DataError, match=key):
            TreeModel.from_dict({name: value for name, value in tree.items() if name != key})
    with pytest.raises(shoal.DataError, match="surplus"):
        TreeModel.from_dict({**tree, "surplus": 1})
