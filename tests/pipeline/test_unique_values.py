"""Values that occur once in columns that are published unchanged, and sensitive values that are certain."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.errors import PolicyError


def people(rows: int = 40, **columns: object) -> pd.DataFrame:
    return pd.DataFrame({"age": [20 + i % 4 for i in range(rows)], "ill": ["flu", "cold"] * (rows // 2), **columns})


def policy(**more: object) -> shoal.Policy:
    return shoal.Policy(**{"quasi": {"age": "numeric"}, "sensitive": ["ill"], "require": [shoal.KAnonymity(5)], **more})


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_kept_text_column_of_unique_values_is_refused(engine: str) -> None:
    frame = people(name=[f"person {i}" for i in range(40)])
    with pytest.raises(PolicyError, match="column 'name' is listed under 'keep', but 40 of its 40 values occur once"):
        shoal.anonymize(frame, policy(keep=["name"]), engine=engine)
    allowed = shoal.anonymize(frame, policy(keep=["name"], accept={"name": "agreed with the board"}), engine=engine)
    (note,) = [n for n in allowed.notes if "occur once (" in n]
    assert "(name: 40 of 40 values)" in note


@pytest.mark.parametrize("method", ["mondrian", "tds", "kmember"])
def test_every_method_refuses_them(method: str) -> None:
    frame = people(name=[f"person {i}" for i in range(40)])
    with pytest.raises(PolicyError, match="accept"):
        shoal.anonymize(frame, policy(keep=["name"]), method=method)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([1000.5 + i for i in range(40)], 40),
        ([f"{2000 + i}-01-01" for i in range(40)], 40),
        ([str(i) for i in range(40)], 40),
        ([f"n{i}" for i in range(36)] + ["same"] * 4, 36),  # 90 % are not more than 90 %
        ([None] * 22 + [f"n{i}" for i in range(18)], 18),  # fewer than 20 records have a value
    ],
    ids=["numbers", "dates", "texts of numbers", "at the limit", "few records"],
)
def test_others_are_only_reported(values: list[object], count: int) -> None:
    release = shoal.anonymize(people(other=values), policy(keep=["other"]))
    assert any(f"other: {count} of" in note for note in release.notes)


def test_sensitive_columns_are_only_reported() -> None:
    frame = people(text=[f"text {i}" for i in range(40)])
    release = shoal.anonymize(frame, policy(sensitive=["ill", "text"]))
    assert any(
        "text: 40 of 40 values" in note and "ill" not in note for note in release.notes if "occur once (" in note
    )


def test_no_note_without_unique_values() -> None:
    assert not [n for n in shoal.anonymize(people(), policy()).notes if "occur once" in n]


def test_accepted_columns_have_a_reason_and_are_released() -> None:
    with pytest.raises(PolicyError, match="'accept' names 'name', which is no column that is released"):
        policy(accept={"name": "agreed with the board"})
    with pytest.raises(PolicyError, match="'accept' has no reason for 'name'"):
        policy(keep=["name"], accept={"name": " "})
    with pytest.raises(PolicyError, match="'accept' maps each column to the reason"):
        policy(keep=["name"], accept=["name"])
    loaded = shoal.Policy.parse(policy(keep=["name"], accept={"name": "agreed", "attack:linkage": "known"}).to_yaml())
    assert loaded.accept == {"name": "agreed", "attack:linkage": "known"}


def test_the_key_of_earlier_versions_is_read() -> None:
    with pytest.raises(PolicyError, match="'ill' is listed under 'allow_unique' but not under 'keep'"):
        policy(allow_unique=["ill"])
    with pytest.raises(PolicyError, match="must be a list"):
        policy(keep=["name"], allow_unique=5)
    loaded = shoal.Policy.parse(policy(keep=["name"], allow_unique="name").to_yaml())
    assert loaded.accept == {"name": "allow_unique"}


def test_engines_count_the_same() -> None:
    rng = np.random.default_rng(0)
    frame = people(60, x=rng.integers(0, 40, 60), t=[None if i % 7 == 0 else f"t{i % 41}" for i in range(60)])
    for column in ("x", "t", "ill"):
        once = int((frame[column].value_counts() == 1).sum())
        for data in (frame, duckdb.from_df(frame)):
            assert shoal.engines.open_data(data).count_once(column) == once


# Sensitive values that are certain.


def test_certain_values_are_shown_with_the_requirement_that_prevents_them() -> None:
    frame = people(ill=["flu"] * 10 + ["cold", "gout"] * 15, age=[20] * 10 + [30] * 30)
    release = shoal.anonymize(frame, policy())
    assert release.measures["certain"] == 10 and release.measures["largest_share"] == 1
    shown = {name: value for _, name, value in release.summary().risks(owner=False)}
    assert shown["certain"] == "10 records" and shown["largest_share"] == "100.0%"
    (note,) = [n for n in release.notes if "same sensitive value" in n]
    assert note.startswith("10 records are in groups") and "'l-diversity: {l: 2, of: ill}'" in note
    prevented = shoal.anonymize(frame, policy(require=[shoal.KAnonymity(5), shoal.LDiversity(2, of="ill")]))
    assert prevented.measures["certain"] == 0
    assert not [n for n in prevented.notes if "same sensitive value" in n]


def test_the_largest_share_is_counted_over_all_partitions() -> None:
    frame = people(ill=["flu"] * 10 + ["cold", "gout"] * 15, age=[20] * 10 + [30] * 30)
    release = shoal.anonymize(frame, policy(), engine="duckdb", combinations=1)
    assert release.measures["largest_share"] == 1


def test_means_have_the_decimals_of_the_data() -> None:
    values = [44.94007320, 44.94007321, 44.94007318, 44.94007322, 45.10000001, 45.10000007] * 2
    column = {"kind": "numeric", "round": "none"}
    frame = pd.DataFrame({"x": values})
    release = shoal.anonymize(
        frame, shoal.Policy(quasi={"x": column}, require=[shoal.KAnonymity(3)]), method="mdav", seed=1
    )
    assert all(len(repr(float(v)).split(".")[1]) <= 8 for v in release.frame["x"])
