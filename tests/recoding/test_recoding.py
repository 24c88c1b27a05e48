"""Recodings: stored as JSON, applied to the first table and to later data."""

from __future__ import annotations

import itertools
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.recoding import STYLES, Cut, Field, FieldCut, Output, Recoding
from shoal.recoding.group_labels import RangeEnds
from tests.reference.each import Each
from tests.support.cases import Case, cases, list_rows
from tests.support.outcomes import Outcome, counted

JOBS = {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": ["sailor"]}}}
LEARNED = {"boxes": {"cut": "gain"}, "assignment": {"cut": "median", "relaxed": True}}
kinds = pytest.mark.parametrize("kind", LEARNED)
holes = pytest.mark.parametrize("missing", [False, True], ids=["whole", "holes"])


def people(missing: bool = False) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "id": [f"id{i}" for i in range(12)],
            "age": [20, 21, 23, 30, 31, 35, 40, 44, 47, 60, 61, 66],
            "sex": list("ffmmfmxfmxfm"),
            "job": ["clerk", "manager", "farmer", "miner"] * 2 + ["sailor", "clerk", "miner", "farmer"],
            "zip": [
                "47901",
                "47902",
                "47911",
                "48001",
                "48002",
                "10001",
                "10002",
                "10003",
                "10011",
                "47906",
                "1",
                "12",
            ],
            "phone": ["001", "101", "011", "111", "002", "102", "012", "112", "003", "103", "013", "113"],
            "birth": [f"19{y}-0{m}-1{d}" for y, m, d in itertools.product((84, 85, 96), (1, 7), (2, 5))],
            "ill": ["flu", "cold", "gout"] * 4,
        }
    )
    if missing:
        for place, column in enumerate(("age", "sex", "job", "zip", "phone", "birth")):
            frame[column] = frame[column].astype(object)
            frame.loc[[place, place + 5], column] = None
    return frame


QUASI = {
    "age": "numeric",
    "sex": "categorical",
    "job": {"taxonomy": JOBS},
    "zip": {"mask": "right"},
    "phone": {"mask": "left"},
    "birth": {"date": ["day", "month", "year", "decade"]},
}


def policy_of(*columns: str, k: int = 3, **more: object) -> shoal.Policy:
    quasi = {c: QUASI[c] for c in columns or QUASI}
    return shoal.Policy(quasi=quasi, sensitive="ill", require=[shoal.KAnonymity(k)], **more)


def learn(frame: pd.DataFrame, policy: shoal.Policy, kind: str, write: str = "label") -> shoal.Release:
    release = shoal.anonymize(frame, policy, write=write, **LEARNED[kind])
    assert release.recoding.kind == kind
    return release


def reloaded(recoding: Recoding) -> Recoding:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recoding.json"
        file.write_text(recoding.to_json(), encoding="utf-8")
        return shoal.load_recoding(file)


def later(**columns: object) -> pd.DataFrame:
    """Later records, with an illness to keep."""
    frame = pd.DataFrame(columns)
    return frame.assign(ill="flu")


# ---- JSON


@kinds
@holes
@pytest.mark.parametrize("write", STYLES)
def test_json_keeps_the_effect(kind: str, missing: bool, write: str) -> None:
    frame = people(missing)
    recoding = learn(frame, policy_of(), kind, write).recoding
    again = reloaded(recoding)
    assert again.kind == kind and again.to_json() == recoding.to_json()
    pd.testing.assert_frame_equal(again.apply(frame), recoding.apply(frame))
    new = people().assign(age=[0, 25, 50, 75] * 3, zip=["47903", "10009", "9", "99999"] * 3, sex=list("fmzf") * 3)
    pd.testing.assert_frame_equal(again.apply(new, nearest=True), recoding.apply(new, nearest=True))


@kinds
@given(case=cases())
@counted
def test_json_keeps_the_effect_on_any_table(case: Case, kind: str) -> Outcome:
    try:
        release = learn(case.frame, case.policy, kind)
    except shoal.RequirementNotMet:
        return "not met"
    assert list_rows(reloaded(release.recoding).apply(case.frame)) == list_rows(release.recoding.apply(case.frame))
    return None


