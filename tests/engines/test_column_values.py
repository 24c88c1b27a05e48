"""What a value is: numbers, dates and texts of every Arrow type settle to the same few distinct values."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines import Reading
from shoal.engines.column_values import EncodedValues, hash_values, read_values
from shoal.engines.protocol import ReadingKind
from shoal.errors import DataError
from shoal.formats.dates import format_date
from shoal.formats.numbers import format_number

DAY = 86400.0
JUNE = dt.date(1985, 6, 14)


def coded(values: Any, kind: ReadingKind = "text", missing: tuple[str, ...] = ("",), type: Any = None) -> EncodedValues:
    array = values if isinstance(values, pa.Array) else pa.array(values, type)
    return read_values(pa.chunked_array([array]), "x", Reading(kind, missing))


def settled(
    values: Any, kind: ReadingKind = "text", missing: tuple[str, ...] = ("",), type: Any = None
) -> tuple[list[Any], list[int], int]:
    distinct = coded(values, kind, missing, type).distinct
    return distinct.values.tolist(), distinct.counts.tolist(), distinct.missing


def refusal(values: Any, kind: ReadingKind, type: Any = None) -> str:
    with pytest.raises(DataError) as error:
        coded(values, kind, type=type)
    assert "column 'x'" in str(error.value)
    return str(error.value)


def agrees(found: EncodedValues, expected: list[Any]) -> None:
    """The distinct values ascend, their counts are right, and every record points at its own (None: missing)."""
    tally = Counter(value for value in expected if value is not None)
    assert found.distinct.values.tolist() == sorted(tally)
    assert found.distinct.counts.tolist() == [tally[value] for value in sorted(tally)]
    assert found.distinct.missing == expected.count(None)
    back = [*found.distinct.values.tolist(), None]
    assert [back[place] for place in found.index] == expected


# The same value in every type


@given(st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=12))
def test_whole_numbers_of_every_type(values: list[int | None]) -> None:
    numbers = [None if v is None else float(v) for v in values]
    texts = [None if v is None else str(v) for v in values]
    floats = [float("nan") if v is None else -0.0 if v == 0 else v for v in numbers]
    decimals = [None if v is None else Decimal(v) for v in values]
    spelled = ["" if v is None else f" {v}.0 " for v in values]
    arrays = [
        *(pa.array(values, kind) for kind in (pa.int8(), pa.int64(), pa.float32(), pa.float64())),
        *(pa.array(floats), pa.array(numbers, pa.float64()).dictionary_encode()),
        pa.array(decimals, pa.decimal128(6, 2)),
    ]
    for array in arrays:
        agrees(coded(array, "number"), numbers)
        agrees(coded(array, "text"), texts)
    for array in (
        pa.array(texts, pa.string()),
        pa.array(spelled, pa.large_string()),
        pa.array(texts, pa.string_view()),
    ):
        agrees(coded(array, "number"), numbers)


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=12))
def test_texts_of_every_type(values: list[str | None]) -> None:
    expected = [None if v is None or not v.strip() else v for v in values]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        agrees(coded(values, type=kind), expected)
    for index in (pa.int8(), pa.uint32(), pa.int64()):
        agrees(coded(pa.array(values, pa.dictionary(index, pa.string()))), expected)
    agrees(coded(pa.array(values, pa.dictionary(pa.int32(), pa.large_string()))), expected)


@given(st.lists(st.one_of(st.none(), st.dates(dt.date(1800, 1, 1), dt.date(2200, 1, 1))), min_size=1, max_size=12))
def test_dates_of_every_type(values: list[dt.date | None]) -> None:
    seconds = [None if v is None else (v - dt.date(1970, 1, 1)).days * DAY for v in values]
    texts = [None if v is None else v.isoformat() for v in values]
    moments = [None if v is None else dt.datetime(v.year, v.month, v.day) for v in values]
    arrays = [
        *(pa.array(values, pa.date32()), pa.array(values, pa.date64())),
        *(pa.array(moments, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array(moments, pa.timestamp("us", tz="UTC")),
    ]
    for array in arrays:
        agrees(coded(array, "date"), seconds)
        agrees(coded(array, "text"), texts)
    agrees(coded(pa.array(texts, pa.string()), "date"), seconds)


def test_booleans() -> None:
    assert settled([True, None, False, True], "number") == ([0.0, 1.0], [1, 2], 1)
    assert settled([True, None, False, True]) == (["False", "True"], [1, 2], 1)


def test_moments_with_a_zone_are_as_their_own_clock_shows_them() -> None:
    """Half past midnight in Berlin, in summer, is the 14th of June to whoever was born there then."""
    moment = dt.datetime(1985, 6, 14, 0, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    seconds = (dt.datetime(1985, 6, 14, 0, 30) - dt.datetime(1970, 1, 1)).total_seconds()
    for array in (
        pa.array([moment], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([moment], pa.timestamp("ns", tz="+02:00")),
        pa.array(["1985-06-14T00:30:00+02:00"]),
        pa.array(["1985-06-14 00:30:00"]),
        pa.array(["1985-06-14T00:30Z"]),
    ):
        assert settled(array, "date") == ([seconds], [1], 0)
        assert settled(array)[0] in (["1985-06-14T00:30:00"], array.to_pylist())
    assert settled(["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"], "date")[2] == 0


def test_other_types_have_a_text() -> None:
    assert settled([dt.time(1, 2), None]) == (["01:02:00"], [1], 1)
    assert settled([b"a", b"a"])[1] == [2]
    assert settled([0.1, 1e-7, 36.0, 1e300]) == (["0.1", "1e+300", "1e-7", "36"], [1, 1, 1, 1], 0)


# Missing values


def test_everything_that_is_missing() -> None:
    assert settled([float("nan"), None, 1.0], "number") == ([1.0], [1], 2)
    assert settled(["", "  ", None, "a"]) == (["a"], [1], 3)
    assert settled(["", "nan", None, "1"], "number") == ([1.0], [1], 3)
    assert settled([None, JUNE], "date") == ([5643 * DAY], [1], 1)


def test_an_empty_text_is_a_value_where_the_policy_says_so() -> None:
    assert settled(["", "a", None], missing=("?",)) == (["", "a"], [1, 1], 1)


@pytest.mark.parametrize("kind", ["number", "text"])
def test_words_for_missing(kind: ReadingKind) -> None:
    missing = ("", "?", "-9", " NA ")
    assert settled(["1", "?", " ? ", "NA", "-9", "1"], kind, missing)[1:] == ([2], 4)
    assert settled([1, -9, 1], kind, missing)[1:] == ([2], 1)
    assert settled([1.0, -9.0, None], kind, missing)[1:] == ([1], 2)
    assert settled([Decimal(1), Decimal(-9)], kind, missing)[1:] == ([1], 1)


def test_words_for_missing_among_dates_of_every_type() -> None:
    """A date that stands for missing does so in a file and in a frame."""
    missing = ("", "1900-01-01")
    first = dt.date(1900, 1, 1)
    expected = ([5643 * DAY], [1], 1)
    assert settled(["1900-01-01", "1985-06-14"], "date", missing) == expected
    assert settled(["1900-01-01", "1985-06-14"], "text", missing) == (["1985-06-14"], [1], 1)
    assert settled([first, JUNE], "text", missing) == (["1985-06-14"], [1], 1)
    assert settled([first, JUNE], "date", missing) == expected


def test_a_word_for_missing_holds_however_the_number_is_written() -> None:
    assert settled(["1", "-9", "-9.0"], "number", ("-9",)) == ([1.0], [1], 2)


@pytest.mark.parametrize("kind", ["number", "date", "text"])
@pytest.mark.parametrize(
    "array",
    [
        pa.nulls(2),
        pa.array([None, None], pa.string()),
        pa.array(["", " "]),
        pa.array([None, None], pa.dictionary(pa.int8(), pa.string())),
        pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([None], pa.string())),
    ],
    ids=lambda a: str(a.type),
)
def test_nothing_but_missing(array: pa.Array, kind: ReadingKind) -> None:
    found = coded(array, kind)
    assert (len(found.distinct.values), found.distinct.missing) == (0, 2)
    assert found.index.tolist() == [-1, -1]


@pytest.mark.parametrize("type", [pa.int64(), pa.float64(), pa.decimal128(5, 2), pa.bool_()], ids=str)
def test_no_number_but_missing(type: Any) -> None:
    for array in (
        pa.array([None, None], type),
        pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([None], type)),
    ):
        assert settled(array, "number") == ([], [], 2)


TEXT = pa.dictionary(pa.int8(), pa.string())
EMPTY: list[tuple[Any, ReadingKind]] = [
    *((pa.null(), "text"), (pa.string(), "text"), (pa.large_string(), "text"), (pa.string_view(), "text")),
    *((pa.bool_(), "text"), (pa.int64(), "number"), (pa.float64(), "number"), (pa.decimal128(5, 2), "number")),
    *((pa.date32(), "date"), (pa.timestamp("us"), "date"), (TEXT, "text"), (TEXT, "number"), (TEXT, "date")),
]


@pytest.mark.parametrize(("type", "kind"), EMPTY, ids=str)
def test_no_records(type: Any, kind: ReadingKind) -> None:
    for array in (pa.chunked_array([], type), pa.chunked_array([pa.array([], type)])):
        found = read_values(array, "x", Reading(kind))
        assert (len(found.distinct.values), found.distinct.missing, len(found.index)) == (0, 0, 0)
        assert len(hash_values(array)[1]) == 0


# Dictionaries


def test_a_null_inside_a_dictionary_is_missing() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["b", None, "a"]))
    agrees(coded(array), ["b", None, None, "a"])


def test_a_value_twice_in_a_dictionary_is_one_value() -> None:
    agrees(coded(pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "b", "a"]))), ["a", "b", "a"])


def test_values_of_a_dictionary_that_no_record_has_are_no_values() -> None:
    """A category that was filtered away is not in the table: it widens no range and may not be asked of a taxonomy."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 0, None]), pa.array(["a", "gone"]))
    assert settled(texts) == (["a"], [2], 1)
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([3, 4, 99]))
    assert settled(numbers, "number") == ([3.0, 4.0], [1, 1], 0)
    mixed = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["3", "not a number"]))
    assert settled(mixed, "number") == ([3.0], [1], 0)


