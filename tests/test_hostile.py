"""Texts that a stranger may choose, labels and files, end soon and take little memory, whatever they hold."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import shoal
from shoal.engines import parse_resources
from shoal.recoding import load_recoding

PIECES = [*"[](){},;+-<>=* .0x9e–?", "..", ">=", ", ", "-inf", "1e5", "2020-01-01", "a"]
LONG = 50_000  # characters

# All labels are read before those that cannot be read are refused. They are measured in a process of their own, so that a
# label that does not end is found by the time limit.
MEASURE = """
import json, resource, sys
import pandas as pd
import shoal

KINDS = {
    "numeric": ("numeric", [str(i) for i in range(8)]),
    "date": ("date", [f"2020-01-0{i + 1}" for i in range(8)]),
    "parts": ({"date": ["day", "month", "year"]}, [f"2020-01-0{i + 1}" for i in range(8)]),
    "widths": ({"widths": [2, 4]}, [str(i) for i in range(8)]),
    "mask": ({"mask": "right"}, [f"479{i}" for i in range(8)]),
    "plain": ("categorical", ["a", "b", "a, a", ",", "a, b", "a, a, a", "9" * 50_000, "," * 50_000]),
}

def measure(labels):
    for kind, values in KINDS.values():
        policy = shoal.Policy(quasi={"q": kind}, require=[shoal.KAnonymity(1)])
        try:
            shoal.measure(pd.DataFrame({"q": values * len(labels)}), pd.DataFrame({"q": labels}), policy)
        except shoal.ShoalError as error:
            assert "labels that cannot be read" in str(error) and len(str(error)) < 2000, str(error)[:200]

labels = json.load(sys.stdin)
measure(["*"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
measure(labels)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def hostile_labels() -> list[str]:
    """Long runs of every piece: alone, inside brackets and braces, before and behind a value, and in pairs."""
    runs = {piece: piece * (LONG // len(piece)) for piece in PIECES}
    found = []
    for run in runs.values():
        found += [run, f"[{run}]", f"{{{run}}}", f"1{run}", f"{run}1", f"[{run},{run}x", f"1{run}1", f"a{run}*"]
    found += [f"{one}{other}" for one in runs.values() for other in ("]", "}", ",1]", "+", "*")]
    return [*found, "[" + " " * 1000 + "," + " " * 1000 + "x", "{" + "a, " * LONG + "b}", "9" * 5000]


def measure_all(labels: list[str], seconds: float) -> float:
    """The megabytes that measuring these labels takes; an error where it takes longer than so many seconds."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", MEASURE],
        input=json.dumps(labels),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout)


def test_hostile_labels_end() -> None:
    labels = hostile_labels()
    assert measure_all(labels, seconds=len(labels) / 2) < 200 + 2 * sum(map(len, labels)) / 2**20


shapes = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from([1, 2, 40, 3000])), min_size=1, max_size=8).map(
    lambda pieces: "".join(piece * times for piece, times in pieces)
)
MIXED = pytest.mark.parametrize("kind", ["numeric", "date", "categorical", {"mask": "right"}, {"widths": [5]}], ids=str)


@MIXED
@given(label=shapes)
@example(label="[" + " " * 1000 + "," + " " * 1000 + "x")
def test_every_label_is_measured_or_refused(kind: Any, label: str) -> None:
    values = ["2020-01-01", "2021-03-04"] if kind == "date" else ["1", "23"]
    policy = shoal.Policy(quasi={"q": kind}, require=[shoal.KAnonymity(1)])
    try:
        found = shoal.measure(_frame(values), _frame([label, label]), policy)
        assert 0 <= found["ncp"] <= 1
    except shoal.DataError as error:
        assert "column 'q'" in str(error) and len(str(error)) < 2000


@MIXED
@given(value=shapes)
def test_every_value_is_released_or_refused(kind: Any, value: str) -> None:
    policy = shoal.Policy(quasi={"q": kind}, require=[shoal.KAnonymity(2)])
    try:
        release = shoal.anonymize(_frame([value, value]), policy)
        assert (release.certificate.smallest, release.certificate.suppressed) == (2, 0) and len(release.frame) == 2
    except shoal.DataError as error:
        assert "column 'q'" in str(error) and len(str(error)) < 2000


def _frame(values: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"q": values})


# Files of the user

DEEP = {
    "brackets.yaml": "[" * 500,
    "closed.yaml": "[" * 500 + "]" * 500,
    "mappings.yaml": "\n".join(" " * i + f"a{i}:" for i in range(1000)),
    "aliases.yaml": "a: &a [x, y]\n"
    + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi")),
    "levels.csv": "\n".join(f"leaf {i};" + ";".join(f"node {j}" for j in range(2000)) for i in range(2)),
    "field.csv": "x" * 200_000,
    "quote.csv": '"' + "x" * 200_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_a_taxonomy_that_is_too_deep_or_too_long_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(DEEP[name])
    with pytest.raises(shoal.DataError, match=name):
        shoal.Taxonomy.load(tmp_path / name)


@pytest.mark.parametrize("name", ["brackets.yaml", "closed.yaml", "mappings.yaml"])
def test_a_policy_that_is_too_deep_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(DEEP[name])
    with pytest.raises(shoal.PolicyError, match=name):
        shoal.Policy.load(tmp_path / name)


def test_a_tree_without_end_is_refused() -> None:
    tree: dict[str, Any] = {}
    tree["a"] = tree
    with pytest.raises(shoal.DataError, match="levels"):
        shoal.Taxonomy.from_nested(tree)


def test_a_recoding_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recoding.json").write_text("[" * 100_000)
    with pytest.raises(shoal.DataError, match="nested too deeply"):
        load_recoding(tmp_path / "recoding.json")


@pytest.mark.parametrize("size", ["1" + " " * LONG + "!", " " * LONG, "9" * LONG, "1" * 9 + "." * LONG])
def test_a_size_of_any_length_is_refused(size: str) -> None:
    with pytest.raises(shoal.PolicyError, match="memory is a size"):
        parse_resources(memory=size)


def test_a_column_name_of_any_length_is_refused() -> None:
    policy = shoal.Policy(quasi={"ab" * LONG: "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.PolicyError, match="is not in the table"):
        shoal.check(pd.DataFrame({"ba" * LONG: [1, 2], "sex": ["f", "f"]}), policy)
