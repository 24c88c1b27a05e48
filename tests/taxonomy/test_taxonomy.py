"""Value trees: built in every way, numbered depth first, covered as by a plain lowest common ancestor."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import DataError
from shoal.taxonomy import Taxonomy
from tests.support.strategies import Tree, trees

MARITAL = {"ANY": ["Unknown", {"Partnered": ["Married", "Remarried"]}, {"Alone": {"Once": ["Single"]}}]}


def written(folder: Path, name: str, content: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(content.encode(encoding))
    return path


def depth_first(tree: Taxonomy) -> list[tuple[str | None, ...]]:
    """The way to every node, by its id."""
    ways: list[tuple[str | None, ...]] = []
    for node, label in enumerate(tree.label):
        ways.append((*(ways[tree.parent[node]] if node else ()), label))
    return ways


def test_arrays_stand_in_depth_first_order() -> None:
    tree = Taxonomy.from_nested(MARITAL)
    assert tree.label == ("ANY", "Unknown", "Partnered", "Married", "Remarried", "Alone", "Once", "Single")
    assert tree.parent.tolist() == [-1, 0, 0, 2, 2, 0, 5, 6]
    assert tree.lo.tolist() == [0, 0, 1, 1, 2, 3, 3, 3]
    assert tree.hi.tolist() == [3, 0, 2, 1, 2, 3, 3, 3]
    assert tree.level.tolist() == [0, 1, 1, 2, 2, 1, 2, 3]
    assert tree.height.tolist() == [3, 0, 1, 0, 0, 2, 1, 0]
    assert tree.size == 4
    assert tree.leaves == ("Unknown", "Married", "Remarried", "Single")
    assert tree.leaf.tolist() == [1, 3, 4, 7]
    assert repr(tree) == "Taxonomy(4 leaves, height 3)"


@given(trees())
def test_a_nested_tree_keeps_its_nodes_and_their_order(made: Tree) -> None:
    tree = Taxonomy.from_nested(made.nested)
    ways = depth_first(tree)
    assert ways == made.nodes
    assert tree.leaves == tuple(way[-1] for way in made.ways)
    for node, way in enumerate(ways):
        below = [code for code, leaf in enumerate(made.ways) if leaf[: len(way)] == way]
        assert [tree.lo[node], tree.hi[node]] == [below[0], below[-1]]
        assert below == list(range(below[0], below[-1] + 1))
        assert tree.level[node] == len(way) - 1
        assert tree.height[node] == max(len(made.ways[code]) for code in below) - len(way)


@given(trees(), st.data())
def test_cover_is_the_lowest_common_ancestor(made: Tree, data: st.DataObject) -> None:
    tree = Taxonomy.from_nested(made.nested)
    ways = depth_first(tree)
    pairs = [(lo, hi) for hi in range(tree.size) for lo in range(hi + 1)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=20))
    found = []
    for lo, hi in chosen:
        inside = made.ways[lo : hi + 1]
        common = next(end for end in range(len(inside[0]), 0, -1) if all(w[:end] == inside[0][:end] for w in inside))
        assert ways[tree.cover(lo, hi)] == inside[0][:common]
        found.append(tree.cover(lo, hi))
    lo, hi = np.array(chosen, np.int32).T
    assert tree.covers(lo, hi).tolist() == found


def test_a_branch_and_its_only_child_have_different_ids() -> None:
    tree = Taxonomy.from_nested({"ANY": {"A": {"B": ["x", "y"]}, "C": ["z"]}})
    assert tree.label[tree.cover(0, 1)] == "B"  # not A, which covers the same codes
    assert tree.label[tree.cover(2, 2)] == "z"  # not C
    assert tree.label[tree.cover(1, 2)] == "ANY"
    single = Taxonomy.from_nested({"ANY": {"A": ["x"]}})
    assert single.label[single.cover(0, 0)] == "x"


def test_covers_nothing() -> None:
    none = np.zeros(0, np.int32)
    assert Taxonomy.from_nested(MARITAL).covers(none, none).tolist() == []


@given(trees())
def test_share_is_the_part_of_the_leaves_below(made: Tree) -> None:
    tree = Taxonomy.from_nested(made.nested)
    for node, way in enumerate(depth_first(tree)):
        below = sum(leaf[: len(way)] == way for leaf in made.ways)
        assert tree.share[node] == (0.0 if way in made.ways else below / len(made.ways))


@given(trees())
def test_nested_round_trip(made: Tree) -> None:
    tree = Taxonomy.from_nested(made.nested)
    assert tree.to_nested() == made.nested
    again = Taxonomy.from_nested(tree.to_nested())
    assert again == tree
    assert hash(again) == hash(tree)
    assert np.array_equal(again.height, tree.height)


@given(trees())
def test_with_missing_adds_the_last_leaf_under_the_root(made: Tree) -> None:
    bare = Taxonomy.from_nested(made.nested)
    tree = bare.with_missing()
    last = tree.size - 1
    assert tree.leaves == (*bare.leaves, None)
    assert depth_first(tree) == [*made.nodes, (made.nodes[0][0], None)]
    assert tree.cover(last, last) == len(bare.label)
    assert tree.text(tree.cover(last, last)) is None
    assert {tree.cover(code, last) for code in range(last)} == {0}
    assert tree.height[0] == bare.height[0]
    assert tree.share[0] == 1.0
    assert tree.to_nested() == made.nested
    assert [tree.cover(c, d) for d in range(last) for c in range(d)] == [
        bare.cover(c, d) for d in range(last) for c in range(d)
    ]


def test_with_missing_alone() -> None:
    tree = Taxonomy.flat([]).with_missing()
    assert tree.size == 1
    assert tree.leaves == (None,)
    assert tree.text(tree.cover(0, 0)) is None
    assert tree.share.tolist() == [1.0, 0.0]


def test_a_release_writes_the_root_as_a_star() -> None:
    tree = Taxonomy.from_nested(MARITAL)
    assert [tree.text(node) for node in (0, 2, 7)] == ["*", "Partnered", "Single"]


def test_flat() -> None:
    tree = Taxonomy.flat(["b", "a"])
    assert tree.leaves == ("b", "a")
    assert tree.label == ("*", "b", "a")
    assert tree.height.tolist() == [1, 0, 0]
    assert tree.derived
    assert not Taxonomy.from_nested(MARITAL).derived
    assert Taxonomy.from_nested(["b", "a"]) == tree


@pytest.mark.parametrize(
    ("nested", "expected"),
    [
        (["a", "b"], {"*": ["a", "b"]}),
        (("a", "b"), {"*": ["a", "b"]}),
        ({"A": ["a"], "B": ["b"]}, {"*": {"A": ["a"], "B": ["b"]}}),
        ({"ANY": {"A": "a", "B": ["b", "c"]}}, {"ANY": {"A": ["a"], "B": ["b", "c"]}}),
        ([{"A": ["a"]}, "b"], {"*": [{"A": ["a"]}, "b"]}),
        ([{"A": ["a"], "B": ["b"]}], {"*": {"A": ["a"], "B": ["b"]}}),
        ({"ANY": [1, 2]}, {"ANY": ["1", "2"]}),
        ({1: {2: [3]}}, {"1": {"2": ["3"]}}),
    ],
    ids=str,
)
def test_nested_forms(nested: Any, expected: dict[str, Any]) -> None:
    assert Taxonomy.from_nested(nested).to_nested() == expected


def test_a_branch_may_bear_the_label_of_its_only_leaf() -> None:
    tree = Taxonomy.from_nested({"ANY": {"Other": ["Other"], "Office": ["clerk", "manager"]}})
    assert tree.leaves == ("Other", "clerk", "manager")


def test_trees_differ() -> None:
    one = Taxonomy.from_nested({"ANY": {"A": ["x"], "B": ["y"]}})
    assert one != Taxonomy.from_nested({"ANY": {"A": ["x", "y"]}})
    assert one != Taxonomy.from_nested({"ANY": {"A": {"B": ["x"]}}})
    assert one != "a tree"


# Paths and files


@given(trees())
def test_paths_round_trip(made: Tree) -> None:
    rows = [list(reversed(way[1:])) for way in made.ways]
    deepest = max(map(len, rows))
    padded = [[row[0]] * (deepest - len(row)) + row for row in rows]
    for paths in (rows, padded):
        assert depth_first(Taxonomy.from_paths(paths)) == [("*", *way[1:]) for way in made.nodes]


def test_paths_need_not_be_sorted() -> None:
    tree = Taxonomy.from_paths([["a", "A"], ["b", "B"], ["c", "A"]])
    assert tree.to_nested() == {"*": {"A": ["a", "c"], "B": ["b"]}}


@given(made=trees())
def test_yaml_file_round_trip(made: Tree, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = yaml.safe_dump(made.nested, allow_unicode=True, sort_keys=False)
    path = written(tmp_path_factory.mktemp("tree"), "tree.yaml", text)
    assert Taxonomy.load(path).to_nested() == made.nested


@given(made=trees(), delimiter=st.sampled_from(",;"), root=st.booleans())
def test_csv_file_round_trip(made: Tree, delimiter: str, root: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One row per leaf, one column per level; the last column may be the root, and a repeated label is padding."""
    deepest = max(map(len, made.ways))
    rows = [[way[-1]] * (deepest - len(way)) + list(reversed(way)) for way in made.ways]
    several = len({way[1] for way in made.ways}) > 1  # else the only branch would be taken for the root
    if several and not root:
        rows = [row[:-1] for row in rows]
    text = StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    path = written(tmp_path_factory.mktemp("tree"), "tree.csv", text.getvalue())
    assert depth_first(Taxonomy.load(path)) == [("*", *way[1:]) for way in made.nodes]