def test_chunks_with_dictionaries_of_their_own() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", None, "c"]).dictionary_encode()]
    found = read_values(pa.chunked_array(chunks), "x", Reading())
    agrees(found, ["a", "b", "b", None, "c"])
    agrees(read_values(pa.chunked_array([["b"], [], ["a", None]]), "x", Reading()), ["b", "a", None])


# Large, infinite and unreadable


@pytest.mark.parametrize("type", [pa.int64(), pa.string(), pa.decimal128(30, 0)], ids=str)
@pytest.mark.parametrize("large", [2**53 + 1, -(2**53) - 1, 2**60, 2**63 - 1])
def test_whole_numbers_that_floats_cannot_tell_apart(large: int, type: Any) -> None:
    """Two different numbers must never become one in silence, whatever the column's type."""
    near = large - 1 if large > 0 else large + 1
    make = {"int64": int, "string": str}.get(str(type), Decimal)
    array = pa.array([make(large), make(near)], type)
    assert settled(array) == (sorted([str(large), str(near)]), [1, 1], 0)
    assert "2^53" in refusal(array, "number")


def test_whole_numbers_up_to_the_limit() -> None:
    assert settled([2**53 - 1, 2**53 - 2], "number")[1] == [1, 1]
    assert settled([2**64 - 1], type=pa.uint64()) == (["18446744073709551615"], [1], 0)


