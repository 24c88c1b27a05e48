"""Frames and files: one table in five forms is one table, comes back as it came, and is written in no telling order."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines import Dictionary, Format, GroupColumn, KeyedOrder, Plan, Reading, UnchangedColumn, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.memory import MemoryEngine, list_record_cells
from shoal.errors import DataError, EngineError, PolicyError
from shoal.formats.numbers import format_number
from tests.support.strategies import ODD

Columns = Mapping[str, Sequence[Any]]
FRAMES: dict[str, Callable[[Columns], Any]] = {
    "pandas": lambda columns: pd.DataFrame({name: list(values) for name, values in columns.items()}),
    "polars": lambda columns: pl.DataFrame({name: list(values) for name, values in columns.items()}, strict=False),
    "pyarrow": lambda columns: pa.table({name: pa.array(values) for name, values in columns.items()}),
}
FORMATS: tuple[Format, ...] = ("csv", "parquet")
frames = pytest.mark.parametrize("kind", FRAMES)


def plain(frame: Any) -> list[dict[str, Any]]:
    """The rows of any frame, missing values as None."""
    if isinstance(frame, pd.DataFrame):
        frame = pl.from_pandas(frame)
    return frame.to_dicts() if isinstance(frame, pl.DataFrame) else frame.to_pylist()


def csv_file(path: Path, columns: Columns) -> Path:
    """As a data owner's own program would write it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(format_number(v) if isinstance(v, float) else "" if v is None else v for v in row)
    return path


def parquet_file(path: Path, columns: Columns) -> Path:
    pq.write_table(FRAMES["pyarrow"](columns), path)
    return path


def every_form(columns: Columns, folder: Path) -> dict[str, MemoryEngine]:
    forms = {kind: make(columns) for kind, make in FRAMES.items()}
    forms["shuffled index"] = forms["pandas"].set_axis([7] * len(forms["pandas"]), axis=0)
    forms["csv"] = csv_file(folder / "table.csv", columns)
    forms["parquet"] = parquet_file(folder / "table.parquet", columns)
    return {form: open_data(data) for form, data in forms.items()}


def encoded(engine: MemoryEngine, readings: Mapping[str, Reading]) -> MemoryEngine:
    """Codes in the order of the distinct values, a missing one last."""
    engine.prepare(readings)
    found = {}
    for name, reading in readings.items():
        distinct = engine.distinct(name, reading)
        size = len(distinct.values)
        found[name] = Dictionary(reading, distinct, np.arange(size, dtype=np.int32), size)
    return engine.encode(found)


def text(path: Path, content: str | bytes, name: str = "table.csv") -> Path:
    file = path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def rows_of(data: Any) -> list[dict[str, Any]]:
    return plain(open_data(data).data.to_native())


# One table in every form

cells = {
    "name": st.one_of(
        st.none(), st.sampled_from(ODD), st.text("ab ,;\"'\n\t", min_size=1, max_size=4).filter(str.strip)
    ),
    "age": st.one_of(st.none(), st.integers(-3, 3)),
    "score": st.one_of(st.none(), st.integers(-8, 8).map(lambda v: v / 4)),
    "born": st.one_of(st.none(), st.dates(dt.date(1900, 1, 1), dt.date(2020, 1, 1))),
}
tables = st.lists(st.tuples(*cells.values()), min_size=1, max_size=15).map(
    lambda rows: dict(zip(cells, zip(*rows, strict=True), strict=True))
)
READINGS = {"name": Reading("text"), "age": Reading("number"), "score": Reading("number"), "born": Reading("date")}


@given(columns=tables)
def test_every_form_gives_the_same_values_codes_counts_and_fingerprint(
    columns: Columns, tmp_path_factory: pytest.TempPathFactory
) -> None:
    engines = every_form(columns, tmp_path_factory.mktemp("forms"))
    expected = engines["pyarrow"]
    for form, engine in engines.items():
        assert engine.schema() == expected.schema(), form
        for name in columns:
            for reading in (READINGS[name], Reading("text")):
                one, other = engine.distinct(name, reading), expected.distinct(name, reading)
                assert one.values.tolist() == other.values.tolist(), (form, name)
                assert one.counts.tolist() == other.counts.tolist(), (form, name)
                assert one.missing == other.missing, (form, name)
        one = encoded(engine, READINGS).count(["age", "name"], ["born"])
        other = encoded(expected, READINGS).count(["age", "name"], ["born"])
        for field in ("quasi", "start", "sensitive", "size", "handle"):
            assert np.array_equal(getattr(one, field), getattr(other, field)), (form, field)
        assert engine.fingerprint() == expected.fingerprint(), form


@given(columns=tables, order=st.randoms(use_true_random=False))
def test_the_fingerprint_is_of_the_rows_as_a_multiset(columns: Columns, order: Any) -> None:
    rows = list(zip(*columns.values(), strict=True))
    shuffled = order.sample(rows, len(rows))
    again = dict(zip(columns, zip(*shuffled, strict=True), strict=True))
    for make in FRAMES.values():
        first = open_data(make(columns)).fingerprint()
        assert open_data(make(again)).fingerprint() == first
        doubled = {name: [*values, values[0]] for name, values in columns.items()}
        assert open_data(make(doubled)).fingerprint() != first
    other_order = dict(reversed(columns.items()))
    assert open_data(FRAMES["pandas"](other_order)).fingerprint() == open_data(FRAMES["pandas"](columns)).fingerprint()


