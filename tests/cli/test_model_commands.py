"""The command `shoal audit-model`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import shoal
from shoal.datasets import papers
from shoal.models import AnonymousClusters
from tests.support.model_files import dump_skops
from tests.support.programs import Run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline of scikit-learn as skops and pickle file, its table, and two policies."""
    here = tmp_path
    monkeypatch.chdir(here)
    table = papers.borrowers(kind="pandas")
    encoder = make_column_transformer((OneHotEncoder(drop="if_binary"), ["Marital Status", "Sports Car"]))
    model = make_pipeline(encoder, DecisionTreeClassifier(random_state=0))
    model.fit(table[["Marital Status", "Sports Car"]], table["Loan Risk"])
    dump_skops(model, here / "tree.skops")
    (here / "tree.pkl").write_bytes(pickle.dumps(model))
    table.to_csv(here / "table.csv", index=False)
    papers.borrowers_policy(3).save(here / "private.yaml")
    papers.borrowers_policy(3, public_car=True).save(here / "public.yaml")
    return here


def test_the_exit_status_is_the_verdict(run: Run, here: Path) -> None:
    found = run("audit-model", "tree.skops", "table.csv", "--policy", "private.yaml")
    assert found.code == 0 and "holds: 6 records in 2 spans" in found.out
    failing = run("audit-model", "tree.skops", "table.csv", "--policy", "public.yaml")
    assert failing.code == 1
    assert "fails: Sports Car is Yes, Marital Status is Married (1 person)" in failing.out


def test_spans_go_to_their_own_file(run: Run, here: Path) -> None:
    written = ("--spans", "spans.json", "--json", "certificate.json")
    run("audit-model", "tree.skops", "table.csv", "--policy", "private.yaml", *written)
    assert len(json.loads((here / "spans.json").read_text())["spans"]) == 2
    assert "spans" not in json.loads((here / "certificate.json").read_text())
    refused = run("audit-model", "tree.skops", "table.csv", "--policy", "private.yaml", "--spans", "table.csv")
    assert refused.code == 2 and "overwrite" in refused.err


def test_pickle_files_need_trust(run: Run) -> None:
    refused = run("audit-model", "tree.pkl", "table.csv", "--policy", "private.yaml")
    assert refused.code == 2 and "can run any code" in refused.err and "--trust" in refused.err
    assert run("audit-model", "tree.pkl", "table.csv", "--policy", "private.yaml", "--trust").code == 0


def test_an_unsupported_model_is_refused_by_name(run: Run, here: Path) -> None:
    table = papers.borrowers(kind="pandas")
    model = LogisticRegression().fit(table[["Sports Car"]] == "Yes", table["Loan Risk"])
    dump_skops(model, here / "model.skops")
    found = run("audit-model", "model.skops", "table.csv", "-p", "private.yaml")
    assert found.code == 2
    assert "LogisticRegression is not supported" in found.err and "DecisionTreeClassifier" in found.err


@pytest.mark.parametrize("option", ["--rule", "--populations", "--confidence"])
def test_wrong_options_are_named(run: Run, option: str) -> None:
    found = run("audit-model", "tree.skops", "table.csv", "-p", "private.yaml", option, "surprise")
    assert found.code == 2 and "surprise" in found.err


def test_released_clusters(run: Run, here: Path) -> None:
    table = pd.DataFrame({"age": [20, 21, 22, 46, 50, 51, 52], "result": [1, 2, 3, 3, 8, 9, 10]})
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["result"], require=[shoal.KAnonymity(3)])
    AnonymousClusters(policy, least_members=1, max_clusters=2).fit(table).release(here / "out")
    table.to_csv(here / "results.csv", index=False)
    policy.save(here / "results.yaml")
    for model in ("out", "out/model.json", "out/model.skops"):
        found = run("audit-model", model, "results.csv", "--policy", "results.yaml")
        assert found.code == 0 and "holds: 7 records in 2 spans" in found.out
    changed = table.assign(age=[20, 21, 22, 22, 50, 51, 52])
    changed.to_csv(here / "changed.csv", index=False)
    other = run("audit-model", "out", "changed.csv", "--policy", "results.yaml")
    assert other.code == 1 and "fitted on" in other.out
    (here / "out" / "model.json").write_text("{}")
    assert run("audit-model", "out", "results.csv", "--policy", "results.yaml").code == 2