@pytest.mark.parametrize("scalar", ["NO", "007", "12:30", "1e3", "true", "2024-01-31", "null", "~", "0x1F", "1_000"])
def test_yaml_scalars_are_text(scalar: str, tmp_path: Path) -> None:
    path = written(tmp_path, "tree.yml", f"ANY:\n  {scalar}: [a, b]\n  rest:\n  - x{scalar}\n")
    assert Taxonomy.load(path).to_nested() == {"ANY": {scalar: ["a", "b"], "rest": [f"x{scalar}"]}}
    path = written(tmp_path, "flat.yml", f"ANY: [{scalar}, b]\n")
    assert Taxonomy.load(str(path)).leaves == (scalar, "b")


def test_yaml_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert Taxonomy.load(written(tmp_path, "tree.yaml", "ANY: [a]", "utf-8-sig")).label == ("ANY", "a")


@pytest.mark.parametrize(
    "text",
    [
        "a,A\nb,A\nc,B\n",
        "\ufeffa,A\r\nb,A\r\nc,B\r\n",
        "a;A\nb;A\nc;B",
        '"a","A"\n\n"b","A"\n"c","B"\n\n',
        "a,A,ANY\nb,A,ANY\nc,B,ANY\n",
        " a , A \n b , A\nc,B\n",
    ],
    ids=repr,
)
def test_csv_forms(text: str, tmp_path: Path) -> None:
    assert Taxonomy.load(written(tmp_path, "tree.csv", text)).to_nested() == {"*": {"A": ["a", "b"], "B": ["c"]}}