def test_the_fingerprint_sees_every_change() -> None:
    table = {"a": ["x", "y"], "b": ["y", "x"]}
    changed = [
        {"a": ["x", "y"], "b": ["x", "y"]},
        {"b": ["x", "y"], "a": ["y", "y"]},
        {"a": ["x", "y"], "c": ["y", "x"]},
        {"a": ["x"], "b": ["y"]},
        {"a": ["x", "y"]},
        {"a": ["x", None], "b": ["y", "x"]},
        {"a": ["x ", "y"], "b": ["y", "x"]},
        {"a": ["X", "y"], "b": ["y", "x"]},
        {"a": ["xy", ""], "b": ["", "yx"]},
    ]
    prints = [open_data(FRAMES["pandas"](t)).fingerprint() for t in (table, *changed)]
    assert len(set(prints)) == len(prints)


def test_a_pandas_index_does_not_matter() -> None:
    frame = pd.DataFrame({"a": ["x", "y", None], "b": [1, 2, 3]})
    expected = open_data(frame)
    for index in (
        [2, 0, 1],
        [5, 5, 5],
        pd.Index(["p", "q", "r"], name="a"),
        pd.MultiIndex.from_product([[1], [1, 2, 3]]),
    ):
        engine = open_data(frame.set_axis(index, axis=0))
        assert engine.fingerprint() == expected.fingerprint()
        assert engine.distinct("a", Reading()).values.tolist() == ["x", "y"]
        counts = encoded(engine, {"a": Reading(), "b": Reading()}).count(["a", "b"])
        assert list_record_cells(counts).tolist() == [0, 1, 2]


# Columns of every type


PANDAS: dict[str, tuple[Any, list[str | None]]] = {
    "whole numbers with a missing one": (pd.Series([3, None, 4]), ["3", None, "4"]),
    "Int64": (pd.array([3, None, 4], "Int64"), ["3", None, "4"]),
    "float": (pd.Series([0.5, float("nan"), -0.0]), ["0.5", None, "0"]),
    "bool": (pd.Series([True, False]), ["True", "False"]),
    "boolean": (pd.array([True, None], "boolean"), ["True", None]),
    "object bool": (pd.Series([True, None, False], dtype=object), ["True", None, "False"]),
    "str": (pd.Series(["a", None, ""]), ["a", None, None]),
    "object": (pd.Series(["a", None, float("nan")], dtype=object), ["a", None, None]),
    "string": (pd.array(["a", None], "string"), ["a", None]),
    "mixed": (pd.Series([1, "a", 2.5, None, float("nan"), pd.NaT], dtype=object), ["1", "a", "2.5", None, None, None]),
    "mixed with NA": (pd.Series([1, "a", pd.NA], dtype=object), ["1", "a", None]),
    "huge": (pd.Series([2**70, 1], dtype=object), [str(2**70), "1"]),
    "decimal": (pd.Series([Decimal("1.50"), None], dtype=object), ["1.5", None]),
    "dates": (pd.Series([dt.date(1985, 6, 14), None], dtype=object), ["1985-06-14", None]),
    "datetime64": (pd.Series(pd.to_datetime(["1985-06-14", None])), ["1985-06-14", None]),
    "datetime64[ns]": (pd.Series(["1985-06-14T01:02:03"], dtype="datetime64[ns]"), ["1985-06-14T01:02:03"]),
    "with zone": (pd.Series(pd.to_datetime(["1985-06-14"])).dt.tz_localize("UTC"), ["1985-06-14"]),
    "category": (pd.Categorical(["b", None, "b"], categories=["b", "a"]), ["b", None, "b"]),
    "category of numbers": (pd.Categorical([3, 1], categories=[1, 3, 5]), ["3", "1"]),
    "pyarrow": (pd.Series(["a", None], dtype=pd.ArrowDtype(pa.string())), ["a", None]),
    "all missing": (pd.Series([None, None], dtype=object), [None, None]),
    "all NaN": (pd.Series([float("nan")] * 2), [None, None]),
    "all NaT": (pd.Series([pd.NaT] * 2), [None, None]),
}


def agrees(engine: MemoryEngine, expected: list[str | None]) -> None:
    distinct = engine.distinct("x", Reading())
    tally = Counter(value for value in expected if value is not None)
    assert distinct.values.tolist() == sorted(tally)
    assert distinct.counts.tolist() == [tally[value] for value in sorted(tally)]
    assert distinct.missing == expected.count(None)


def assert_fingerprint_of(engine: MemoryEngine, expected: list[str | None]) -> None:
    """The fingerprint is that of the texts, and of no other number of missing values."""
    assert engine.fingerprint() == open_data(pa.table({"x": pa.array(expected, pa.string())})).fingerprint()
    assert engine.fingerprint() != open_data(pa.table({"x": pa.array([*expected, None], pa.string())})).fingerprint()


@pytest.mark.parametrize("name", PANDAS)
def test_pandas_columns(name: str) -> None:
    values, expected = PANDAS[name]
    engine = open_data(pd.DataFrame({"x": values}))
    agrees(engine, expected)
    assert_fingerprint_of(engine, expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.cut(pd.Series([1, 5]), [0, 2, 6]), ["(0, 2]", "(2, 6]"]),
        (pd.Series(pd.period_range("1985-06", periods=2, freq="M")), ["1985-06", "1985-07"]),
        (pd.Series(pd.arrays.SparseArray([0, 0, 1])), ["0", "0", "1"]),
    ],
    ids=["interval", "period", "sparse"],
)
@pytest.mark.parametrize("format", FORMATS)
def test_pandas_columns_of_its_own_kinds(
    values: Any, expected: list[str | None], format: Format, tmp_path: Path
) -> None:
    """As text, or refused by name; the same in a role that groups and in one that is kept."""
    engine = open_data(pd.DataFrame({"id": [str(i) for i in range(len(expected))], "x": values}))
    try:
        agrees(engine, expected)
    except DataError as error:
        assert "column 'x'" in str(error)
    try:
        engine.write(tmp_path / f"table.{format}", format)
        assert open_data(tmp_path / f"table.{format}").fingerprint() == engine.fingerprint()
    except DataError as error:
        assert "column 'x'" in str(error)


