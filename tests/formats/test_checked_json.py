"""Saved files are not trusted: a manipulated file is an error that names it, or gives labels that may be released."""

from __future__ import annotations

import base64
import copy
import json
import shutil
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.formats import checked_json
from shoal.recoding import serialization
from shoal.release.ledger import Ledger
from tests.support.outcomes import Outcome, counted

FRAME = pd.DataFrame(
    {
        "name": [f"person {i}" for i in range(60)],
        "age": [20 + i % 37 for i in range(60)],
        "job": [["clerk", "nurse", "farmer", "miner"][i % 4] for i in range(60)],
        "zip": [f"4{i % 3}{i % 7}" for i in range(60)],
        "ill": [["flu", "cold", "gout"][i % 3] for i in range(60)],
    }
)
POLICY = shoal.Policy(
    identifiers=["name"],
    quasi={
        "age": "numeric",
        "job": {"taxonomy": {"ANY": {"Indoors": ["clerk", "nurse"], "Outdoors": ["farmer", "miner"]}}},
        "zip": {"mask": "right"},
    },
    sensitive="ill",
    require=[shoal.KAnonymity(3)],
    suppress=0.1,
)
WAYS: dict[str, dict[str, Any]] = {
    "boxes": {},
    "boxes-lo-hi": {"write": "lo-hi"},
    "assignment": {"method": "mdav"},
    "cut": {"method": "tds", "max_steps": 20},
    "cut-midpoint": {"method": "tds", "max_steps": 20, "write": "midpoint"},
    "parts": {"engine": "duckdb", "combinations": 25},
    "synthesis": {"method": "condensation", "seed": 1},
}
ways = pytest.mark.parametrize("way", WAYS)


@cache
def place_of_releases() -> Path:
    return Path(mkdtemp())


@cache
def saved(way: str) -> Path:
    """The owner folder of a release, created once; tests copy it."""
    place = place_of_releases() / way
    policy = POLICY if not way.startswith("cut") else POLICY.model_copy(update={"target": "ill", "sensitive": ()})
    shoal.anonymize(FRAME, policy, **WAYS[way]).save(place)
    return place.with_name(f"{way}.owner")


@pytest.fixture(scope="module", autouse=True)
def sweep() -> Any:
    """Remove the saved releases."""
    yield
    shutil.rmtree(place_of_releases(), ignore_errors=True)
    saved.cache_clear()
    place_of_releases.cache_clear()


@pytest.fixture
def owner(tmp_path: Path) -> Callable[[str], Path]:
    return lambda way: Path(shutil.copytree(saved(way), tmp_path / "release.owner"))


