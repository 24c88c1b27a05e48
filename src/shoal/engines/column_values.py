"""Conversion of raw values to texts, numbers, dates and missing values, equal for all engines.

Frame libraries differ in NULL and NaN, in -0.0, in 36 and 36.0. This module reads every column once, as its distinct values;
all later steps use codes. Every value has one text (`format_values`), which identifies categories, is written to CSV files
and enters fingerprints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from shoal.engines.protocol import Dictionary, Distinct, Reading, TextFormat
from shoal.engines.text_formats import are_plain_numbers, choose_date_format, choose_number_format
from shoal.errors import DataError
from shoal.formats.conventions import Conventions
from shoal.formats.dates import parse_date
from shoal.formats.normalize import Normalizer
from shoal.formats.numbers import EXACT, NumberFormat, parse_number

FRACTION = r"(\.[0-9]*[1-9])0*$|\.0*$"  # of a second; trailing zeros are not written

MANY_TEXTS = 5_000  # from this number on, Arrow sorts texts faster than NumPy
ParsedValues = tuple[
    NDArray[Any], BoolArray, TextFormat | None
]  # values that are not missing; which are missing; style


@dataclass(frozen=True)
class EncodedValues:
    """The distinct values of a column and, per record, the index of its value among them (-1: missing).

    ``style`` is how numbers or dates are written in the source, where they differ from published numbers and dates.
    """

    distinct: Distinct
    index: Int32Array
    style: TextFormat | None = None


class UnifiedValues(NamedTuple):
    """The distinct values in ascending order, the index of every raw value among them (-1: missing), and their style."""

    distinct: NDArray[Any]
    position: Int32Array
    style: TextFormat | None = None


def read_values(
    array: pa.ChunkedArray, column: str, reading: Reading, conventions: Conventions | None = None
) -> EncodedValues:
    """Read a column as numbers, dates or texts, and encode it. ``conventions`` are those of the source.

    >>> coded = read_values(pa.chunked_array([["3", "?", "12"]]), "age", Reading("number", ("?",)))
    >>> coded.distinct.values.tolist(), coded.index.tolist(), coded.distinct.missing
    ([3.0, 12.0], [0, -1, 1], 1)
    """
    raw, index = dictionary_encode(array, column)
    values, target, style = unify_values(raw, column, reading, conventions)
    index = np.append(target, np.int32(-1))[index]  # the last entry is for index -1, a null
    tally = np.bincount(index + 1, minlength=len(values) + 1)
    return EncodedValues(Distinct(values, tally[1:].astype(np.int64), int(tally[0])), index, style)


def decode_values(dictionary: Dictionary, codes: Int32Array, records: Int64Array | None = None) -> EncodedValues:
    """Return the values of codes, of which no two values have the same.

    ``records`` is the number of records of each code (default: 1).
    """
    value = np.full(max(int(dictionary.codes.max(initial=0)), dictionary.missing) + 1, -1, np.int32)
    value[dictionary.codes] = np.arange(len(dictionary.codes), dtype=np.int32)
    if dictionary.missing >= 0:
        value[dictionary.missing] = -1
    index = value[codes]
    tally = np.bincount(index + 1, records, minlength=len(dictionary.codes) + 1).astype(np.int64)
    present = tally[1:] > 0
    number = np.append(np.where(present, np.cumsum(present) - 1, -1), -1).astype(np.int32)
    values = dictionary.distinct.values[present]
    return EncodedValues(Distinct(values, tally[1:][present], int(tally[0])), number[index])


def unify_values(raw: pa.Array, column: str, reading: Reading, conventions: Conventions | None = None) -> UnifiedValues:
    """Return the distinct values in ascending order, and the index of every raw value among them (-1: missing)."""
    target = np.full(len(raw), -1, np.int32)
    if reading.exact or reading.normalized:
        texts = format_values(raw, column)
        texts = _normalize_texts(texts, reading.missing) if reading.normalized else texts
        marks = pa.array(reading.missing, texts.type)
        present = pc.and_(texts.is_valid(), pc.invert(pc.is_in(texts, marks)))
        distinct, target[present.to_numpy(zero_copy_only=False)] = _sort_texts(texts.filter(present))
        return UnifiedValues(distinct, target)
    parse = {"number": _read_numbers, "date": _read_dates, "text": _read_categories}[reading.kind]
    missing = tuple(m.strip() for m in reading.missing)
    values, is_missing, style = parse(raw, column, missing, conventions or Conventions())
    distinct, target[~is_missing] = _sort_distinct(values)
    return UnifiedValues(distinct, target, style)


def _normalize_texts(texts: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    """Return the normalized text of every value; null for missing values. Arrow finds the texts that are normal already."""
    normal = Normalizer(missing)
    if len(texts) < MANY_TEXTS or not pc.all(pc.string_is_ascii(texts)).as_py():
        found = [None if text is None else normal(text) or None for text in texts.to_pylist()]
        return pa.array(found, texts.type)
    lowered = pc.ascii_lower(texts)
    marks = pa.array(sorted(normal.missing_texts), texts.type)
    lowered = pc.if_else(pc.is_in(lowered, marks), pa.scalar(None, texts.type), lowered)
    rest = pc.and_(texts.is_valid(), pa.array(~_are_normal(lowered)))
    found = [normal(text) or None for text in texts.filter(rest).to_pylist()]
    return pc.replace_with_mask(lowered, rest, pa.array(found, texts.type)) if found else lowered


def _are_normal(lowered: pa.Array) -> BoolArray:
    """Whether texts of ASCII in lower case are normal: words without spaces, and whole numbers without leading zeros."""
    are = pc.match_substring_regex(lowered, r"^([a-z_][!-~]*|0|[1-9][0-9]{0,28})$")
    return np.asarray(are.fill_null(False).to_numpy(zero_copy_only=False), bool)


def _sort_distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.integer]]:
    """Return the distinct values in ascending order, and the index of every value among them."""
    if not len(values):
        return values, np.empty(0, np.int64)
    if values.dtype != object or len(values) < MANY_TEXTS:
        return np.unique(values, return_inverse=True)
    try:
        return _sort_texts(pa.array(values, pa.large_string()))
    except (UnicodeEncodeError, pa.ArrowException):  # lone surrogates
        return np.unique(values, return_inverse=True)


def _sort_texts(texts: pa.Array) -> tuple[NDArray[Any], Int64Array]:
    """Return the distinct texts in ascending order, and the index of every text among them. UTF-8 sorts as code points do."""
    if not len(texts):
        return np.empty(0, object), np.empty(0, np.int64)
    order = pc.array_sort_indices(texts).to_numpy()
    ordered = texts.take(pa.array(order))
    new = np.append(True, pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False))
    inverse = np.empty(len(texts), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return ordered.filter(pa.array(new)).to_numpy(zero_copy_only=False), inverse


def dictionary_encode(array: pa.ChunkedArray, column: str) -> tuple[pa.Array, Int32Array]:
    """Return the distinct raw values in the order of first appearance, and the index of every record's value.

    Arrow decides which values are equal. The index of a null is -1.
    """
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if len(array) == 0:
        return pa.array([], kind), np.empty(0, np.int32)
    if not pa.types.is_dictionary(array.type):
        try:
            array = array.dictionary_encode()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise DataError(
                f"column {column!r} holds {kind} values, which cannot be grouped. Convert the column to text or numbers, or "
                "leave it out of the policy."
            ) from error
    whole = array.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    index = whole.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    raw = whole.dictionary
    present = np.bincount(index + 1, minlength=len(raw) + 1)[1:] > 0
    if raw.null_count:  # a null inside the dictionary is a missing value too
        present &= ~pc.is_null(raw).to_numpy(zero_copy_only=False)
    if not present.all():
        target = np.append(np.where(present, np.cumsum(present) - 1, -1), -1)
        raw, index = raw.filter(pa.array(present)), target[index]
    return raw, np.asarray(index, np.int32)


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _read_numbers(raw: pa.Array, column: str, missing: tuple[str, ...], conventions: Conventions) -> ParsedValues:
    style = NumberFormat()
    if is_text(raw.type) or pa.types.is_null(raw.type):
        texts = _strip_missing(raw, missing)
        found = [np.nan if t is None else parse_number(t) for t in texts]
        present = [t for t in texts if t is not None]
        if None in found or not are_plain_numbers(present, conventions):
            style = choose_number_format(present, column, conventions)
            texts = [None if t is None else style.to_plain(t) for t in texts]
            found = [np.nan if t is None else parse_number(t) for t in texts]
        numbers = np.array(found, np.float64)
        whole = np.array([t is not None and t.strip().lstrip("+-").isdigit() for t in texts], bool)
    elif pa.types.is_floating(raw.type) or pa.types.is_integer(raw.type) or pa.types.is_decimal(raw.type):
        short = pa.types.is_float32(raw.type) or pa.types.is_float16(raw.type)
        exact = format_values(raw, column) if short else raw  # 0.1 stays 0.1
        numbers = np.asarray(exact.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
        whole = np.full(len(numbers), not pa.types.is_floating(raw.type))
    elif pa.types.is_boolean(raw.type):
        numbers = np.asarray(raw.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        whole = np.zeros(len(numbers), bool)
    else:
        raise DataError(
            f"column {column!r} is numeric in the policy but holds {raw.type} values. "
            "Declare the column as a date or as categorical."
        )
    is_missing = np.isnan(numbers) | np.isin(numbers, _parse_missing_texts(missing, parse_number))
    if (np.abs(numbers[whole & ~is_missing]) >= EXACT).any():
        raise DataError(
            f"column {column!r} holds whole numbers of 2^53 and above, which floating-point numbers do not distinguish. "
            "Declare the column as categorical."
        )
    if np.isinf(numbers[~is_missing]).any():
        raise DataError(f"column {column!r} holds infinite numbers. Correct these values, or leave them empty.")
    return numbers[~is_missing] + 0.0, is_missing, style if style.decimal != "." else None  # + 0.0 turns -0.0 into 0.0


def _read_dates(raw: pa.Array, column: str, missing: tuple[str, ...], conventions: Conventions) -> ParsedValues:
    style, parse = None, parse_date
    if is_text(raw.type) or pa.types.is_null(raw.type):
        texts = _strip_missing(raw, missing)
        style = choose_date_format([t for t in texts if t is not None], column, conventions)
        parse = parse_date if style is None else style.parse
        seconds = np.array([np.nan if t is None else parse(t) for t in texts], np.float64)
    elif pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type):
        try:
            seconds = _to_local_time(raw, "us").cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e6
        except pa.ArrowInvalid:  # unknown time zone
            raise DataError(
                f"column {column!r} holds {raw.type} values with an unknown time zone. Convert them to another time zone."
            ) from None
    else:
        raise DataError(
            f"column {column!r} is a date in the policy but holds {raw.type} values. "
            "Declare the column as numeric or as categorical."
        )
    is_missing = np.isnan(seconds) | np.isin(seconds, _parse_missing_texts(missing, parse))
    return seconds[~is_missing], is_missing, style


def _strip_missing(raw: pa.Array, missing: tuple[str, ...]) -> list[str | None]:
    """Return the texts, with None for those that mean a missing value."""
    return [None if t is None or t.strip() in missing else t for t in raw.to_pylist()]


def _parse_missing_texts(missing: tuple[str, ...], parse: Callable[[str], float | None]) -> list[float]:
    """Return the texts for missing values that are numbers or dates: with '-9', the number -9.0 is missing too."""
    return [number for number in map(parse, missing) if number is not None and not np.isnan(number)]


def _read_categories(raw: pa.Array, column: str, missing: tuple[str, ...], conventions: Conventions) -> ParsedValues:
    found = format_values(raw, column).to_pylist()
    numeric = pa.types.is_floating(raw.type) or pa.types.is_integer(raw.type) or pa.types.is_decimal(raw.type)
    marks = _parse_missing_texts(missing, parse_number) if numeric else []
    is_missing = np.array([t is None or t.strip() in missing or (numeric and float(t) in marks) for t in found], bool)
    return np.array([t for t, g in zip(found, is_missing, strict=True) if not g], dtype=object), is_missing, None


def format_values(array: pa.Array, column: str) -> pa.Array:
    """Return the text of every value, such as 36 for 36.0, True, 1985-06-14; null for missing values and NaN.

    >>> format_values(pa.array([36.0, -0.0, 0.25, None, float("nan")]), "x").to_pylist()
    ['36', '0', '0.25', None, None]
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return format_values(array.cast(kind.value_type), column)
    if pa.types.is_float16(kind):
        array, kind = array.cast(pa.float32()), pa.float32()
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), pc.add(array, pa.scalar(0.0, kind)))
    elif pa.types.is_boolean(kind):
        return pc.if_else(array, pa.scalar("True", pa.large_string()), pa.scalar("False", pa.large_string()))
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
            return _format_timestamps(array)
        found = array.cast(pa.large_string())
        if pa.types.is_decimal(kind):
            return pa.array([None if v is None else _format_decimal(v) for v in array.to_pylist()], pa.large_string())
        return pc.replace_substring_regex(found, FRACTION, r"\1") if pa.types.is_time(kind) else found
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise DataError(
            f"column {column!r} holds {kind} values, which cannot be written as text. Convert the column to text or numbers, "
            "or leave it out of the policy."
        ) from None