def test_decimals_keep_their_digits_as_text() -> None:
    one, other = Decimal("0.12345678901234567890"), Decimal("0.12345678901234567891")
    assert settled([one, other], type=pa.decimal128(30, 20))[1] == [1, 1]


@pytest.mark.parametrize("values", [[1.0, float("inf")], [float("-inf")], ["1", "inf"], ["-Infinity"]], ids=str)
def test_infinite_numbers(values: list[Any]) -> None:
    assert "infinite numbers" in refusal(values, "number")


def test_text_among_numbers_is_named() -> None:
    assert "holds text: 'a', 'b', 'c', 'd', 'e' and 2 more." in refusal(["1", *"abcdefga"], "number")
    for wrong in ("1,5 m", "1_000", "0x10", "12 years", "--", "1985-06-14"):
        assert f"holds text: {wrong!r}." in refusal(["1", wrong], "number")


def test_text_among_dates_is_named() -> None:
    message = refusal(["1985-06-14", *"abcdefga"], "date")
    assert "holds 'a', 'b', 'c', 'd', 'e' and 2 more." in message
    assert "1985-06-14" in message  # how it should look
    for wrong in ("14.06.85", "14.13.1985", "1985-13-01", "1985-02-30", "1985", "6/14/85"):
        assert f"holds {wrong!r}." in refusal([wrong], "date")


def test_another_kind_than_the_policy_says() -> None:
    assert "numeric in the policy but holds date32" in refusal([JUNE], "number")
    assert "date in the policy but holds int64" in refusal([1], "date")
    assert "date in the policy but holds bool" in refusal([True], "date")


