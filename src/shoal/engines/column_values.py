"""What a value is: the one place where texts, numbers, dates and missing values are settled.

Back ends disagree on NULL and NaN, on -0.0, on 36 and 36.0. Every column passes through here once, as its few distinct
values; afterwards there are only codes. Every value has one text (`texts`): categories are told apart by it, CSV files hold
it, fingerprints are made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array, UInt64Array
from shoal.engines.protocol import Distinct, Reading
from shoal.errors import DataError, list_some
from shoal.formats.dates import parse_date
from shoal.formats.normalize import Normalizer
from shoal.formats.numbers import EXACT, parse_number

FRACTION = r"(\.[0-9]*[1-9])0*$|\.0*$"  # of a second; zeros at its end are not written

Settled = tuple[NDArray[Any], BoolArray]


@dataclass(frozen=True)
class CodedValues:
    """A column as its distinct values and, per record, the place of its value among them (-1: missing)."""

    distinct: Distinct
    index: Int32Array


def read(array: pa.ChunkedArray, column: str, reading: Reading) -> CodedValues:
    """Settle a column by the kind the policy gives it.

    >>> coded = read(pa.chunked_array([["3", "?", "12"]]), "age", Reading("number", ("?",)))
    >>> coded.distinct.values.tolist(), coded.index.tolist(), coded.distinct.missing
    ([3.0, 12.0], [0, -1, 1], 1)
    """
    raw, place = dictionary(array, column)
    kept, target = unify_values(raw, column, reading)
    index = np.append(target, np.int32(-1))[place]  # the last entry serves place -1, a null
    tally = np.bincount(index + 1, minlength=len(kept) + 1)
    return CodedValues(Distinct(kept, tally[1:].astype(np.int64), int(tally[0])), index)


def unify_values(raw: pa.Array, column: str, reading: Reading) -> tuple[NDArray[Any], Int32Array]:
    """The values that raw ones stand for, in ascending order, and the place of each raw one's among them (-1: missing)."""
    if reading.exact or reading.normalized:
        found = texts(raw, column).to_pylist()
        if reading.normalized:
            normal = Normalizer(reading.missing)
            found = [None if t is None else normal(t) or None for t in found]
        gone = np.array([t is None or t in reading.missing for t in found], bool)
        values = np.array([t for t, g in zip(found, gone, strict=True) if not g], dtype=object)
    else:
        settle = {"number": _numbers, "date": _dates, "text": _categories}[reading.kind]
        values, gone = settle(raw, column, tuple(m.strip() for m in reading.missing))
    kept, inverse = np.unique(values, return_inverse=True) if len(values) else (values, np.empty(0, np.int64))
    target = np.full(len(raw), -1, np.int32)
    target[~gone] = inverse
    return kept, target


