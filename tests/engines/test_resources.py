"""Limits as users give them, and which engine is taken."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from copy import copy
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines import Resources, open_data, parse_resources
from shoal.engines.memory import MemoryEngine
from shoal.engines.resources import ENGINES, LEAST, UNITS, read_machine_memory

SIZES = {
    "4GB": 4 * 10**9,
    "4gb": 4 * 10**9,
    " 4 GB ": 4 * 10**9,
    "0.5 GiB": 2**29,
    "1.5GB": 15 * 10**8,
    "500MiB": 500 * 2**20,
    "200MB": 200 * 10**6,
    "1tb": 10**12,
    "300000000": 3 * 10**8,
    "300000000b": 3 * 10**8,
    10**9: 10**9,
}
WRONG: list[Any] = [
    *("4 apples", "GB", "", "  ", "-4GB", "4GBs", "4,5GB", "1e9", "nan GB", "inf", "4 G B", "0x10GB", "٤ apples"),
    *("9" * 400 + "GB", "1MB", "4", "0", "199MB", 0, -1, 7, True, False, 1.5e9, [4], b"4GB"),
]


@pytest.mark.parametrize("given", SIZES, ids=str)
def test_sizes(given: str | int) -> None:
    assert parse_resources(memory=given).memory == SIZES[given]
    assert parse_resources("duckdb", given).budget == SIZES[given]


@pytest.mark.parametrize("given", WRONG, ids=lambda v: repr(v)[:20])
def test_wrong_sizes(given: Any) -> None:
    with pytest.raises(shoal.PolicyError, match="memory"):
        parse_resources(memory=given)


@given(st.integers(1, 10**6), st.sampled_from(sorted(UNITS)))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    size = number * UNITS[unit]
    if size >= LEAST:
        assert parse_resources(memory=f"{number}{unit}").memory == size
    else:
        with pytest.raises(shoal.PolicyError, match="at least 200MB"):
            parse_resources(memory=f"{number}{unit}")


@pytest.mark.parametrize("given", [0, -1, 1.5, "5", True, [1]], ids=repr)
def test_wrong_numbers_of_combinations(given: Any) -> None:
    with pytest.raises(shoal.PolicyError, match="combinations must be a whole number"):
        parse_resources(combinations=given)


@pytest.mark.parametrize("given", ["sparc", "", "DuckDB", "duck", "mem"])
def test_unknown_engines_are_named_with_the_known(given: str) -> None:
    with pytest.raises(shoal.PolicyError, match=r"unknown engine.*'memory', 'duckdb'"):
        parse_resources(given)


@pytest.mark.parametrize("limit", [{"memory": "4GB"}, {"combinations": 10}], ids=str)
def test_the_engine_in_memory_has_no_limits(limit: dict[str, Any]) -> None:
    frame = pd.DataFrame({"a": [1, 1]})
    policy = shoal.Policy(quasi={"a": "numeric"}, require=[shoal.KAnonymity(2)])
    with pytest.raises(shoal.PolicyError, match="limit of the engine 'duckdb'"):
        shoal.anonymize(frame, policy, engine="memory", **limit)


def test_what_is_allowed_where_nothing_is_said() -> None:
    found = parse_resources()
    assert found == Resources()
    assert 0 < found.budget <= read_machine_memory()
    assert found.max_combinations >= 10**5
    assert parse_resources(memory="400MB").max_combinations < parse_resources(memory="4GB").max_combinations
    assert parse_resources(memory="400MB", combinations=7).max_combinations == 7
    assert parse_resources(temp="/somewhere").temp == Path("/somewhere")


# Which engine


def chosen(data: Any, **limits: Any) -> str:
    return type(open_data(data, parse_resources(**limits))).__name__


def test_which_engine_is_taken(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = pa.table({"a": [1, 2]})
    pq.write_table(table, file := tmp_path / "table.parquet")
    (tmp_path / "table.csv").write_text("a\n1\n")
    (tmp_path / "folder").mkdir()
    pq.write_table(table, tmp_path / "folder" / "table.parquet")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    for data in (table, table.to_pandas(), pl.from_arrow(table), file, str(file), tmp_path / "table.csv"):
        assert chosen(data) == "MemoryEngine"
        assert chosen(data, temp=tmp_path) == "MemoryEngine"
        for limits in ({"engine": "duckdb"}, {"memory": "4GB"}, {"combinations": 5}):
            assert chosen(data, **limits) == "DuckEngine"
    for data in (tmp_path / "folder", str(tmp_path / "folder"), connection, connection.table("t")):
        assert chosen(data) == "DuckEngine"
    assert chosen(connection.table("t"), engine="memory") == "MemoryEngine"
    with pytest.raises(shoal.DataError, match=r"is a folder.*Use engine='duckdb'"):
        chosen(tmp_path / "folder", engine="memory")
    opened = open_data(table)
    assert open_data(opened) is opened
    assert isinstance(opened, MemoryEngine)
    assert ENGINES.names() == ["memory", "duckdb", "spark", "ibis"]


def test_a_file_much_too_large_for_memory_goes_to_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    pq.write_table(pa.table({"a": range(1000)}), file := tmp_path / "table.parquet")
    (tmp_path / "table.csv").write_text("a\n" + "1\n" * 1000)
    monkeypatch.setattr("shoal.engines.read_machine_memory", lambda: 1000)
    assert chosen(file) == chosen(tmp_path / "table.csv") == "DuckEngine"
    assert chosen(file, engine="memory") == "MemoryEngine"


# Engines of other packages


class Lake:
    """Data that only the engine of another package opens."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"reading {name!r} could execute a query")