def test_json_of_a_cut_keeps_the_effect() -> None:
    frame = people(missing=True)[["age", "sex", "job", "ill"]]
    recoding = cut_of({"age": [0, 30, 100], "job": ["Office", "Land", "sailor"]}, "age", "sex", "job")
    recoding = suppress(recoding, ("[0, 30)", None, "Land"))
    pd.testing.assert_frame_equal(reloaded(recoding).apply(frame), recoding.apply(frame))
    assert reloaded(recoding).to_json() == recoding.to_json()


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", "3", "null", '{"kind": "lattice"}', '{"kind": "boxes"}', '{"kind": "cut", "fields": 3}'],
)
def test_what_is_no_recoding_is_an_error_that_names_the_file(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "recoding.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(shoal.DataError, match=r"recoding\.json"):
        shoal.load_recoding(file)


# ---- the data it was learned on


@holes
@pytest.mark.parametrize("write", STYLES)
def test_boxes_give_their_own_release(missing: bool, write: str) -> None:
    frame = people(missing).set_axis(list("aabbccddeeff"), axis=0)
    release = learn(frame, policy_of(), "boxes", write)
    pd.testing.assert_frame_equal(release.recoding.apply(frame), release.frame)
    pd.testing.assert_frame_equal(release.recoding.apply(frame[::-1]), release.frame[::-1].reset_index(drop=True))


@holes
def test_assignment_places_its_own_data_in_boxes_that_hold_them(missing: bool) -> None:
    frame = people(missing)
    release = learn(frame, policy_of("age", "job"), "assignment")
    again = release.recoding.apply(frame)
    assert set(list_rows(again[["age", "job"]])) <= set(list_rows(release.frame[["age", "job"]]))
    for raw, label in zip(list_rows(frame[["age", "job"]]), list_rows(again[["age", "job"]]), strict=True):
        assert covers(QUASI["age"], raw[0], label[0]) and covers(QUASI["job"], raw[1], label[1])


@kinds
def test_later_frames_come_back_as_the_kind_they_are(kind: str) -> None:
    frame = people()
    recoding = learn(frame, policy_of(), kind).recoding
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    expected = list_rows(recoding.apply(frame))
    assert isinstance(recoding.apply(arrow), pa.Table) and list_rows(recoding.apply(arrow).to_pandas()) == expected
    polars = recoding.apply(pl.from_arrow(arrow))
    assert isinstance(polars, pl.DataFrame) and list_rows(polars.to_pandas()) == expected


@kinds
def test_later_data_may_be_empty(kind: str) -> None:
    release = learn(people(), policy_of(), kind)
    empty = release.recoding.apply(people().iloc[:0])
    assert len(empty) == 0 and list(empty.columns) == list(release.frame.columns)


@kinds
@pytest.mark.parametrize("column", ["age", "ill"])
def test_a_column_that_later_data_lack_is_named(kind: str, column: str) -> None:
    recoding = learn(people(), policy_of("age", "job"), kind).recoding
    with pytest.raises(shoal.ShoalError, match=f"column '{column}' is not in the table; choose from"):
        recoding.apply(people().drop(columns=column))


# ---- later data: numbers


@kinds
def test_new_numbers_inside_a_box_get_its_label(kind: str) -> None:
    frame = later(age=[10, 12, 20, 22])
    recoding = learn(frame, policy_of("age", k=2), kind).recoding
    assert list(recoding.apply(later(age=[11, 11.5, 12, 21]))["age"]) == ["[10, 12]"] * 3 + ["[20, 22]"]


@kinds
@pytest.mark.parametrize("age", [9.999, 12.001, 15, 22.5, 1e9, -1e9])
def test_numbers_outside_every_box_are_an_error(kind: str, age: float) -> None:
    recoding = learn(later(age=[10, 12, 20, 22]), policy_of("age", k=2), kind).recoding
    with pytest.raises(shoal.DataError, match="2 records are outside every box"):
        recoding.apply(later(age=[11, age, age]))


@kinds
def test_the_nearest_box_and_the_earlier_of_two(kind: str) -> None:
    recoding = learn(later(age=[10, 12, 20, 22]), policy_of("age", k=2), kind).recoding
    found = recoding.apply(later(age=[0, 15, 16, 17, 24, None]), nearest=True)["age"]
    assert list(found) == ["[10, 12]"] * 3 + ["[20, 22]"] * 2 + ["[10, 12]"]


@kinds
def test_the_nearest_box_of_a_number_far_away(kind: str) -> None:
    recoding = learn(later(age=[10, 12, 20, 22]), policy_of("age", k=2), kind).recoding
    assert list(recoding.apply(later(age=[-99, 40, 99]), nearest=True)["age"]) == ["[10, 12]", "[20, 22]", "[20, 22]"]


number = st.one_of(st.integers(0, 20).map(float), st.none())
sexes = st.sampled_from(["f", "m", "x", None])


@kinds
@given(data=st.data())
def test_the_nearest_box_is_nearest(kind: str, data: st.DataObject) -> None:
    draw = st.tuples(number, number, sexes)
    first = data.draw(st.lists(draw, min_size=6, max_size=14))
    frame = pd.DataFrame(first, columns=["a", "b", "c"]).astype({"a": float, "b": float})
    wide = {"bounds": [-100, 100]}  # so that no gap is as wide as the attribute
    quasi = {"a": wide, "b": wide, "c": "categorical"}
    release = learn(frame, shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(2)]), kind)
    far = st.tuples(st.one_of(st.integers(-9, 30).map(float), st.none()), number, st.sampled_from(["f", "new", None]))
    new = pd.DataFrame(data.draw(st.lists(far, min_size=1, max_size=6)), columns=["a", "b", "c"])
    new = new.astype({"a": float, "b": float})
    boxes = list(dict.fromkeys(list_rows(release.frame)))
    for raw, label in zip(list_rows(new), list_rows(release.recoding.apply(new, nearest=True)), strict=True):
        distances = {box: distance(raw, box) for box in boxes}
        assert distances[label] == pytest.approx(min(distances.values())), (raw, label, distances)


