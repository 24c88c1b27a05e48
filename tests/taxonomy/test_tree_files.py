"""Taxonomy files: written trees are read back, and CSV has the layout of other tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import DataError, EngineError, escape_invisible
from shoal.formats.yaml_text import read_yaml
from shoal.formats.yaml_writer import format_yaml
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


DERIVED = Taxonomy.balanced({"clerk": 3, "miner": 2, "nurse": 2, "pilot": 1}, fanout=2)
MARK = DERIVED.to_yaml().splitlines()[0]


def test_a_nested_derived_tree_keeps_its_mark_and_is_written_as_plain_json_and_yaml() -> None:
    nested = DERIVED.to_nested()
    renamed = {"Job": nested["*"]}
    assert Taxonomy.from_nested(nested).derived and Taxonomy.from_nested(renamed).derived
    assert Taxonomy.from_nested(["none", nested["*"][1]]).derived
    plain = json.loads(json.dumps(nested))
    assert plain == nested and not Taxonomy.from_nested(plain).derived
    for dump in (yaml.safe_dump, yaml.dump):
        assert dump(nested) == dump(plain)


@pytest.mark.parametrize("suffix", [".yaml", ".csv", ".txt"])
def test_the_text_of_a_derived_tree_is_marked(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"tree{suffix}"
    path.write_text(DERIVED.to_yaml() if suffix == ".yaml" else DERIVED.to_csv(delimiter=","), encoding="utf-8")
    assert Taxonomy.load(path) == DERIVED and Taxonomy.load(path).derived


EDITS: dict[str, Callable[[str], str]] = {
    "a blank line": lambda text: f"\n{text}",
    "a comment before": lambda text: f"# my tree\n{text}",
    "a comment in the line": lambda text: text.replace(MARK, f"  {MARK} (edited)"),
    "spaces around": lambda text: text.replace(MARK, f" {MARK} \t"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: f"\ufeff{text}",
    "at the end": lambda text: text.replace(f"{MARK}\n", "") + MARK,
}
EDITS_OF_YAML = {**EDITS, "a document start": lambda text: f"---\n{text}"}
EDITS_OF_CSV = {
    **EDITS,
    "quotes": lambda text: text.replace(MARK, f'"{MARK}"'),
    "semicolons": lambda text: text.replace(MARK, f"{MARK};;"),
    "commas": lambda text: text.replace(";", ",").replace(MARK, f"{MARK},,"),
}


@pytest.mark.parametrize(
    ("name", "edit"),
    [("tree.yaml", edit) for edit in EDITS_OF_YAML] + [("tree.csv", edit) for edit in EDITS_OF_CSV],
    ids=" with ".join,
)
def test_an_edited_file_keeps_the_mark(name: str, edit: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = DERIVED.to_yaml() if path.suffix == ".yaml" else DERIVED.to_csv()
    path.write_text({**EDITS_OF_YAML, **EDITS_OF_CSV}[edit](text), encoding="utf-8", newline="")
    assert Taxonomy.load(path) == DERIVED and Taxonomy.load(path).derived


def test_a_file_without_the_mark_is_not_derived(tmp_path: Path) -> None:
    path = tmp_path / "tree.csv"
    path.write_text("#1;Numbers\n#2;Numbers\nmade from the data: not to be published;Texts\n")
    tree = Taxonomy.load(path)
    assert tree.leaves == ("#1", "#2", "made from the data: not to be published") and not tree.derived


HOSTILE = (
    "NO", "007", "12:30", "- x", "a: b", "#", "a #b", " lead", "trail ", "'", '"', "it's", 'say "so"', "two\nlines", "\r", "\t",
    "null", "~", "", "y", "1e3", "0o7", "1_000", "2020-01-01", "=", "<<", "*", "&a", "!b", "%c", "@d", "`e", "|", ">", "?",
    "? x", ":", "x:", "{a, b}", "[a]", "a, b", "…", "{a … b}", "é", "日本", "😀", "\ufeff", "\u2028", "\x85", "\x00", "\u202e",
    "\u3164", "\\", "---", "...", "-", "+1", ".5", "x" * 2000, "😀" * 300, "key \n" * 300, "[20, 25)",
)  # fmt: skip


def collect_labels(nested: Any) -> set[str]:
    if isinstance(nested, str):
        return {nested}
    below = nested.values() if isinstance(nested, dict) else nested
    return (set(nested) if isinstance(nested, dict) else set()).union(*map(collect_labels, below))


@given(made=trees(), data=st.data())
def test_hostile_labels_survive_yaml(made: Tree, data: st.DataObject) -> None:
    """Every label, of branches and of leaves, is the same after the file was read, also by other readers of YAML."""
    labels = sorted(collect_labels(made.nested))
    text = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
    others = data.draw(st.lists(text, min_size=len(labels), max_size=len(labels), unique=True))
    rename = dict(zip(labels, others, strict=True))

    def copy(nested: Any) -> Any:
        if isinstance(nested, str):
            return rename[nested]
        if isinstance(nested, dict):
            return {rename[name]: copy(below) for name, below in nested.items()}
        return [copy(entry) for entry in nested]

    nested = copy(made.nested)
    written = format_yaml(nested)
    assert read_yaml(written, "tree")[0] == nested
    assert yaml.safe_load(written) == nested
    assert escape_invisible(written, keep="\n") == written


@pytest.mark.parametrize(
    "value", [[["a"], ["b", "c"]], {"a": {}, "b": [], "c": [[], {}], "d": [{"e": [{"f": "g"}]}]}, "a", []]
)
def test_every_nesting_survives_yaml(value: Any) -> None:
    assert yaml.safe_load(format_yaml(value)) == value