def dictionary(array: pa.ChunkedArray, column: str) -> tuple[pa.Array, Int32Array]:
    """The distinct raw values that records have, in the order of first appearance, and the place of each record's.

    Values are told apart as Arrow does; -1 is the place of a null.
    """
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if len(array) == 0:
        return pa.array([], kind), np.empty(0, np.int32)
    if not pa.types.is_dictionary(array.type):
        try:
            array = array.dictionary_encode()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise DataError(
                f"column {column!r} holds {kind} values, which cannot be grouped; turn it into text or numbers, or leave "
                "it out of the policy"
            ) from error
    whole = array.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0)
    place = whole.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    raw = whole.dictionary
    present = np.bincount(place + 1, minlength=len(raw) + 1)[1:] > 0
    if raw.null_count:  # a null inside the dictionary is a missing value too
        present &= ~pc.is_null(raw).to_numpy(zero_copy_only=False)
    if not present.all():
        target = np.append(np.where(present, np.cumsum(present) - 1, -1), -1)
        raw, place = raw.filter(pa.array(present)), target[place]
    return raw, np.asarray(place, np.int32)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _numbers(raw: pa.Array, column: str, missing: tuple[str, ...]) -> Settled:
    if _is_text(raw.type) or pa.types.is_null(raw.type):
        numbers, wrong = _parsed(raw, missing, parse_number)
        if wrong:
            raise DataError(
                f"column {column!r} is numeric in the policy but holds text: {list_some(wrong)}; correct the values (decimals "
                "have a point), list them under 'missing:', or make the column categorical"
            )
        whole = np.array([str(t).strip().lstrip("+-").isdigit() for t in raw.to_pylist()], bool)
    elif pa.types.is_floating(raw.type) or pa.types.is_integer(raw.type) or pa.types.is_decimal(raw.type):
        short = pa.types.is_float32(raw.type) or pa.types.is_float16(raw.type)
        exact = texts(raw, column) if short else raw  # 0.1 stays 0.1
        numbers = np.asarray(exact.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
        whole = np.full(len(numbers), not pa.types.is_floating(raw.type))
    elif pa.types.is_boolean(raw.type):
        numbers = np.asarray(raw.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        whole = np.zeros(len(numbers), bool)
    else:
        raise DataError(
            f"column {column!r} is numeric in the policy but holds {raw.type} values; "
            "declare it as a date or as categorical"
        )
    gone = np.isnan(numbers) | np.isin(numbers, _marks(missing, parse_number))
    if (np.abs(numbers[whole & ~gone]) >= EXACT).any():
        raise DataError(
            f"column {column!r} holds whole numbers of 2^53 and above, too large to be told apart as numbers; "
            "make the column categorical"
        )
    if np.isinf(numbers[~gone]).any():
        raise DataError(f"column {column!r} holds infinite numbers; mend them or leave them empty")
    return numbers[~gone] + 0.0, gone  # + 0.0 makes -0.0 the same value as 0.0


def _dates(raw: pa.Array, column: str, missing: tuple[str, ...]) -> Settled:
    if _is_text(raw.type) or pa.types.is_null(raw.type):
        seconds, wrong = _parsed(raw, missing, parse_date)
        if wrong:
            raise DataError(
                f"column {column!r} is a date in the policy but holds {list_some(wrong)}; write dates as 1985-06-14, list "
                "the values under 'missing:', or make the column categorical"
            )
    elif pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type):
        try:
            seconds = _clock(raw, "us").cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e6
        except pa.ArrowInvalid:  # its zone is not known
            raise DataError(
                f"column {column!r} holds {raw.type} values, whose zone is not known; convert them to another zone"
            ) from None
    else:
        raise DataError(
            f"column {column!r} is a date in the policy but holds {raw.type} values; "
            "declare it as numeric or as categorical"
        )
    gone = np.isnan(seconds) | np.isin(seconds, _marks(missing, parse_date))
    return seconds[~gone], gone


def _parsed(
    raw: pa.Array, missing: tuple[str, ...], parse: Callable[[str], float | None]
) -> tuple[FloatArray, list[str]]:
    """Each text as a number, NaN where it is missing, and the texts that are none."""
    found = [np.nan if t is None or t.strip() in missing else parse(t) for t in raw.to_pylist()]
    wrong = sorted(t for t, number in zip(raw.to_pylist(), found, strict=True) if number is None)
    return np.array([np.nan if number is None else number for number in found], np.float64), wrong


def _marks(missing: tuple[str, ...], parse: Callable[[str], float | None]) -> list[float]:
    """The words for missing that are numbers or moments themselves: -9 stands for -9.0 too."""
    return [number for number in map(parse, missing) if number is not None and not np.isnan(number)]


def _categories(raw: pa.Array, column: str, missing: tuple[str, ...]) -> Settled:
    found = texts(raw, column).to_pylist()
    numeric = pa.types.is_floating(raw.type) or pa.types.is_integer(raw.type) or pa.types.is_decimal(raw.type)
    marks = _marks(missing, parse_number) if numeric else []
    gone = np.array([t is None or t.strip() in missing or (numeric and float(t) in marks) for t in found], bool)
    return np.array([t for t, g in zip(found, gone, strict=True) if not g], dtype=object), gone


def texts(array: pa.Array, column: str) -> pa.Array:
    """Every value as it is written: 36 for 36.0, True, 1985-06-14; null for a missing one, NaN included.

    >>> texts(pa.array([36.0, -0.0, 0.25, None, float("nan")]), "x").to_pylist()
    ['36', '0', '0.25', None, None]
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return texts(array.cast(kind.value_type), column)
    if pa.types.is_float16(kind):
        array, kind = array.cast(pa.float32()), pa.float32()
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), pc.add(array, pa.scalar(0.0, kind)))
    elif pa.types.is_boolean(kind):
        return pc.if_else(array, pa.scalar("True", pa.large_string()), pa.scalar("False", pa.large_string()))
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
            return _moments(array)
        found = array.cast(pa.large_string())
        if pa.types.is_decimal(kind):
            return pa.array([None if v is None else _decimal(v) for v in array.to_pylist()], pa.large_string())
        return pc.replace_substring_regex(found, FRACTION, r"\1") if pa.types.is_time(kind) else found
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise DataError(
            f"column {column!r} holds {kind} values, which have no text of their own; turn it into text or numbers, or "
            "leave it out of the policy"
        ) from None


def _decimal(value: Decimal) -> str:
    """All digits, without an exponent and without zeros at the end."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _clock(array: pa.Array, unit: str) -> pa.Array:
    """Moments as the clock shows them: in their own zone, where they have one."""
    if getattr(array.type, "tz", None):
        array = pc.local_timestamp(array)
    return array.cast(pa.timestamp(unit), safe=False)


def _moments(array: pa.Array) -> pa.Array:
    """The day where it is midnight, else the time too, with as much of the second as is needed."""
    unit = "ns" if getattr(array.type, "unit", "") == "ns" else "us"
    moment = _clock(array, unit)
    second = 1_000_000_000 if unit == "ns" else 1_000_000
    count = moment.cast(pa.int64())

    def whole(size: int) -> pa.Array:
        return pc.equal(pc.multiply(pc.divide(count, size), size), count)

    day = pc.strftime(moment, "%Y-%m-%d")
    plain = pc.strftime(moment.cast(pa.timestamp("s"), safe=False), "%Y-%m-%dT%H:%M:%S")
    exact = pc.replace_substring_regex(pc.strftime(moment, "%Y-%m-%dT%H:%M:%S"), r"0+$", "")
    return pc.if_else(whole(86_400 * second), day, pc.if_else(whole(second), plain, exact)).cast(pa.large_string())


def written(array: pa.ChunkedArray, column: str = "") -> tuple[pa.Array, Int32Array]:
    """The texts that a column holds, and the place of every record's among them; a missing value is the empty text."""
    if pa.types.is_floating(array.type) or pa.types.is_integer(array.type):  # few numbers repeat: write them all
        parts = [texts(chunk, column) for chunk in array.chunks]
        place = np.arange(len(array), dtype=np.int32)
    else:
        raw, place = dictionary(array, column)
        parts = [texts(raw, column)]
    whole = pa.concat_arrays([*parts, pa.array([""], pa.large_string())]).fill_null("")
    return whole, np.where(place < 0, len(whole) - 1, place).astype(np.int32)


def bytes_of(array: pa.Array) -> tuple[Int64Array, NDArray[np.uint8]]:
    """Where each of the texts begins and ends, and their bytes."""
    if not len(array):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    return offsets, np.frombuffer(array.buffers()[2] or b"", np.uint8)


def hashes(array: pa.ChunkedArray, column: str = "") -> tuple[UInt64Array, Int32Array]:
    """The hash of each value by its text, and the place of every record's; a missing value is the empty text."""
    whole, place = written(array, column)
    return kernels.hashing.hash_texts(*bytes_of(whole)), place