def test_csv_with_one_column_is_flat(tmp_path: Path) -> None:
    assert Taxonomy.load(written(tmp_path, "tree.csv", "a\nb\n007\n")).to_nested() == {"*": ["a", "b", "007"]}


def test_csv_with_empty_cells_where_a_tree_is_unbalanced(tmp_path: Path) -> None:
    tree = Taxonomy.load(written(tmp_path, "tree.csv", "a,A,North\nb,A,North\nc,South,\nd,,\n"))
    assert "" not in tree.label
    assert tree.to_nested() == {"*": [{"North": {"A": ["a", "b"]}}, {"South": ["c"]}, "d"]}


def test_csv_with_shorter_rows_where_a_tree_is_unbalanced(tmp_path: Path) -> None:
    tree = Taxonomy.load(written(tmp_path, "tree.csv", "a,A\nb,A\nc\n"))
    assert tree.to_nested() == {"*": [{"A": ["a", "b"]}, "c"]}


def test_csv_delimiters_inside_quotes_are_none(tmp_path: Path) -> None:
    tree = Taxonomy.load(written(tmp_path, "tree.csv", '"Farming; fishing",Field\nClerk,Office\n'))
    assert tree.to_nested() == {"*": {"Field": ["Farming; fishing"], "Office": ["Clerk"]}}


# Errors


