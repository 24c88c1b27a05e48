"""YAML from strangers: the same content and lines as PyYAML's own nodes, and an early end for texts that would not end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.formats.yaml_text import DEEPEST, EXPANDED, LARGEST, LONGEST, PLACE_DEPTH, Place, read_yaml

words = st.text("abNO017:#-' é", max_size=6)
contents = st.recursive(
    st.one_of(words, st.none(), st.integers(-9, 9), st.booleans()),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(words, below, max_size=4),
    max_leaves=20,
)


def compose(text: str) -> tuple[Any, dict[Place, int]]:
    """The reference: PyYAML's tree of nodes, walked from the root."""
    lines: dict[Place, int] = {}

    def walk(node: yaml.Node, place: Place) -> Any:
        lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                lines[(*place, key.value)] = key.start_mark.line + 1
            return {key.value: walk(below, (*place, key.value)) for key, below in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [walk(below, (*place, i)) for i, below in enumerate(node.value)]
        return None if node.value == "" and node.tag.endswith(":null") else node.value

    node = yaml.compose(text, yaml.SafeLoader)
    return (None if node is None else walk(node, ())), lines


@given(contents, st.sampled_from([None, False, True]))
def test_the_same_content_and_lines_as_the_nodes_of_pyyaml(content: Any, flow: bool | None) -> None:
    text = yaml.safe_dump(content, default_flow_style=flow, allow_unicode=True)
    found, lines = read_yaml(text, "t")
    expected, all_lines = compose(text)
    assert found == expected
    assert lines == {place: line for place, line in all_lines.items() if len(place) <= PLACE_DEPTH}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", None),
        ("# nothing\n", None),
        ("a:\nb: ''\nc: null\nd: ~\ne: 007\nf: NO", {"a": None, "b": "", "c": "null", "d": "~", "e": "007", "f": "NO"}),
        ("a: &x [p, q]\nb: *x\nc: [*x, *x]", {"a": ["p", "q"], "b": ["p", "q"], "c": [["p", "q"], ["p", "q"]]}),
        ("a: &x {p: &y q}\nb: *y\nc: *x", {"a": {"p": "q"}, "b": "q", "c": {"p": "q"}}),
        ("&k a: 1\nb: *k", {"a": "1", "b": "a"}),
        ("b: &k a\n*k : 1", {"b": "a", "a": "1"}),
        ("a: &x\nb: *x", {"a": None, "b": None}),
        ("<<: {a: 1}\nb: !!int 2\nc: !thing 3", {"<<": {"a": "1"}, "b": "2", "c": "3"}),
    ],
)
def test_scalars_aliases_and_tags(text: str, content: Any) -> None:
    assert read_yaml(text, "t")[0] == content


