"""Columns of every type, in every role: the table is released, or refused by name; nothing else is raised."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from tests.support.outcomes import Outcome, counted

NAN = float("nan")
DAY, MOMENT = dt.date(1985, 6, 14), dt.datetime(1990, 1, 1, 3)
ROWS = 6
Q = ["a", "a", "a", "b", "b", "c"]  # the last record is left out where the rest must be alike


class Unwilling:
    """An object that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


class Incomparable:
    """An object that cannot be compared, not even with itself."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __ne__ = __eq__
    __hash__ = object.__hash__


Letter = enum.Enum("Letter", "A B")
OBJECTS: list[Any] = [
    *(DAY, dt.date(1, 1, 1), MOMENT, dt.datetime(1990, 1, 1, tzinfo=dt.UTC), dt.datetime.max, dt.time(1, 2)),
    *(dt.timedelta(1), pd.Timestamp("1990-01-01"), pd.Timestamp("1990-01-01", tz="Asia/Tokyo"), pd.Timedelta("1h")),
    *(
        np.datetime64("1990-01-01"),
        np.datetime64("NaT"),
        np.timedelta64(5, "s"),
        pd.Period("2020-01"),
        pd.Interval(0, 1),
    ),
    *(None, NAN, pd.NaT, pd.NA, Decimal("NaN"), Decimal("sNaN"), np.float32("nan"), complex(NAN, 0)),
    *(
        Decimal("1.50"),
        Decimal("Infinity"),
        Decimal("1e300"),
        1,
        2.5,
        True,
        -0.0,
        2**60 + 1,
        2**70,
        10**5000,
        float("inf"),
    ),
    *(np.int8(1), np.float16(0.1), np.float32(0.1), np.bool_(True), np.str_("a"), 1 + 2j, Fraction(1, 3)),
    *(
        "a",
        "",
        "1",
        "1985-06-14",
        "a\0b",
        "\ud800",
        b"a",
        b"\xff",
        bytearray(b"a"),
        (1, 2),
        (),
        [1],
        ["a"],
        {"a": 1},
        {1},
    ),
    *(
        np.array([1, 2]),
        np.array([]),
        range(3),
        int,
        ...,
        uuid.UUID(int=5),
        Letter.A,
        Path("a"),
        pd.Series([1]),
        Unwilling(),
        Incomparable(),
    ),
]


def repeat(values: Any) -> list[Any]:
    """As many values as there are rows."""
    return [values[i % len(values)] for i in range(ROWS)]


def dictionary(values: list[Any], kind: pa.DataType | None = None) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0, 1, 0], pa.int8()), pa.array(values, kind))


ARROW: dict[str, Callable[[], Any]] = {
    **{
        str(kind): lambda kind=kind, values=values: pa.array(repeat(values), kind)
        for kind, values in [
            *((kind, ["a", None, ""]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
            *((kind, [b"a", None, b"\xff"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
            (pa.binary(2), [b"ab", None]),
            *(
                (kind, [1, None, 0])
                for kind in (pa.int8(), pa.uint64(), pa.duration("ns"), pa.time64("ns"), pa.date32())
            ),
            *((kind, [0.5, None, -0.0]) for kind in (pa.float32(), pa.float64())),
            *((kind, [Decimal(150), None]) for kind in (pa.decimal32(5), pa.decimal128(9, -1), pa.decimal256(60, 2))),
            *((pa.timestamp(unit), [0, None, 2**62]) for unit in ("s", "ns")),
            *((pa.timestamp("us", zone), [0, None, 5]) for zone in ("Europe/Berlin", "+05:30", "Nowhere/Land")),
            (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), None]),
            *((kind, [[1], None]) for kind in (pa.list_(pa.int8()), pa.list_view(pa.int8()), pa.list_(pa.int8(), 1))),
            (pa.struct({"a": pa.int8()}), [{"a": 1}, None]),
            (pa.struct([]), [{}, None]),
            (pa.map_(pa.string(), pa.int8()), [[("a", 1)], None]),
            (pa.null(), [None]),
        ]
    },
    "float16": lambda: pa.array(np.array(repeat([0.1, -0.0, NAN]), np.float16)),
    "uuid": lambda: pa.array(repeat([b"a" * 16, None]), pa.uuid()),
    "dictionary": lambda: dictionary(["a", "b"]),
    "dictionary with null": lambda: dictionary(["a", None]),
    "dictionary of floats": lambda: dictionary([0.0, -0.0]),
    "dictionary of days": lambda: dictionary([DAY, None]),
    "dictionary of decimals": lambda: dictionary([Decimal("1.5"), None]),
    "dictionary of views": lambda: dictionary(["a", "b"], pa.string_view()),
    "dictionary of binary views": lambda: dictionary([b"a", b"\xff"], pa.binary_view()),
    "dictionary of lists": lambda: dictionary([[1], [2]]),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays([4, 6], pa.array(["a", "b"])),
    "union": lambda: pa.UnionArray.from_sparse(
        pa.array([0, 1] * 3, pa.int8()), [pa.array(range(6)), pa.array([*"abcdef"])]
    ),
    "tensor": lambda: pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12).reshape(6, 2)),
}
PANDAS: dict[str, Callable[[], Any]] = {
    **{
        kind: lambda kind=kind, values=values: pd.array(repeat(values), kind)
        for kind, values in [
            *((kind, [1, None]) for kind in ("Int64", "UInt8", "Float32")),
            ("boolean", [True, None]),
            ("string", ["a", None, ""]),
            ("category", ["a", None]),
        ]
    },
    **{
        f"categories of {name}": lambda values=values: pd.Categorical(pd.Series(repeat(values), dtype=object))
        for name, values in {
            "numbers": [3, 1, None],
            "floats": [0.5, -0.0, None],
            "days": [DAY, None],
            "moments": [pd.Timestamp("1990-01-01"), pd.NaT],
            "several kinds": [1, "a", None],
            "numbers and days": [1, DAY],
            "tuples": [(1, 2), (3, 4)],
            "bytes": [b"a", b"\xff"],
            "decimals": [Decimal("1.5"), None],
            "complex numbers": [1j, 2j],
            "nothing": [None],
        }.items()
    },
    "categories of intervals": lambda: pd.cut(pd.Series(repeat([1, 5, NAN])), [0, 2, 6]),
    "periods": lambda: pd.Series(pd.PeriodIndex(repeat(["2020-01-01", None]), freq="D")),
    "intervals": lambda: pd.Series(pd.interval_range(0, ROWS)),
    "timedelta": lambda: pd.Series(pd.to_timedelta(repeat([1, None]), unit="s")),
    "zone": lambda: pd.Series(pd.to_datetime(repeat(["1990-01-01", None]))).dt.tz_localize("Europe/Berlin"),
    "far moments": lambda: pd.Series(np.array(repeat(["29990-01-01", "1990-01-01"]), "datetime64[s]")),
    "complex": lambda: pd.Series(repeat([1j, NAN])),
    "sparse": lambda: pd.Series(pd.arrays.SparseArray(repeat([NAN, 0.5]))),
    "float16": lambda: pd.Series(repeat([0.1, NAN]), dtype="float16"),
    "long": lambda: pd.Series(np.array(repeat([0.1, 2]), np.longdouble)),
    "big-endian": lambda: pd.Series(np.array(repeat([1, 2]), ">i4")),
    "fixed bytes": lambda: pd.Series(np.array(repeat(["a", "b"]), "S1")),
}
POLARS: dict[str, Callable[[], pl.Series]] = {
    str(kind): lambda kind=kind, values=values: pl.Series(repeat(values), dtype=kind)
    for kind, values in [
        (pl.Enum(["b", "a", "z"]), ["a", "b", None]),
        (pl.Categorical(), ["a", "b", None]),
        (pl.Decimal(10, 2), [Decimal("1.5"), None]),
        (pl.Duration("ns"), [1, None]),
        (pl.Time(), [dt.time(1), None]),
        (pl.Datetime("ms", "Asia/Tokyo"), [0, None]),
        (pl.List(pl.Int8), [[1], None]),
        (pl.Array(pl.Int8, 2), [[1, 2], None]),
        (pl.Struct({"a": pl.Enum(["x", "y"])}), [{"a": "x"}, None]),
        (pl.Object(), [DAY, NAN, None]),
        (pl.Binary(), [b"\xff", None]),
        (pl.Null(), [None]),
        (pl.Int128(), [2**100, None]),
        (pl.Float32(), [0.1, NAN, None]),
    ]
}
COLUMNS: dict[str, Callable[[], Any]] = {
    **{f"pandas: {n}": lambda make=make: pd.DataFrame({"q": Q, "x": make()}) for n, make in PANDAS.items()},
    **{f"polars: {n}": lambda make=make: pl.DataFrame({"q": Q, "x": make()}) for n, make in POLARS.items()},
    **{f"pyarrow: {n}": lambda make=make: pa.table({"q": Q, "x": make()}) for n, make in ARROW.items()},
    **{
        f"pandas with Arrow: {n}": lambda make=make: pd.DataFrame(
            {"q": Q, "x": pd.arrays.ArrowExtensionArray(pa.chunked_array([make()]))}
        )
        for n, make in ARROW.items()
        if n not in ("uuid", "tensor")  # pandas makes no column of these
    },
}
BOTH_ENGINES = ("string", "binary", "decimal128(9, -1)", "timestamp[us, tz=Europe/Berlin]", "dictionary", "null")
K2 = [shoal.KAnonymity(2)]
ROLES: dict[str, dict[str, Any]] = {
    "number": {"quasi": {"q": "categorical", "x": "numeric"}},
    "category": {"quasi": {"q": "categorical", "x": "categorical"}},
    "date": {"quasi": {"q": "categorical", "x": "date"}},
    "sensitive": {"sensitive": ["x"], "require": [*K2, shoal.LDiversity(1, of="x")]},
    "kept": {"keep": ["x"]},
    "identifier": {"identifiers": ["x"]},
    "dropped": {},
}


def policy_of(role: str) -> shoal.Policy:
    return shoal.Policy(**{"quasi": {"q": "categorical"}, "require": K2, "suppress": 1.0, **ROLES[role]})


def try_all(frame: Any, role: str, engine: str, folder: Path) -> shoal.Release | None:
    """The release, after everything was done with it that the interface offers; None where the table is refused."""
    policy = policy_of(role)
    with suppress_named_errors():
        shoal.check(frame, policy, engine=engine)
    release = try_release(frame, role, engine, folder)
    if release is None:
        return None
    with suppress_named_errors():
        shoal.measure(frame, release.frame, policy, engine=engine)
        return release
    return None


def try_release(frame: Any, role: str, engine: str, folder: Path) -> shoal.Release | None:
    """The release, after it was saved if the column is in it; None where the table is refused."""
    with suppress_named_errors():
        release = shoal.anonymize(frame, policy_of(role), engine=engine)
        assert release.certificate.records + release.certificate.suppressed == len(frame)
        assert release.engine.schema().rows == release.certificate.records
        if role in ("kept", "sensitive"):
            release.save(folder / "csv", format="csv", overwrite=True)
            release.save(folder / "parquet", format="parquet", overwrite=True)
        return release
    return None


@contextlib.contextmanager
def suppress_named_errors() -> Iterator[None]:
    """Suppress errors that name the column, or the file that cannot be written."""
    try:
        yield
    except shoal.ShoalError as error:
        assert "'x'" in str(error) or "cannot write" in str(error), error


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_is_released_or_refused(name: str, tmp_path: Path) -> None:
    """DuckDB gets the same values from the same reader, so it only does what reads or writes the column.

    All pairs of a library, a type and an engine: DuckDB gets every Arrow type from pyarrow, and a few from pandas.
    """
    frame = COLUMNS[name]()
    releases = {role: try_all(frame, role, "memory", tmp_path / role) for role in ROLES}
    assert releases["dropped"] is not None  # what is not used is no reason to refuse a table
    library, _, kind = name.partition(": ")
    if library != "pandas with Arrow" or kind in BOTH_ENGINES:
        try_all(frame, "category", "duckdb", tmp_path / "category in DuckDB")
        for role in ("kept", "dropped"):
            try_release(frame, role, "duckdb", tmp_path / f"{role} in DuckDB")


def build_frame(values: list[Any], library: str) -> Any:
    """A table whose column 'x' holds Python objects."""
    column = np.empty(ROWS, object)
    for row in range(ROWS):
        column[row] = values[row % len(values)]
    if library == "pandas":
        return pd.DataFrame({"q": Q, "x": pd.Series(column, dtype=object)})
    objects = pl.Series(["first", *column], dtype=pl.Object)[1:]  # polars fails where the first object is an enum's
    return pl.DataFrame({"q": Q, "x": objects})


@settings(max_examples=20)
@given(
    values=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=4),
    role=st.sampled_from(list(ROLES)),
    engine=st.sampled_from(["memory", "duckdb"]),
    library=st.sampled_from(["pandas", "polars"]),
)
@counted
def test_objects_of_several_kinds_are_released_or_refused(
    values: list[Any], role: str, engine: str, library: str, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    frame = build_frame(values, library)
    release = try_all(frame, role, engine, tmp_path_factory.mktemp("objects"))
    return "refused" if release is None else None


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_every_object_beside_a_date_is_released_or_refused(library: str, tmp_path: Path) -> None:
    releases = [try_all(build_frame([DAY, value], library), "kept", "memory", tmp_path) for value in OBJECTS]
    assert any(release is not None for release in releases)
    assert try_all(build_frame([DAY, DAY], library), "kept", "memory", tmp_path) is not None


MISSING = [None, NAN, pd.NaT, pd.NA, Decimal("NaN"), np.datetime64("NaT")]
DATES = [DAY, MOMENT, pd.Timestamp("1991-02-03"), "1992-03-04"]
NUMBERS = [1, 2.5, Decimal("3.50"), np.int8(4), "5"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [*(("date", [v]) for v in DATES), ("date", DATES), *(("numeric", [v]) for v in NUMBERS), ("numeric", NUMBERS)],
    ids=str,
)
def test_values_with_missing_values_keep_their_kind(kind: str, values: list[Any]) -> None:
    """All pairs of values, a missing value and an engine: DuckDB reads single values beside None alone."""
    for missing in MISSING:
        assert_read(kind, values, missing, "memory")
        if missing is None or len(values) > 1:
            assert_read(kind, values, missing, "duckdb")


def assert_read(kind: str, values: list[Any], missing: Any, engine: str) -> None:
    frame = pd.DataFrame({"x": pd.Series([*values, missing] * 2, dtype=object)})
    policy = shoal.Policy(quasi={"x": kind}, require=K2)
    assert shoal.check(frame, policy, engine=engine).groups == len(values) + 1
    release = shoal.anonymize(frame, policy, engine=engine)
    assert (release.certificate.groups, release.certificate.smallest) == (len(values) + 1, 2)  # no value is generalized


def test_a_moment_beside_a_day_keeps_its_time() -> None:
    frame = pd.DataFrame({"x": pd.Series([DAY, MOMENT, MOMENT.replace(hour=4)], dtype=object)})
    assert shoal.check(frame, shoal.Policy(quasi={"x": "date"}, require=K2)).groups == 3


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("role", [role for role in ROLES if role != "dropped"])
def test_objects_that_cannot_be_compared_are_refused(role: str, engine: str) -> None:
    frame = build_frame([Incomparable(), "a"], "pandas")
    with pytest.raises(shoal.DataError, match=r"column 'x' holds objects that cannot be compared or written as text"):
        shoal.check(frame, policy_of(role), engine=engine)


BROKEN = ["\ud800", "a\udfff"]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("name", BROKEN, ids=ascii)
def test_a_column_name_with_a_lone_surrogate_is_refused(name: str, engine: str) -> None:
    """The name is refused where the frame is opened, even if the column would be dropped."""
    frame = pd.DataFrame([[1, "x"]] * 4, columns=pd.Index(["q", name], dtype=object))
    policy = shoal.Policy(quasi={"q": "numeric"}, require=K2)
    release = shoal.anonymize(frame[["q"]], policy)
    actions: list[Callable[[], Any]] = [
        lambda: shoal.check(frame, policy, engine=engine),
        lambda: shoal.anonymize(frame, policy, engine=engine),
        lambda: shoal.measure(frame, release.frame, policy, engine=engine),
        lambda: release.recoding.apply(frame),
    ]
    for action in actions:
        with pytest.raises(shoal.DataError, match=r"column names must be valid Unicode") as caught:
            action()
        assert ascii(name) in str(caught.value)
