"""What a value is: the one place where texts, numbers, dates and missing values are settled.

Back ends disagree on NULL and NaN, on -0.0, on 36 and 36.0. Every column passes through here once, as its few
distinct values; afterwards there are only codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal import kernels
from shoal.engines.base import I4, Distinct, Reading
from shoal.errors import DataError, some

EXACT = 2.0**53


@dataclass(frozen=True)
class Coded:
    """A column as its distinct values and, per record, the place of its value among them (-1: missing)."""

    distinct: Distinct
    index: I4


def read(array: pa.ChunkedArray, column: str, reading: Reading) -> Coded:
    """Settle a column by the kind the policy gives it.

    >>> coded = read(pa.chunked_array([["3", "?", "12"]]), "age", Reading("number", ("?",)))
    >>> coded.distinct.values.tolist(), coded.index.tolist(), coded.distinct.missing
    ([3.0, 12.0], [0, -1, 1], 1)
    """
    raw, place = _dictionary(array, column)
    settle = {"number": _numbers, "date": _dates, "text": _texts}[reading.kind]
    values, gone = settle(raw, column, reading.missing)
    if len(values):
        kept, inverse = np.unique(values, return_inverse=True)
    else:
        kept, inverse = values, np.empty(0, np.int64)
    target = np.full(len(raw) + 1, -1, np.int32)  # the last entry serves index -1, a null
    target[:-1][~gone] = inverse
    index = target[place]
    tally = np.bincount(index + 1, minlength=len(kept) + 1)
    return Coded(Distinct(kept, tally[1:].astype(np.int64), int(tally[0])), index)


def _dictionary(array: pa.ChunkedArray, column: str) -> tuple[pa.Array, I4]:
    """The raw distinct values (in the order of their first appearance) and the place of each record's."""
    if not pa.types.is_dictionary(array.type):
        try:
            array = array.dictionary_encode()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise DataError(
                f"column {column!r} holds {array.type} values, which cannot be grouped; "
                "turn it into text or numbers, or leave it out of the policy"
            ) from error
    array = array.unify_dictionaries()
    whole = array.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], array.type)
    place = whole.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    raw = whole.dictionary
    if raw.null_count:  # a null inside the dictionary is a missing value too
        place = np.where(pc.is_null(raw).to_numpy(zero_copy_only=False)[place] & (place >= 0), -1, place)
    return raw, np.asarray(place, np.int32)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _named(texts: list[str | None], missing: tuple[str, ...]) -> NDArray[np.bool_]:
    names = {m.strip() for m in missing}
    return np.array([t is None or t.strip() in names for t in texts], dtype=bool)


