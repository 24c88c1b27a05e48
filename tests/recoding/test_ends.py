"""Where ranges end: tight, or at the cut; and how many records an end isolates."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from tests.support.cases import Case, cases, covers, holds, released, stayed, suited
from tests.support.outcomes import Outcome, counted

RELAXED = ("mondrian", {"cut": "median", "relaxed": True})  # divides equal records, so its recoding has no boxes
CUTS: list[tuple[str, dict[str, Any]]] = [
    ("mondrian", {}),
    ("mondrian", {"cut": "median"}),
    RELAXED,
    ("tds", {}),
    ("bottom-up", {}),
]
cuts = pytest.mark.parametrize(("method", "parameters"), CUTS, ids=str)


@cuts
@pytest.mark.parametrize("ends", ["tight", "cut"])
@given(case=cases())
@counted
def test_every_label_covers_its_records_and_every_group_holds(
    case: Case, ends: str, method: str, parameters: dict[str, Any]
) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case, method, {**parameters, "ends": ends})
    if release is None:
        return "not met"
    assert holds(release.frame, case.policy)
    for column, quasi in case.policy.quasi.items():
        for raw, label in zip(stayed(case, release)[column], release.frame[column], strict=True):
            assert covers(label, raw, quasi), (column, raw, label)
    measured = shoal.measure(case.frame, release.frame, case.policy)
    assert release.measures["ncp"] == pytest.approx(measured["ncp"])
    return None


@pytest.mark.parametrize(("method", "parameters"), [way for way in CUTS if way != RELAXED], ids=str)
@given(case=cases())
@counted
def test_the_recoding_reproduces_a_release_with_cut_ends(
    case: Case, method: str, parameters: dict[str, Any]
) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case, method, {**parameters, "ends": "cut"})
    if release is None:
        return "not met"
    assert release.recoding.kind in ("boxes", "cut")
    raw = stayed(case, release)
    again = release.recoding.apply(raw)
    for column in case.policy.quasi:
        assert list(again[column].fillna("")) == list(release.frame[column].fillna(""))
    return None


def ages(*values: int, **more: Any) -> tuple[pd.DataFrame, shoal.Policy]:
    frame = pd.DataFrame({"age": values})
    return frame, shoal.Policy(**{"quasi": {"age": "numeric"}, "require": [shoal.KAnonymity(2)], **more})


def test_cuts_are_half_open_and_the_last_holds_its_end() -> None:
    frame, policy = ages(20, 25, 40, 47)
    for method in ("mondrian", "tds"):
        assert list(shoal.anonymize(frame, policy, method=method, ends="cut").frame["age"]) == [
            *["[20, 40)"] * 2,
            *["[40, 47]"] * 2,
        ]
    assert list(shoal.anonymize(frame, policy, method="tds", ends="tight").frame["age"]) == [
        *["[20, 25]"] * 2,
        *["[40, 47]"] * 2,
    ]


def test_a_relaxed_cut_through_equal_values_is_closed_on_both_sides() -> None:
    frame, policy = ages(20, 30, 30, 30, 30, 40)
    policy = policy.model_copy(update={"require": (shoal.KAnonymity(3),)})
    release = shoal.anonymize(frame, policy, cut="median", relaxed=True, ends="cut")
    assert sorted(set(release.frame["age"])) == ["[20, 30]", "[30, 40]"]


def test_bounds_of_the_policy_are_published_as_ends() -> None:
    frame, policy = ages(20, 25, 40, 47, quasi={"age": {"bounds": [0, 99]}})
    assert set(shoal.anonymize(frame, policy, ends="cut").frame["age"]) == {"[0, 40)", "[40, 99]"}


def test_no_end_is_a_value_of_suppressed_records_alone() -> None:
    frame = pd.DataFrame({"age": [20, 20, 30, 40, 40, 50, 50], "sex": list("ffmffff")})
    quasi = {"age": "numeric", "sex": "categorical"}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(2)], suppress=0.2)
    release = shoal.anonymize(frame, policy, method="tds", ends="cut")
    assert release.certificate.suppressed == 1
    assert not any("30" in str(label) for label in release.frame["age"])


@pytest.mark.parametrize("method", ["agglomerative", "kmember", "knn", "mdav", "condensation"])
def test_methods_without_cuts_name_those_that_have_them(method: str) -> None:
    frame, policy = ages(20, 25, 40, 47)
    with pytest.raises(shoal.PolicyError, match=r"makes no cuts.*'mondrian', 'tds' and 'bottom-up'"):
        shoal.anonymize(frame, policy, method=method, ends="cut")


def test_wrong_ends_are_named() -> None:
    frame, policy = ages(20, 25, 40, 47)
    with pytest.raises(shoal.PolicyError, match=r"unknown value 'loose' for 'ends'; choose from 'tight', 'cut'"):
        shoal.anonymize(frame, policy, ends="loose")
    with pytest.raises(shoal.PolicyError, match="exclude each other"):
        shoal.anonymize(frame, policy, ends="cut", improve=True)


def isolated(raw: pd.Series, labels: pd.Series, groups: pd.Series) -> set[int]:
    """The rows that are the only ones of their group with a value that an end of its label names."""
    found = set()
    for _, rows in raw.groupby(groups):
        label = str(labels[rows.index[0]])
        if label.startswith("["):
            for end in label[1:-1].split(", "):
                there = rows.index[rows == float(end)]
                found |= set(there) if len(there) == 1 else set()
    return found


@given(
    values=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=4, max_size=40),
    way=st.sampled_from([*CUTS, ("mondrian", {"ends": "cut"}), ("tds", {"ends": "tight"}), ("kmember", {})]),
    tree=st.booleans(),
)
@counted
def test_isolated_ends_are_those_of_a_plain_count(
    values: list[tuple[int, int]], way: tuple[str, Any], tree: bool
) -> Outcome:
    frame = pd.DataFrame(values, columns=["x", "y"])
    balanced = {"kind": "numeric", "balanced": 2}
    if way[0] == "kmember" or way[1].get("relaxed"):  # their rows are found by positions, which trees do not have
        tree = False
    quasi = {
        "x": balanced if tree or way[0] == "bottom-up" else "numeric",
        "y": balanced if tree or way[0] == "bottom-up" else "numeric",
    }
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(frame, policy, method=way[0], **way[1])
    if way[0] == "kmember" or way[1].get("relaxed"):  # equal labels may belong to several groups
        groups = pd.Series(groups_of(release, frame))
    else:
        groups = release.frame["x"].astype(str) + "|" + release.frame["y"].astype(str)
    if groups.isna().any():
        return "suppressed"
    found = isolated(frame["x"], release.frame["x"], groups) | isolated(frame["y"], release.frame["y"], groups)
    assert release.measures["isolated_ends"] == pytest.approx(len(found) / len(frame))
    return None


def groups_of(release: shoal.Release, frame: pd.DataFrame) -> list[int | None]:
    """The group of every row by the recoding; None where equal rows are divided."""
    recoding = release.recoding
    known: dict[tuple[float, ...], set[int]] = {}
    for cell, group in zip(recoding.cells.tolist(), recoding.group.tolist(), strict=True):
        known.setdefault(tuple(cell), set()).add(group)
    return [next(iter(g)) if len(g := known[tuple(map(float, row))]) == 1 else None for row in frame.to_numpy()]


def test_means_have_the_decimals_of_the_column_and_groups_of_three() -> None:
    frame, policy = ages(20, 21, 21, 50, 50, 51, require=[shoal.KAnonymity(3)])
    assert set(shoal.anonymize(frame, policy, method="mdav").frame["age"]) == {21, 50}
    for style in ("mean", "median"):
        with pytest.raises(shoal.PolicyError, match="write='label'"):
            shoal.anonymize(*ages(20, 21, 21, 50), write=style)
        with pytest.raises(shoal.PolicyError, match="write='label'"):
            shoal.anonymize(*ages(20, 21, 21, 50), method="mdav", write=style)
    release = shoal.anonymize(*ages(20, 21, 40, 50), method="mdav")
    assert set(release.frame["age"]) == {"[20, 21]", "[40, 50]"}
    assert any("mdav writes labels" in note for note in release.notes)


def test_untrue_labels_are_counted_under_nearest(tmp_path: Any) -> None:
    frame, policy = ages(20, 21, 40, 41)
    shoal.anonymize(frame, policy).save(tmp_path / "out")
    later = pd.DataFrame({"age": [20, 19, 99]})
    release = shoal.anonymize(later, recoding=tmp_path / "out.owner" / "recoding.json", nearest=True)
    assert release.measures["untrue_labels"] == 2
    assert any(note.startswith("2 records have labels that are not true") for note in release.certificate.notes)
    release.save(tmp_path / "later")
    assert "2 records have labels" in (tmp_path / "later" / "certificate.json").read_text()


@pytest.mark.parametrize("style", ["label", "set", "lo-hi", "midpoint"])
@pytest.mark.parametrize("ends", [None, "cut", "tight"])
def test_later_rows_get_no_label_of_suppressed_records_alone(style: str, ends: str | None) -> None:
    """The value 33 and the town Oz were suppressed; later records near to them get labels of released records."""
    frame = pd.DataFrame({"age": [20, 20, 33, 40, 40, 50, 50], "town": ["a", "a", "Oz", "b", "b", "b", "b"]})
    policy = shoal.Policy(
        quasi={"age": "numeric", "town": {"balanced": 2}}, require=[shoal.KAnonymity(2)], suppress=0.2
    )
    release = shoal.anonymize(frame, policy, method="tds", write=style, ends=ends)
    assert release.certificate.suppressed == 1
    later = pd.DataFrame({"age": [33, 34, 32, 36], "town": ["a", "b", "Oz", "b"]})
    again = release.recoding.apply(later, nearest=True).astype(str)
    assert not again.apply(lambda column: column.str.contains("33|Oz")).to_numpy().any(), again


def two_of_four_works(method: str) -> tuple[pd.DataFrame, shoal.Release]:
    tree = {"Any": ["Baker", "Clerk", "Painter", "Typist"]}
    policy = shoal.Policy(quasi={"work": {"taxonomy": tree}}, require=[shoal.KAnonymity(4)])
    frame = pd.DataFrame({"work": ["Baker", "Baker", "Painter", "Painter"]})
    return frame, shoal.anonymize(frame, policy, method=method, write="set", seed=1)


@pytest.mark.parametrize("method", ["mondrian", "kmember", "knn"])
def test_a_set_is_true_of_later_records_or_they_are_outside(method: str, tmp_path: Any) -> None:
    frame, release = two_of_four_works(method)
    assert list(release.frame["work"]) == ["{Baker, Painter}"] * 4
    assert list(release.recoding.apply(frame)["work"]) == ["{Baker, Painter}"] * 4
    later = pd.DataFrame({"work": ["Clerk", "Baker"]})
    with pytest.raises(shoal.DataError, match="1 record is outside"):
        release.recoding.apply(later)
    release.save(tmp_path / "out")
    nearest = shoal.anonymize(later, recoding=tmp_path / "out.owner" / "recoding.json", nearest=True)
    assert nearest.measures["untrue_labels"] == 1
    again = shoal.load_recoding(tmp_path / "out.owner" / "recoding.json")
    assert again.to_json() == release.recoding.to_json()


def test_a_cut_writes_the_node_that_is_true_of_all_records() -> None:
    frame, release = two_of_four_works("tds")
    assert list(release.frame["work"]) == ["*"] * 4
    assert list(release.recoding.apply(frame)["work"]) == ["*"] * 4
    assert list(release.recoding.apply(pd.DataFrame({"work": ["Clerk", "Baker"]}))["work"]) == ["*"] * 2


@pytest.mark.parametrize("method", ["mondrian", "kmember", "knn"])
@given(case=cases())
@counted
def test_records_find_their_set_again(case: Case, method: str) -> Outcome:
    release = released(case, method, {"write": "set"})
    if release is None:
        return "not met"
    again = release.recoding.apply(stayed(case, release))
    for column, quasi in case.policy.quasi.items():
        for raw, label in zip(stayed(case, release)[column], again[column], strict=True):
            listed = str(label)[1:-1].split(", ") if str(label).startswith("{") else [label]
            assert (
                quasi.kind == "numeric"
                or label == "*"
                or pd.isna(raw)
                or any(str(raw).startswith(str(value)) for value in listed)  # a day in a month
                or covers(label, raw, quasi)
            )
    return None


@pytest.mark.parametrize("method", ["tds", "bottom-up"])
def test_a_balanced_tree_that_is_given_names_no_suppressed_value_either(method: str) -> None:
    words = ["ff", "aa", "gg", "bb", "dd", "bb", "aa", "bb", "dd", "aa"]
    codes = ["23", "13", "12", "22", "23", "22", "13", "11", "23", "22"]
    tree = shoal.Taxonomy.balanced({w: words.count(w) for w in words}, fanout=2)
    frame = pd.DataFrame({"w": words, "z": codes, "note": range(10)})
    policy = shoal.Policy(
        quasi={"w": {"taxonomy": tree}, "z": {"mask": "right"}},
        keep=["note"],
        accept={"note": "a test"},
        require=[shoal.KAnonymity(3)],
        suppress=0.2,
    )
    release = shoal.anonymize(frame, policy, method=method, seed=1)
    gone = set(words) - set(frame.loc[frame["note"].isin(release.frame["note"]), "w"])
    assert not any(value in str(label) for value in gone for label in release.frame["w"])
    assert release.measures["ncp"] == shoal.measure(frame, release.frame, policy)["ncp"]


def test_groups_that_look_alike_are_one_for_isolated_ends() -> None:
    frame = pd.DataFrame({"a": [2, 3, 4, 5, 0, 0, 4, 5], "w": list("xxzyxzxy")})
    quasi = {"a": "numeric", "w": {"taxonomy": {"A": ["x", "y", "z"]}}}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(frame, policy, ends="cut", cut="median", relaxed=True, seed=1)
    groups = release.frame["a"].astype(str) + "|" + release.frame["w"].astype(str)
    assert release.measures["isolated_ends"] == len(isolated(frame["a"], release.frame["a"], groups)) / 8
    balanced = shoal.Policy(quasi={"a": {"balanced": 2, "kind": "numeric"}}, require=[shoal.KAnonymity(3)])
    sets = shoal.anonymize(pd.DataFrame({"a": [1, 2, 3, 9, 9, 9, 9, 9]}), balanced, write="set", seed=1)
    assert sets.measures["isolated_ends"] == 0