POLARS: dict[str, tuple[pl.Series, list[str | None]]] = {
    "int": (pl.Series([3, None, 4]), ["3", None, "4"]),
    "nan and null": (pl.Series([1.0, float("nan"), None]), ["1", None, None]),
    "bool": (pl.Series([True, None]), ["True", None]),
    "str": (pl.Series(["a", None, ""]), ["a", None, None]),
    "categorical": (pl.Series(["b", None, "a"], dtype=pl.Categorical), ["b", None, "a"]),
    "enum": (pl.Series(["b", None], dtype=pl.Enum(["a", "b", "c"])), ["b", None]),
    "null": (pl.Series([None, None]), [None, None]),
    "decimal": (pl.Series([Decimal("1.50"), None]), ["1.5", None]),
    "date": (pl.Series([dt.date(1985, 6, 14), None]), ["1985-06-14", None]),
    "datetime": (pl.Series([dt.datetime(1985, 6, 14, 1)]), ["1985-06-14T01:00:00"]),
    "with zone": (pl.Series([dt.datetime(1985, 6, 14, tzinfo=dt.UTC)]), ["1985-06-14"]),
    "uint64": (pl.Series([2**64 - 1], dtype=pl.UInt64), ["18446744073709551615"]),
    "object": (pl.Series([1, "a", None], dtype=pl.Object), ["1", "a", None]),
}


@pytest.mark.parametrize("name", POLARS)
def test_polars_columns(name: str) -> None:
    values, expected = POLARS[name]
    engine = open_data(pl.DataFrame({"x": values}))
    agrees(engine, expected)
    assert_fingerprint_of(engine, expected)


ARROW: dict[str, tuple[Any, list[str | None]]] = {
    "string": (pa.array(["a", None]), ["a", None]),
    "large_string": (pa.array(["a", None], pa.large_string()), ["a", None]),
    "string_view": (pa.array(["a", None], pa.string_view()), ["a", None]),
    "null": (pa.nulls(2), [None, None]),
    "dictionary": (pa.array(["b", None, "a"]).dictionary_encode(), ["b", None, "a"]),
    "null in dictionary": (pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["a", None])), ["a", None, "a"]),
    "unused in dictionary": (pa.DictionaryArray.from_arrays([0, 0], pa.array(["a", "gone"])), ["a", "a"]),
    "decimal": (pa.array([Decimal("1.50"), None]), ["1.5", None]),
    "time": (pa.array([dt.time(1, 2)]), ["01:02:00"]),
    "chunks": (pa.chunked_array([["a"], [], ["b", None]]), ["a", "b", None]),
}


@pytest.mark.parametrize("name", ARROW)
def test_arrow_columns(name: str) -> None:
    values, expected = ARROW[name]
    engine = open_data(pa.table({"x": values}))
    agrees(engine, expected)
    assert_fingerprint_of(engine, expected)


def test_a_column_that_cannot_be_grouped_is_named() -> None:
    for frame in (
        pd.DataFrame({"a": [1, 2], "tags": [["x"], ["y"]]}),
        pl.DataFrame({"a": [1, 2], "tags": [["x"], ["y"]]}),
        pa.table({"a": [1, 2], "tags": [{"x": 1}, {"x": 2}]}),
    ):
        with pytest.raises(DataError, match="column 'tags' holds"):
            open_data(frame).distinct("tags", Reading())
        with pytest.raises(DataError, match="column 'tags' holds"):
            open_data(frame).fingerprint()
        assert open_data(frame).distinct("a", Reading("number")).values.tolist() == [1, 2]


def test_a_kept_column_that_cannot_be_grouped_is_named() -> None:
    frame = pd.DataFrame({"a": [1, 1], "tags": [["x"], ["y"]]})
    policy = shoal.Policy(quasi={"a": "numeric"}, keep=["tags"], require=[shoal.KAnonymity(2)])
    with pytest.raises(DataError, match="'tags'"):
        shoal.anonymize(frame, policy)


def test_what_cannot_be_read_as_a_table() -> None:
    for data in ([1, 2], {"a": [1]}, np.zeros((2, 2)), pd.Series([1]), pl.Series([1]), pa.array([1]), None, 7):
        with pytest.raises(DataError, match="Pass a pandas, polars or pyarrow frame"):
            open_data(data)


def test_a_lazy_frame_is_collected() -> None:
    assert open_data(pl.LazyFrame({"a": [1, 2]})).schema().rows == 2


@pytest.mark.parametrize("names", [[0, 1], ["a", 1], [("a", "b"), ("a", "c")], [None, "a"]], ids=str)
def test_names_that_are_no_text(names: list[Any]) -> None:
    with pytest.raises(DataError, match="column names must be text"):
        open_data(pd.DataFrame([[1, 2]], columns=pd.Index(names, dtype=object)))


def test_names_that_occur_twice(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3]], names=["a", "b", "a"])
    pq.write_table(twice, tmp_path / "table.parquet")
    for data in (twice, twice.to_pandas(), tmp_path / "table.parquet", text(tmp_path, "a,b,a\n1,2,3\n")):
        with pytest.raises(DataError, match=r"more than once.*'a'"):
            open_data(data)


STRANGE = [
    *(
        "a b",
        "it's",
        'say "so"',
        "größe",
        "名",
        "two\nlines",
        "a,b",
        "a;b",
        "a.b",
        " a ",
        "tab\t",
        "[0]",
        "{x}",
        "",
    ),
    *("SELECT", "index", "__index_level_0__", "level_0"),
]


