"""Decision trees: fits on Adult, and on one million rows against scikit-learn; audits of forests; minimized inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import shoal
from benchmarks.blowup import blow_up
from benchmarks.cases import adult_rows, measure_time
from shoal.models import AnonymousClusters, AnonymousTree

TARGET = "income"
SCALE, DRAWN = 22, 1_000_000
KEEP = 0.98
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
TEXTS = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country")
MINIMIZED = {"inputs": (*NUMBERS, *TEXTS), "numbers": NUMBERS}


def build_policy(k: int) -> shoal.Policy:
    """Return the policy in which the eight categorical attributes are public, and the class is private."""
    quasi = {name: {"taxonomy": tree} for name, tree in shoal.datasets.adult_taxonomies().items()}
    return shoal.Policy(quasi=quasi, sensitive=[TARGET], target=TARGET, require=[shoal.KAnonymity(k)])


def fit_tree(frame: pd.DataFrame, k: int) -> AnonymousTree:
    """Encode the rows, grow the tree and audit it."""
    return AnonymousTree(build_policy(k)).fit(frame)


def draw_rows() -> pd.DataFrame:
    """Return one million rows of Adult, drawn with replacement."""
    frame = adult_rows()
    return frame.iloc[np.random.default_rng(0).integers(len(frame), size=DRAWN)].reset_index(drop=True)


def vary_rows() -> pd.DataFrame:
    """Return the blow-up of the eight attributes: 994,884 rows; the class is not varied."""
    whole = shoal.datasets.adult("all", drop_missing=True, kind="pandas")
    names = list(build_policy(1).quasi)
    frame = pd.DataFrame(blow_up({name: whole[name].to_numpy() for name in names}, SCALE, 0))
    return frame.assign(**{TARGET: np.tile(whole[TARGET].to_numpy(), SCALE)})


TABLES = {"bootstrap": draw_rows, "blow-up": vary_rows}


def fit_adult(k: int) -> dict[str, float]:
    """Fit a tree to 30,162 rows of Adult."""
    frame = adult_rows()
    fit_tree(frame, k)  # compiles the kernels
    tree, wall, cpu = measure_time(lambda: fit_tree(frame, k), runs=5)
    return {"wall": wall, "cpu": cpu, "leaves": len(tree.tree_model_.leaves), "smallest": tree.certificate_.smallest}


def fit_million(table: str, k: int, runs: int = 3) -> dict[str, float]:
    """Fit a tree to one million rows, and scikit-learn's tree with leaves of at least k rows to their ordinal codes."""
    fit_tree(adult_rows(), k)  # compiles the kernels
    frame = TABLES[table]()[[*build_policy(k).quasi, TARGET]]
    codes = OrdinalEncoder(dtype=np.float32).fit_transform(frame.drop(columns=TARGET))
    classes = (frame[TARGET] == ">50K").to_numpy()
    found = {"rows": len(frame), "wall": math.inf, "cpu": math.inf, "peer_wall": math.inf, "peer_cpu": math.inf}
    for _ in range(runs):  # in turn, so that a busy moment affects both
        tree, wall, cpu = measure_time(lambda: fit_tree(frame, k))
        found["wall"], found["cpu"] = min(found["wall"], wall), min(found["cpu"], cpu)
        peer = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=k, random_state=0)
        peer, wall, cpu = measure_time(lambda p=peer: p.fit(codes, classes))
        found["peer_wall"], found["peer_cpu"] = min(found["peer_wall"], wall), min(found["peer_cpu"], cpu)
    return found | {"leaves": len(tree.tree_model_.leaves), "peer_leaves": int(peer.get_n_leaves())}


def audit_forest(k: int) -> dict[str, float]:
    """Audit a forest of 100 trees on 30,162 rows of Adult, with two private columns, and distil a tree from it."""
    frame = adult_rows()
    policy = build_forest_policy(k)
    columns = [name for name in (*policy.quasi, *policy.sensitive) if name != TARGET]
    texts = [name for name in columns if frame[name].dtype.kind not in "if"]
    encoder = make_column_transformer((OrdinalEncoder(), texts), remainder="passthrough")
    forest = RandomForestClassifier(100, random_state=0, n_jobs=2)
    model = make_pipeline(encoder, forest).fit(frame[columns], frame[TARGET])
    shoal.models.audit(model, frame, policy)  # compiles the kernels
    shoal.models.distill(model, frame, policy)
    found, wall, cpu = measure_time(lambda: shoal.models.audit(model, frame, policy), runs=3)
    tree, distilled, _ = measure_time(lambda: shoal.models.distill(model, frame, policy), runs=3)
    _, predicted, _ = measure_time(lambda: model.predict(frame[columns]), runs=3)
    return {
        "wall": wall,
        "cpu": cpu,
        "nodes": sum(t.tree_.node_count for t in forest.estimators_),
        "smallest": found.smallest,
        "distilled": distilled,
        "predicted": predicted,
        "fidelity": tree.fidelity_,
    }


