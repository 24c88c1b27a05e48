"""Later data under trees that a rule made: a new number or word gets a label that holds it, or is refused."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import shoal
from shoal.recoding import Cut, Recoding

numbers = st.one_of(st.integers(-30, 60), st.integers(-300, 600).map(lambda n: n / 10))
words = st.text("abc", min_size=1, max_size=3)
codes = st.text("019", min_size=1, max_size=4)


def learn(values: list[Any], quasi: Any, *, relaxed: bool = False) -> Recoding:
    policy = shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(2)])
    frame = pd.DataFrame({"x": values}, dtype=object)
    more = {"relaxed": True, "cut": "median"} if relaxed else {}
    return reloaded(shoal.anonymize(frame, policy, **more).recoding)


def reloaded(recoding: Recoding) -> Recoding:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recoding.json"
        path.write_text(recoding.to_json(), encoding="utf-8")
        return shoal.load_recoding(path)


def holds(label: str, raw: Any) -> bool:
    if label in ("*", str(raw)):
        return True
    if label.startswith("{"):
        first, last = label[1:-1].split(" … ")
        return first <= raw <= last
    if not isinstance(raw, str) and label[0] not in "[(":
        return float(label) == raw
    if label[0] not in "[(":
        return label.endswith("*") and len(label) == len(raw) and raw.startswith(label.rstrip("*"))
    low, high = (float(end) for end in label[1:-1].split(", "))
    return low <= float(raw) and (float(raw) < high or (label[-1] == "]" and float(raw) == high))


@pytest.mark.parametrize("relaxed", [False, True], ids=["boxes and cut", "assignment"])
@pytest.mark.parametrize(
    ("quasi", "values"),
    [
        ({"widths": [5, 10, 20]}, numbers),
        ({"widths": [0.1, 0.5, 5], "origin": 0.3}, numbers),
        ({"boundaries": [0, 18, 30.5, 45]}, numbers),
        ({"boundaries": [[0, 10, 20, 30], [0, 20], [20]]}, numbers),
        ({"kind": "numeric", "balanced": 2}, numbers),
        ({"kind": "numeric", "balanced": 3, "skip": [1]}, numbers),
        ({"balanced": 2}, words),
        ({"mask": "right", "skip": [2]}, codes),
        ({"mask": "right", "keep": [1], "by": "height"}, codes),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
@given(data=st.data())
def test_a_later_value_gets_a_label_that_holds_it_or_none(
    relaxed: bool, quasi: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    """The boxes of a release, and the cut through the children of the root of its tree; or the assignment of records."""
    known = data.draw(st.lists(values, min_size=2, max_size=12))
    try:
        recoding = learn(known, quasi, relaxed=relaxed)
    except shoal.PolicyError as error:
        assert "the taxonomy has no inner" in str(error)
        reject()
    recodings = [recoding]
    if not relaxed:
        tree = recoding.fields[0].taxonomy
        assert tree is not None
        top = [tree.label[n] for n in range(1, len(tree.label)) if tree.level[n] == 1]
        recodings.append(Cut.of(recoding.fields, {"x": top}, recoding.output))
    for new in data.draw(st.lists(st.one_of(values, st.sampled_from(known)), min_size=1, max_size=5)):
        for recoding in recodings:
            try:
                (label,) = recoding.apply(pd.DataFrame({"x": [new]}, dtype=object))["x"]
            except shoal.DataError:
                assert new not in known
                continue
            assert holds(label, new), (recoding.kind, new, label)


def test_new_numbers_in_known_intervals() -> None:
    recoding = learn([20, 24, 31, 39, 62, 62, 62, None, None], {"widths": [5, 10]})
    found = recoding.apply(pd.DataFrame({"x": [22.5, 35, 62, None]}))["x"]
    assert list(found.fillna("missing")) == ["[20, 25)", "[30, 40)", "[60, 65)", "missing"]
    for outside in (26, 41, 66, -1):  # [20, 30) and [60, 70) were not published
        with pytest.raises(shoal.DataError, match="outside every box"):
            recoding.apply(pd.DataFrame({"x": [outside]}))
    assert set(recoding.apply(pd.DataFrame({"x": [66]}), nearest=True)["x"]) <= {"[20, 25)", "[30, 40)", "[60, 65)"}


def test_new_words_between_the_ends_of_a_balanced_branch() -> None:
    known = ["ant", "ape", "cat", "cow", "dog", "eel"]
    recoding = learn(known, {"balanced": 3})
    assert list(recoding.apply(pd.DataFrame({"x": known}))["x"]) == [
        *["{ant … cat}"] * 3,
        *["{cow … eel}"] * 3,
    ]
    assert list(recoding.apply(pd.DataFrame({"x": ["bee", "dove"]}))["x"]) == ["{ant … cat}", "{cow … eel}"]
    for outside in ("aardvark", "cod", "zebra"):
        with pytest.raises(shoal.DataError, match="outside every box"):
            recoding.apply(pd.DataFrame({"x": [outside]}))