class LakeEngine(MemoryEngine):
    name = "lake"

    @classmethod
    def accepts(cls, data: Any) -> bool:
        return type(data) is Lake or str(data).startswith("lake:")

    @classmethod
    def open(cls, data: Any, resources: Resources | None = None) -> LakeEngine:
        return cls(MemoryEngine.open(pa.table({"a": [1, 1]})).data)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Install the engine `lake`; returns the searched groups of entry points."""
    fresh, searched = copy(ENGINES), []
    vars(fresh).pop("_entry_points", None)
    point = EntryPoint("lake", f"{__name__}:LakeEngine", fresh.group)

    real = importlib.metadata.entry_points

    def entry_points(**query: str) -> Any:
        if query.get("group") != point.group:  # libraries have entry points of their own
            return real(**query)
        searched.append(point.group)
        return [point]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setitem(sys.modules, __name__, SimpleNamespace(LakeEngine=LakeEngine))
    for module in ("shoal.engines", "shoal.engines.resources"):
        monkeypatch.setattr(f"{module}.ENGINES", fresh)
    return searched


def test_an_engine_of_another_package_opens_its_data(lake: list[str]) -> None:
    for data in (Lake(), "lake:table"):
        assert chosen(data) == "LakeEngine"
    opened = open_data(Lake())
    assert open_data(opened) is opened
    assert lake == ["shoal.engines"]
    policy = shoal.Policy(quasi={"a": "numeric"}, require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(Lake(), policy)
    assert (release.certificate.records, release.certificate.suppressed) == (release.engine.schema().rows, 0)
    assert shoal.check(pa.table({"a": [1]}), policy, engine="lake").holds  # as many records as the engine says


def test_data_of_the_built_in_engines_ask_no_other_package(lake: list[str], tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a\n1\n")
    for data in (pa.table({"a": [1]}), pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), tmp_path / "table.csv"):
        assert chosen(data) == "MemoryEngine"
    pytest.importorskip("duckdb")
    assert chosen(tmp_path) == chosen(pa.table({"a": [1]}), memory="4GB") == "DuckEngine"
    assert lake == []


def test_data_that_no_engine_opens_are_refused_by_the_built_in_engine(lake: list[str]) -> None:
    with pytest.raises(shoal.DataError, match="cannot read a table from an object of type list"):
        open_data([1])
    assert lake == ["shoal.engines"]


def test_an_engine_of_another_package_without_limits_refuses_them(lake: list[str]) -> None:
    with pytest.raises(shoal.PolicyError, match=r"memory is a limit of .* the engine 'lake' takes no limits"):
        chosen(Lake(), memory="4GB")
    with pytest.raises(shoal.PolicyError, match=r"unknown engine 'lak'.*'memory', 'duckdb', 'spark', 'ibis', 'lake'"):
        parse_resources("lak")


# Without DuckDB

WITHOUT = """
import sys
from pathlib import Path
sys.modules["duckdb"] = sys.modules["_duckdb"] = None
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("duckdb", "_duckdb"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import pandas as pd
import shoal
folder = Path(sys.argv[1])
frame = pd.DataFrame({"a": [1, 1]})
policy = shoal.Policy(quasi={"a": "numeric"}, require=[shoal.KAnonymity(2)])
ways = {
    "folder": (lambda: shoal.anonymize(folder, policy)),
    "engine": (lambda: shoal.anonymize(frame, policy, engine="duckdb")),
    "memory": (lambda: shoal.anonymize(frame, policy, memory="1GB")),
    "combinations": (lambda: shoal.anonymize(frame, policy, combinations=5)),
    "check": (lambda: shoal.check(folder, policy)),
    "measure": (lambda: shoal.measure(frame, frame, policy, engine="duckdb")),
    "database": (lambda: shoal.check(folder / "table.duckdb", policy)),
}
for name, way in ways.items():
    try:
        way()
        print(name, "nothing was raised")
    except shoal.EngineError as error:
        print(name, error)
print("frame", shoal.anonymize(frame, policy).certificate.holds)
print("file", shoal.check(folder / "table.csv", policy).holds)
"""


def test_without_duckdb_its_error_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a\n1\n1\n")
    (tmp_path / "table.duckdb").write_bytes(b"")
    command = [sys.executable, "-c", WITHOUT, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = said.stdout.splitlines()
    assert len(lines) == 9, said.stderr
    for line in lines[:7]:
        assert line.endswith("pip install duckdb"), line
    assert lines[7:] == ["frame True", "file True"]


def test_spark_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(
        shoal.EngineError, match=r"pyspark is not installed\. Install it with: pip install 'shoal\[spark\]'"
    ):
        chosen(pa.table({"a": [1]}), engine="spark")