def rewrite(file: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    changed = change(content)
    file.write_text(json.dumps(content if changed is None else changed), encoding="utf-8")


@ways
def test_saved_files_are_read(way: str, owner: Callable[[str], Path]) -> None:
    file = owner(way) / "recoding.json"
    recoding = shoal.load_recoding(file)
    assert recoding.to_json() == file.read_text(encoding="utf-8") or way == "parts"
    if way != "synthesis":
        assert set(recoding.apply(FRAME, nearest=True)) <= {"age", "age_lo", "age_hi", "job", "zip", "ill"}


@ways
def test_packed_arrays_are_read(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recoding = shoal.load_recoding(saved(way) / "recoding.json")
    monkeypatch.setattr(checked_json, "LONGEST_LIST", 2)
    file = tmp_path / "recoding.json"
    for part in saved(way).glob("recoding-*.json"):
        shutil.copy(part, tmp_path)
    file.write_text(recoding.to_json(), encoding="utf-8")
    assert shoal.load_recoding(file).to_json() == recoding.to_json()
    assert "packed" in file.read_text(encoding="utf-8") or way in ("cut", "cut-midpoint", "synthesis")


def test_an_assignment_without_a_box_releases_nothing(owner: Callable[[str], Path]) -> None:
    file = owner("assignment") / "recoding.json"

    def empty(found: Any) -> None:
        columns = [{**entry, "values": [], "index": []} for entry in found["written"]]
        found.update(lo=[], hi=[], group=[-1] * len(found["group"]), written=columns)

    rewrite(file, empty)
    assert len(shoal.load_recoding(file).apply(FRAME.assign(age=1), nearest=True)) == 0


# ---- an attacker with an editor


def set_(*path: Any) -> Callable[[Any], None]:
    """Put the last of these at the place that the others name."""
    *where, last, value = path

    def change(content: Any) -> None:
        for step in where:
            content = content[step]
        content[last] = value

    return change


def swap_children(content: Any) -> None:
    """A node that is its own child, cut off from the root."""
    tree = content["tree"]
    inner = next(n for n in range(1, len(tree["field"])) if tree["field"][n] >= 0)
    tree["left"][0], tree["left"][inner] = tree["left"][inner], tree["left"][0]


PACKED = base64.b64encode(zlib.compress(b"\0" * 8 * 10**6)).decode()
BOXES: dict[str, Callable[[Any], Any]] = {
    "a root that is its own child": set_("tree", "left", 0, 0),
    "a child that leads back": set_("tree", "right", 1, 1),
    "a cycle beside the tree": swap_children,
    "a child beyond the end": set_("tree", "left", 0, 10**6),
    "a negative child": set_("tree", "right", 0, -5),
    "a field beyond the end": set_("tree", "field", 0, 99),
    "a negative field": set_("tree", "field", 0, -7),
    "a group beyond the end": set_("tree", "group", -1, 10**6),
    "a negative group": set_("tree", "group", -1, -2),
    "a number that is too large": set_("tree", "left", 0, 2**40),
    "a number with a thousand digits": set_("tree", "at", 0, 10**1000),
    "NaN": set_("tree", "at", 0, float("nan")),
    "a text for a number": set_("tree", "at", 0, "12"),
    "true for a number": set_("tree", "left", 0, True),
    "arrays of different lengths": lambda found: found["tree"]["left"].pop(),
    "no tree": lambda found: found.pop("tree"),
    "a list for the tree": set_("tree", []),
    "ragged boxes": lambda found: found["lo"][0].pop(),
    "fewer boxes": lambda found: found["hi"].pop(),
    "a box turned around": set_("lo", 0, 0, 10**9),
    "an index beyond the values": set_("written", 0, "index", 0, 10**6),
    "a negative index": set_("written", 0, "index", 0, -3),
    "too few indices": lambda found: found["written"][0]["index"].pop(),
    "a column that is no field": set_("written", 0, "source", "name"),
    "another name": set_("written", 0, "name", "name"),
    "a name twice": set_("written", 0, "name", "job"),
    "a name that is kept": set_("kept", ["age"]),
    "a field that is not written": lambda found: found["written"].pop(),
    "values of two kinds": set_("written", 0, "values", ["a", 3]),
    "nested values": set_("written", 0, "values", [["a"]]),
    "an identifier kept": set_("kept", ["ill", "name"]),
    "a text for kept": set_("kept", "ill"),
    "kept twice": set_("kept", ["ill", "ill"]),
    "a number for a token": set_("missing", [1]),
    "an identifier as a field": set_("fields", 0, "name", "name"),
    "a field twice": lambda found: found["fields"].append(found["fields"][0]),
    "no fields": set_("fields", []),
    "another kind of field": set_("fields", 0, "kind", "categorical"),
    "an unknown kind of field": set_("fields", 0, "kind", "x" * 10**6),
    "no span": set_("fields", 0, "span", 0),
    "an endless span": set_("fields", 0, "span", float("inf")),
    "a rule that does not fit": set_("fields", 2, "maker", {"widths": [1], "origin": 0}),
    "a rule without a tree": lambda found: found["fields"][2].pop("taxonomy"),
    "an empty tree": set_("fields", 1, "taxonomy", {}),
    "a tree of nothing": set_("fields", 1, "taxonomy", {"ANY": None}),
    "leaves that occur twice": set_("fields", 1, "taxonomy", {"ANY": ["a", "a"]}),
    "packed bytes that are none": set_("lo", {"shape": [1, 3], "type": "<f8", "packed": "?"}),
    "packed bytes of another format": set_("lo", {"shape": [1, 3], "type": "<f8", "packed": "AAAA"}),
    "more than the shape says": set_("lo", {"shape": [1, 3], "type": "<f8", "packed": PACKED}),
    "less than the shape says": set_("lo", {"shape": [10**7, 3], "type": "<f8", "packed": PACKED}),
    "a shape that no memory holds": set_("lo", {"shape": [10**15, 3], "type": "<f8", "packed": PACKED}),
    "a negative shape": set_("lo", {"shape": [-1, 3], "type": "<f8", "packed": PACKED}),
    "objects in an array": set_("lo", {"shape": [1, 3], "type": "|O", "packed": PACKED}),
    "another kind": set_("kind", "cut"),
    "a list for the kind": set_("kind", ["boxes"]),
}


@pytest.mark.parametrize("name", BOXES)
def test_boxes_that_were_changed_are_refused(name: str, owner: Callable[[str], Path]) -> None:
    file = owner("boxes") / "recoding.json"
    rewrite(file, BOXES[name])
    with pytest.raises(shoal.DataError, match=r"recoding\.json"):
        shoal.load_recoding(file)
    with pytest.raises(shoal.ShoalError):
        shoal.anonymize(FRAME, recoding=file)


@pytest.mark.parametrize(
    ("way", "change"),
    [
        ("assignment", set_("group", 0, 10**6)),
        ("assignment", set_("group", 0, -2)),
        ("assignment", set_("weight", 0, 0)),
        ("assignment", lambda found: found["cells"].pop()),
        ("assignment", set_("cells", 0, [1])),
        ("cut", set_("cuts", 0, "labels", [])),
        ("cut", set_("cuts", 0, "begin", "abc")),
        ("cut", set_("cuts", 0, "begin", 0, "nan")),
        ("cut", set_("cuts", 0, "begin", 0, 1e300)),
        ("cut", set_("cuts", 0, "labels", 0, None)),
        ("cut", set_("cuts", 0, "closed", "no")),
        ("cut", set_("numbers", "mean")),
        ("cut", set_("suppressed", [["*"]])),
        ("cut", set_("suppressed", [[0, 0]])),
        ("cut", set_("suppressed", [[0, 0, 10**6]])),
        ("cut", set_("suppressed", [[0, 0, -1]])),
        ("cut-midpoint", set_("cuts", 0, "begin", 0, None)),
        ("cut", lambda found: found["cuts"].pop()),
        ("parts", set_("part", 0, 2**31 - 1)),
        ("parts", set_("part", -1, 0)),
        ("parts", set_("left", 0, 0)),
        ("parts", set_("digests", [])),
        ("parts", set_("digests", "x")),
        ("parts", set_("kept", ["ill", "name"])),
        ("synthesis", set_("size", 0, 0)),
        ("synthesis", set_("mean", [[1]])),
        ("synthesis", set_("covariance", 3)),
        ("synthesis", set_("scales", 0, "unit", 0)),
        ("synthesis", set_("scales", 0, "name", "name")),
        ("synthesis", set_("shares", 0, "code", 0, 99)),
        ("synthesis", set_("shares", 0, "start", 1, 10**6)),
    ],
)
def test_other_kinds_that_were_changed_are_refused(
    way: str, change: Callable[[Any], Any], owner: Callable[[str], Path]
) -> None:
    file = owner(way) / "recoding.json"
    rewrite(file, change)
    with pytest.raises(shoal.DataError, match=r"recoding\.json"):
        shoal.load_recoding(file)


@pytest.mark.parametrize(
    "text",
    ["[" * 10**5, '{"kind":' * 10**5, '{"a":' * 900 + "1" + "}" * 900, "1" * 10**5, "\0", "NaN", '{"kind": NaN}'],
)
def test_texts_that_break_a_parser_are_refused(text: str, owner: Callable[[str], Path]) -> None:
    folder = owner("boxes")
    for name in ("groups.json", "recoding.json"):
        (folder / name).write_text(text)
        with pytest.raises(shoal.DataError, match=name):
            shoal.anonymize(FRAME, recoding=folder)


def test_a_part_of_another_recoding_is_refused(owner: Callable[[str], Path]) -> None:
    """Someone who changes a part also changes the digest: the columns of the part are compared."""
    folder = owner("parts")
    recoding = shoal.load_recoding(folder / "recoding.json")
    part = folder / "recoding-0.json"
    original = part.read_text(encoding="utf-8")
    rewrite(part, set_("kept", ["ill", "name"]))
    with pytest.raises(shoal.DataError, match=r"recoding-0\.json.*differ from those of the whole"):
        recoding.apply(FRAME)
    shutil.copy(saved("synthesis") / "recoding.json", part)
    with pytest.raises(shoal.DataError, match=r"recoding-0\.json.*cannot have the kind 'synthesis'"):
        recoding.apply(FRAME)
    part.write_text(original, encoding="utf-8")
    assert len(recoding.apply(FRAME))


def test_the_policy_in_the_folder_decides_which_columns_are_kept(owner: Callable[[str], Path]) -> None:
    folder = owner("boxes")
    file = folder / "recoding.json"
    rewrite(file, set_("kept", ["ill", "name"]))
    with pytest.raises(
        shoal.DataError, match=r"recoding\.json.*column 'name' is released unchanged in the recoding, but not"
    ):
        shoal.load_recoding(file)
    (folder / "policy.yaml").unlink()
    assert "name" in shoal.load_recoding(file).apply(FRAME)  # as documented: no other file limits the released columns


def test_a_damaged_ledger_beside_the_place_of_a_release_is_named(owner: Callable[[str], Path], tmp_path: Path) -> None:
    folder = owner("boxes")
    later = shoal.anonymize(FRAME.head(30), recoding=folder)
    later.save(tmp_path / "later")
    for text in ("", "[]", "{}", '{"fingerprint": 3}', "[" * 10**5):
        (tmp_path / "later.owner" / "ledger.json").write_text(text)
        with pytest.raises(shoal.DataError, match=r"ledger\.json"):
            later.save(tmp_path / "later", overwrite=True)


# ---- files that would take much time or memory


def pack(zeros: int, shape: list[int]) -> dict[str, Any]:
    """A packed array of zero bytes, compressed as far as possible."""
    return {"shape": shape, "type": "<f8", "packed": base64.b64encode(zlib.compress(bytes(zeros), 9)).decode()}


BOMB = pack(2**22, [2**19])
BOMBS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "one array": ("recoding.json", set_("lo", {**BOMB, "shape": [2**24, 3]})),
    "an array of the tree": ("recoding.json", set_("tree", "field", {**BOMB, "shape": [2**25]})),
    "many arrays": ("recoding.json", set_("sets", [{"field": 1, "start": BOMB, "code": BOMB}] * 20)),
    "the groups of the ledger": ("groups.json", set_("groups", {**BOMB, "shape": [2**24, 3]})),
    "an unknown key": ("groups.json", set_("more", [{**BOMB, "shape": [2**24, 1]}])),
}


@pytest.mark.parametrize("name", BOMBS)
def test_arrays_that_are_too_long_for_the_file_are_not_unpacked(
    name: str, owner: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = owner("boxes")
    file, change = BOMBS[name]
    rewrite(folder / file, change)

    def unpack() -> None:
        raise AssertionError("an array was unpacked")

    monkeypatch.setattr(checked_json.zlib, "decompressobj", unpack)
    with pytest.raises(shoal.DataError, match=rf"{file}.*too long for the size of the file"):
        shoal.load_recoding(folder / file) if file == "recoding.json" else Ledger.load(folder / "recoding.json")


def test_arrays_with_many_constant_columns_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes of 50 columns, of which two were cut, are the best compressed arrays that a method makes."""
    rng = np.random.default_rng(1)
    low = np.full((30_000, 50), -np.inf)
    low[:, 3], low[:, 20] = rng.integers(0, 90, 30_000), rng.integers(0, 1000, 30_000)
    arrays = {"lo": low, "hi": -low, "group": rng.permutation(60_000).astype(np.int32), "weight": np.ones(60_000, int)}
    monkeypatch.setattr(checked_json, "UNPACKED", 0)
    text = json.dumps({name: checked_json.array_to_json(values) for name, values in arrays.items()})
    found = checked_json.read_object(text)
    for name, values in arrays.items():
        np.testing.assert_array_equal(checked_json.array(found, name, values.dtype.type, values.shape), values)


@pytest.mark.parametrize("size", [0, 1, 2**14, 2**20 + 3])
def test_packed_bytes_must_end_where_the_shape_ends(size: int) -> None:
    values = np.random.default_rng(1).integers(0, 2**60, size)
    packed = zlib.compress(values.tobytes(), 1)

    def unpack(data: bytes, shape: int) -> Any:
        given = {"shape": [shape], "type": "<i8", "packed": base64.b64encode(data).decode()}
        return checked_json.array({"a": given}, "a", np.int64, (None,))

    np.testing.assert_array_equal(unpack(packed, size), values)
    for data, shape in [(packed + b"x", size), (packed + bytes(2**15), size), (packed[:-1], size), (packed, size + 1)]:
        with pytest.raises(shoal.DataError, match="'a'"):
            unpack(data, shape)
    if size:
        with pytest.raises(shoal.DataError, match="differs from its shape"):
            unpack(packed, size - 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]," * 2_000_001, "lists and objects"),
        ("{}," * 2_000_001, "lists and objects"),
        ("0," * 2**24 + "0,", "values"),
    ],
    ids=["lists", "objects", "numbers"],
)
def test_a_file_of_too_many_values_is_not_parsed(
    content: str, reason: str, owner: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = owner("boxes")
    monkeypatch.setattr(checked_json.json, "loads", lambda *_, **__: pytest.fail("the file was parsed"))
    for name in ("recoding.json", "groups.json"):
        (folder / name).write_text(f'{{"kind": "boxes", "x": [{content}0]}}')
        with pytest.raises(shoal.DataError, match=rf"{name}.*more than [\d,]+ {reason}"):
            shoal.load_recoding(folder / name) if name == "recoding.json" else Ledger.load(folder / "recoding.json")


def test_a_large_file_is_refused(owner: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_json, "LARGEST", 100)
    with pytest.raises(shoal.DataError, match=r"recoding\.json.*more than 100 bytes"):
        shoal.load_recoding(owner("boxes") / "recoding.json")


JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='"\\[{,é\n a', max_size=5),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(alphabet='"\\,[a', max_size=3), below),
)


def count(content: Any) -> tuple[int, int]:
    """The lists and objects in JSON content, and the commas between their entries."""
    if not isinstance(content, (list, dict)):
        return 0, 0
    below = [count(entry) for entry in (content.values() if isinstance(content, dict) else content)]
    return 1 + sum(n for n, _ in below), max(len(content) - 1, 0) + sum(n for _, n in below)


@given(content=JSON, ascii_only=st.booleans())
def test_characters_of_labels_are_not_counted_as_values(content: Any, ascii_only: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked_json, "STEP", 7)
        assert checked_json._count_outside_texts(json.dumps(content, ensure_ascii=ascii_only)) == count(content)


# ---- content that Shoal never writes


@ways
def test_an_unknown_key_is_refused(way: str, owner: Callable[[str], Path]) -> None:
    file = owner(way) / "recoding.json"
    rewrite(file, set_("more", 1))
    with pytest.raises(shoal.DataError, match=r"recoding\.json.*keys that are unknown.*'more'"):
        shoal.load_recoding(file)


def test_an_unknown_key_in_a_ledger_is_refused(owner: Callable[[str], Path]) -> None:
    folder = owner("boxes")
    rewrite(folder / "groups.json", set_("more", 1))
    with pytest.raises(shoal.DataError, match=r"groups\.json.*keys that are unknown.*'more'"):
        Ledger.load(folder / "recoding.json")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("recoding.json", lambda text: set_("written", 1, "values", 0, text)),
        ("recoding.json", lambda text: set_("missing", ["", text])),
        ("recoding.json", lambda text: set_("fields", 1, "taxonomy", {"ANY": [text, "b"]})),
        ("recoding.json", lambda text: set_(text, 1)),
        ("groups.json", lambda text: set_("columns", 1, "labels", 0, text)),
        ("groups.json", lambda text: set_("confidential", [{"name": "ill", "labels": [text]}])),
    ],
)
@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc00\ud800"], ids=ascii)
def test_a_lone_surrogate_is_refused(
    name: str, change: Callable[[str], Callable[[Any], Any]], text: str, owner: Callable[[str], Path]
) -> None:
    folder = owner("boxes")
    rewrite(folder / name, change(text))
    with pytest.raises(shoal.DataError, match=rf"{name}.*lone surrogate"):
        shoal.load_recoding(folder / name) if name == "recoding.json" else Ledger.load(folder / "recoding.json")


def test_an_escaped_surrogate_pair_is_read(owner: Callable[[str], Path]) -> None:
    file = owner("boxes") / "recoding.json"
    rewrite(file, set_("written", 1, "values", 0, "\U0001f600"))
    assert "\\ud83d\\ude00" in file.read_text(encoding="utf-8")
    assert "\U0001f600" in shoal.load_recoding(file).to_json()


# ---- an attacker without a plan

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2, 7, 10**6, -(10**6), 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), 0.5]),
    st.sampled_from(["", "*", "inf", "nan", "name", "age", "job", "ill", "numeric", "date", "categorical", "\0"]),
    st.sampled_from([[], {}, [[]], [0], ["name"], {"name": "name"}, {"shape": [3], "type": "<i4", "packed": "eJw="}]),
)


def places(content: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    found = [prefix] if prefix else []
    for key, below in items:
        found += places(below, (*prefix, key))
    return found


def value_at(content: Any, place: Sequence[Any]) -> Any:
    for step in place:
        content = content[step]
    return content


def mutate(content: Any, data: st.DataObject) -> None:
    """Replace, delete, repeat or swap a value somewhere."""
    *where, last = data.draw(st.sampled_from(places(content)))
    for step in where:
        content = content[step]
    action = data.draw(st.sampled_from(["replace", "delete", "swap", "repeat", "near"]))
    if action == "replace":
        content[last] = data.draw(VALUES)
    elif action == "delete":
        del content[last]
    elif action == "near" and type(content[last]) in (int, float):
        content[last] += data.draw(st.sampled_from([-1, 1, -100, 100]))
    elif action == "repeat" and isinstance(content, list):
        content.insert(last, copy.deepcopy(content[last]))
    elif len(content) > 1:
        other = data.draw(st.sampled_from(list(content) if isinstance(content, dict) else range(len(content))))
        content[last], content[other] = content[other], content[last]


def change_number(content: Any, data: st.DataObject) -> None:
    """Change a number somewhere by one or two, which is accepted more often than a mutation."""
    numbers = [place for place in places(content) if type(value_at(content, place)) in (int, float)]
    *where, last = data.draw(st.sampled_from(numbers))
    value_at(content, where)[last] += data.draw(st.sampled_from([-1, 1, 2]))


def change(content: Any, data: st.DataObject) -> None:
    """Change one number a little, or mutate a few values."""
    if data.draw(st.booleans()):
        change_number(content, data)
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            mutate(content, data)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "synthesis"])
@given(data=st.data())
@counted
def test_a_recoding_that_was_mutated_is_refused_or_releases_nothing_else(way: str, data: st.DataObject) -> Outcome:
    original = saved(way)
    with TemporaryDirectory() as place:
        folder = Path(shutil.copytree(original, Path(place) / "owner"))
        name = data.draw(st.sampled_from(sorted(f.name for f in folder.glob("recoding*.json"))))
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        change(content, data)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
        if name != "recoding.json":  # the attacker mends the digest of a part
            digest = shoal.engines.digest_file(folder / name)
            rewrite(folder / "recoding.json", set_("digests", int(name[9:-5]), digest))
        try:
            found = shoal.load_recoding(folder / "recoding.json").apply(FRAME, nearest=data.draw(st.booleans()))
        except (shoal.DataError, shoal.PolicyError):
            return "refused"
    assert set(found) <= {"age", "age_lo", "age_hi", "job", "zip", "ill"}
    assert len(found) <= len(FRAME)
    assert not any("person" in str(value) for value in found.to_numpy().ravel())
    return None


@given(data=st.data())
@counted
def test_a_synthesis_that_was_mutated_is_refused_or_releases_nothing(data: st.DataObject) -> Outcome:
    content = json.loads((saved("synthesis") / "recoding.json").read_text(encoding="utf-8"))
    change(content, data)
    with TemporaryDirectory() as place:
        file = Path(place) / "recoding.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        try:
            recoding = shoal.load_recoding(file)
        except (shoal.DataError, shoal.PolicyError):
            return "refused"
    with pytest.raises(shoal.DataError, match="a synthesis cannot be applied to later data"):
        recoding.apply(FRAME, nearest=data.draw(st.booleans()))
    return None


@given(data=st.data())
@counted
def test_a_ledger_that_was_mutated_is_refused_or_counts(data: st.DataObject) -> Outcome:
    content = json.loads((saved("boxes") / "groups.json").read_text(encoding="utf-8"))
    change(content, data)
    with TemporaryDirectory() as place:
        folder = Path(shutil.copytree(saved("boxes"), Path(place) / "owner"))
        (folder / "groups.json").write_text(json.dumps(content), encoding="utf-8")
        try:
            release = shoal.anonymize(FRAME.head(30), recoding=folder)
            ledger = Ledger.load(folder / "recoding.json")
        except shoal.ShoalError:
            return "refused"
    assert release.certificate.holds and (ledger.groups.size > 0).all()
    assert "name" not in release.frame
    return None


def test_a_cut_off_cycle_is_found_in_a_large_tree() -> None:
    """A chain of a hundred thousand nodes, and the same with two nodes that lead to one another."""
    nodes = 200_001
    field = np.where(np.arange(nodes) % 2 == 0, 0, -1).astype(np.int32)
    field[-1] = -1
    left, right = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int32)
    inner = np.flatnonzero(field >= 0)
    left[inner], right[inner] = inner + 1, inner + 2
    leaf = np.where(field < 0, 0, -1).astype(np.int32)
    at = np.zeros(nodes)
    serialization.check_tree(1, field, at, left, right, leaf, leaves=1)
    new = np.append(0, 1 + np.random.default_rng(1).permutation(nodes - 1)).astype(
        np.int32
    )  # any order of the nodes does
    old = np.argsort(new)
    moved = [np.append(new, -1)[child].astype(np.int32)[old] for child in (left, right)]
    serialization.check_tree(1, field[old], at, *moved, leaf[old], leaves=1)
    right[inner[5]], right[inner[9]] = right[inner[9]], right[inner[5]]
    with pytest.raises(shoal.DataError, match="does not reach every node"):
        serialization.check_tree(1, field, at, left, right, leaf, leaves=1)
