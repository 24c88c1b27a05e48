"""Models: their files, certificates and predictions; audits of the models of other libraries; itemsets and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import shoal
from benchmarks.same_releases.outcomes import Outcome, read_folders, record
from shoal import models
from shoal.datasets import papers

INPUTS = ["age", "sex", "education", "cost"]
KNOWN = {"age": "numeric", "sex": "categorical"}
RANDOM = ("model.skops", "owner/ledger.json")  # skops writes the addresses of objects, and models have random seeds


def make_patients() -> pd.DataFrame:
    """Patients without missing values; few ages and costs, so that audits are fast."""
    table = shoal.datasets.hospital(400, seed=1, kind="pandas").dropna().reset_index(drop=True)
    table["age"], table["cost"] = (2026 - table["birth"].dt.year) // 10 * 10, table["cost"] // 5_000 * 5_000
    table["expensive"] = table["cost"] > 5_000
    return table[[*INPUTS, "marital", "diagnosis", "expensive"]]


def make_policy(k: int = 5, **given: Any) -> shoal.Policy:
    """A policy for models: attackers know age and sex."""
    private = [name for name in ("education", "cost", "diagnosis") if name != given.get("target")]
    return shoal.Policy(quasi=KNOWN, sensitive=private, require=[shoal.KAnonymity(k)], **given)


def fit_models(patients: pd.DataFrame) -> dict[str, Any]:
    """Fitted models of scikit-learn, from one thread: sums of several threads differ in the last digits."""
    encoder = make_column_transformer((OneHotEncoder(), ["sex", "education"]), remainder="passthrough")
    scaler = make_column_transformer(
        (StandardScaler(), ["age", "cost"]), (OneHotEncoder(), ["sex"]), sparse_threshold=0
    )
    coded = make_column_transformer((OneHotEncoder(), ["sex"]), (StandardScaler(), ["age"]))
    x, y = patients[INPUTS], patients["diagnosis"]
    return {
        "tree": make_pipeline(encoder, DecisionTreeClassifier(min_samples_leaf=20, random_state=0)).fit(x, y),
        "forest": make_pipeline(encoder, RandomForestClassifier(5, min_samples_leaf=20, random_state=0)).fit(x, y),
        "boosted": make_pipeline(encoder, GradientBoostingClassifier(n_estimators=3, random_state=0)).fit(
            x, patients["expensive"]
        ),
        "clusters": make_pipeline(scaler, KMeans(5, n_init=1, random_state=0)).fit(patients[["age", "cost", "sex"]]),
        "logistic": make_pipeline(coded, LogisticRegression()).fit(x[["age", "sex"]], patients["expensive"]),
    }


def release_models(folder: Path) -> dict[str, Outcome]:
    """Fit, audit and write every kind of model."""
    patients = make_patients()
    with threadpool_limits(1):
        fitted = fit_models(patients)
    target, known = make_policy(target="diagnosis"), patients.drop(columns=["marital", "expensive"])
    cases: dict[str, Callable[[], Any]] = {}
    for criterion in ("gain", "gain-ratio", "gini"):
        tree = models.AnonymousTree(target, criterion=criterion)
        cases[f"tree-{criterion}"] = partial(_release, tree, known, folder / f"tree-{criterion}")
    diverse = target.model_copy(update={"require": (shoal.KAnonymity(5), shoal.LDiversity(3, of="diagnosis"))})
    cases["tree-diverse"] = partial(_release, models.AnonymousTree(diverse), known, folder / "tree-diverse")
    clients, mortgage = papers.mortgage(kind="pandas"), papers.mortgage_policy(k=3)
    cases["tree-mortgage"] = partial(_release, models.AnonymousTree(mortgage), clients, folder / "tree-mortgage")
    for most in (3, 6):
        clusters = models.AnonymousClusters(make_policy(), max_clusters=most)
        cases[f"clusters-{most}"] = partial(_release, clusters, known, folder / f"clusters-{most}")
    cases["distilled"] = partial(_distill, fitted["forest"], patients, target, folder / "distilled")
    for name in ("tree", "forest", "boosted"):
        for rule in ("claim3", "all"):
            policy = make_policy(target="expensive") if name == "boosted" else target
            cases[f"audit-{name}-{rule}"] = partial(_audit, fitted[name], patients, policy, rule=rule)
    cases["audit-clusters"] = partial(_audit, fitted["clusters"], patients, make_policy())
    cases["linking"] = lambda: str(shoal.attacks.linking(fitted["tree"], patients, target)).splitlines()
    for outputs in ("classes", "probabilities"):
        cases[f"predictions-{outputs}"] = partial(_audit_predictions, fitted["logistic"], patients, outputs)
    for keep in (0.9, 0.99):
        cases[f"minimized-{keep}"] = partial(_minimize, fitted["tree"], patients, keep)
    return {f"model-{name}": record(case) for name, case in (cases | _list_rule_cases(patients, folder)).items()}


def _release(model: Any, patients: pd.DataFrame, public: Path) -> Outcome:
    model.fit(patients)
    model.release(public)
    return {
        "text": model.export_text().splitlines(),
        "model": model.to_dict(),
        "certificate": str(model.certificate_).splitlines(),
        "private": model.certificate_.to_private_dict(),
        "predicted": list(map(str, model.predict(patients))),
        **_read_files(public),
    }


def _read_files(public: Path) -> Outcome:
    """The files of a model, without those that differ from run to run."""
    found = {name: content for name, content in read_folders(public).items() if name not in RANDOM}
    digests = found["certificate.json"]["sha256"]  # one text if there is one file
    if isinstance(digests, dict):
        found["certificate.json"]["sha256"] = {name: digest for name, digest in digests.items() if name not in RANDOM}
    return found


def _distill(forest: Any, patients: pd.DataFrame, policy: shoal.Policy, public: Path) -> Outcome:
    tree = models.distill(forest, patients, policy)
    tree.release(public)
    figures = {"fidelity": tree.fidelity_, "accuracy": tree.accuracy_, "of the model": tree.model_accuracy_}
    files = _read_files(public)
    return {"text": tree.export_text().splitlines(), **figures, **files}


def _describe(certificate: models.ModelCertificate) -> Outcome:
    return {"text": str(certificate).splitlines(), "private": certificate.to_private_dict(), **certificate.to_dict()}


def _audit(model: Any, patients: pd.DataFrame, policy: shoal.Policy, **given: Any) -> Outcome:
    return _describe(models.audit(model, patients, policy, **given))


def _audit_predictions(model: Any, patients: pd.DataFrame, outputs: str) -> Outcome:
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["sex"], require=[shoal.KAnonymity(5)])
    return _describe(models.audit_predictions(model, patients[["age", "sex"]], policy, outputs=outputs))


def _minimize(model: Any, patients: pd.DataFrame, keep: float) -> Outcome:
    quasi = {**KNOWN, "education": "categorical"}
    policy = shoal.Policy(quasi=quasi, target="diagnosis", require=[shoal.KAnonymity(5)])
    found = models.minimize(model, patients, policy, keep=keep)
    later = patients.head(20).drop(columns=list(found.not_needed))
    return {
        "text": str(found).splitlines(),
        "accuracy": found.accuracy,
        "recoding": found.cut.to_json(),
        "representatives": {column: sorted(map(str, of.items())) for column, of in found.representatives.items()},
        "generalized": found.generalize(later).to_csv().splitlines(),
        "predicted": list(map(str, found.predict(later))),
    }


def _list_rule_cases(patients: pd.DataFrame, folder: Path) -> Mapping[str, Callable[[], Any]]:
    """Itemsets, rules, their channels and their audits."""
    columns = ["sex", "education", "marital", "diagnosis"]
    sets = models.mine_itemsets(patients, support=0.02, columns=columns)
    rules = models.mine_rules(sets, confidence=0.3)
    policy = shoal.Policy(
        quasi={"sex": "categorical", "marital": "categorical"},
        sensitive=["education", "diagnosis"],
        require=[shoal.KAnonymity(5)],
    )
    return {
        "itemsets": sets.to_dict,
        "rules": rules.to_dict,
        "channels": lambda: [str(channel) for channel in models.find_channels(sets, 5)],
        **{f"blocked-{how}": partial(_block, sets, how) for how in ("suppress", "raise")},
        "audit-rules": partial(_audit, rules, patients, policy),
        "audit-figures": lambda: str(models.audit_figures(rules, public=["sex"], k=5)).splitlines(),
        "anonymous-rules": partial(_release_rules, policy, patients, rules, folder / "rules"),
    }


def _block(sets: models.Itemsets, how: str) -> Outcome:
    changed, report = models.block_channels(sets, 5, how=how)
    return {"text": str(report).splitlines(), "sets": changed.to_dict()}


def _release_rules(policy: shoal.Policy, patients: pd.DataFrame, rules: models.Rules, public: Path) -> Outcome:
    found = models.AnonymousRules(policy).fit(patients, rules)
    found.release(public)
    files = _read_files(public)
    return {"text": str(found).splitlines(), "withheld": list(map(str, found.withheld_)), **found.to_dict(), **files}


def load_models(folder: Path) -> dict[str, Outcome]:
    """The models of an earlier version: their predictions and audits."""
    patients = make_patients()
    found = {}
    for public in sorted(path for path in folder.iterdir() if not path.name.endswith(".owner")):
        for file in ("model.skops", "model.json", "rules.json"):
            if (public / file).exists():
                found[f"loaded-{public.name}-{file}"] = record(partial(_load, public / file, patients))
    return found


def _load(file: Path, patients: pd.DataFrame) -> Outcome:
    model = models.load_model(file)
    if "mortgage" in file.parent.name:
        patients = papers.mortgage(kind="pandas")
    predicts = hasattr(model, "predict")
    policy = shoal.Policy.load(file.parent / "policy.yaml")
    return {
        "type": type(model).__name__,
        "predicted": list(map(str, model.predict(patients))) if predicts else [],
        **(record(partial(_audit, model, patients, policy)) if file.suffix == ".json" else {}),
    }
