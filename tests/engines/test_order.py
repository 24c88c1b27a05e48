"""The bytes of a released table do not depend on the order of the records that came in."""

from __future__ import annotations

import datetime as dt
import functools
import tempfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.engines import (
    Dictionary,
    GroupColumn,
    KeyedOrder,
    Plan,
    Reading,
    UnchangedColumn,
    open_data,
    parse_resources,
)
from shoal.engines.keyed_hash import KeyedHash
from shoal.release.artifact import SaveOptions

ROWS = 8
NAN = float("nan")
ZEROS = [0.0, -0.0, NAN, None, 1.5, -NAN, 0.0, -0.0]
HOUR = 3_600_000_000
SET_BACK = 1_603_584_000_000_000  # 2020-10-25 in Berlin, when the clock shows the hour from 2 to 3 twice


def floats(kind: str) -> pa.Array:
    values = np.array([NAN if v is None else v for v in ZEROS], kind)
    return pa.array(values, mask=np.array([v is None for v in ZEROS]))


# Values whose texts agree where their bits do not, and types whose dictionaries and chunks could tell the order.
COLUMNS: dict[str, Any] = {
    "float16": floats("f2"),
    "float32": floats("f4"),
    "float64": floats("f8"),
    "dictionary of floats": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 4, None, 0, 1], pa.int8()), pa.array([0.0, -0.0, NAN, None, 1.5], from_pandas=False)
    ),
    "text": pa.array(["", None, "a", "", "b", None, "b", "a"]),
    "large text": pa.array(["", None, "a", "", "b", None, "b", "a"], pa.large_string()),
    "view": pa.array(["", None, "a", "", "b", None, "b", "a"], pa.string_view()),
    "bytes": pa.array([b"", None, b"a", b"", b"b", None, b"b", b"a"]),
    "dictionary": pa.array(["", None, "a", "", "b", None, "b", "a"]).dictionary_encode(),
    "chunks": pa.chunked_array([["a", "", None], ["b", "a", "c", None, ""]]),
    "decimal": pa.array([Decimal("1.50"), Decimal("0.00"), Decimal("-0.00"), None] * 2),
    "moment": pa.array([SET_BACK + h * HOUR for h in (0, 1, 0, 1, 2, 3, 1, 0)], pa.timestamp("us", "Europe/Berlin")),
    "day": pa.array([dt.date(2020, 1, 1), None] * 4),
    "truth": pa.array([True, None, False, True] * 2),
    "nothing": pa.nulls(ROWS),
}
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas nullable": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table: pl.from_arrow(table),
    "pandas categories": lambda table: table.to_pandas().astype(
        {n: "category" for n in table.column_names if n != "q"}
    ),
}


NO_PANDAS = ("view", "bytes", "chunks", "nothing", "dictionary of floats")
LACKING: dict[str, Sequence[str]] = {  # columns that a library cannot hold
    "pyarrow": (),
    "pandas": NO_PANDAS,
    "pandas nullable": NO_PANDAS,
    "pandas categories": (*NO_PANDAS, "float16"),
    "polars": ("float16", "dictionary of floats", "dictionary"),
}


def table_of(names: Sequence[str]) -> pa.Table:
    return pa.table({"q": [1, 1, 2, 2, 3, 3, 4, 4], **{name: COLUMNS[name] for name in names}})


FORMATS: tuple[Any, ...] = ("csv", "parquet")


def release_in_order(form: str, name: str, order: Sequence[int], engine: str) -> shoal.Release:
    policy = shoal.Policy(quasi={"q": "numeric"}, keep=[name], require=[shoal.KAnonymity(4)])
    return shoal.anonymize(FORMS[form](shuffle([name], order)), policy, engine=engine)


def written(form: str, name: str, order: Sequence[int], engine: str) -> list[bytes]:
    """The table of a release in every format, without the other files of a release."""
    release = release_in_order(form, name, order, engine)
    with tempfile.TemporaryDirectory() as folder:
        files = [release.artifact.write(Path(folder), SaveOptions(format=kind)).file for kind in FORMATS]
        return [(Path(folder) / file).read_bytes() for file in files]


@functools.cache
def saved_in_order(form: str, name: str, engine: str) -> list[bytes]:
    """The table of a saved release in every format, once for all examples."""
    release = release_in_order(form, name, range(ROWS), engine)
    with tempfile.TemporaryDirectory() as folder:
        files = [release.save(Path(folder) / kind, format=kind) / f"table.{kind}" for kind in FORMATS]
        return [file.read_bytes() for file in files]


