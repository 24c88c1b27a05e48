"""Taxonomy files: written trees are read back, and CSV has the layout of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import DataError, EngineError
from shoal.taxonomy import Taxonomy
from tests.support.strategies import Tree, trees


def starred(nested: dict[str, Any]) -> dict[str, Any]:
    ((_, body),) = nested.items()
    return {"*": body}


@given(made=trees(), delimiter=st.sampled_from(";,"), missing=st.booleans())
def test_csv_round_trip(made: Tree, delimiter: str, missing: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree = Taxonomy.from_nested(made.nested)
    text = (tree.with_missing() if missing else tree).to_csv(delimiter=delimiter)
    path = tmp_path_factory.mktemp("tree") / "tree.csv"
    path.write_text(text, encoding="utf-8", newline="")
    assert Taxonomy.load(path).to_nested() == starred(made.nested)


@given(made=trees())
def test_files_round_trip(made: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    tree = Taxonomy.from_nested(made.nested)
    folder = tmp_path_factory.mktemp("tree")
    for name, expected in (("tree.yaml", made.nested), ("tree.csv", starred(made.nested))):
        tree.save(folder / name)
        assert Taxonomy.load(folder / name).to_nested() == expected


def test_the_csv_of_an_unbalanced_tree() -> None:
    """All rows have the same length, and a column contains nodes up to one height."""
    tree = Taxonomy.from_nested({"ANY": ["none", {"Office": ["clerk"]}, {"Field": ["sailor", {"Land": ["farmer"]}]}]})
    assert tree.to_csv().splitlines() == [
        "none;none;none;ANY",
        "clerk;Office;Office;ANY",
        "sailor;sailor;Field;ANY",
        "farmer;Land;Field;ANY",
    ]


def test_quotes_stand_where_a_label_could_be_taken_apart() -> None:
    tree = Taxonomy.from_nested({"ANY": {"[20, 25)": ["20"], 'say "so"': ["a; b"]}})
    assert tree.to_csv() == '"20";"[20, 25)";"ANY"\n"a; b";"say ""so""";"ANY"\n'


def test_labels_that_csv_would_lose_are_refused() -> None:
    for label in ("", " a", "a "):
        with pytest.raises(DataError, match="lost in CSV"):
            Taxonomy.flat([label, "b"]).to_csv()
    with pytest.raises(DataError, match="by ';' or ','"):
        Taxonomy.flat(["a"]).to_csv(delimiter="\t")


def test_odd_labels_survive_yaml(tmp_path: Path) -> None:
    tree = Taxonomy.flat(["", " a ", "null", "x" * 300, "two\nlines", "{a … b}", "- c", "#"])
    tree.save(tmp_path / "tree.yml")
    assert Taxonomy.load(tmp_path / "tree.yml") == tree


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot write"):
        Taxonomy.flat(["a"]).save(tmp_path / "none" / "tree.yaml")
