"""DuckDB behind the same methods: what it reads is what memory reads, what it releases is the same, and nothing stays."""

from __future__ import annotations

import datetime as dt
import gc
import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.engines import Engine, Reading, open_data, parse_resources
from shoal.engines.duckdb.session import Session, explain_error
from shoal.recoding import load_recoding
from tests.support.errors import everything

duckdb = pytest.importorskip("duckdb")

ENGINES = ("memory", "duckdb")
K2 = [shoal.KAnonymity(2)]


def opened(data: Any, engine: str = "duckdb", **limits: Any) -> Engine:
    return open_data(data, parse_resources(engine, **limits))


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """The rows of a released frame in no order."""
    table = frame.to_arrow_table() if isinstance(frame, duckdb.DuckDBPyRelation) else frame
    return sorted(table.to_pylist(), key=str)


def parquet(path: Path, table: pa.Table | Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path)
    return path


def said(way: Callable[[], Any]) -> tuple[str, str]:
    """The kind and the text of an error, or the result as text."""
    try:
        return "", repr(way())
    except shoal.ShoalError as error:
        return type(error).__name__, str(error)


# Columns of every type

HOUR = 3_600_000_000
TYPES: dict[str, pa.Array] = {
    "text": pa.array(["a", None, " ", "b\0c"]),
    "large text": pa.array(["a", None, "", "b"], pa.large_string()),
    "words for missing": pa.array(["?", "", "NaN", "NULL"]),
    "bool": pa.array([True, None, False, True]),
    "int8": pa.array([-128, None, 1, 2], pa.int8()),
    "int64": pa.array([2**60, None, 1, -(2**63)]),
    "uint64": pa.array([2**64 - 1, None, 1, 2**63], pa.uint64()),
    "float": pa.array([0.1, None, float("nan"), -0.0]),
    "zeros": pa.array([0.0, -0.0, 1.0, -1.0]),
    "float32": pa.array([0.1, None, float("nan"), -0.0], pa.float32()),
    "float16": pa.array(np.array([0.1, 2, float("nan"), -0.0], np.float16)),
    "infinite": pa.array([float("inf"), -float("inf"), 1.0, None]),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.00"), Decimal("0.01")], pa.decimal128(10, 2)),
    "long decimal": pa.array([Decimal("1" * 38), None, Decimal(2), Decimal(3)], pa.decimal128(38, 0)),
    "date": pa.array([dt.date(1985, 6, 14), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "date64": pa.array([dt.date(1985, 6, 14), None, dt.date(1970, 1, 1), dt.date(1999, 12, 31)], pa.date64()),
    "seconds": pa.array([1, None, 86_400, -5], pa.timestamp("s")),
    "milliseconds": pa.array([1, None, 86_400_000, -5], pa.timestamp("ms")),
    "microseconds": pa.array([1, None, 24 * HOUR, -5], pa.timestamp("us")),
    "nanoseconds": pa.array([1, None, 24_000 * HOUR, -5], pa.timestamp("ns")),
    "Berlin": pa.array([1, None, 24 * HOUR, -5], pa.timestamp("us", "Europe/Berlin")),
    "New York": pa.array([1, None, 86_400_000, -5], pa.timestamp("ms", "America/New_York")),
    "Berlin in nanoseconds": pa.array([1, None, 24_000 * HOUR, -5], pa.timestamp("ns", "Europe/Berlin")),
    "offset": pa.array([1, None, 24 * HOUR, -5], pa.timestamp("us", "+05:30")),
    "UTC": pa.array([1, None, 24 * HOUR, -5], pa.timestamp("us", "UTC")),
    "clock in seconds": pa.array([1, None, 3600, 250], pa.time32("s")),
    "clock in milliseconds": pa.array([1, None, 3_600_000, 250], pa.time32("ms")),
    "clock": pa.array([1, None, HOUR, 250], pa.time64("us")),
    "clock in nanoseconds": pa.array([1, None, 1000 * HOUR, 250], pa.time64("ns")),
    "binary": pa.array([b"a", None, b"bc", b""], pa.binary()),
    "fixed binary": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    "dictionary": pa.array(["b", None, "a", "b"]).dictionary_encode(),
    "dictionary of numbers": pa.array([3, None, 1, 3]).dictionary_encode(),
    "nothing": pa.nulls(4),
    "no text": pa.nulls(4, pa.string()),
}
TABLE = pa.table({"q": ["a", "a", "b", "b"], **TYPES})
KEPT = shoal.Policy(quasi={"q": "categorical"}, keep=list(TYPES), require=K2)
types = pytest.mark.parametrize("column", TYPES)


@dataclass(frozen=True)
class Both:
    """One table in both engines, and its release."""

    engines: dict[str, Engine]
    releases: dict[str, shoal.Release]
    folder: Path


@pytest.fixture(scope="module", params=["file", "frame"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("types")
    data = parquet(folder / "table.parquet", TABLE) if request.param == "file" else TABLE
    releases = {e: shoal.anonymize(data, KEPT, engine=e) for e in ENGINES}
    for name, release in releases.items():
        release.save(folder / f"{name}-csv", format="csv")
        release.save(folder / f"{name}-parquet", format="parquet")
    return Both({e: opened(data, e) for e in ENGINES}, releases, folder)


@types
@pytest.mark.parametrize("kind", ["text", "number", "date"])
def test_a_column_has_the_same_values_in_both_engines(both: Both, column: str, kind: Any) -> None:
    memory, duck = (
        said(lambda e=engine: vars(e.distinct(column, Reading(kind, ("", "?"))))) for engine in both.engines.values()
    )
    assert duck == memory or (duck[0] == memory[0] == "DataError" and f"column {column!r}" in duck[1])


@types
def test_a_kept_column_is_released_alike(both: Both, column: str) -> None:
    def texts(engine: str) -> list[str]:
        table = pc_csv.read_csv(both.folder / f"{engine}-csv" / "table.csv")
        names = [name.strip() for name in table.column_names]
        listed = table.columns[names.index(column)].cast(pa.string()).to_pylist()
        return sorted("" if v is None else v for v in listed)

    assert texts("duckdb") == texts("memory")
    reading = Reading("text", ("",), exact=True)
    memory, duck = (vars(both.releases[e].engine.distinct(column, reading)) for e in ENGINES)
    assert repr(duck) == repr(memory)


@pytest.mark.parametrize("column", ["Berlin", "New York", "Berlin in nanoseconds", "offset", "UTC", "microseconds"])
def test_a_released_file_keeps_the_zone(both: Both, column: str) -> None:
    for engine in ENGINES:
        kind = pq.read_schema(both.folder / f"{engine}-parquet" / "table.parquet").field(column).type
        assert kind.tz == TYPES[column].type.tz, engine
    table = pq.read_table(both.folder / "duckdb-parquet" / "table.parquet")
    assert sorted(map(str, table[column].to_pylist())) == sorted(map(str, TYPES[column].to_pylist()))


def test_both_engines_have_the_same_fingerprints(both: Both) -> None:
    assert both.engines["duckdb"].fingerprint() == both.engines["memory"].fingerprint()
    assert both.releases["duckdb"].certificate == both.releases["memory"].certificate


def test_the_frame_is_the_table_that_was_certified() -> None:
    """Zones included."""
    table = TABLE.select(["q", "Berlin"])
    policy = shoal.Policy(quasi={"q": "categorical"}, keep=["Berlin"], require=K2)
    release = shoal.anonymize(table, policy, engine="duckdb")
    assert shoal.check(release.frame, policy) == release.certificate


ODD_TYPES: dict[str, pa.Array] = {
    "wide decimal": pa.array([Decimal("1" * 50), None, Decimal(2), Decimal("1" * 49 + "2")], pa.decimal256(60, 0)),
    "duration": pa.array([1, None, HOUR, 250], pa.duration("us")),
    "not UTF-8": pa.array([b"a", None, b"\xff\xfe", b""], pa.binary()),
    "uuid": pa.array([b"a" * 16, None, b"b" * 16, b"c" * 16], pa.uuid()),
    "null in a dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None]), pa.array(["a", None])),
    "view": pa.array(["a", None, "", "b"], pa.string_view()),
}


@pytest.mark.parametrize("column", ODD_TYPES)
@pytest.mark.parametrize("form", ["file", "frame"])
@pytest.mark.parametrize("role", ["keep", "quasi"])
def test_a_type_that_duckdb_lacks_is_the_same_or_refused_by_name(
    column: str, form: str, role: str, tmp_path: Path
) -> None:
    data: Any = pa.table({"q": ["a", "a", "b", "b"], "x y": ODD_TYPES[column]})
    if form == "file":
        if column == "null in a dictionary":
            return  # Arrow itself does not write it
        data = parquet(tmp_path / "table.parquet", data)
    roles: Any = {"keep": ["x y"]} if role == "keep" else {"quasi": {"q": "categorical", "x y": "categorical"}}
    policy = shoal.Policy(**{"quasi": {"q": "categorical"}, **roles}, require=[shoal.KAnonymity(1)])
    memory, duck = (said(lambda e=e: shoal.anonymize(data, policy, engine=e).certificate) for e in ENGINES)
    assert duck == memory or (duck[0] == "DataError" and "'x y'" in duck[1])


NESTED = {
    "list": pa.array([[1], [], None, [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}, None, {"a": 1}]),
    "map": pa.array([[("a", 1)], [], None, []], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("column", NESTED)
@pytest.mark.parametrize("form", ["file", "frame"])
def test_nested_columns(column: str, form: str, tmp_path: Path) -> None:
    data: Any = pa.table({"q": ["a", "a", "b", "b"], "x": [1, 2, 3, 4], "tags": NESTED[column]})
    data = parquet(tmp_path / "table.parquet", data) if form == "file" else data
    without = shoal.Policy(quasi={"q": "categorical"}, keep=["x"], require=K2)
    release = shoal.anonymize(data, without, engine="duckdb")
    assert release.certificate == shoal.anonymize(data, without).certificate
    assert "tags" in release.dropped
    for roles in ({"quasi": {"tags": "categorical"}}, {"quasi": {"q": "categorical"}, "keep": ["tags"]}):
        with pytest.raises(shoal.DataError, match=r"column 'tags' holds .*leave it out of the policy"):
            shoal.anonymize(data, shoal.Policy(**roles, require=K2), engine="duckdb")


# Names

NAMES = [
    *("*", "%", "a b", "it's", 'say "so"', "größe", "名", "two\nlines", "a,b", "a;b", "a.b", "a", "\\", "$1", "?"),
    *("SELECT", "from", "group", "raw", "records", "code", "id", "k0", "c0", "g", "r", "o", "h", "n", "w0", "part"),
    *(
        " a ",
        "s",
        "t0",
        "filename",
        "file_row_number",
        "rowid",
        "COLUMNS(*)",
        "ä",
        "Ä",
        "x" * 300,
        "'; DROP TABLE x; --",
    ),
]


def test_odd_names_of_columns(tmp_path: Path) -> None:
    """Each as a quasi-identifier, a kept, a sensitive column and a key."""
    table = pa.table({name: [f"{i % 2}", f"{i % 2}", f"{i % 3}", None] for i, name in enumerate(NAMES)})
    release: Any = {}
    for begin in range(4):
        quasi, keep, sensitive = NAMES[begin::4], NAMES[(begin + 1) % 4 :: 4], NAMES[(begin + 2) % 4 :: 4]
        policy = shoal.Policy(
            quasi=dict.fromkeys(quasi, "categorical"), keep=keep, sensitive=sensitive, key=NAMES[begin + 3], require=K2
        )
        memory, duck = (shoal.anonymize(table, policy, engine=e) for e in ENGINES)
        assert duck.certificate == memory.certificate
        assert duck.frame.columns == memory.frame.column_names
        release = duck
    release.save(tmp_path / "release", format="parquet")
    assert pq.read_schema(tmp_path / "release" / "table.parquet").names == release.frame.columns


@pytest.mark.parametrize(
    ("names", "form"),
    [*product([("Age", "age"), ("x", "")], ["file", "frame", "csv"]), (("Age", "age"), "relation")],  # SQL needs names
)
def test_names_that_duckdb_does_not_tell_apart(names: tuple[str, str], form: str, tmp_path: Path) -> None:
    table = pa.table([["1", "1"]] * 2, names=list(names))
    data: Any = table
    if form == "file":
        data = parquet(tmp_path / "table.parquet", table)
    elif form == "csv":
        data = tmp_path / "table.csv"
        data.write_text(",".join(names) + "\n1,1\n1,1\n")
    elif form == "relation":
        data = duckdb.sql(f"SELECT '1' AS {names[0]}, '1' AS {names[1]} FROM range(2)")
    with pytest.raises(shoal.EngineError, match=r"(distinguish|without a name).*Rename.*engine='memory'"):
        opened(data)
    assert opened(data, "memory").schema().names == names


def test_names_that_occur_twice(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3]], names=["a", "b", "a"])
    for data in (twice, parquet(tmp_path / "table.parquet", twice)):
        with pytest.raises(shoal.DataError, match=r"more than once.*'a'"):
            opened(data)


def test_an_unknown_column_is_named_with_a_guess() -> None:
    with pytest.raises(shoal.PolicyError, match=r"'agee' is not in the table .did you mean 'age'"):
        opened(pa.table({"age": [1]})).distinct("agee", Reading())


# CSV

CSV: dict[str, str | bytes] = {
    "plain": "q,x\na,1\na,2\n",
    "semicolons": "q;x\na;1\na;2\n",
    "tabs": "q\tx\na\t1\na\t2\n",
    "mark": "\ufeffq,x\na,1\na,2\n",
    "returns": "q,x\r\na,1\r\na,2\r\n",
    "old returns": "q,x\ra,1\ra,2\r",
    "quotes": 'q,x\n"say ""so""","two\nlines"\n"a, b;c",it\'s\n',
    "empty and missing": 'q,x\n"",1\n,2\n"a",3\na,4\n',
    "zero bytes": "q,x\na\0b,1\na\0b,2\n",
    "one column": "q\na\n\na\n\n",
    "header": "q,x\n",
    "header without an end": "q,x",
    "nothing": "",
    "empty lines": "\n\n",
    "longer row": "q,x\na,1\nAlice Miller,2,AIDS\n",
    "shorter row": "q,x\na,1\nAlice Miller\n",
    "open quote": 'q,x\n"Alice Miller,1\nb,2\n',
    "open quote at the end": 'q,x\na,1\nb,"Alice Miller\nc,3\n',
    "another encoding": "q,x\nAlice Müller,1\n".encode("latin-1"),
    "another encoding in the header": "größe,x\nAlice,1\n".encode("latin-1"),
    "far down": "q,x\n" + "a,1\n" * 30_000 + "Alice Miller,1,2\n",
    "another encoding far down": ("q,x\n" + "a,1\n" * 30_000).encode() + "Alice Müller,1\n".encode("latin-1"),
    "names twice": "q,x,q\n1,2,3\n",
}


@pytest.mark.parametrize("name", CSV)
@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
def test_csv_is_read_alike_and_its_faults_are_told_alike(name: str, packed: bool, tmp_path: Path) -> None:
    content = CSV[name]
    content = content if isinstance(content, bytes) else content.encode()
    file = tmp_path / ("table.csv.gz" if packed else "table.csv")
    file.write_bytes(gzip.compress(content, 1) if packed else content)

    def found(engine: str) -> Any:
        table = opened(file, engine)
        return table.fingerprint(), table.schema(), vars(table.distinct("q", Reading()))

    memory, duck = (said(lambda e=e: found(e)) for e in ENGINES)
    assert duck == memory
    assert ("Alice" in duck[1]) == (name in ("another encoding", "another encoding far down"))  # read as cp1252


def test_a_file_that_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "table.csv.gz").write_bytes(b"q,x\nAlice,1\n")
    memory, duck = (said(lambda e=e: opened(tmp_path / "table.csv.gz", e)) for e in ENGINES)
    assert duck == memory
    assert duck[0] == "DataError"


# Folders

A = pa.table({"q": ["a", "a"], "x": [1, 2]})
B = pa.table({"x": [3, 4], "q": ["b", "b"]})
FOLDED = shoal.Policy(quasi={"q": "categorical"}, keep=["x"], require=K2)


def folder(path: Path, files: Mapping[str, pa.Table | str | bytes]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pa.Table):
            pq.write_table(content, target)
        else:
            target.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


FOLDERS: dict[str, dict[str, pa.Table | str | bytes]] = {
    "two files": {"1.parquet": A, "2.parquet": B},
    "in folders": {"2024/01/a.parquet": A, "2024/02/a.parquet": B},
    "empty files": {"0.parquet": b"", "1.parquet": A, "2.parquet": A[:0], "3.parquet": B, "4.parquet": B[:0]},
    "an empty first file": {"0.parquet": A[:0], "1.parquet": A, "2.parquet": B},
    "what is hidden": {
        "1.parquet": A,
        "_SUCCESS": "",
        ".1.crc": "x",
        "_log/x.json": "{}",
        ".tmp/x.csv": "",
        "2.parquet": B,
    },
    "widths of numbers": {"1.parquet": A.set_column(1, "x", A["x"].cast(pa.int32())), "2.parquet": B},
    "strange names": {"a[1]*.parquet": A, "it's ?.parquet": B},
    "csv": {
        "1.csv": "q,x\na,1\na,2\n",
        "2.csv": "x;q\n3;b\n",
        "3.csv.gz": gzip.compress(b"x,q\n4,b\n"),
        "4.csv": "q,x\n",
    },
    "csv with an empty one": {"0.csv": "", "1.csv": "q,x\na,1\na,2\n", "2.csv": "x,q\n3,b\n4,b"},
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_one_table(name: str, tmp_path: Path) -> None:
    path = folder(tmp_path / "data", FOLDERS[name])
    whole = pa.concat_tables([A, B.select(["q", "x"])])
    expected = shoal.anonymize(whole, FOLDED)
    release = shoal.anonymize(path, FOLDED)
    assert release.certificate == expected.certificate
    assert opened(path).fingerprint() == open_data(whole).fingerprint()
    assert shoal.check(path, FOLDED) == shoal.check(whole, FOLDED)
    assert release.artifact.format == ("csv" if name.startswith("csv") else "parquet")
    release.save(tmp_path / "release")
    assert shoal.check(tmp_path / "release" / f"table.{release.artifact.format}", FOLDED) == release.certificate


FAULTS: dict[str, tuple[dict[str, pa.Table | str | bytes], list[str]]] = {
    "nothing": ({}, ["holds no CSV or Parquet file"]),
    "only empty files": ({"1.csv": "", "2.parquet": b""}, ["holds no CSV or Parquet file"]),
    "only hidden files": ({".1.csv": "q,x\n", "_2.csv": "q,x\n"}, ["holds no CSV or Parquet file"]),
    "both kinds": ({"1.parquet": A, "2.csv": "q,x\na,1\n"}, ["CSV and Parquet"]),
    "a column lacks": ({"1.parquet": A, "2.parquet": A.select(["q"])}, ["'2.parquet'", "'x'", "same columns"]),
    "a column more": (
        {"1.parquet": A, "2.parquet": A.append_column("y", A["x"])},
        ["'2.parquet'", "'y'", "same columns"],
    ),
    "a column lacks in csv": ({"1.csv": "q,x\na,1\n", "2.csv": "q\na\n"}, ["2.csv", "'x'", "same columns"]),
    "another case": ({"1.parquet": A, "2.parquet": A.rename_columns(["Q", "x"])}, ["'2.parquet'", "'q'"]),
    "not Parquet": ({"1.parquet": A, "2.parquet": b"Alice Miller"}, ["cannot read '2.parquet'"]),
    "a ragged row": ({"1.csv": "q,x\na,1\n", "2.csv": "q,x\nAlice,1,2\n"}, ["cannot read '2.csv'", "row 2"]),
    "other files": ({"1.parquet": A, "README.md": "Alice"}, ["'README.md'", "not CSV or Parquet"]),
    "lists and numbers": (
        {"1.parquet": A, "2.parquet": pa.table({"q": ["b", "b"], "x": [[1], [2]]})},
        ["2.parquet", "'x'"],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_folder_that_is_no_table_is_refused_by_name(name: str, tmp_path: Path) -> None:
    files, words = FAULTS[name]
    with pytest.raises(shoal.DataError) as caught:
        shoal.anonymize(folder(tmp_path / "data", files), FOLDED)
    for word in words:
        assert word in str(caught.value)
    assert "Alice" not in everything(caught.value)


PARTED = shoal.Policy(quasi={"q": "categorical"}, keep=["x", "year"], require=K2)


@pytest.mark.parametrize(
    ("above", "kind"), [("data", "parquet"), ("x=5", "parquet"), ("year=9", "csv"), ("q=b/data", "csv")]
)
def test_the_names_of_folders_are_values(above: str, kind: str, tmp_path: Path) -> None:
    """Those above the folder that was given tell nothing, whatever they look like."""
    as_csv = {"a": "q,x\na,1\na,2\n", "b": "q,x\nb,3\nb,4\n"}
    one, other = (as_csv["a"], as_csv["b"]) if kind == "csv" else (A, B)
    names = ("2024", "a%20b%2Fc", "__HIVE_DEFAULT_PARTITION__", "007")
    files = {f"year={name}/part.{kind}": (one, other)[i % 2] for i, name in enumerate(names)}
    path = folder(tmp_path / above, files)
    years = ["2024"] * 2 + ["a b/c"] * 2 + [None] * 2 + ["007"] * 2
    whole = pa.table({"q": [*"aabbaabb"], "x": [1, 2, 3, 4] * 2, "year": years})
    assert opened(path, temp=tmp_path / "x=1").fingerprint() == open_data(whole).fingerprint()
    release = shoal.anonymize(path, PARTED, temp=tmp_path / "year=8")
    assert release.certificate == shoal.anonymize(whole, PARTED).certificate
    quasi = shoal.Policy(quasi={"year": "categorical"}, keep=["x"], require=K2)
    assert shoal.anonymize(path, quasi).certificate == shoal.anonymize(whole, quasi).certificate


def test_folders_that_tell_different_columns(tmp_path: Path) -> None:
    for files in ({"year=1/p.parquet": A, "p.parquet": A}, {"year=1/p.parquet": A, "month=1/p.parquet": A}):
        with pytest.raises(shoal.DataError, match=r"'(year|month)'"):
            opened(folder(tmp_path / str(len(list(tmp_path.iterdir()))), files))
    with pytest.raises(shoal.DataError, match="more than once"):
        opened(folder(tmp_path / "both", {"q=1/p.parquet": A}))


def test_a_folder_of_values_with_an_underscore_is_not_hidden(tmp_path: Path) -> None:
    path = folder(tmp_path / "data", {"_y=1/p.parquet": A, "_y=2/p.parquet": B})
    assert opened(path).schema().rows == 4


# What DuckDB holds

MAKE = "CREATE TABLE t AS SELECT i % 3 AS q, i AS x FROM range(12) r(i)"
EXPECTED = pa.table({"q": [i % 3 for i in range(12)], "x": list(range(12))})


@pytest.fixture
def connection() -> Any:
    made = duckdb.connect()
    made.execute(MAKE)
    return made


def state(connection: Any) -> Any:
    """All that can be seen of a connection: its tables and their content, its settings."""
    tables = connection.execute("SELECT * FROM duckdb_tables()").fetchall()
    content = {row[4]: connection.table(row[4]).fetchall() for row in tables}
    views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    settings = connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
    return content, views, settings


def test_connections_tables_and_relations(connection: Any) -> None:
    expected = shoal.anonymize(EXPECTED, FOLDED).certificate
    before = state(connection)
    for data in (connection, connection.table("t"), connection.sql("FROM t"), connection.sql("SELECT x, q FROM t")):
        release = shoal.anonymize(data, FOLDED)
        assert isinstance(release.frame, duckdb.DuckDBPyRelation)
        assert release.certificate == expected
        assert len(release.frame.fetchall()) == 12
        assert shoal.check(data, FOLDED) == shoal.check(EXPECTED, FOLDED)
    assert state(connection) == before
    assert shoal.anonymize(connection.table("t"), FOLDED, engine="memory").certificate == expected


def test_frames_of_any_library() -> None:
    expected = shoal.anonymize(EXPECTED, FOLDED).certificate
    shuffled = EXPECTED.to_pandas().set_axis([7] * 12, axis=0)
    for data in (EXPECTED, EXPECTED.to_pandas(), shuffled, pl.from_arrow(EXPECTED), pl.from_arrow(EXPECTED).lazy()):
        release = shoal.anonymize(data, FOLDED, engine="duckdb")
        assert isinstance(release.frame, duckdb.DuckDBPyRelation)
        assert release.certificate == expected


def test_which_table_of_a_connection(connection: Any) -> None:
    with pytest.raises(shoal.DataError, match=r"0 tables"):
        opened(duckdb.connect())
    connection.execute("CREATE VIEW u AS SELECT * FROM t")
    with pytest.raises(shoal.DataError, match=r"2 tables \('t', 'u'\)\. Pass one table, as connection.table\(name\)"):
        opened(connection)
    assert opened(connection.table("u")).schema().rows == 12
    for made in (
        'CREATE SCHEMA "s p"; CREATE TABLE "s p"."t.1" AS SELECT 1 AS q',
        "CREATE TEMP TABLE z AS SELECT 1 AS q",
    ):
        other = duckdb.connect()
        other.execute(made)
        assert opened(other).schema().names == ("q",)


def test_a_database_file_is_only_read(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "table.duckdb")) as made:
        made.execute(MAKE)
    before = (tmp_path / "table.duckdb").read_bytes()
    release = shoal.anonymize(tmp_path / "table.duckdb", FOLDED)
    assert release.certificate == shoal.anonymize(EXPECTED, FOLDED).certificate
    assert [p.name for p in tmp_path.iterdir()] == ["table.duckdb"]
    assert (tmp_path / "table.duckdb").read_bytes() == before
    with duckdb.connect(str(tmp_path / "table.duckdb")) as made:  # and is free again
        made.execute("CREATE TABLE other AS SELECT 1 AS a")
        with pytest.raises(shoal.ShoalError, match="open elsewhere"):
            opened(tmp_path / "table.duckdb")
    with pytest.raises(shoal.DataError, match="2 tables"):
        opened(tmp_path / "table.duckdb")


@pytest.mark.parametrize(
    "content", [b"", b"Alice Miller", b"SQLite format 3\0" + bytes(100)], ids=["empty", "text", "sqlite"]
)
def test_a_database_file_that_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "table.db").write_bytes(content)
    with pytest.raises(shoal.ShoalError, match=r"table\.db") as caught:
        opened(tmp_path / "table.db")
    assert "download" not in everything(caught.value)


def test_a_relation_is_as_it_was_when_it_was_opened(connection: Any) -> None:
    engine = opened(connection.table("t"))
    connection.execute("ALTER TABLE t DROP COLUMN x")
    connection.execute("DELETE FROM t")
    assert shoal.anonymize(engine, FOLDED).certificate == shoal.anonymize(EXPECTED, FOLDED).certificate


def test_a_relation_that_cannot_be_read(connection: Any) -> None:
    """A clear error, which quotes nothing from the data."""
    faults = {
        "gone": connection.sql("FROM t"),
        "text": connection.sql("SELECT q, ('Alice' || x)::INTEGER AS x FROM t"),
        "number": connection.sql("SELECT q, (4711000 + x)::INTEGER::TINYINT AS x FROM t"),
        "huge": connection.sql(
            "SELECT q, 4711 + 170141183460469231731687303715884100000::HUGEINT AS x FROM range(2) r(q)"
        ),
        "own": connection.sql("SELECT q, error('Alice has 4711') AS x FROM t"),
    }
    for name, relation in faults.items():
        if name == "gone":
            other = duckdb.connect()
            other.execute(MAKE)
            relation = other.table("t")
            other.execute("DROP TABLE t")
        with pytest.raises(shoal.ShoalError) as caught:
            shoal.anonymize(relation, FOLDED)
        assert not any(word in everything(caught.value) for word in ("Alice", "4711")), name
        if name == "huge":
            assert "15884104711" not in everything(caught.value)


COLUMNS = {
    "sum": ("sum(x) OVER (PARTITION BY x)", [*range(12)]),
    "huge": ("(x * 10000000000)::HUGEINT * 10000000000", [Decimal(i) * 10**20 for i in range(12)]),
    "unsigned huge": ("x::UHUGEINT", [*range(12)]),
    "enum": ("(['a', 'b'])[x % 2 + 1]::ENUM ('a', 'b')", ["ab"[i % 2] for i in range(12)]),
    "blob": ("('v' || x)::BLOB", [f"v{i}" for i in range(12)]),
    "date": ("DATE '2024-01-01' + x::INTEGER", [dt.date(2024, 1, 1 + i) for i in range(12)]),
    "decimal": ("(x / 4)::DECIMAL(10, 4)", [i / 4 for i in range(12)]),
    "null": ("NULL", [None] * 12),
    "time": ("TIME '10:00:00' + INTERVAL (x) SECOND", [dt.time(10, 0, i) for i in range(12)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_duckdbs_own_types(name: str, connection: Any) -> None:
    expression, values = COLUMNS[name]
    release = shoal.anonymize(connection.table("t").order("x").project(f"q, {expression} AS x"), FOLDED)
    expected = EXPECTED.set_column(1, "x", pa.array(values))
    assert release.certificate == shoal.anonymize(expected, FOLDED).certificate


def test_the_zone_of_a_connection(tmp_path: Path) -> None:
    made = duckdb.connect()
    made.execute("SET TimeZone = 'Asia/Tokyo'")
    made.execute("CREATE TABLE t AS SELECT i % 3 AS q, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS x FROM range(12) r(i)")
    release = shoal.anonymize(made, FOLDED)
    assert release.engine.distinct("x", Reading()).values.tolist() == ["2020-01-01T09:00:00"]
    release.save(tmp_path / "release")
    assert str(pq.read_schema(tmp_path / "release" / "table.parquet").field("x").type) == "timestamp[us, tz=Asia/Tokyo]"
    assert made.execute("SELECT current_setting('TimeZone')").fetchone() == ("Asia/Tokyo",)


# What is released

rng = np.random.default_rng(0)
PEOPLE = pa.table(
    {
        "name": [f"N{i}" for i in range(600)],
        "age": rng.integers(18, 90, 600),
        "zip": rng.integers(47900, 47999, 600).astype(str),
        "ill": rng.choice(["flu", "cold", "gout"], 600),
    }
)
POLICY = shoal.Policy(
    identifiers=["name"],
    quasi={"age": "numeric", "zip": {"mask": "right"}},
    sensitive=["ill"],
    require=[shoal.KAnonymity(5), shoal.LDiversity(2, of="ill")],
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_release_is_saved_checked_and_in_an_order_of_its_own(format: Any, tmp_path: Path) -> None:
    for number, table in enumerate((PEOPLE, PEOPLE.take(rng.permutation(600)), PEOPLE[::-1])):
        release = shoal.anonymize(table, POLICY, engine="duckdb", temp=tmp_path / "work")
        release.save(tmp_path / f"{number}", format=format)
        assert release.certificate == shoal.anonymize(PEOPLE, POLICY).certificate
    files = [tmp_path / f"{number}" / f"table.{format}" for number in range(3)]
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()
    assert shoal.check(files[0], POLICY, engine="duckdb") == shoal.check(files[0], POLICY) == release.certificate
    assert mode(files[0]) == 0o644
    assert mode(tmp_path / "0") == 0o755
    assert mode(tmp_path / "0.owner") == 0o700
    assert {mode(p) for p in (tmp_path / "0.owner").iterdir()} == {0o600}
    ledger = json.loads((tmp_path / "0.owner" / "ledger.json").read_text())
    assert ledger["fingerprint"] == release.certificate.fingerprint


def test_the_order_tells_nothing_of_the_order_of_the_rows(tmp_path: Path) -> None:
    """Not even where every record is a group of its own, or all are one."""
    table = pa.table({"a": range(1000), "b": ["x"] * 1000, "c": range(1000)})
    for k in (1, 1000):
        policy = shoal.Policy(quasi={"b": "categorical"}, keep=["a"], require=[shoal.KAnonymity(k)])
        release = shoal.anonymize(table, policy, engine="duckdb")
        release.save(tmp_path / f"{k}", format="parquet")
        places = pq.read_table(tmp_path / f"{k}" / "table.parquet")["a"].to_numpy()
        assert sorted(places) == list(range(1000))
        assert abs(np.corrcoef(places, np.arange(1000))[0, 1]) < 0.2


def test_only_quasi_identifiers_or_none_left() -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(5)])
    memory, duck = (shoal.anonymize(PEOPLE, policy, engine=e) for e in ENGINES)
    assert duck.certificate == memory.certificate
    assert rows_of(duck.frame) == rows_of(memory.frame)
    few = shoal.Policy(quasi={"name": "categorical"}, require=[shoal.KAnonymity(600)])
    assert shoal.anonymize(PEOPLE, few, engine="duckdb").certificate.groups == 1


def test_suppressed_records_are_gone() -> None:
    table = pa.table({"q": [*"aaaaab"], "x": range(6)})
    policy = shoal.Policy(quasi={"q": {"taxonomy": {"*": ["a", "b"]}}}, keep=["x"], require=K2, suppress=0.2)
    memory, duck = (shoal.anonymize(table, policy, engine=e, method="tds") for e in ENGINES)
    assert duck.certificate == memory.certificate
    assert duck.certificate.suppressed == 1
    assert rows_of(duck.frame) == rows_of(memory.frame)


def test_no_records() -> None:
    for way in (shoal.anonymize, shoal.check):
        assert said(lambda w=way: w(PEOPLE[:0], POLICY, engine="duckdb")) == said(lambda w=way: w(PEOPLE[:0], POLICY))


def test_saved_releases_do_not_hang_together(tmp_path: Path) -> None:
    """Whoever spoils one folder spoils neither another nor the frame."""
    release = shoal.anonymize(PEOPLE, POLICY, engine="duckdb", temp=tmp_path)
    rows = rows_of(release.frame)
    for name in ("one", "two"):
        release.save(tmp_path / name, format="parquet")
    with (tmp_path / "one" / "table.parquet").open("r+b") as file:
        file.truncate(100)
    assert shoal.check(tmp_path / "two" / "table.parquet", POLICY).holds
    assert rows_of(release.frame) == rows


def test_the_users_files_are_not_touched(tmp_path: Path) -> None:
    file = parquet(tmp_path / "data" / "table.parquet", PEOPLE)
    file.chmod(0o600)
    before = file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_nlink
    release = shoal.anonymize(file, POLICY, engine="duckdb", temp=tmp_path)
    release.save(tmp_path / "release")
    shoal.check(file.parent, POLICY)
    assert (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_nlink) == before
    assert mode(file) == 0o600
    assert list(file.parent.iterdir()) == [file]


# The place where it works


def test_the_folder_of_the_work_is_private_and_goes_with_the_release(tmp_path: Path) -> None:
    release: Any = shoal.anonymize(PEOPLE, POLICY, engine="duckdb", temp=tmp_path / "work")
    (work,) = (tmp_path / "work").iterdir()
    assert work.name.startswith(".shoal-")
    assert mode(work) == 0o700
    release.save(tmp_path / "release")
    del release
    gc.collect()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_relation_outlives_its_release(tmp_path: Path) -> None:
    frame = shoal.anonymize(PEOPLE, POLICY, engine="duckdb", temp=tmp_path).frame
    gc.collect()
    assert len(frame.fetchall()) == 600


def test_errors_leave_nothing(tmp_path: Path) -> None:
    never = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(601)])
    absent = shoal.Policy(quasi={"aged": "numeric"}, require=K2)
    for policy in (never, absent):
        with pytest.raises(shoal.ShoalError):
            shoal.anonymize(PEOPLE, policy, engine="duckdb", temp=tmp_path)
    with pytest.raises(shoal.DataError):
        opened(tmp_path / "none.csv", temp=tmp_path)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


ENDS = """
import sys, pyarrow as pa, shoal
table = pa.table({"age": [i // 2 for i in range(20)]})
policy = shoal.Policy(quasi={"age": "numeric"}, keep=[], require=[shoal.KAnonymity(2)])
kept = shoal.check(table, policy, engine="duckdb", temp=sys.argv[1])
from shoal.engines import open_data, parse_resources
engine = open_data(table, parse_resources("duckdb", temp=sys.argv[1]))
frame = engine.frame()
print(len(frame.fetchall()), flush=True)
if sys.argv[2] == "fault":
    raise SystemError("the end")
if sys.argv[2] == "wait":
    sys.stdin.read()
"""


def test_the_folder_is_gone_when_the_program_ends(tmp_path: Path) -> None:
    """By an error, even."""
    command = [sys.executable, "-c", ENDS, str(tmp_path), "fault"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "20\n", ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_program_left_is_swept_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS, str(tmp_path), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "20\n"
        (theirs,) = tmp_path.iterdir()
        engine: Any = opened(PEOPLE, temp=tmp_path)
        assert theirs.is_dir() and any(theirs.glob("*.parquet"))
        assert len(list(tmp_path.iterdir())) == 2
        other.kill()
        other.wait()
        mine = engine.session.folder
        shoal.check(PEOPLE, POLICY, engine="duckdb", temp=tmp_path)
        gc.collect()
        assert list(tmp_path.iterdir()) == [mine]
        del engine
        gc.collect()
        assert list(tmp_path.iterdir()) == []


def test_the_sweep_takes_nothing_that_is_not_ours(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "lock").write_text("")
    (precious / "thesis").write_text("years of work")
    (tmp_path / ".shoal-link").symlink_to(precious)
    (tmp_path / ".shoal-notes").mkdir()
    (tmp_path / ".shoal-notes" / "notes").write_text("")
    (tmp_path / ".shoal-file").write_text("")
    opened(PEOPLE, temp=tmp_path)
    gc.collect()
    assert {p.name for p in tmp_path.iterdir()} == {"precious", ".shoal-link", ".shoal-notes", ".shoal-file"}
    assert (precious / "thesis").read_text() == "years of work"


@pytest.mark.parametrize("place", ["it's [a] *", "a b/c=1", "größe %"])
def test_odd_places_for_the_work(place: str, tmp_path: Path) -> None:
    release = shoal.anonymize(PEOPLE, POLICY, combinations=200, temp=tmp_path / place)
    assert release.certificate.parts > 1
    assert len(release.frame.fetchall()) == 600


def test_a_place_that_cannot_be_worked_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(shoal.EngineError, match=r"cannot write temporary files to.*--temp"):
        opened(PEOPLE, temp=tmp_path / "file")


@pytest.mark.parametrize(
    "error", [RuntimeError("Query interrupted"), duckdb.InterruptException("Interrupted")], ids=repr
)
def test_a_query_that_is_stopped_is_no_fault(error: Exception) -> None:
    """DuckDB notices Ctrl-C and requests to end itself, and has words of its own for them."""
    with pytest.raises(KeyboardInterrupt), explain_error():
        raise error


# In parts


@pytest.mark.parametrize("method", ["mondrian", "tds"])
@pytest.mark.parametrize("style", ["label", "lo-hi"])
def test_a_recoding_in_parts_is_saved_loaded_and_applied(method: str, style: str, tmp_path: Path) -> None:
    limits: dict[str, Any] = {"combinations": 150, "temp": tmp_path / "work", "write": style}
    release = shoal.anonymize(PEOPLE, POLICY, method=method, **limits)
    assert release.certificate.parts > 2
    assert f"{release.certificate.parts} partitions" in str(release.certificate)
    release.save(tmp_path / "release", format="parquet")
    statement = json.loads((tmp_path / "release" / "certificate.json").read_text())
    assert statement["parts"] == release.certificate.parts
    owner = tmp_path / "release.owner"
    listed = {f"recoding-{part}.json" for part in range(release.certificate.parts)}
    assert listed <= {p.name for p in owner.iterdir()}
    assert {mode(p) for p in owner.iterdir()} == {0o600}
    recoding = load_recoding(owner / "recoding.json")
    for table in (PEOPLE, PEOPLE.to_pandas(), parquet(tmp_path / "table.parquet", PEOPLE)):
        assert open_data(recoding.apply(table)).fingerprint() == release.certificate.fingerprint
    assert open_data(release.recoding.apply(PEOPLE)).fingerprint() == release.certificate.fingerprint
    (owner / "recoding-1.json").unlink()
    with pytest.raises(shoal.DataError, match=r"recoding-1\.json"):
        load_recoding(owner / "recoding.json")


def test_a_recoding_in_parts_outlives_its_release() -> None:
    recoding = shoal.anonymize(PEOPLE, POLICY, combinations=150).recoding
    gc.collect()
    assert recoding.apply(PEOPLE).num_rows == 600


@pytest.mark.parametrize(("k", "combinations"), [(2, 7), (2, 40), (25, 5), (25, 100)])
def test_parts_are_large_enough_for_the_requirement(combinations: int, k: int) -> None:
    """Or it is said that parts are the matter, and what helps."""
    policy = POLICY.model_copy(update={"require": (shoal.KAnonymity(k),)})
    try:
        release = shoal.anonymize(PEOPLE[:120], policy, combinations=combinations)
    except shoal.RequirementNotMet as error:
        assert "part" in str(error) and "combinations" in str(error)
        assert "the whole table" not in str(error)
    else:
        assert shoal.check(release.frame, policy).smallest == release.certificate.smallest >= k
        assert release.certificate.records + release.certificate.suppressed == 120


def test_in_parts_the_measures_are_those_from_outside() -> None:
    for suppress in (0.0, 0.1):
        policy = POLICY.model_copy(update={"suppress": suppress})
        release = shoal.anonymize(PEOPLE, policy, combinations=150)
        found = dict(release.measures)
        found.pop("isolated_ends")  # need to know which record is which
        found.pop("unique_ends")
        assert dict(shoal.measure(PEOPLE, release.frame, policy)) == found
        assert release.certificate.suppressed <= suppress * 600
        again = shoal.anonymize(PEOPLE.take(rng.permutation(600)), policy, combinations=150)
        assert again.certificate == release.certificate


def test_more_combinations_than_a_word_can_tell_apart() -> None:
    """70 columns of 100 values: 10^140 combinations."""
    table = pa.table({f"c{i}": rng.integers(0, 100, 100) for i in range(70)})
    policy = shoal.Policy(quasi={f"c{i}": "numeric" for i in range(70)}, require=[shoal.KAnonymity(3)])
    memory, duck = (shoal.anonymize(table, policy, engine=e) for e in ENGINES)
    assert duck.certificate == memory.certificate
    assert dict(duck.measures) == dict(memory.measures)
    few = policy.model_copy(update={"quasi": {name: policy.quasi[name] for name in list(policy.quasi)[:20]}})
    parted = shoal.anonymize(table, few, combinations=60)
    assert parted.certificate.holds and parted.certificate.parts > 1


@pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "thorough", reason="takes a while: HYPOTHESIS_PROFILE=thorough"
)
def test_a_table_larger_than_the_memory_it_may_use(tmp_path: Path) -> None:
    rows, chance = 4_000_000, np.random.default_rng(1)
    schema = pa.schema([("name", pa.string()), ("age", pa.int64()), ("zip", pa.string()), ("note", pa.string())])
    with pq.ParquetWriter(tmp_path / "table.parquet", schema) as writer:
        for begin in range(0, rows, 500_000):
            ages, zips = chance.integers(0, 100, 500_000), chance.integers(10_000, 60_000, 500_000)
            names = [f"Alice Miller {begin + i}" for i in range(500_000)]
            columns = [names, ages, zips.astype(str), [f"a note on {n}" for n in names]]
            writer.write_table(pa.table(columns, schema=schema))
    policy = shoal.Policy(
        quasi={"age": "numeric", "zip": {"mask": "right"}},
        keep=["note"],
        accept={"note": "a test"},
        require=[shoal.KAnonymity(50)],
    )
    release = shoal.anonymize(tmp_path / "table.parquet", policy, memory="200MB", temp=tmp_path)
    assert release.certificate.holds and release.certificate.parts > 1
    assert release.certificate.records == rows
    release.save(tmp_path / "release")
    shutil.rmtree(tmp_path / "release")


def test_pandas_missing_values_of_every_kind() -> None:
    frame = pd.DataFrame(
        {
            "q": pd.Series(["a", None, float("nan"), pd.NA, pd.NaT, "a"], dtype=object),
            "x": [1.0, None, float("nan"), -0.0, 0.0, 2.0],
            "y": pd.array([1, None, 3, None, 5, 6], "Int64"),
        }
    )
    policy = shoal.Policy(quasi={"q": "categorical", "x": "numeric"}, keep=["y"], require=K2)
    memory, duck = (shoal.anonymize(frame, policy, engine=e) for e in ENGINES)
    assert duck.certificate == memory.certificate
    assert dict(duck.measures) == dict(memory.measures)


@pytest.mark.parametrize("years", [(2023,), (2023, 2024)])
def test_a_folder_with_partitions_is_released_as_one(tmp_path: Path, years: tuple[int, ...]) -> None:
    for year in years:
        (tmp_path / "in" / f"year={year}").mkdir(parents=True)
        table = pa.table({"age": list(range(20)), "ill": ["a", "b"] * 10})
        pq.write_table(table, tmp_path / "in" / f"year={year}" / "part.parquet")
    policy = shoal.Policy(quasi={"age": "numeric"}, keep=["ill", "year"], require=[shoal.KAnonymity(5)])
    release = shoal.anonymize(tmp_path / "in", policy)
    release.save(tmp_path / "out")
    found = sorted(path.name for path in (tmp_path / "out" / "table.parquet").iterdir())
    assert found == [f"year={year}" for year in years]
    assert shoal.check(tmp_path / "out" / "table.parquet", policy) == release.certificate
    assert pd.read_parquet(tmp_path / "out" / "table.parquet").groupby("year").size().to_dict() == dict.fromkeys(
        years, 20
    )


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_enums_of_a_file_that_duckdb_wrote_keep_their_values(tmp_path: Path, engine: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection, path = duckdb.connect(), str(tmp_path / "enum.parquet")
    connection.execute("CREATE TYPE kind AS ENUM ('a', 'unused', 'b', 'idle', 'c', 'd')")
    connection.execute(
        "COPY (SELECT (['a', 'b', 'c', 'd'][1 + i % 4])::kind AS x FROM range(4000) t(i)) "
        f"TO '{path}' (ROW_GROUP_SIZE 2048)"
    )
    found = open_data(path, parse_resources(engine)).distinct("x", Reading())
    assert dict(zip(found.values, found.counts, strict=True)) == dict.fromkeys("abcd", 1000)
    frame = pa.table({"x": ["a", "b", "c", "d"] * 1000})
    assert open_data(path, parse_resources(engine)).fingerprint() == open_data(frame).fingerprint()


@pytest.mark.parametrize("method", ["mondrian", "tds", "kmember", "knn", "mdav"])
def test_a_part_in_which_a_number_is_always_missing(method: str) -> None:
    frame = pd.DataFrame({"a": [None] * 50 + list(range(50)), "z": [str(i % 25) for i in range(100)]})
    policy = shoal.Policy(quasi={"a": "numeric", "z": "categorical"}, require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(frame, policy, method=method, engine="duckdb", combinations=20)
    assert release.certificate.holds and release.certificate.parts > 1


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(
    "notes", [["", None, "", None], [0.0, -0.0, 0.0, -0.0], [float("nan"), None, None, float("nan")]]
)
def test_values_with_one_text_do_not_keep_their_order(tmp_path: Path, engine: str, notes: list[Any]) -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, keep="note", require=[shoal.KAnonymity(4)])
    seen = set()
    for turn in range(4):
        table = pa.table({"age": [1, 2, 3, 4], "note": pa.array(notes[turn:] + notes[:turn], from_pandas=False)})
        release = shoal.anonymize(table, policy, engine=engine)
        release.save(tmp_path / f"{turn}", format="parquet")
        column = pq.read_table(tmp_path / f"{turn}" / "table.parquet")["note"]
        seen.add(str([(value, np.signbit(value) if isinstance(value, float) else 0) for value in column.to_pylist()]))
    assert len(seen) == 1


def test_a_part_of_a_recoding_must_be_its_own(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(200), "b": [i % 7 for i in range(200)]})
    policy = shoal.Policy(quasi={"a": "numeric", "b": "numeric"}, require=[shoal.KAnonymity(5)])
    shoal.anonymize(frame, policy, engine="duckdb", combinations=60).save(tmp_path / "out")
    owner = tmp_path / "out.owner"
    shutil.copy(owner / "recoding-0.json", owner / "recoding-1.json")
    with pytest.raises(shoal.DataError, match=r"recoding-1\.json.*belongs to another recoding"):
        load_recoding(owner / "recoding.json")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_the_folder_of_a_release_can_be_checked(tmp_path: Path, engine: str) -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(pd.DataFrame({"age": [1, 2, 3, 4]}), policy)
    release.save(tmp_path / "out")
    assert shoal.check(tmp_path / "out", policy, engine=engine) == release.certificate


def test_other_files_of_a_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age\n1\n2\n")
    (tmp_path / "notes.txt").write_text("Alice Miller called\n")
    with pytest.raises(shoal.DataError, match=r"not CSV or Parquet: 'notes\.txt'") as caught:
        open_data(tmp_path)
    assert "Alice" not in str(caught.value)


def test_a_folder_that_is_swept_before_it_is_locked_is_made_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that opened the first folder to sweep it may go on to remove whatever has its name."""
    opened_first: list[Path] = []
    open_folder = os.open

    def sweep_first(path: Any, *flags: Any) -> int:
        if not opened_first:
            opened_first.append(Path(path))
            Path(path).rmdir()
        return open_folder(path, *flags)

    monkeypatch.setattr(os, "open", sweep_first)
    session = Session(parse_resources(temp=tmp_path))
    assert session.folder.is_dir() and session.folder not in opened_first
    session.close()