def distance(raw: tuple[object, ...], box: tuple[object, ...]) -> float:
    """Numbers: the gap over the bounds; categories and missing values: 0 or 1; ``*`` holds everything."""
    total = float(not covers("categorical", raw[2], box[2]))
    for value, label in zip(raw[:2], box[:2], strict=True):
        if covers("numeric", value, label):
            continue
        if value is None or label is None:
            total += 1.0
        else:
            low, high = ends(str(label))
            total += max(low - float(value), float(value) - high) / 200
    return total


def ends(label: str) -> tuple[float, float]:
    low, _, high = label.strip("[]").partition(", ")
    return float(low), float(high or low)


def covers(quasi: object, raw: object, label: object) -> bool:
    """Whether a published label holds a value."""
    if label == "*":
        return True
    if raw is None or label is None or raw != raw:
        return label is None and (raw is None or raw != raw)
    if quasi == "numeric":
        low, high = ends(str(label))
        return low <= float(raw) <= high
    if isinstance(quasi, dict) and "taxonomy" in quasi:
        tree = shoal.Taxonomy.from_nested(quasi["taxonomy"])
        nodes = [n for n, name in enumerate(tree.label) if name == label]
        return any(tree.lo[n] <= tree.leaves.index(str(raw)) <= tree.hi[n] for n in nodes)
    if isinstance(quasi, dict) and "mask" in quasi:
        return len(str(raw)) == len(str(label)) and all(
            m in ("*", c) for c, m in zip(str(raw), str(label), strict=True)
        )
    if isinstance(quasi, dict) and "date" in quasi:
        first, _, last = str(label).replace("0s", "").partition(" – ")
        return first <= str(raw)[: len(first)] and str(raw)[: len(last or first)] <= (last or first)
    return raw == label


@pytest.mark.parametrize("age", [3.0, 25.0, 99.0, None])
@kinds
def test_a_box_published_as_the_root_holds_every_number(kind: str, age: float | None) -> None:
    """It was published as ``*`` because a missing value is in it: then no later value contradicts the label."""
    recoding = learn(later(age=[20, None, 30, None]), policy_of("age", k=4), kind).recoding
    assert list(recoding.apply(later(age=[age]).astype({"age": float}))["age"]) == ["*"]