def laugh(levels: int, width: int = 9, leaf: str = "x") -> str:
    """Every line refers to the line before it several times."""
    lines = [f"a0: &a0 [{leaf}]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


HOSTILE = {
    "an alias bomb": (laugh(12), "too large with all aliases expanded"),
    "a bomb of nothing": (laugh(12, leaf=""), "too large"),
    "a bomb of mappings": (
        "a: &a {x: 1}\n"
        + "".join(f"b{i}: &b{i} {{p: *{'a' if i == 0 else f'b{i - 1}'}, q: *a}}\n" for i in range(260)),
        "",
    ),
    "a bomb of long texts": (laugh(6, leaf="y" * 90_000), "too large"),
    "an alias to itself": ("a: &x [*x]", "refers to itself"),
    "an alias to what holds it": ("a: &x {b: {c: *x}}", "refers to itself"),
    "an alias of nothing": ("a: *x", "undefined alias"),
    "an anchor twice": ("a: &x 1\nb: &x 2", "given twice"),
    "deep lists": ("[" * 10**5, "nested more than"),
    "deep mappings": ("{a: " * 10**5, "nested more than"),
    "deep blocks": ("- " * 10**5 + "x", "nested more than"),
    "deep keys": ("? " * 10**5, "a key must be a word"),
    "a list for a key": ("[a]: b", "a key must be a word"),
    "an alias of a list for a key": ("a: &x [b]\n*x : c", "a key must be a word"),
    "a long text": ("a: '" + "y" * (LONGEST + 1) + "'", "a text has more than"),
    "a long file": (" " * (LARGEST + 1), "has more than"),
    "a NUL": ("a: \0", "not valid YAML"),
    "half a character": ("a: \ud800", "not valid YAML"),
    "two documents": ("a: 1\n---\nb: 2\n", "second document"),
}


@pytest.mark.parametrize("name", [n for n in HOSTILE if HOSTILE[n][1]])
def test_hostile_texts_are_refused(name: str) -> None:
    text, words = HOSTILE[name]
    for read in (
        lambda: read_yaml(text, "given.yaml"),
        lambda: shoal.Policy.parse(text, name="given.yaml"),
    ):
        with pytest.raises(shoal.PolicyError, match=words) as caught:
            read()
        assert "given.yaml" in str(caught.value) and len(str(caught.value)) < 1000


def test_aliases_are_limited_by_expanded_size_not_by_number() -> None:
    often = "a: &x [y]\nb: [" + "*x, " * 10_000 + "]\n"
    assert len(read_yaml(often, "t")[0]["b"]) == 10_000
    found, _ = read_yaml(HOSTILE["a bomb of mappings"][0], "t")  # it only grows by one entry a line
    assert len(found) == 261 and EXPANDED > LONGEST


def test_the_deepest_content() -> None:
    for depth, fails in ((DEEPEST, False), (DEEPEST + 1, True)):
        text = "[" * depth + "]" * depth
        if not fails:
            read_yaml(text, "t")
            continue
        with pytest.raises(shoal.PolicyError, match="line 1"):
            read_yaml(text, "t")


# ---- trees


def nest(levels: int) -> Any:
    tree: Any = ["x"]
    for number in range(levels):
        tree = {f"b{number}": tree}
    return tree


def holds_itself(kind: Callable[[], Any]) -> Any:
    tree = kind()
    tree.update(a=tree) if isinstance(tree, dict) else tree.append(tree)
    return tree


def share(levels: int) -> Any:
    tree: Any = ["x", "y"]
    for number in range(levels):
        tree = {f"a{number}": tree, f"b{number}": tree}
    return tree


ENDLESS: dict[str, Callable[[], Any]] = {
    "101": lambda: nest(101),
    "100,000": lambda: nest(10**5),
    "dict": lambda: holds_itself(dict),
    "list": lambda: holds_itself(list),
    "below": lambda: {"R": holds_itself(dict), "S": ["a"]},
    "shared": lambda: share(60),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_trees_that_do_not_end_are_refused(name: str) -> None:
    tree = ENDLESS[name]()
    with pytest.raises(shoal.DataError, match="taxonomy: "):
        shoal.Taxonomy.from_nested(tree)
    for given_ in ({"quasi": {"a": {"taxonomy": tree}}}, {"quasi": {"a": tree}}, {"require": [tree]}, {"keep": tree}):
        with pytest.raises(shoal.PolicyError):
            shoal.Policy(**given_)


def test_a_tree_of_a_hundred_levels_is_written_and_read() -> None:
    """As deep as the mask of the longest code; every level also has a leaf, so that YAML nests twice for each."""
    body: Any = ["x"]
    for number in range(99):
        body = [f"leaf{number}", {f"branch{number}": body}]
    for nested in (nest(100), body):
        tree = shoal.Taxonomy.from_nested(nested)
        assert int(tree.height[0]) == 100
        assert shoal.Taxonomy.from_nested(read_yaml(tree.to_yaml(), "t")[0]) == tree
        policy = shoal.Policy(quasi={"a": {"taxonomy": tree}}, require=[shoal.KAnonymity(2)])
        assert shoal.Policy.parse(policy.to_yaml()) == policy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (";".join(f"c{i}" for i in range(10**5)) + "\nx;y\n", "more than 100 levels"),
        ("a;" + "x" * 200_000 + "\n", "not valid CSV, line 1"),
    ],
    ids=["wide", "cell"],
)
def test_csv_trees_that_are_refused(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "tree.csv"
    file.write_text(text)
    with pytest.raises(shoal.DataError, match=rf"{words}.*tree\.csv"):
        shoal.Taxonomy.load(file)
    with pytest.raises(shoal.DataError, match="more than 100 levels"):
        shoal.Taxonomy.from_paths([[str(i) for i in range(10**5)]])


def test_large_trees_are_read(tmp_path: Path) -> None:
    """A hundred thousand leaves, 11 MB of text."""
    file = tmp_path / "tree.yaml"
    branches = (f"  branch{i}:\n" + "".join(f"  - {i}-{j}-{'x' * 100}\n" for j in range(100)) for i in range(1000))
    file.write_text("ANY:\n" + "".join(branches))
    assert shoal.Taxonomy.load(file).size == 100_000


LIMITED = """
import resource, sys
from shoal.cli import main
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
main()
"""


@pytest.mark.parametrize("name", ["an alias bomb", "deep lists"])
def test_the_command_line_ends_with_status_2(name: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a\n1\n1\n")
    (tmp_path / "given.yaml").write_text(HOSTILE[name][0])
    (tmp_path / "policy.yaml").write_text("quasi: {a: {taxonomy: given.yaml}}\nrequire: [k-anonymity: 2]\n")
    for command in (
        ["check", "table.csv", "-p", "given.yaml"],
        ["check", "table.csv", "-p", "policy.yaml"],
        ["taxonomy", "show", "given.yaml"],
    ):
        ran = subprocess.run(
            [sys.executable, "-c", LIMITED, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 2, ran.stderr
        assert HOSTILE[name][1] in " ".join(ran.stderr.split())