@pytest.mark.parametrize(
    ("nested", "text"),
    [
        ({"ANY": ["a", "b", "a"]}, "values occur more than once: 'a'"),
        ({"ANY": {"A": ["a", "b"], "B": ["b", "a"]}}, "values occur more than once: 'b', 'a'"),
        ({"ANY": [*"abcdefg"] * 2}, "'a', 'b', 'c', 'd', 'e' and 2 more"),
        ({"ANY": [1, "1"]}, "values occur more than once: '1'"),
        ({"ANY": {"A": ["a"], "B": []}}, "the branch 'B' is empty"),
        ({"ANY": {"A": ["a"], "B": {}}}, "the branch 'B' is empty"),
        ({"ANY": [{"B": None}]}, "the branch 'B' is empty"),
        ({}, "is empty"),
        ([], "is empty"),
        ({"ANY": None}, "the branch 'ANY' is empty"),
        ({"ANY": {"A": {"C": ["a"]}, "B": {"C": ["b"]}}}, "the label 'C' names two nodes"),
        ({"ANY": {"A": ["B"], "B": ["b"]}}, "the label 'B' names two nodes"),
        ({"ANY": {"A": {"B": ["A"]}}}, "the label 'A' names two nodes"),
        ([["a"], ["b"]], "a list inside a list has no name"),
    ],
    ids=str,
)
def test_trees_that_are_refused(nested: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        Taxonomy.from_nested(nested)


def test_a_branch_with_several_leaves_may_not_bear_the_label_of_one() -> None:
    """A released label `Secondary` would be ambiguous: the value, or the branch above it."""
    with pytest.raises(DataError, match="'Secondary'"):
        Taxonomy.from_nested({"ANY": {"Secondary": ["Secondary", "Vocational"], "Higher": ["Bachelor"]}})


def test_flat_refuses_doubles() -> None:
    with pytest.raises(DataError, match="more than once: 'a'"):
        Taxonomy.flat(["a", "b", "a"])


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([["a", "A"], ["a", "A"]], "'a' occurs more than once"),
        ([["a", "A"], ["a", "B"]], "values occur more than once: 'a'"),
        ([["a"], ["b", "a"]], "'a' is a leaf in one row and a branch in another"),
        ([["b", "a"], ["a"]], "'a'"),
        ([], "no values"),
        ([["a", "C", "A"], ["b", "C", "B"]], "the label 'C' names two nodes"),
    ],
    ids=str,
)
def test_paths_that_are_refused(rows: list[list[str]], text: str) -> None:
    with pytest.raises(DataError, match=text):
        Taxonomy.from_paths(rows)


def test_values_without_a_leaf_are_named() -> None:
    tree = Taxonomy.from_nested(MARITAL)
    assert tree.code_of(["Single", "Unknown", "Single"], column="marital").tolist() == [3, 0, 3]
    with pytest.raises(DataError) as error:
        tree.code_of(["Single", *"abcdefg"], column="marital")
    assert "column 'marital'" in str(error.value)
    assert "'a', 'b', 'c', 'd', 'e' and 2 more;" in str(error.value)
    with pytest.raises(DataError, match="not in the taxonomy: 'Partnered';"):  # a branch is no value
        tree.code_of(["Partnered"], column="marital")


def test_the_missing_leaf_is_no_value() -> None:
    with pytest.raises(DataError, match="'None'"):
        Taxonomy.from_nested(MARITAL).with_missing().code_of(["None"], column="marital")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tree.yaml", "ANY: [a, a]", "more than once: 'a'"),
        ("tree.yaml", "ANY: [a", "not valid YAML"),
        ("tree.yaml", "", "is empty"),
        ("tree.yaml", "ANY:\n  A: [a]\n  B:\n", "the branch 'B' is empty"),
        ("tree.csv", "a,A\na,A\n", "'a' occurs more than once"),
        ("tree.csv", "\n \n", "no values"),
    ],
)
def test_files_that_are_refused_are_named(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as error:
        Taxonomy.load(written(tmp_path, name, text))
    assert name in str(error.value)


def test_a_yaml_branch_given_twice_is_refused(tmp_path: Path) -> None:
    """YAML itself would keep the last and lose the values of the first."""
    with pytest.raises(DataError, match=r"'A'.*twice"):
        Taxonomy.load(written(tmp_path, "tree.yaml", "ANY:\n  A: [a]\n  B: [b]\n  A: [c]\n"))


def test_a_file_that_is_absent_or_in_another_encoding(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read the taxonomy .*none\.yaml"):
        Taxonomy.load(tmp_path / "none.yaml")
    with pytest.raises(DataError, match=r"tree\.csv"):
        Taxonomy.load(written(tmp_path, "tree.csv", "Hände,A\n", "latin-1"))


@pytest.mark.parametrize("tree", [{"R": {"*": ["a", "b"], "B": ["c"]}}, {"Any": {"Any": ["a", "b"], "B": ["c"]}}])
def test_a_branch_cannot_be_taken_for_the_root(tree: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="Rename"):
        Taxonomy.from_nested(tree)


def test_a_root_with_one_branch_of_its_own_name_is_padding() -> None:
    assert Taxonomy.from_nested({"Any": {"Any": ["a", "b"]}}).size == 2


@pytest.mark.parametrize(
    "build",
    [
        lambda text: Taxonomy.from_nested({text: ["a", "b"]}),
        lambda text: Taxonomy.from_nested({"ANY": {"A": ["a", text]}}),
        lambda text: Taxonomy.from_paths([["a", text], ["b", text]]),
        lambda text: Taxonomy.flat(["a", text]),
        lambda text: Taxonomy.balanced({"a": 1, text: 2}),
    ],
)
def test_a_label_with_a_lone_surrogate_is_refused(build: Any) -> None:
    with pytest.raises(DataError, match=r"valid Unicode, without lone surrogates, unlike.*\\ud800"):
        build("\ud800")