# ---- later data: categories


@kinds
def test_new_categories_are_an_error_that_names_them(kind: str) -> None:
    for column in ("sex", "job"):
        recoding = learn(people(), policy_of(column), kind).recoding
        with pytest.raises(shoal.DataError, match=rf"column '{column}' .*not in the recoding: 'pilot'"):
            recoding.apply(later(**{column: ["pilot"]}))
        known = set(recoding.apply(people())[column])
        assert set(recoding.apply(later(**{column: ["pilot"]}), nearest=True)[column]) <= known


@kinds
def test_a_node_holds_the_leaves_that_no_record_had(kind: str) -> None:
    """`Land` was published for farmers and miners; a later digger is `Land` too."""
    tree = {"ANY": {"Land": ["farmer", "miner", "digger"], "Sea": ["sailor", "diver"]}}
    frame = later(job=["farmer", "miner", "sailor", "diver"] * 2)
    policy = shoal.Policy(quasi={"job": {"taxonomy": tree}}, sensitive="ill", require=[shoal.KAnonymity(4)])
    recoding = learn(frame, policy, kind).recoding
    assert set(recoding.apply(frame)["job"]) == {"Land", "Sea"}
    assert list(recoding.apply(later(job=["digger"]))["job"]) == ["Land"]


# ---- later data: dates and masked codes


@pytest.mark.parametrize(
    ("column", "known", "new", "label"),
    [
        ("zip", ["47901", "47909", "48001", "48009"], "47905", "4790*"),
        ("zip", ["47901", "47999", "48001", "48009"], "47950", "479**"),
        ("phone", ["101", "901", "102", "902"], "501", "*01"),
        ("phone", ["101", "991", "102", "902"], "551", "**1"),
        ("birth", ["1984-03-02", "1984-03-30", "1990-05-01", "1990-05-09"], "1984-03-15", "1984-03"),
        ("birth", ["1984-03-02", "1984-09-30", "1990-05-01", "1990-05-09"], "1984-08-31", "1984"),
    ],
)
@kinds
def test_new_codes_and_dates_between_known_ones(kind: str, column: str, known: list[str], new: str, label: str) -> None:
    recoding = reloaded(learn(later(**{column: known}), policy_of(column, k=2), kind).recoding)
    assert list(recoding.apply(later(**{column: [new]}))[column]) == [label]


digits = st.text("019", min_size=1, max_size=4)
days = st.dates(pd.Timestamp("1999-11-01").date(), pd.Timestamp("2001-03-01").date()).map(str)


@pytest.mark.parametrize(
    ("quasi", "values"),
    [
        ({"mask": "right"}, digits),
        ({"mask": "left"}, digits),
        ({"date": ["day", "month", "year", "decade"]}, days),
        ({"date": ["month", "year"]}, days),
    ],
    ids=["mask right", "mask left", "day", "month"],
)
@pytest.mark.parametrize("kind", [*LEARNED, "cut"])
@given(data=st.data())
def test_a_later_code_or_date_gets_a_label_that_holds_it_or_none(
    kind: str, quasi: dict[str, object], values: st.SearchStrategy[str], data: st.DataObject
) -> None:
    known = data.draw(st.lists(values, min_size=2, max_size=12))
    policy = shoal.Policy(quasi={"x": quasi}, require=[shoal.KAnonymity(2)])
    recoding = learn(pd.DataFrame({"x": known}), policy, "boxes" if kind == "cut" else kind).recoding
    if kind == "cut":
        tree = recoding.fields[0].taxonomy
        nodes = [n for n in range(1, len(tree.label)) if tree.level[n] == 1]
        recoding = Cut.of(recoding.fields, {"x": [tree.label[n] for n in nodes]}, recoding.output)
    for new in data.draw(st.lists(values, min_size=1, max_size=5)):
        try:
            (label,) = recoding.apply(pd.DataFrame({"x": [new]}))["x"]
        except shoal.DataError:
            assert new not in known
            continue
        assert covers(quasi, new, label), (new, label)