@pytest.mark.parametrize("values", [[[1]], [{"a": 1}]], ids=str)
@pytest.mark.parametrize("kind", ["number", "date", "text"])
def test_lists_and_structs_cannot_be_grouped(values: list[Any], kind: ReadingKind) -> None:
    assert "cannot be grouped" in refusal(values, kind)


# Texts of numbers and dates


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_number_loses_nothing(value: float) -> None:
    assert float(format_number(value)) == value
    assert format_number(value) != "-0"


@given(st.datetimes(dt.datetime(1850, 1, 1), dt.datetime(2100, 1, 1)))
def test_the_text_of_a_moment_loses_nothing(moment: dt.datetime) -> None:
    text = format_date((moment - dt.datetime(1970, 1, 1)).total_seconds())
    assert dt.datetime.fromisoformat(text) == moment
    assert ("T" in text) == (moment.time() != dt.time(0))


def test_texts_are_short() -> None:
    assert [format_number(v) for v in (36.0, -0.0, 0.5, -3.0, 1e16)] == ["36", "0", "0.5", "-3", "1e+16"]
    assert [format_date(v) for v in (-DAY, 0.5, 3600.0)] == [
        *("1969-12-31", "1970-01-01T00:00:00.500000", "1970-01-01T01:00:00")
    ]


# Hashes


def row_hashes(array: pa.Array) -> list[int]:
    found, place = hash_values(pa.chunked_array([array]))
    return [int(h) for h in found[place]]


def test_the_same_value_has_the_same_hash_in_every_type() -> None:
    whole = row_hashes(pa.array([3, 0, None, 12]))
    assert len(set(whole)) == 4
    for array in (
        pa.array([3, 0, None, 12], pa.int8()),
        pa.array([3.0, -0.0, float("nan"), 12.0]),
        pa.array([3.0, 0.0, None, 12.0], pa.float32()),
        pa.array(["3", "0", "", "12"]),
        pa.array(["3", "0", None, "12"], pa.large_string()),
        pa.array(["3", "0", None, "12"], pa.string_view()),
        pa.array(["3", "0", None, "12"]).dictionary_encode(),
        pa.array([3, 0, None, 12]).dictionary_encode(),
        pa.array([3.0, -0.0, None, 12.0]).dictionary_encode(),
        pa.array([Decimal(3), Decimal(0), None, Decimal(12)]),
        pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, 3]), pa.array(["0", None, "3", "12"])),
    ):
        assert row_hashes(array) == whole, array.type


def test_a_short_float_has_a_hash() -> None:
    assert row_hashes(pa.array(np.array([3.0, -0.0, np.nan], np.float16))) == row_hashes(pa.array([3, 0, None]))


def test_a_moment_has_one_hash_in_every_unit() -> None:
    moments = [dt.datetime(1985, 6, 14), dt.datetime(1985, 6, 14, 1, 2, 3), None]
    first = row_hashes(pa.array(moments, pa.timestamp("us")))
    for unit in ("s", "ms", "ns"):
        assert row_hashes(pa.array(moments, pa.timestamp(unit))) == first, unit


def test_hashes_of_slices_and_chunks() -> None:
    whole = pa.array(["a", "b", None, "a"])
    expected = row_hashes(whole)
    assert row_hashes(whole.slice(1)) == expected[1:]
    numbers = pa.array([1, 2, None, 4])
    assert row_hashes(numbers.slice(2)) == row_hashes(numbers)[2:]
    found, place = hash_values(pa.chunked_array([whole.slice(0, 1), whole.slice(1)]))
    assert found[place].tolist() == expected
    assert row_hashes(whole.slice(4)) == []
    assert row_hashes(numbers.slice(4)) == []
    assert row_hashes(pa.nulls(2)) == [expected[2]] * 2


def test_small_decimals_keep_their_value() -> None:
    found = settled([Decimal("1E-10"), Decimal("0E-10"), Decimal("0.5"), Decimal("-100")], type=pa.decimal128(30, 10))
    assert found[0] == ["-100", "0", "0.0000000001", "0.5"]


def test_nanoseconds_and_short_floats_are_told_apart() -> None:
    assert settled(pa.array([1, 2], pa.timestamp("ns")))[1] == [1, 1]
    assert settled(pa.array([0.1], pa.float32()), "number")[0] == [0.1]


def test_an_exact_reading_is_what_a_stranger_sees() -> None:
    found = read_values(pa.chunked_array([["?", "", "  ", None, "x"]]), "x", Reading("text", ("",), exact=True))
    assert (found.distinct.values.tolist(), found.distinct.missing) == (["  ", "?", "x"], 2)