def shuffle(names: Sequence[str], order: Sequence[int]) -> pa.Table:
    table = table_of(names)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        whole = column.combine_chunks()
        if pa.types.is_string_view(whole.type):
            columns[name] = whole.cast(pa.string()).take(pa.array(order)).cast(pa.string_view())
        else:
            columns[name] = whole.take(pa.array(order))
    return pa.table(columns)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15)
@given(data=st.data(), order=st.permutations(range(ROWS)))
def test_every_order_of_the_records_is_written_alike(
    form: str, engine: str, data: st.DataObject, order: list[int]
) -> None:
    """One column at a time, so that records have one text, or a few."""
    name = data.draw(st.sampled_from([n for n in COLUMNS if n not in LACKING[form]]))
    assert written(form, name, order, engine) == saved_in_order(form, name, engine)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("turn", range(1, 4))
def test_equal_records_that_are_divided_are_written_alike(turn: int, format: Any, engine: str, tmp_path: Path) -> None:
    """Four records of one text go to two groups with different labels: who goes where does not show in the file."""
    notes, signs, sums = ["", "", None, None], [0.0, 0.0, -0.0, -0.0], [NAN, NAN, None, None]

    def divide(turn: int) -> bytes:
        table = pa.table(
            {
                "q": ["a"] * 4,
                "note": notes[turn:] + notes[:turn],
                "sign": pa.array(signs[turn:] + signs[:turn]),
                "sum": pa.array(sums[turn:] + sums[:turn], from_pandas=False),
            }
        )
        source = open_data(table, parse_resources(engine))
        distinct = source.distinct("q", Reading())
        code = {"q": Dictionary(Reading(), distinct, np.zeros(1, np.int32), -1)}
        columns = tuple(map(UnchangedColumn, ("note", "sign", "sum")))
        coded = source.encode(code, carry=[c.name for c in columns])
        coded.partition(["q"])
        counts = coded.count(["q"], partition=0)
        labels = GroupColumn("q", np.array(["p", "r"], dtype=object), np.array([0, 1], np.int32))
        dealing = KeyedOrder(KeyedHash.of(1), np.array([7], np.uint64), tuple(c.name for c in columns))
        cell, group = np.array([0, 0]), np.array([0, 1], np.int32)
        plan = Plan(counts, cell, group, np.array([2, 2]), (labels, *columns), dealing)
        file = tmp_path / f"{turn}.{format}"
        coded.apply([plan]).write(file, format)
        return file.read_bytes()

    assert divide(turn) == divide(0)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_many_columns_are_written_alike(engine: str, tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(120)]
    values = np.zeros((ROWS, len(names)))
    values[:3, :10] = -0.0  # only the first columns differ
    policy = shoal.Policy(quasi={"q": "numeric"}, keep=names, require=[shoal.KAnonymity(4)])
    found = set()
    for turn in range(4):
        table = pa.table({"q": [1] * ROWS, **dict(zip(names, np.roll(values, turn, axis=0).T, strict=True))})
        place = shoal.anonymize(table, policy, engine=engine).save(tmp_path / f"{turn}", format="parquet")
        found.add((place / "table.parquet").read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_files_and_row_groups_are_written_alike(engine: str, tmp_path: Path) -> None:
    """The file that comes in has row groups, dictionaries and metadata of its own."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "q": rng.integers(0, 5, 3000),
            "x": rng.choice(np.array([0.0, -0.0, NAN, 1.0]), 3000),
            "t": pa.array(rng.choice(np.array(["", "a", "b"]), 3000)).dictionary_encode(),
        }
    )
    policy = shoal.Policy(quasi={"q": "numeric"}, keep=["x", "t"], require=[shoal.KAnonymity(4)])
    found = set()
    for turn, size in enumerate((100, 3000, 700)):
        pq.write_table(table.take(rng.permutation(3000)), tmp_path / f"{turn}.parquet", row_group_size=size)
        release = shoal.anonymize(tmp_path / f"{turn}.parquet", policy, engine=engine)
        found.add((release.save(tmp_path / f"out{turn}") / "table.parquet").read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_equal_records_are_divided_by_the_moment_where_the_clock_shows_one_text_twice(engine: str) -> None:
    moments = pa.array([SET_BACK + h * HOUR for h in (0, 1, 0, 1, 0, 1)], pa.timestamp("us", "Europe/Berlin"))
    table = pa.table({"q": [1, 1, 1, 1, 1, 1], "seen": moments})
    policy = shoal.Policy(quasi={"q": "numeric"}, keep=["seen"], require=[shoal.KAnonymity(3)])
    prints = {
        shoal.anonymize(
            table.take(order), policy, method="mdav", write="label", engine=engine, seed=4
        ).certificate.fingerprint
        for order in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [1, 0, 3, 2, 5, 4])
    }
    assert len(prints) == 1