@frames
def test_strange_names(kind: str, tmp_path: Path) -> None:
    engine = open_data(FRAMES[kind]({name: ["x", None, name] for name in STRANGE}))
    assert engine.schema().names == tuple(STRANGE)
    counts = encoded(engine, dict.fromkeys(STRANGE, Reading())).count(STRANGE[:9], STRANGE[9:])
    assert counts.size.tolist() == [1, 1, 1]
    for way in FORMATS:
        engine.write(tmp_path / f"table.{way}", way)
        again = open_data(tmp_path / f"table.{way}")
        assert again.schema() == engine.schema()
        assert again.fingerprint() == engine.fingerprint()
    group = np.zeros(len(counts.size), np.int32)
    plan = Plan(counts, np.arange(len(group)), group, counts.size, tuple(UnchangedColumn(n) for n in STRANGE))
    assert plain(encoded(engine, dict.fromkeys(STRANGE, Reading())).apply([plan]).frame()) == plain(engine.frame())


@frames
@pytest.mark.parametrize("pattern", ["*", "^.*$", "^n.*$"])
def test_a_name_that_looks_like_a_pattern_is_a_name(kind: str, pattern: str) -> None:
    """Whoever keeps a column `*` does not release all columns."""
    frame = FRAMES[kind]({"name": ["Jo", "Al"], "q": ["a", "a"], pattern: ["1", "2"]})
    engine = encoded(open_data(frame), {"q": Reading()})
    counts = engine.count(["q"])
    star = GroupColumn("q", np.array(["*"], dtype=object), np.array([0], np.int32))
    plan = Plan(counts, np.arange(1), np.zeros(1, np.int32), counts.size, (star, UnchangedColumn(pattern)))
    assert plain(engine.apply([plan]).frame()) == [{"q": "*", pattern: "1"}, {"q": "*", pattern: "2"}]


def test_an_unknown_column_is_named_with_a_guess() -> None:
    with pytest.raises(PolicyError, match=r"'agee' is not in the table .did you mean 'age'"):
        open_data(pd.DataFrame({"age": [1]})).distinct("agee", Reading())


@frames
def test_no_rows(kind: str) -> None:
    full = FRAMES[kind]({"a": ["x"], "b": [1], "c": [1.5]})
    engine = open_data(full[:0])
    assert engine.schema().rows == 0
    assert engine.distinct("a", Reading()).values.tolist() == []
    assert engine.distinct("b", Reading("number")).missing == 0
    assert encoded(engine, {"a": Reading()}).count(["a"]).quasi.shape == (0, 1)
    assert engine.fingerprint() != open_data(full).fingerprint()


# CSV


def test_csv_values_stay_text(tmp_path: Path) -> None:
    content = 'zip,word,number\n01234,NA,1.50\n"01234",null,1e3\n,,\n"","  ",0x10\n'
    assert rows_of(text(tmp_path, content)) == [
        {"zip": "01234", "word": "NA", "number": "1.50"},
        {"zip": "01234", "word": "null", "number": "1e3"},
        {"zip": None, "word": None, "number": None},
        {"zip": "", "word": "  ", "number": "0x10"},
    ]
    distinct = open_data(text(tmp_path, content)).distinct("zip", Reading())
    assert (distinct.values.tolist(), distinct.missing) == (["01234"], 2)


@pytest.mark.parametrize(
    "content",
    [
        "a,b\nx,1\ny,2\n",
        "a;b\nx;1\ny;2\n",
        "a\tb\nx\t1\ny\t2\n",
        "\ufeffa,b\nx,1\ny,2\n",
        "\ufeffa;b\r\nx;1\r\ny;2",
        '"a","b"\n"x","1"\n\n"y","2"\n',
        "a,b\rx,1\ry,2\r",
        "\na;b\nx;1\ny;2\n",
    ],
    ids=repr,
)
def test_csv_delimiters_marks_and_line_ends(content: str, tmp_path: Path) -> None:
    assert rows_of(text(tmp_path, content)) == [{"a": "x", "b": "1"}, {"a": "y", "b": "2"}]


def test_csv_quotes_and_newlines(tmp_path: Path) -> None:
    content = 'a,b\n"say ""so""","two\nlines"\n"a, b;c",it\'s\n'
    assert rows_of(text(tmp_path, content)) == [{"a": 'say "so"', "b": "two\nlines"}, {"a": "a, b;c", "b": "it's"}]


def test_csv_delimiters_inside_quoted_names_are_none(tmp_path: Path) -> None:
    assert rows_of(text(tmp_path, '"last, first";age\n"Doe, Jo";3\n')) == [{"last, first": "Doe, Jo", "age": "3"}]


def test_csv_with_a_header_only(tmp_path: Path) -> None:
    for content in ("a,b\n", "a,b", "a,b\n\n"):
        schema = open_data(text(tmp_path, content)).schema()
        assert (schema.names, schema.rows) == (("a", "b"), 0)