def _format_decimal(value: Decimal) -> str:
    """Return all digits, without an exponent and without trailing zeros."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _to_local_time(array: pa.Array, unit: str) -> pa.Array:
    """Return timestamps as local times of their own time zone, where they have one."""
    if getattr(array.type, "tz", None):
        array = pc.local_timestamp(array)
    return array.cast(pa.timestamp(unit), safe=False)


def _format_timestamps(array: pa.Array) -> pa.Array:
    """Return the date at midnight, else date and time, with fractions of a second only where they are not zero."""
    unit = "ns" if getattr(array.type, "unit", "") == "ns" else "us"
    local = _to_local_time(array, unit)
    second = 1_000_000_000 if unit == "ns" else 1_000_000
    count = local.cast(pa.int64())

    def is_multiple(size: int) -> pa.Array:
        return pc.equal(pc.multiply(pc.divide(count, size), size), count)

    day = pc.strftime(local, "%Y-%m-%d")
    plain = pc.strftime(local.cast(pa.timestamp("s"), safe=False), "%Y-%m-%dT%H:%M:%S")
    exact = pc.replace_substring_regex(pc.strftime(local, "%Y-%m-%dT%H:%M:%S"), r"0+$", "")
    time = pc.if_else(is_multiple(second), plain, exact)
    return pc.if_else(is_multiple(86_400 * second), day, time).cast(pa.large_string())


def list_texts(array: pa.ChunkedArray, column: str = "") -> tuple[pa.Array, Int32Array]:
    """Return the texts of a column, and the index of every record's text; a missing value has the empty text."""
    if pa.types.is_floating(array.type) or pa.types.is_integer(array.type):  # numbers rarely repeat: format them all
        parts = [format_values(chunk, column) for chunk in array.chunks]
        index = np.arange(len(array), dtype=np.int32)
    else:
        raw, index = dictionary_encode(array, column)
        parts = [format_values(raw, column)]
    whole = pa.concat_arrays([*parts, pa.array([""], pa.large_string())]).fill_null("")
    return whole, np.where(index < 0, len(whole) - 1, index).astype(np.int32)


def text_buffers(array: pa.Array) -> tuple[Int64Array, NDArray[np.uint8]]:
    """Return the offsets and the bytes of an array of texts."""
    if not len(array):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    return offsets, np.frombuffer(array.buffers()[2] or b"", np.uint8)


def hash_values(array: pa.ChunkedArray, column: str = "") -> tuple[UInt64Array, Int32Array]:
    """Return the hashes of the texts of a column, and the index of every record's text; see `list_texts`."""
    whole, index = list_texts(array, column)
    return kernels.hashing.hash_texts(*text_buffers(whole)), index
