"""The release folder of a tree, and files of models."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import shoal
from shoal.datasets import papers
from shoal.models import AnonymousTree, load_model
from tests.support.model_files import dump_skops


def fitted() -> AnonymousTree:
    return AnonymousTree(papers.borrowers_policy(3)).fit(papers.borrowers(kind="pandas"))


def test_the_two_folders(tmp_path: Path) -> None:
    tree, table, policy = fitted(), papers.borrowers(kind="pandas"), papers.borrowers_policy(3)
    folder = tree.release(tmp_path / "model")
    assert sorted(p.name for p in folder.iterdir()) == [
        "certificate.json",
        "model.json",
        "model.skops",
        "policy.yaml",
        "report.html",
    ]
    owner = tmp_path / "model.owner"
    assert sorted(p.name for p in owner.iterdir()) == ["ledger.json", "policy.yaml", "report.html", "spans.json"]
    if os.name == "posix":
        assert owner.stat().st_mode & 0o777 == 0o700
    spans = json.loads((owner / "spans.json").read_text())["spans"]
    assert [span["people"] for span in spans] == [3, 3]
    for loaded in (load_model(folder), load_model(folder / "model.skops")):
        assert shoal.models.audit(loaded, table, policy).fingerprint == tree.certificate_.fingerprint
    assert (load_model(folder / "model.skops").predict(table) == tree.predict(table)).all()


def test_public_files_have_no_spans_and_no_names(tmp_path: Path) -> None:
    patients = shoal.datasets.hospital(600, seed=3, kind="pandas")
    policy = shoal.Policy(
        identifiers=["name"],
        quasi={"sex": "categorical", "marital": "categorical"},
        sensitive=["cost"],
        target="diagnosis",
        require=[shoal.KAnonymity(20)],
    )
    tree = AnonymousTree(policy).fit(patients)
    folder = tree.release(tmp_path / "model")
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["smallest"] == tree.certificate_.smallest >= 20
    assert not {"spans", "certain", "confident", "entropy", "distinct", "single_records"} & set(certificate)
    assert all("worst_size" not in finding for finding in certificate["findings"])
    text = "".join(p.read_text(errors="replace") for p in folder.iterdir())
    assert not any(name in text for name in patients["name"])
    assert "Spans" not in text
    assert "Spans" in (tmp_path / "model.owner" / "report.html").read_text()
    assert not any(str(cost) in text for cost in patients["cost"] if not float(cost).is_integer())


@pytest.mark.parametrize("populations", ["bins", "frequencies", "majority"])
def test_what_is_published_about_leaves(populations: str, tmp_path: Path) -> None:
    tree = AnonymousTree(papers.mortgage_policy(3), populations=populations).fit(papers.mortgage(kind="pandas"))
    folder = tree.release(tmp_path / "model")
    leaves = [node["leaf"] for node in json.loads((folder / "model.json").read_text())["nodes"] if "leaf" in node]
    expected = {
        "bins": [[3, 0], [1, 2], [0, 3], [2, 1]],
        "frequencies": [[1.0, 0.0], [0.333333, 0.666667], [0.0, 1.0], [0.666667, 0.333333]],
        "majority": [[0], [1], [1], [0]],
    }
    assert sorted(leaves) == sorted(expected[populations])
    assert json.loads((folder / "certificate.json").read_text())["populations"] == populations


def test_a_copied_tree_cannot_be_released(tmp_path: Path) -> None:
    copied = pickle.loads(pickle.dumps(fitted()))  # noqa: S301
    with pytest.raises(shoal.DataError, match="no training records"):
        copied.release(tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    tree = fitted()
    tree.release(tmp_path / "model")
    with pytest.raises(shoal.EngineError, match="already exists"):
        tree.release(tmp_path / "model")
    tree.release(tmp_path / "model", overwrite=True)


def test_numbers_as_classes_survive_the_file(tmp_path: Path) -> None:
    points, classes = np.repeat([[1.0], [2.0], [9.0]], 6, axis=0), np.repeat([10, 2, 2], 6)
    tree = AnonymousTree(k=5).fit(points, classes)
    loaded = load_model(tree.release(tmp_path / "model") / "model.skops")
    assert loaded.predict(points).tolist() == classes.tolist()
    assert loaded.predict(points).dtype.kind == "i"


# Files of models from elsewhere


class Hostile:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.file,)


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    dump_skops(Hostile(marker), tmp_path / "hostile.skops")
    with pytest.raises(shoal.DataError, match=r"types that are not known to be safe.*Hostile"):
        load_model(tmp_path / "hostile.skops")
    (tmp_path / "hostile.pkl").write_bytes(pickle.dumps(Hostile(marker)))
    with pytest.raises(shoal.DataError, match="can run any code"):
        load_model(tmp_path / "hostile.pkl")
    assert not marker.exists()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    for name, content in (("empty.skops", b""), ("text.skops", b"no zip"), ("nothing.skops", _zip({}))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(shoal.DataError, match="no valid skops file"):
            load_model(tmp_path / name)
    (tmp_path / "model.txt").write_text("x")
    for name in ("absent.skops", "model.txt"):
        with pytest.raises(shoal.DataError, match=r"Pass a \.skops file"):
            load_model(tmp_path / name)


def test_a_tree_with_broken_nodes_is_refused() -> None:
    table = pd.DataFrame({"age": [1, 2, 3, 4], "ill": ["y", "n", "y", "n"]})
    model = DecisionTreeClassifier(random_state=0).fit(table[["age"]], table["ill"])
    state = model.tree_.__getstate__()
    state["nodes"]["left_child"][0] = 10_000
    model.tree_.__setstate__(state)
    policy = shoal.Policy(quasi={"age": "numeric"}, target="ill", require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.DataError, match="do not form a tree"):
        shoal.models.audit(model, table, policy)


def _zip(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()
