"""Canaries: values that only suppressed records, identifiers and dropped columns have are in no byte that is published."""

from __future__ import annotations

import functools
import itertools
import random
import struct
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import shoal
from shoal.pipeline.method import NOT_AVERAGED, GroupingMethod
from shoal.recoding import STYLES
from shoal.tables import METHODS
from tests.support.cases import Case, suited
from tests.support.engines import to_pandas
from tests.support.pairs import Row, cover_pairs
from tests.support.parquet import pages
from tests.support.ways import (
    allows_style,
    list_bucketing,
    list_engines,
    list_methods,
    list_randomizing,
    list_unwritten,
    write_as,
)

pytest.importorskip("duckdb")

ROWS = 40
TABLES = ("plain", "balanced", "trees", "days")
HIDDEN = ("name", "dropped")  # no value of these columns is published


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
        accept={"note": "a test"},
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


@functools.cache
def list_runs() -> list[Row]:
    """All pairs of ways, tables, ways of writing, engines and file formats."""
    factors = {
        "way": list_unwritten(),
        "table": TABLES,
        "style": STYLES,
        "engine": list_engines(),
        "format": ("csv", "parquet"),
    }
    return cover_pairs(factors, allows_style)


@pytest.mark.parametrize("method", list_methods(GroupingMethod))
def test_no_canary_is_published(method: str, tmp_path: Path) -> None:
    """Every example of the parameters with every table, way of writing, engine and file format."""
    suppressed = 0
    runs = [run for run in list_runs() if run["way"][0] == method]
    assert {run["table"] for run in runs} == {*TABLES} and {run["engine"] for run in runs} == {*list_engines()}
    for number, run in enumerate(runs):
        parameters = write_as(run["way"], run["style"])
        frame, policy = table(len(run["table"]), run["table"])
        case = suited(Case(frame, policy), method, parameters)
        release = shoal.anonymize(
            case.of_kind("pyarrow").frame, case.policy, method=method, engine=run["engine"], **parameters
        )
        folder = release.save(tmp_path / str(number), format=run["format"])
        suppressed += assert_no_canary(case, set(to_pandas(release.frame)["note"]), folder, run)
    assert (
        suppressed or METHODS.find(method).styles != NOT_AVERAGED
    )  # a cut of the whole table cannot serve rare values


@pytest.mark.parametrize("method", [*list_bucketing(), *list_randomizing()])
@pytest.mark.parametrize("engine", list_engines())
def test_no_canary_is_published_beside_exact_or_random_values(method: str, engine: str, tmp_path: Path) -> None:
    """These methods suppress no record, and publish no identifier and no dropped column."""
    kind = METHODS.find(method)
    require = [shoal.Posterior(1.0)] if method in list_randomizing() else [shoal.LDiversity(2, of="ill")]
    for number, (name, example) in enumerate(itertools.product(TABLES, kind.examples)):
        frame, policy = table(len(name), name)
        case = Case(frame, policy.model_copy(update={"require": tuple(require), "suppress": 0.0}))
        release = shoal.anonymize(case.of_kind("pyarrow").frame, case.policy, method=method, engine=engine, **example)
        folder = release.save(tmp_path / str(number), format=("csv", "parquet")[number % 2])
        assert assert_no_canary(case, set(frame["note"]), folder, (name, example)) == 0


def assert_no_canary(case: Case, kept: set[str], folder: Path, run: object) -> int:
    """No file has a value of an identifier, of a dropped column or of suppressed records alone; count these records."""
    frame, exempt = case.frame, given_by_user(case.policy)
    stays = frame["note"].isin(kept)
    secret: set[bytes] = set()
    for column in frame.columns.drop(["ill", "note"]):
        held = set() if column in HIDDEN else set(frame.loc[stays, column])
        lost = frame[column] if column in HIDDEN else frame.loc[~stays, column]
        for value in set(lost) - held:
            secret |= forms(value)
    secret = {form for form in secret if form not in exempt}
    for file in (f for f in folder.rglob("*") if f.is_file()):
        for part in pages(file) if file.suffix == ".parquet" else [file.read_bytes()]:
            leaked = [form for form in secret if form in part]
            assert not leaked, (run, file.name, leaked[:3])
        assert not any(form in file.name.encode() for form in secret)
    return int((~stays).sum())


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