@pytest.mark.parametrize("content", ["", "\n\n", "  \n", "\ufeff", "\ufeff\n"], ids=repr)
def test_csv_that_is_empty(content: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'table\.csv' is empty"):
        open_data(text(tmp_path, content))


@pytest.mark.parametrize(
    "content",
    [
        "name,age\nJo,1\nAlice Miller,2,AIDS\n",
        "name,age\nJo,1\nAlice Miller\n",
        "name,age\n" + "Jo,1\n" * 300_000 + "Alice Miller,1,2\n",
        'name,age\n"Alice Miller,1\nJo,2\n',
    ],
    ids=["longer", "shorter", "far down", "open quote"],
)
def test_ragged_csv_says_what_is_wrong_and_no_more(content: str, tmp_path: Path) -> None:
    """A log or a screen must not show a person's row."""
    with pytest.raises(DataError, match=r"'table\.csv'.*columns") as error:
        open_data(text(tmp_path, content))
    assert "Alice" not in str(error.value)
    assert "AIDS" not in str(error.value)


def test_a_file_in_one_column_keeps_its_missing_values(tmp_path: Path) -> None:
    """A record whose only value is missing is a record."""
    engine = open_data(text(tmp_path, "age\n41\n\n57\n"))
    assert engine.schema().rows == 3
    assert engine.distinct("age", Reading("number")).missing == 1


def test_csv_in_two_encodings_is_refused_without_its_content(tmp_path: Path) -> None:
    for content in ("größe,a\n1,2\n", "a,b\nMüller,2\n"):
        with pytest.raises(DataError, match=r"cannot read 'table\.csv': parts of the text are UTF-8") as error:
            open_data(text(tmp_path, content.encode("latin-1") + content.encode()))
        assert "ller" not in str(error.value)


def test_csv_longer_than_the_first_look(tmp_path: Path) -> None:
    """The header is found in the first megabyte, wherever that ends."""
    content = 'a,b\n"ü""ü, \nx",é\n' + '"ü""ü, \nx",é\n' * 100_000
    distinct = open_data(text(tmp_path, content)).distinct("a", Reading())
    assert (distinct.values.tolist(), distinct.counts.tolist()) == (['ü"ü, \nx'], [100_001])


def test_csv_packed(tmp_path: Path) -> None:
    assert rows_of(text(tmp_path, gzip.compress(b"a,b\n01,2\n"), "table.csv.gz")) == [{"a": "01", "b": "2"}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.sas", b"", "cannot detect the format of 'table.sas'"),
        ("table.xlsx", b"", "not an Excel file, damaged, or protected by a password"),
        ("table.xls", b"", ".xls files cannot be read. Save the table as .xlsx or as CSV."),
        ("table.csv", b"PK\x03\x04\x14\x00", "not a text file. If this is an Excel file, its name must end in .xlsx"),
        ("table.csv", b"\x89PNG\r\n\x1a\n\xff", "not a text file, or in an encoding that cannot be detected"),
        ("table.parquet", b"a,b\n1,2\n", "cannot read 'table.parquet': not a Parquet file, or damaged"),
        ("table.parquet", b"a,b\n" * 9, "not a Parquet file, or damaged"),
        ("table.parquet", b"", "cannot read 'table.parquet'"),
        ("table.csv.gz", b"a,b\n1,2\n", "cannot read 'table.csv.gz': not a gzip file, or damaged"),
    ],
    ids=str,
)
def test_files_that_cannot_be_read(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        open_data(text(tmp_path, content, name))
    assert message in str(error.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        open_data(tmp_path / "none.csv")
    with pytest.raises(DataError, match="holds no CSV or Parquet file"):
        open_data(str(tmp_path))


# Counted cells


@given(tables)
def test_counted_cells_against_plain_python(columns: Columns) -> None:
    engine = encoded(open_data(FRAMES["pyarrow"](columns)), READINGS)
    counts = engine.count(["age", "born"], ["score"])
    codes = list(zip(*(engine.codes[name].tolist() for name in ("age", "born", "score")), strict=True))
    cells = sorted(Counter(codes).items())
    combinations = sorted({code[:2] for code in codes})
    assert counts.quasi.tolist() == [list(c) for c in combinations]
    assert counts.sensitive[:, 0].tolist() == [code[2] for code, _ in cells]
    assert counts.size.tolist() == [weight for _, weight in cells]
    assert [cells[cell][0] for cell in list_record_cells(counts)] == codes
    for u, combination in enumerate(combinations):
        inside = cells[counts.start[u] : counts.start[u + 1]]
        assert {code[:2] for code, _ in inside} == {combination}
    assert counts.start[-1] == len(cells)


def test_counting_no_quasi_identifier_and_no_secret() -> None:
    engine = encoded(open_data(pd.DataFrame({"a": ["x", "y", "x"]})), {"a": Reading()})
    assert engine.count(["a"]).sensitive.shape == (2, 0)
    alone = engine.count([], ["a"])
    assert alone.quasi.shape == (1, 0)
    assert alone.start.tolist() == [0, 2]


# What comes back


TYPED = {
    "pandas": lambda: pd.DataFrame(
        {
            "q": ["a", "b", "a", "b", None],
            "category": pd.Categorical(["u", "v", "u", None, "u"], categories=["v", "u"], ordered=True),
            "whole": pd.array([1, None, 3, 4, 5], "Int64"),
            "small": np.array([1, 2, 3, 4, 5], np.int8),
            "real": np.array([0.5, np.nan, 2, 3, 4], np.float32),
            "moment": pd.Series(pd.date_range("2020-01-01", periods=5, freq="D", unit="ns", tz="Europe/Berlin")),
            "truth": [True, False, True, False, True],
            "mixed": pd.Series([1, "a", None, 2.5, (1, 2)], dtype=object),
        },
        index=[9, 9, 3, 1, 0],
    ),
    "polars": lambda: pl.DataFrame(
        {
            "q": ["a", "b", "a", "b", None],
            "category": pl.Series(["u", "v", "u", None, "u"], dtype=pl.Enum(["v", "u"])),
            "whole": pl.Series([1, None, 3, 4, 5], dtype=pl.Int16),
            "price": pl.Series([Decimal("1.50"), None, Decimal("2"), None, None], dtype=pl.Decimal(10, 2)),
            "moment": pl.Series([dt.datetime(2020, 1, 1)] * 5, dtype=pl.Datetime("ms", "Europe/Berlin")),
            "day": pl.Series([dt.date(2020, 1, 1)] * 5),
        }
    ),
    "pyarrow": lambda: pa.table(
        {
            "q": pa.array(["a", "b", "a", "b", None]),
            "category": pa.array(["u", "v", "u", None, "u"]).dictionary_encode(),
            "whole": pa.array([1, None, 3, 4, 5], pa.int16()),
            "price": pa.array([Decimal("1.50"), None, Decimal("2.00"), None, None], pa.decimal128(10, 2)),
            "wide": pa.array(["p", "q", "r", None, "t"], pa.large_string()),
            "view": pa.array(["p", "q", "r", None, "t"], pa.string_view()),
            "many": pa.array([[1], [], None, [2], [3]]),
        }
    ),
}


def dtypes(frame: Any) -> dict[str, Any]:
    if isinstance(frame, pd.DataFrame):
        return dict(frame.dtypes)
    if isinstance(frame, pl.DataFrame):
        return dict(frame.schema)
    return {field.name: field.type for field in frame.schema}


def categories(frame: Any, column: str) -> list[Any]:
    """The values that the type of a column lists, whether a record has them or not."""
    if isinstance(frame, pd.DataFrame) and isinstance(frame[column].dtype, pd.CategoricalDtype):
        return list(frame[column].cat.categories)
    if isinstance(frame, pl.DataFrame):
        listed = frame.schema[column].categories
        return list(listed if isinstance(listed, pl.Series) else listed.to_series())
    array = pa.array(frame[column].array) if isinstance(frame, pd.DataFrame) else frame[column]
    return list(dict.fromkeys(v for chunk in getattr(array, "chunks", [array]) for v in chunk.dictionary.to_pylist()))


@pytest.mark.parametrize("kind", TYPED)
def test_frames_come_back_as_they_came(kind: str) -> None:
    frame = TYPED[kind]()
    engine = encoded(open_data(frame), {"q": Reading()})
    counts = engine.count(["q"])  # cells: a, b, missing
    others = tuple(UnchangedColumn(name) for name in dtypes(frame) if name != "q")
    published = GroupColumn("q", np.array(["{a, b}", "gone"], dtype=object), np.array([0, -1], np.int32))
    plan = Plan(counts, np.arange(3), np.array([0, 0, 1], np.int32), counts.size, (published, *others))
    released = engine.apply([plan]).frame()
    assert type(released) is type(frame)
    assert list(dtypes(released)) == list(dtypes(frame))
    for name, type_ in dtypes(frame).items():
        assert name == "q" or dtypes(released)[name] == type_, name
    rows = pl.from_pandas(released[["q"]]).to_dicts() if kind == "pandas" else plain(released.select(["q"]))
    assert [row["q"] for row in rows] == ["{a, b}"] * 4 + [None]  # in the order of the rows
    if kind == "pandas":
        assert released.index.equals(pd.RangeIndex(5))
        pd.testing.assert_frame_equal(released.drop(columns="q"), frame.drop(columns="q").reset_index(drop=True))
    else:
        assert plain(released.drop(["q"])) == plain(frame.drop(["q"]))


@pytest.mark.parametrize("kind", TYPED)
def test_left_out_records_are_gone_and_the_rest_stays_in_order(kind: str) -> None:
    frame = TYPED[kind]()
    engine = encoded(open_data(frame), {"q": Reading()})
    counts = engine.count(["q"])
    published = GroupColumn("band", np.array([1.5, 2.5]), np.array([1, -1], np.int32))
    columns = (UnchangedColumn("whole"), published, UnchangedColumn("category"))
    plan = Plan(counts, np.arange(3), np.array([0, -1, 1], np.int32), counts.size, columns)
    released = engine.apply([plan])
    assert released.schema().names == ("whole", "band", "category")
    assert plain(released.frame()) == [
        {"whole": 1, "band": 2.5, "category": "u"},
        {"whole": 3, "band": 2.5, "category": "u"},
        {"whole": 5, "band": None, "category": "u"},
    ]
    if kind == "pandas":
        assert released.frame().index.equals(pd.RangeIndex(3))
    assert categories(released.frame(), "category") == ["u"]  # what was left out is not told by the categories
    assert dtypes(released.frame())["whole"] == dtypes(frame)["whole"]


LISTED: dict[str, Callable[[list[str | None]], Any]] = {
    "pandas": lambda v: pd.DataFrame({"c": pd.Categorical(v, categories=["z", "b", "a", "s"])}),
    "pandas ordered": lambda v: pd.DataFrame({"c": pd.Categorical(v, categories=["z", "b", "a", "s"], ordered=True)}),
    "pandas arrow": lambda v: pd.DataFrame({"c": pd.arrays.ArrowExtensionArray(pa.chunked_array([dictionary_of(v)]))}),
    "polars enum": lambda v: pl.DataFrame({"c": pl.Series(v, dtype=pl.Enum(["z", "b", "a", "s"]))}),
    "polars": lambda v: pl.DataFrame({"c": pl.Series([*v, "z"], dtype=pl.Categorical)[:-1]}),
    "polars named": lambda v: pl.DataFrame({"c": pl.Series(v, dtype=pl.Categorical(pl.Categories("mine")))}),
    "pyarrow": lambda v: pa.table({"c": dictionary_of(v)}),
    "pyarrow ordered": lambda v: pa.table({"c": dictionary_of(v, ordered=True)}),
    "pyarrow chunks": lambda v: pa.table({"c": pa.chunked_array([dictionary_of(v[:2]), dictionary_of(v[2:])])}),
}


def dictionary_of(values: list[str | None], *, ordered: bool = False) -> pa.DictionaryArray:
    listed = ["z", "b", "a", "s"]
    codes = pa.array([None if v is None else listed.index(v) for v in values], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, pa.array(listed), ordered=ordered)


def with_quasi(frame: Any, q: list[int]) -> Any:
    if isinstance(frame, pd.DataFrame):
        return frame.assign(q=q)
    return frame.with_columns(q=pl.Series(q)) if isinstance(frame, pl.DataFrame) else frame.append_column("q", [q])


def keeps(frame: Any, groups: list[int]) -> Any:
    """The released frame, where a record with q = 0 is left out or not, and a record with q = 1."""
    engine = encoded(open_data(frame), {"q": Reading()})
    counts = engine.count(["q"])
    star = GroupColumn("q", np.array(["*"], dtype=object), np.array([0], np.int32))
    group = np.array(groups[: len(counts.size)], np.int32)
    return engine.apply([Plan(counts, np.arange(len(group)), group, counts.size, (star, UnchangedColumn("c")))]).frame()


@pytest.mark.parametrize("kind", LISTED)
def test_a_released_frame_lists_no_category_that_no_record_has(kind: str) -> None:
    frame = with_quasi(LISTED[kind](["a", "s", "b", None, "a"]), [1, 0, 1, 1, 1])
    without = with_quasi(LISTED[kind](["a", "b", None, "a"]), [1, 1, 1, 1])
    for released in (keeps(frame, [-1, 0]), keeps(without, [0])):
        assert [row["c"] for row in plain(released)] == ["a", "b", None, "a"]
        found = categories(released, "c")
        assert sorted(found) == ["a", "b"]
        assert found == ["b", "a"] or kind in ("polars", "polars named")  # in the order of the type, where it has one
        if kind.startswith(("pyarrow", "pandas arrow")):
            assert dtypes(released)["c"] == dtypes(frame)["c"]
    assert categories(keeps(frame, [-1, -1]), "c") == []


NOTE = "Alice Miller"


def test_a_released_frame_has_no_metadata_of_the_source() -> None:
    policy = shoal.Policy(quasi={"q": "numeric"}, keep=["c"], require=[shoal.KAnonymity(2)])
    frame = pd.DataFrame({"q": [1, 2], "c": pd.Categorical(["a", "b"], categories=pd.Index(["a", "b"], name=NOTE))})
    frame.attrs["note"] = NOTE
    frame.columns.name = frame.index.name = NOTE
    released = shoal.anonymize(frame, policy).frame
    assert not released.attrs and not released["c"].attrs
    assert released.columns.name is released.index.name is released["c"].cat.categories.name is None
    field = pa.field("c", pa.string(), metadata={"note": NOTE})
    schema = pa.schema([("q", pa.int64()), field], metadata={"note": NOTE})
    table = shoal.anonymize(pa.table({"q": [1, 2], "c": ["a", "b"]}, schema=schema), policy).frame
    assert table.schema.metadata is None
    assert all(field.metadata is None for field in table.schema)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("form", ["pandas", "pyarrow", "file"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_released_file_has_no_metadata_of_the_source(engine: str, form: str, format: Format, tmp_path: Path) -> None:
    policy = shoal.Policy(quasi={"q": "numeric"}, keep=["c"], require=[shoal.KAnonymity(2)])
    field = pa.field("c", pa.string(), metadata={"note": NOTE})
    schema = pa.schema([("q", pa.int64()), field], metadata={"note": NOTE, "pandas": f'{{"attributes": "{NOTE}"}}'})
    table = pa.table({"q": [1, 2], "c": ["a", "b"]}, schema=schema)
    pq.write_table(table, tmp_path / "table.parquet")
    frame = pd.DataFrame({"q": [1, 2], "c": ["a", "b"]})
    frame.attrs["note"] = frame.columns.name = NOTE
    data: Any = {"pandas": frame, "pyarrow": table, "file": tmp_path / "table.parquet"}[form]
    folder = shoal.anonymize(data, policy, engine=engine).save(tmp_path / "out", format=format)
    assert NOTE.encode() not in (folder / f"table.{format}").read_bytes()
    if format == "parquet":
        found = pq.read_schema(folder / "table.parquet")
        assert found.metadata is None and not any("note" in str(field.metadata) for field in found)


@frames
def test_only_written_and_only_kept_columns(kind: str) -> None:
    engine = encoded(open_data(FRAMES[kind]({"q": ["a", "b"]})), {"q": Reading()})
    counts = engine.count(["q"])
    group = np.array([0, 0], np.int32)
    star = GroupColumn("q", np.array(["*"], dtype=object), np.array([0], np.int32))
    assert plain(engine.apply([Plan(counts, np.arange(2), group, counts.size, (star,))]).frame()) == [{"q": "*"}] * 2
    kept = engine.apply([Plan(counts, np.arange(2), group, counts.size, (UnchangedColumn("q"),))])
    assert plain(kept.frame()) == [{"q": "a"}, {"q": "b"}]
    nobody = engine.apply([Plan(counts, np.arange(2), group - 1, counts.size, (star,))])
    assert nobody.schema() == type(nobody.schema())(("q",), 0)


def test_a_file_comes_back_as_a_frame(tmp_path: Path) -> None:
    engine = encoded(open_data(text(tmp_path, "q,zip\na,01234\nb,\n")), {"q": Reading()})
    counts = engine.count(["q"])
    star = GroupColumn("q", np.array(["*"], dtype=object), np.array([0], np.int32))
    plan = Plan(counts, np.arange(2), np.zeros(2, np.int32), counts.size, (star, UnchangedColumn("zip")))
    frame = engine.apply([plan]).frame()
    assert isinstance(frame, pd.DataFrame)
    assert plain(frame) == [{"q": "*", "zip": "01234"}, {"q": "*", "zip": None}]


@pytest.mark.parametrize("kind", FRAMES)
@given(
    wards=st.lists(st.one_of(st.none(), st.integers(0, 2)), min_size=7, max_size=7),
    order=st.permutations(range(7)),
    secret=st.integers(0, 2**128),
)
def test_divided_cells_do_not_follow_the_order_of_the_rows(
    kind: str, wards: list[int | None], order: list[int], secret: int
) -> None:
    """Five equal records go to three places, one of them out: who goes where depends on the secret and on what is kept."""
    table = {"q": [*"aaaaabb"], "ward": wards, "dropped": [*"1234567"]}

    def released(table: Columns) -> MemoryEngine:
        engine = encoded(open_data(FRAMES[kind](table)), {"q": Reading()})
        counts = engine.count(["q"])
        published = GroupColumn("q", np.array(["p", "r", "s"], dtype=object), np.array([0, 1, 2], np.int32))
        cell, group, weight = np.array([0, 0, 0, 1]), np.array([1, -1, 0, 2], np.int32), np.array([2, 1, 2, 2])
        dealing = KeyedOrder(KeyedHash.of(secret), np.array([5, 9], np.uint64), ("ward",))
        return engine.apply([Plan(counts, cell, group, weight, (published, UnchangedColumn("ward")), dealing)])

    first = released(table)
    assert Counter(row["q"] for row in plain(first.frame())) == {"r": 2, "p": 2, "s": 2}
    again = released({name: [values[i] for i in order] for name, values in table.items()})
    assert again.fingerprint() == first.fingerprint()
    assert Counter(map(str, plain(again.frame()))) == Counter(map(str, plain(first.frame())))


# What is written


@given(columns=tables, order=st.randoms(use_true_random=False))
def test_files_are_written_in_an_order_of_their_own(
    columns: Columns, order: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("written")
    rows = list(zip(*columns.values(), strict=True))
    shuffled = dict(zip(columns, zip(*order.sample(rows, len(rows)), strict=True), strict=True))
    for kind, make in FRAMES.items():
        for way in FORMATS:
            engine = open_data(make(columns))
            one, other = folder / f"{kind}-one.{way}", folder / f"{kind}-other.{way}"
            engine.write(one, way)
            open_data(make(shuffled)).write(other, way)
            again = open_data(one)
            assert again.fingerprint() == engine.fingerprint()
            assert plain(again.data.to_native()) == plain(open_data(other).data.to_native())
    assert (folder / "pyarrow-one.csv").read_bytes() == (folder / "polars-one.csv").read_bytes()


def test_the_order_tells_nothing_of_the_order_of_the_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(1000), "b": "x"})
    open_data(frame).write(tmp_path / "table.csv", "csv")
    places = pd.read_csv(tmp_path / "table.csv")["a"]
    assert abs(np.corrcoef(places, np.arange(1000))[0, 1]) < 0.2


MOMENT = dt.datetime(1985, 6, 14, 10, 30, 0, 250_000)
KEPT: dict[str, list[Any]] = {
    "truth": [True, False, None],
    "whole": [1, 2**60, None],
    "real": [0.1, 1e-5, 1e20],
    "minus zero": [-0.0, 1.0, 2.0],
    "short": list(np.array([0.1, 2.5, 1e-7], np.float32)),
    "infinite": [float("inf"), float("-inf"), 1.0],
    "price": [Decimal("1.50"), Decimal("2.00"), None],
    "day": [dt.date(1985, 6, 14), None, dt.date(1, 1, 1)],
    "moment": [MOMENT, MOMENT.replace(hour=0, minute=0, microsecond=0), None],
    "clock": [dt.time(1, 2), dt.time(1, 2, 3, 4), None],
    "span": [dt.timedelta(days=1), dt.timedelta(microseconds=1), None],
    "words": ['a"b', "c,d", "e\nf"],
    "returns": ["a\rb", "c\r\nd", "\n"],
    "empty": ["", None, " "],
    "spaces": [" a", "a ", "a"],
    "numbers in words": ["01234", "1e3", "NA"],
    "nothing": [None, None, None],
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("column", KEPT)
@frames
def test_every_kept_column_reads_back_to_the_same_fingerprint(
    kind: str, column: str, format: Format, tmp_path: Path
) -> None:
    engine = open_data(FRAMES[kind]({"id": ["1", "2", "3"], column: KEPT[column]}))
    engine.write(tmp_path / f"table.{format}", format)
    again = open_data(tmp_path / f"table.{format}")
    assert again.schema() == engine.schema()
    assert again.fingerprint() == engine.fingerprint()


@pytest.mark.parametrize("column", ["truth", "real", "price", "moment"])
def test_what_is_written_has_the_same_text_when_read_back(column: str, tmp_path: Path) -> None:
    """A recoding or a check that names a value finds it in the frame and in the file."""
    engine = open_data(FRAMES["pyarrow"]({"id": ["1", "2", "3"], "x": KEPT[column]}))
    engine.write(tmp_path / "table.csv", "csv")
    again = open_data(tmp_path / "table.csv").distinct("x", Reading())
    assert again.values.tolist() == engine.distinct("x", Reading()).values.tolist()


@pytest.mark.parametrize("values", [ARROW[n][0] for n in ARROW], ids=list(ARROW))
@pytest.mark.parametrize("format", FORMATS)
def test_every_arrow_column_can_be_written(values: Any, format: Format, tmp_path: Path) -> None:
    engine = open_data(pa.table({"id": [str(i) for i in range(len(values))], "x": values}))
    engine.write(tmp_path / f"table.{format}", format)
    assert open_data(tmp_path / f"table.{format}").fingerprint() == engine.fingerprint()


@pytest.mark.parametrize("name", ["category", "category of numbers", "mixed", "object"])
@pytest.mark.parametrize("format", FORMATS)
def test_pandas_columns_can_be_written(name: str, format: Format, tmp_path: Path) -> None:
    values, expected = PANDAS[name]
    engine = open_data(pd.DataFrame({"id": [str(i) for i in range(len(expected))], "x": values}))
    engine.write(tmp_path / f"table.{format}", format)
    assert open_data(tmp_path / f"table.{format}").fingerprint() == engine.fingerprint()


@pytest.mark.parametrize("format", FORMATS)
def test_a_single_column_with_missing_values_can_be_written(format: Format, tmp_path: Path) -> None:
    engine = open_data(pd.DataFrame({"a": ["x", None, "y", None]}))
    engine.write(tmp_path / f"table.{format}", format)
    again = open_data(tmp_path / f"table.{format}")
    assert again.schema().rows == 4
    assert again.fingerprint() == engine.fingerprint()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    for way in FORMATS:
        with pytest.raises(EngineError, match="cannot write"):
            open_data(pd.DataFrame({"a": [1]})).write(tmp_path / "none" / "table", way)