def _numbers(raw: pa.Array, column: str, missing: tuple[str, ...]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    if _is_text(raw.type) or pa.types.is_null(raw.type):
        texts = raw.to_pylist()
        gone = _named(texts, missing)
        numbers = np.full(len(texts), np.nan)
        wrong = []
        for place in np.flatnonzero(~gone):
            try:
                numbers[place] = float(str(texts[place]).replace("_", "x"))
            except ValueError:
                wrong.append(texts[place])
        if wrong:
            raise DataError(
                f"column {column!r} is numeric in the policy but holds text: {some(wrong)}; mend the values, list them "
                "under 'missing:', or make the column categorical"
            )
    elif pa.types.is_floating(raw.type) or pa.types.is_integer(raw.type) or pa.types.is_decimal(raw.type):
        numbers = np.asarray(raw.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
        if pa.types.is_integer(raw.type) and len(numbers) and np.nanmax(np.abs(numbers)) > EXACT:
            raise DataError(
                f"column {column!r} holds whole numbers above 2^53, too large to be told apart as numbers; "
                "make the column categorical"
            )
        gone = np.isnan(numbers)
        if any(m.strip() for m in missing):
            gone |= _named([number_text(v) for v in numbers], missing)
    elif pa.types.is_boolean(raw.type):
        numbers = np.asarray(raw.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        gone = np.isnan(numbers)
    else:
        raise DataError(
            f"column {column!r} is numeric in the policy but holds {raw.type} values; "
            "declare it as a date or as categorical"
        )
    gone |= np.isnan(numbers)
    if np.isinf(numbers[~gone]).any():
        raise DataError(f"column {column!r} holds infinite numbers; mend them or leave them empty")
    return numbers[~gone] + 0.0, gone  # + 0.0 makes -0.0 the same value as 0.0


def _dates(raw: pa.Array, column: str, missing: tuple[str, ...]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    if _is_text(raw.type) or pa.types.is_null(raw.type):
        texts = raw.to_pylist()
        gone = _named(texts, missing)
        seconds = np.full(len(texts), np.nan)
        wrong = []
        for place in np.flatnonzero(~gone):
            try:
                moment = datetime.fromisoformat(str(texts[place]).strip())
            except ValueError:
                wrong.append(texts[place])
                continue
            if moment.tzinfo is not None:
                moment = moment.astimezone(UTC).replace(tzinfo=None)
            seconds[place] = (moment - datetime(1970, 1, 1)).total_seconds()
        if wrong:
            raise DataError(
                f"column {column!r} is a date in the policy but holds {some(wrong)}; write dates as 1985-06-14, list "
                "the values under 'missing:', or make the column categorical"
            )
        return seconds[~gone], gone
    if pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type):
        micro = raw.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        gone = pc.is_null(micro).to_numpy(zero_copy_only=False)
        return micro.fill_null(0).to_numpy()[~gone] / 1e6, gone
    raise DataError(
        f"column {column!r} is a date in the policy but holds {raw.type} values; "
        "declare it as numeric or as categorical"
    )


def _texts(raw: pa.Array, column: str, missing: tuple[str, ...]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    texts = texts_of(raw)
    gone = _named(texts, missing)
    return np.array([t for t, g in zip(texts, gone, strict=True) if not g], dtype=object), gone


def texts_of(raw: pa.Array) -> list[str | None]:
    """Every value as people would write it: 36 for 36.0, True, 1985-06-14; None for a missing one."""
    kind = raw.type
    if _is_text(kind):
        return list(raw.to_pylist())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = raw.to_pylist()
        return [None if v is None or v != v else number_text(float(v)) for v in numbers]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        micro = raw.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_pylist()
        return [None if v is None else date_text(v / 1e6) for v in micro]
    return [None if v is None else str(v) for v in raw.to_pylist()]


def number_text(value: float) -> str:
    """A number as short as it can be written without loss.

    >>> number_text(36.0), number_text(0.1), number_text(-0.0)
    ('36', '0.1', '0')
    """
    value = float(value)
    if value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    return repr(value)


def date_text(seconds: float) -> str:
    """A moment given in seconds since 1970-01-01, without the time of day where it is midnight.

    >>> date_text(0.0), date_text(3600.0)
    ('1970-01-01', '1970-01-01T01:00:00')
    """
    moment = np.datetime64(round(float(seconds) * 1_000_000), "us")
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    return str(moment.astype("datetime64[s]")) if seconds == int(seconds) else str(moment)


def hashes(array: pa.ChunkedArray) -> tuple[NDArray[np.uint64], I4]:
    """The hash of each distinct value and the place of every record's, by the text that a CSV file would hold.

    A missing value is the empty text, as it is there.
    """
    numeric = pa.types.is_floating(array.type) or pa.types.is_integer(array.type)
    if numeric and len(array):  # few numbers repeat: write them all
        raw, place = array.combine_chunks(), np.arange(len(array), dtype=np.int32)
        raw = raw.chunk(0) if isinstance(raw, pa.ChunkedArray) else raw
    else:
        raw, place = _dictionary(array, "")
    if pa.types.is_floating(raw.type):
        raw = pc.if_else(pc.is_nan(raw), pa.scalar(None, raw.type), pc.add(raw, pa.scalar(0.0, raw.type)))
    texts = pa.concat_arrays([raw.cast(pa.large_string()).fill_null(""), pa.array([""], pa.large_string())])
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return kernels.hashing.texts(offsets, data), np.where(place < 0, len(texts) - 1, place).astype(np.int32)