# ---- later data: missing values


@pytest.mark.parametrize("column", QUASI)
@kinds
def test_a_value_missing_for_the_first_time_is_an_error(kind: str, column: str) -> None:
    first = people().head(10)  # codes of one length, so that no box is the root
    recoding = learn(first, policy_of(column, k=1), kind).recoding
    hole = later(**{column: [first[column][0], None]}).astype({column: object})
    with pytest.raises(shoal.DataError, match="1 record is outside every box"):
        recoding.apply(hole)
    found = recoding.apply(hole, nearest=True)[column]
    assert found.notna().all()


@pytest.mark.parametrize("column", QUASI)
@kinds
def test_missing_values_stay_missing_where_they_were_published_so(kind: str, column: str) -> None:
    frame = pd.concat([people().head(4), people().head(4).assign(**{column: None})], ignore_index=True)
    recoding = learn(frame.astype({column: object}), policy_of(column, missing=["", "?"]), kind).recoding
    known = people()[column][0]
    found = recoding.apply(later(**{column: [known, None, "?", ""]}).astype({column: object}))[column]
    if kind == "assignment" and "*" in set(found):  # the first box that holds a missing value
        assert set(found) == {"*"}
    else:
        assert list(found.isna()) == [False, True, True, True]


# ---- suppressed groups


@pytest.mark.parametrize("tree", [True, False], ids=["boxes", "assignment"])
@pytest.mark.parametrize("nearest", [False, True])
def test_suppressed_groups_stay_out(tree: bool, nearest: bool) -> None:
    frame = later(age=[1, 1, 2, 3, 3, 4])
    release = Each(policy_of("age", k=2, suppress=0.4), tree=tree).release(frame)
    assert list(release.frame["age"]) == ["1", "1", "3", "3"] and release.certificate.suppressed == 2
    recoding = reloaded(release.recoding)
    assert list(recoding.apply(frame, nearest=nearest)["age"]) == ["1", "1", "3", "3"]


def test_suppressed_combinations_of_a_cut_stay_out() -> None:
    recoding = suppress(cut_of({"age": [0, 30, 100]}, "age", "sex"), ("[0, 30)", "f"), ("[30, 100)", None))
    frame = later(age=[10, 10, 50, 50], sex=["f", "m", None, "f"])
    assert list_rows(recoding.apply(frame)) == [("[0, 30)", "m", "flu"), ("[30, 100)", "f", "flu")]


# ---- cuts


def cut_of(given: dict[str, list[object]], *columns: str) -> Cut:
    release = learn(people(), policy_of(*columns, k=1), "boxes")
    return Cut.of(release.recoding.fields, given, Output(("ill",), ("",)))


def suppress(recoding: Cut, *combinations: tuple[str | None, ...]) -> Cut:
    """The cut that suppresses these combinations of labels."""
    known = [[*cut.labels, None] for cut in recoding.cuts]
    rows = [[names.index(label) for names, label in zip(known, row, strict=True)] for row in combinations]
    return replace(recoding, suppressed=np.array(rows, np.int32))


def test_intervals_with_one_label_are_suppressed_one_by_one() -> None:
    """Rounded ends give two intervals one label."""
    frame = pd.DataFrame({"age": [21] * 3 + [25] * 3 + [42] * 3, "sex": ["f", "m", "m", "m", "m", "m", "f", "f", "f"]})
    policy = shoal.Policy(
        quasi={"age": {"kind": "numeric", "round": 10}, "sex": "categorical"},
        require=[shoal.KAnonymity(3)],
        suppress=0.5,
    )
    fields = shoal.anonymize(frame, policy, method="tds").recoding.fields
    ends = RangeEnds(np.array([20.0, 20.0, 40.0]), np.array([30.0, 30.0, 50.0]), np.array([False, False, True]))
    age = FieldCut.of_ends(fields[0], np.array([21.0, 25.0, 42.0, 42.0]), closed=True, published=ends)
    sexes = Cut.of(fields[1:], {}, Output((), ())).cuts
    younger_men = np.array([[0, sexes[0].labels.index("m")]], np.int32)
    cut = Cut(fields, Output((), ("",)), (age, *sexes), suppressed=younger_men)
    rows = list_rows(cut.apply(frame))
    assert sorted(rows) == [("[20, 30)", "f")] + [("[20, 30)", "m")] * 3 + [("[40, 50]", "f")] * 3


