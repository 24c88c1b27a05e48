"""Policies of derived trees: intervals of numbers, balanced trees, levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal import KAnonymity, Policy, PolicyError
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.taxonomy import Balanced, Boundaries, Taxonomy, Widths
from tests.support.case_files import check_lines
from tests.support.json_schema import fits

TREE = {
    "ANY": {"School": {"Low": ["1st"], "High": ["12th"]}, "University": {"Grad": ["Master"], "Under": ["Bachelor"]}}
}

POLICY = """\
quasi:
  age: {kind: numeric, widths: [5, 10, 20]}
  hours: {widths: [0.5, 2], origin: 0.25}
  income: {kind: numeric, boundaries: [18, 30, 45, 65]}
  weight: {boundaries: [[40, 60.5, 80], [60.5]]}
  job: {balanced: 4}
  score: {kind: numeric, balanced: 2}
  education: {taxonomy: {ANY: {School: {Low: [1st], High: [12th]}, University: {Grad: [Master], Under: [Bachelor]}}}, skip: [1]}
  zip: {mask: right, keep: [1], by: height}
"""


def test_the_words_of_a_file() -> None:
    quasi = Policy.parse(POLICY).quasi
    assert [q.kind for q in quasi.values()] == ["numeric"] * 4 + [
        "categorical",
        "numeric",
        "categorical",
        "categorical",
    ]
    assert quasi["age"].tree_builder == Widths((5, 10, 20))
    assert quasi["hours"].tree_builder == Widths((0.5, 2), 0.25)
    assert quasi["income"].tree_builder == Boundaries(((18, 30, 45, 65),))
    assert quasi["weight"].tree_builder == Boundaries(((40, 60.5, 80), (60.5,)))
    assert quasi["job"].tree_builder == Balanced(4)
    assert quasi["score"].tree_builder == Balanced(2, numeric=True)
    tree = quasi["education"].taxonomy
    assert tree == Taxonomy.from_nested(TREE)
    assert quasi["education"].reshape(tree) == tree.levels(skip=[1])


def test_a_written_file_has_the_same_values() -> None:
    policy = Policy.parse(POLICY)
    assert Policy.parse(policy.to_yaml()) == policy
    assert policy.to_dict()["quasi"] == {
        "age": {"kind": "numeric", "widths": [5, 10, 20]},
        "hours": {"kind": "numeric", "widths": [0.5, 2], "origin": 0.25},
        "income": {"kind": "numeric", "boundaries": [18, 30, 45, 65]},
        "weight": {"kind": "numeric", "boundaries": [[40, 60.5, 80], [60.5]]},
        "job": {"balanced": 4},
        "score": {"kind": "numeric", "balanced": 2},
        "education": {"taxonomy": TREE, "skip": [1]},
        "zip": {"mask": "right", "keep": [1], "by": "height"},
    }
    assert "widths: [5, 10, 20]" in policy.to_yaml(public=True)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    way = draw(st.sampled_from(["widths", "boundaries", "balanced", "levels"]))
    if way == "widths":
        first = draw(st.integers(1, 999)) / draw(st.sampled_from([1, 10, 8]))
        origin = {"origin": draw(st.integers(-9, 9)) / 4} if draw(st.booleans()) else {}
        return {"kind": "numeric", "widths": [first, *([first * 4] if draw(st.booleans()) else [])], **origin}
    if way == "boundaries":
        ends = sorted(draw(st.sets(st.integers(-99, 99).map(lambda n: n / 2), min_size=2)))
        return {"kind": "numeric", "boundaries": draw(st.sampled_from([ends, [ends, ends[1:]]]))}
    if way == "balanced":
        return {"balanced": draw(st.integers(2, 9)), "kind": draw(st.sampled_from(["numeric", "categorical"]))}
    named = {draw(st.sampled_from(["keep", "skip"])): draw(st.lists(st.sampled_from([1, 2]), unique=True))}
    return draw(st.sampled_from([{"taxonomy": TREE}, {"mask": "left"}, {"balanced": 3}])) | named


@given(bodies())
def test_round_trip_and_schema(body: dict[str, Any]) -> None:
    policy = Policy(quasi={"x": body})
    text = policy.to_yaml()
    again = Policy.parse(text)
    assert again == policy
    assert again.quasi == policy.quasi
    assert again.to_yaml() == text
    schema = Policy.model_json_schema()
    assert fits({"quasi": {"x": body}}, schema, schema)
    assert fits(yaml.safe_load(text), schema, schema)


def test_errors_name_the_key_and_the_remedy() -> None:
    def check(body: str, words: str) -> None:
        with pytest.raises(PolicyError) as error:
            Policy.parse(f"quasi:\n  x: {body}\n", name="policy.yaml")
        assert "policy.yaml, line 2" in str(error.value)
        for part in words.split(" ") if words.startswith("quasi.") else [words.removeprefix("line 2 ")]:
            assert part in str(error.value)

    check_lines(Path(__file__).with_name("tree_errors.jsonl"), check)


def test_a_public_policy_names_no_value_of_a_derived_tree() -> None:
    made = Taxonomy.balanced({"Alice's job": 1, "clerk": 9, "nurse": 3}, fanout=2)
    policy = Policy(quasi={"job": {"taxonomy": made, "skip": [1]}, "other": {"balanced": 3}})
    assert "Alice" in policy.to_yaml()
    assert policy.to_dict(public=True)["quasi"] == {"job": "categorical", "other": {"balanced": 3}}


# In use


FRAME = pd.DataFrame(
    {
        "age": [20, 21, 24, 26, 29, 31, 44, 47, None, None],
        "job": [*"aabbccddee"],
        "zip": ["47901", "47902", "47911", "47912", "12345", "12346", "12355", "12356", "479", "479"],
    }
)


def labels(column: str, body: Any, k: int = 2, **more: Any) -> set[Any]:
    policy = Policy(quasi={column: body}, require=[KAnonymity(k)], **more)
    release = shoal.anonymize(FRAME, policy)
    assert release.certificate.holds
    return set(release.frame[column].fillna("missing"))


def test_numbers_are_released_by_their_intervals() -> None:
    nodes = {"widths": [5, 20], "ranges": False}
    assert labels("age", nodes) == {"[20, 25)", "[20, 40)", "[40, 60)", "missing"}
    assert labels("age", {**nodes, "origin": 1}) == {"*", "[21, 41)", "[41, 61)", "missing"}
    assert labels("age", {"widths": [5, 20]}) == {"[20, 25)", "[25, 30)", "[30, 50)", "missing"}
    assert labels("age", {"widths": [5, 20], "origin": 1}) == {"[16, 26)", "[26, 31)", "[31, 51)", "missing"}
    assert labels("age", {"boundaries": [25, 40]}) == {"(-inf, 25)", "[25, 40)", "[40, inf)", "missing"}
    assert labels("age", {"boundaries": [25, 40]}, k=4) <= {"(-inf, 25)", "(-inf, 40)", "[25, 40)", "*"}


def test_levels_that_are_skipped_are_not_released() -> None:
    every = labels("zip", {"mask": "right"})
    assert "4790*" in every
    assert labels("zip", {"mask": "right", "skip": [4]}) <= {"479**", "123**", "479", "*"}
    assert labels("zip", {"mask": "right", "keep": [2]}) <= {"47***", "12***", "479", "*"}
    assert labels("zip", {"mask": "right", "keep": []}) <= {"*", "479"}


def test_a_level_that_a_mask_does_not_have() -> None:
    with pytest.raises(PolicyError, match="column 'zip': the taxonomy has no inner level 9; choose from 1, 2, 3, 4"):
        labels("zip", {"mask": "right", "keep": [9]})


def test_balanced_trees_are_built_from_the_counts() -> None:
    codes, _ = encode_and_count(
        open_data(FRAME), Policy(quasi={"job": {"balanced": 2}, "age": {"kind": "numeric", "balanced": 4}})
    )
    job, age = (attribute.taxonomy for attribute in codes.attributes)
    assert job == Taxonomy.balanced(dict.fromkeys("abcde", 2), fanout=2)
    assert age is not None
    assert age.to_nested() == Taxonomy.balanced(dict.fromkeys(FRAME["age"].dropna(), 1), fanout=4).to_nested()
    assert age.label[-1] is None
    assert not codes.attributes[0].flat
    assert labels("job", {"balanced": 2}, k=4) <= {str(label) for label in job.label}