def build_forest_policy(k: int) -> shoal.Policy:
    """Return a policy with seven public columns, of which two are numbers, and two private ones."""
    public = ("workclass", "education", "marital-status", "occupation", "race")
    trees = shoal.datasets.adult_taxonomies()
    quasi = {name: {"taxonomy": trees[name]} for name in public}
    return shoal.Policy(
        quasi={**quasi, "age": "numeric", "hours-per-week": "numeric"},
        sensitive=["capital-gain", "relationship"],
        target=TARGET,
        require=[shoal.KAnonymity(k)],
    )


def minimize_inputs(columns: Sequence[str], *, agreement: bool) -> dict[str, float]:
    """Minimize the inputs of a gradient boosting model on the test rows, at 98 % of its accuracy or agreement."""
    train, test = (shoal.datasets.adult(part, drop_missing=True, kind="pandas") for part in ("train", "test"))
    trees = shoal.datasets.adult_taxonomies()
    texts = [name for name in columns if name in trees]
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), texts), remainder="passthrough")
    model = make_pipeline(encoder, GradientBoostingClassifier(random_state=0)).fit(train[list(columns)], train[TARGET])
    quasi = {name: {"taxonomy": trees[name]} if name in trees else "numeric" for name in columns}
    policy = shoal.Policy(quasi=quasi, target=None if agreement else TARGET)
    shoal.models.minimize(model, test, policy, KEEP)  # compiles the kernels
    found, wall, cpu = measure_time(lambda: shoal.models.minimize(model, test, policy, KEEP), runs=3)
    _, predicted, _ = measure_time(lambda: model.predict(test[list(columns)]), runs=3)
    return {
        "wall": wall,
        "cpu": cpu,
        "kept": found.kept,
        "loss": found.loss,
        "not_needed": len(found.not_needed),
        "rows": len(test),
        "predicted": predicted,
    }


def audit_centroids(k: int) -> dict[str, float]:
    """Audit a k-means model with eight centroids on 30,162 rows of Adult, with two private columns."""
    frame = adult_rows()
    private = ["capital-gain", "hours-per-week"]
    columns = ["age", "education-num", "capital-loss", "sex", "marital-status", *private]
    texts = [name for name in columns if frame[name].dtype.kind not in "if"]
    numbers = [name for name in columns if name not in texts]
    encoder = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), texts))
    model = make_pipeline(encoder, KMeans(8, n_init=1, random_state=0)).fit(frame[columns])
    kinds = {name: "categorical" if name in texts else "numeric" for name in columns if name not in private}
    policy = shoal.Policy(quasi=kinds, sensitive=private, require=[shoal.KAnonymity(k)])
    shoal.models.audit(model, frame, policy)  # compiles the kernels
    found, wall, cpu = measure_time(lambda: shoal.models.audit(model, frame, policy), runs=3)
    return {"wall": wall, "cpu": cpu, "smallest": found.smallest, "spans": found.groups, "rows": len(frame)}


def fit_clusters(k: int) -> dict[str, float]:
    """Find anonymous clusters of 10,000 rows of Adult, with two private columns."""
    frame = adult_rows().head(10_000)
    quasi = {"age": "numeric", "education-num": "numeric", "sex": "categorical", "marital-status": "categorical"}
    policy = shoal.Policy(quasi=quasi, sensitive=["hours-per-week", "occupation"], require=[shoal.KAnonymity(k)])
    AnonymousClusters(policy).fit(frame.head(100))  # compiles the kernels
    found, wall, cpu = measure_time(lambda: AnonymousClusters(policy).fit(frame))
    return {"wall": wall, "cpu": cpu, "clusters": len(found.cluster_model_.centers), "rows": len(frame)}


def models(case: str, k: int) -> dict[str, float]:
    """Run a case: ``adult``, ``bootstrap``, ``blow-up``, ``forest``, ``centroids``, ``clusters``, ``inputs``, ``numbers``."""
    if case in CASES:
        return CASES[case](k)
    if case in MINIMIZED:
        return minimize_inputs(MINIMIZED[case], agreement=case == "numbers")
    return fit_adult(k) if case == "adult" else fit_million(case, k)


CASES = {"forest": audit_forest, "centroids": audit_centroids, "clusters": fit_clusters}