def test_a_cut_of_numbers_is_half_open() -> None:
    cut = cut_of({"age": [0, 30, 60]}, "age")
    assert list(cut.apply(later(age=[0, 29.9, 30, 59.9]))["age"]) == ["[0, 30)"] * 2 + ["[30, 60)"] * 2
    for age in (-0.1, 60, 99):
        with pytest.raises(shoal.DataError, match="1 record is outside"):
            cut.apply(later(age=[age, 3]))
    assert list(cut.apply(later(age=[-5, 60, 99]), nearest=True)["age"]) == ["[0, 30)", "[30, 60)", "[30, 60)"]


def test_a_cut_of_dates_writes_dates() -> None:
    first, last = (pd.Timestamp(d).timestamp() for d in ("1980-01-01", "1990-01-01"))
    cut = Cut.of([Field("birth", "date", 1.0)], {"birth": [first, last]}, Output((), ("",)))
    assert list(cut.apply(pd.DataFrame({"birth": ["1985-05-30"]}))["birth"]) == ["[1980-01-01, 1990-01-01)"]


def test_a_cut_takes_nodes_of_any_level() -> None:
    cut = cut_of({"job": ["Office", "farmer", "miner", "Sea"]}, "job")
    jobs = ["clerk", "manager", "farmer", "miner", "sailor"]
    assert list(cut.apply(later(job=jobs))["job"]) == ["Office", "Office", "farmer", "miner", "Sea"]
    assert list(cut_of({}, "job").apply(later(job=jobs))["job"]) == jobs


def test_a_cut_at_the_root_holds_missing_values_and_others_keep_them_missing() -> None:
    frame = later(age=[5, None], job=["clerk", None], sex=["f", None])
    whole = cut_of({"age": ["*"], "job": ["*"], "sex": ["*"]}, "age", "job", "sex")
    assert list_rows(whole.apply(frame)) == [("*", "*", "*", "flu")] * 2
    fine = cut_of({"age": [0, 9], "job": ["Office", "Field"]}, "age", "job", "sex")
    assert list_rows(fine.apply(frame)) == [("[0, 9)", "Office", "f", "flu"), (None, None, None, "flu")]


