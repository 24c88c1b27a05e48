"""Canaries: values that only suppressed records, identifiers and dropped columns have are in no byte that is published."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import shoal
from tests.support.parquet import pages

duckdb = pytest.importorskip("duckdb")

ROWS = 40
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("mondrian", {}),
    ("mondrian", {"ends": "cut"}),
    ("mondrian", {"cut": "median", "relaxed": True}),
    ("mondrian", {"cut": "median", "relaxed": True, "ends": "cut"}),
    ("mondrian", {"improve": True}),
    ("tds", {}),
    ("tds", {"ends": "tight"}),
    ("tds", {"ends": "cut"}),
    ("tds", {"improve": True}),
    ("bottom-up", {}),
    ("optimal", {}),
    ("optimal", {"objective": "loss_mean", "ends": "tight"}),
    ("agglomerative", {}),
    ("kmember", {}),
    ("knn", {}),
    ("mdav", {}),
    ("condensation", {}),
    ("local-suppression", {}),
]
STYLES = ("label", "lo-hi", "midpoint", "set", "mean", "median")
LABELS = ("condensation", "local-suppression")  # only one way of writing
STRICT = ("tds", "bottom-up", "optimal")  # global cuts have no means


def word(chance: random.Random) -> str:
    return "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(18))


def table(seed: int, kind: str) -> tuple[pd.DataFrame, shoal.Policy]:
    """Few common values, and many that a single record has: numbers of 13 digits, words of 18 letters, days far away.

    Common values are as long, because all records of one of them may be suppressed: two digits occur by chance in any file.
    """
    chance = random.Random(seed)
    common = [word(chance) for _ in range(3)]
    rare = [i % 5 == 0 for i in range(ROWS)]

    def number(alone: bool, unit: int) -> int:
        return chance.randrange(10**12, 10**13) if alone else unit * chance.randrange(1, 5)

    frame = pd.DataFrame(
        {
            "name": [word(chance) for _ in rare],
            "age": [number(alone, 1_111_111_111_111) for alone in rare],
            "town": [word(chance) if alone else chance.choice(common) for alone in rare],
            "code": [str(number(alone, 1_212_121_212_121)).zfill(13) for alone in rare],
            "day": [
                f"{chance.randrange(3000, 9000)}-{chance.randrange(1, 12):02d}-17" if a else "2001-01-01" for a in rare
            ],
            "dropped": [word(chance) for _ in rare],
            "ill": [chance.choice(["flu", "cold", "gout"]) for _ in rare],
            "note": [f"n{i}" for i in range(ROWS)],
        }
    )
    tree = {"ANY": {"Common": common, "Rare": [t for t in frame["town"] if t not in common]}}
    kinds: dict[str, dict[str, Any]] = {
        "plain": {"age": "numeric", "town": "categorical"},
        "balanced": {"age": {"kind": "numeric", "balanced": 3}, "town": {"balanced": 3}},
        "trees": {"town": {"taxonomy": tree}, "code": {"mask": "right"}, "age": {"kind": "numeric", "balanced": 2}},
        "days": {"day": {"date": ["day", "month", "year"]}, "age": {"kind": "numeric", "balanced": 4}},
    }
    policy = shoal.Policy(
        identifiers=["name"],
        quasi=kinds[kind],
        sensitive=["ill"],
        keep=["note"],
        allow_unique=["note"],
        require=[shoal.KAnonymity(3), shoal.KAnonymity(4, on=[next(iter(kinds[kind]))])],
        suppress=0.5,
    )
    return frame, policy


def forms(value: Any) -> set[bytes]:
    """A value as text, and a number as bytes too."""
    found = {str(value).encode()}
    if isinstance(value, int):
        found |= {struct.pack("<q", value), struct.pack("<d", value), f"{value:,}".encode()}
    return found


def given_by_user(policy: shoal.Policy) -> bytes:
    """What a policy publishes that its user wrote: the labels of given trees."""
    return policy.to_yaml(public=True).encode()


@pytest.mark.parametrize("kind", ["plain", "balanced", "trees", "days"])
@pytest.mark.parametrize(("method", "parameters"), WAYS, ids=str)
def test_no_canary_is_published(method: str, parameters: dict[str, Any], kind: str, tmp_path: Path) -> None:
    frame, policy = table(len(kind), kind)
    if method == "bottom-up" and kind == "plain":
        policy = policy.model_copy(update={"quasi": {**policy.quasi, **table(0, "balanced")[1].quasi}})
    suppressed, exempt = 0, given_by_user(policy)
    styles = [s for s in STYLES if not (s in ("mean", "median") and method in STRICT)]
    ways = itertools.product(["label"] if method in LABELS else styles, ("memory", "duckdb"))
    for number, (style, engine) in enumerate(ways):
        file_format = ("csv", "parquet")[(number // 2 + number) % 2]  # each engine writes both
        folder = tmp_path / f"{style}-{engine}"
        release = shoal.anonymize(frame, policy, method=method, write=style, engine=engine, **parameters)
        release.save(folder, format=file_format)
        table_ = release.frame.to_arrow_table() if engine == "duckdb" else release.frame
        kept = set(table_.column("note").to_pylist() if engine == "duckdb" else table_["note"])
        gone = frame[~frame["note"].isin(kept)]
        suppressed += len(gone)
        secret: set[bytes] = set()
        for column in frame.columns.drop(["ill", "note"]):
            held = set() if column in ("name", "dropped") else set(frame.loc[frame["note"].isin(kept), column])
            lost = frame[column] if column in ("name", "dropped") else gone[column]
            for value in set(lost) - held:
                secret |= forms(value)
        secret = {form for form in secret if form not in exempt}
        for file in (f for f in folder.rglob("*") if f.is_file()):
            for part in pages(file) if file.suffix == ".parquet" else [file.read_bytes()]:
                leaked = [form for form in secret if form in part and form not in exempt]
                assert not leaked, (style, engine, file.name, leaked[:3])
            assert not any(form in file.name.encode() for form in secret)
    assert suppressed or method not in STRICT


def test_sets_list_only_what_released_records_have() -> None:
    tree = {"ANY": {"A": ["a", "b", "never"], "C": ["c", "d", "nowhere"]}}
    frame = pd.DataFrame({"q": list("aabb") * 3 + list("ccdd") * 3})
    policy = shoal.Policy(quasi={"q": {"taxonomy": tree}}, require=[shoal.KAnonymity(8)])
    for method in ("tds", "bottom-up", "mondrian", "kmember"):
        release = shoal.anonymize(frame, policy, method=method, write="set", seed=1)
        assert not any("e" in label for label in release.frame["q"]), method


def test_the_label_of_a_balanced_tree_ends_where_released_values_do() -> None:
    frame = pd.DataFrame({"age": [41, 41, 42, 42, 43, 43, 44, 44, 97] * 2 + [20] * 6})
    frame = frame.drop(index=17).reset_index(drop=True)  # one record is 97
    policy = shoal.Policy(
        quasi={"age": {"kind": "numeric", "balanced": 2}}, require=[shoal.KAnonymity(4)], suppress=0.1
    )
    for method in ("tds", "bottom-up", "mdav"):
        for style in ("label", "set"):
            release = shoal.anonymize(frame, policy, method=method, write=style, seed=1)
            if release.certificate.suppressed:
                assert not any("97" in str(label) for label in release.frame["age"]), (method, style)