def test_a_cut_places_a_new_code_under_the_node_that_holds_it() -> None:
    release = learn(later(zip=["47901", "48001"]), policy_of("zip", k=1), "boxes")
    cut = Cut.of(release.recoding.fields, {"zip": ["47***", "48***"]}, release.recoding.output)
    assert list(cut.apply(later(zip=["47902", "47000", "48009", "48000"]))["zip"]) == ["47***"] * 2 + ["48***"] * 2
    with pytest.raises(shoal.DataError):
        cut.apply(later(zip=["10000"]))
    with pytest.raises(shoal.DataError):
        cut.apply(later(zip=["47"]))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "'age' is not given"),
        ({"age": [3]}, "at least two boundaries"),
        ({"age": [3, 3]}, "ascending order"),
        ({"age": [9, 3]}, "ascending order"),
        ({"age": ["x", "y"]}, "'age'"),
        ({"age": [3, math.nan]}, "'age'"),
        ({"age": ["*"], "job": ["Ofice", "Field"]}, "did you mean 'Office'"),
        ({"age": ["*"], "job": ["Office"]}, "exactly one node"),
        ({"age": ["*"], "job": ["Office", "Field", "sailor"]}, "exactly one node"),
        ({"age": ["*"], "job": []}, "exactly one node"),
    ],
)
def test_an_invalid_cut_is_an_error(given: dict[str, list[object]], text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        cut_of(given, "age", "job")


# ---- ways of writing


WRITTEN = {
    "label": [["[20, 30]", "*", "Office"], ["[41, 50]", "x", "sailor"], [None, None, None], ["*", "*", "*"]],
    "lo-hi": [[20, 30, "*", "Office"], [41, 50, "x", "sailor"], [None, None, None, None], [None, None, "*", "*"]],
    "midpoint": [[25, "*", "Office"], [45.5, "x", "sailor"], [None, None, None], [None, "*", "*"]],
    "mean": [[25, "f", "clerk"], [46, "x", "sailor"], [None, None, None], [None, None, None]],
    "median": [[25, "f", "clerk"], [46, "x", "sailor"], [None, None, None], [None, None, None]],
    "set": [
        ["[20, 30]", "{f, m}", "{clerk, manager}"],
        ["[41, 50]", "x", "sailor"],
        [None, None, None],
        ["*", "{f, ?}", "{farmer, ?}"],
    ],
}


@kinds
@pytest.mark.parametrize("write", STYLES)
def test_ways_of_writing(kind: str, write: str) -> None:
    """Four groups told apart by their ward: a plain one, one of equal values, one all missing, one with holes."""
    frame = pd.DataFrame(
        {
            "ward": [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4],
            "age": [20, 25, 30, 41, 46, 50, None, None, None, 20, None, None],
            "sex": ["f", "m", "f", "x", "x", "x", None, None, None, "f", None, None],
            "job": ["clerk", "manager", "clerk", *["sailor"] * 3, None, None, None, "farmer", None, None],
        }
    )
    quasi = {"ward": "categorical", **{c: QUASI[c] for c in ("age", "sex", "job")}}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(3)])
    release = Each(policy, by="ward", tree=kind == "boxes", write=write).release(frame)
    expected = [(ward, *WRITTEN[write][int(ward) - 1]) for ward in "111222333444"]
    assert list_rows(release.frame) == expected
    assert release.recoding.kind == kind
    if kind == "boxes":  # an assignment sends a record to the first box that holds it, here ``*`` for all
        assert list_rows(reloaded(release.recoding).apply(frame)) == expected


@given(case=cases(), write=st.sampled_from(["lo-hi", "midpoint", "set"]), kind=st.sampled_from(list(LEARNED)))
@counted
def test_what_is_written_holds_the_originals(case: Case, write: str, kind: str) -> Outcome:
    try:
        frame = learn(case.frame, case.policy, kind, write).frame
    except shoal.RequirementNotMet:
        return "not met"
    raw = case.frame.reset_index(drop=True)
    plain = {
        name for name, quasi in case.policy.quasi.items() if quasi.tree_builder is None
    }  # trees are written as labels
    numbers = plain & {"age", "score"}
    words = set(case.policy.quasi) & {"sex", "job", "city"}
    if not (words if write == "set" else numbers):
        return "no such column"
    for name in numbers:
        if write == "lo-hi":
            assert name not in frame
            inside = (frame[f"{name}_lo"] <= raw[name].astype(float)) & (raw[name].astype(float) <= frame[f"{name}_hi"])
            assert (inside | frame[f"{name}_lo"].isna()).all()
            assert (frame[f"{name}_lo"].isna() | raw[name].notna()).all()
        if write == "midpoint":
            assert frame[name].dropna().between(raw[name].astype(float).min(), raw[name].astype(float).max()).all()
    for name in words:
        if write == "set":
            for value, label in zip(raw[name], frame[name], strict=True):
                member = "?" if pd.isna(value) else value
                alone = None if pd.isna(label) else label
                assert member in str(label).strip("{}").split(", ") or alone == (None if pd.isna(value) else value)
    return None


def test_an_unknown_style_lists_the_choices() -> None:
    with pytest.raises(shoal.PolicyError, match=r"unknown value 'labels' for 'write'.*'lo-hi'.*did you mean 'label'"):
        learn(people(), policy_of("age"), "boxes", "labels")
    with pytest.raises(shoal.PolicyError, match="unknown value '5' for 'write'"):
        learn(people(), policy_of("age"), "boxes", 5)  # type: ignore[arg-type]


def test_two_published_columns_may_not_clash_with_an_unchanged_one() -> None:
    policy = policy_of("age", keep=["age_lo"])
    with pytest.raises(shoal.PolicyError, match="'age_lo' would have the name of another column"):
        learn(people().assign(age_lo=1), policy, "boxes", "lo-hi")
