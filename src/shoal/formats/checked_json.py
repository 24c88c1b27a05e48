"""Read saved JSON files back: every value is checked before anything is computed from it.

A file in the owner's folder may be damaged or changed on purpose, and kernels check no bounds. All faults are `DataError`.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DataError

MOST = 2**28  # elements of one array: larger ones are refused before they are unpacked
LISTED = 20_000  # longer arrays are packed: nobody reads a list of so many numbers
DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
WORDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


@contextmanager
def report_damage(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a damaged file causes into a `DataError` that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot read the {what} {str(path)!r}: {error.strerror or error}") from error
    except DAMAGE as error:
        reason = _reason(error)
        raise DataError(f"the {what} {str(path)!r} is damaged: {reason}; restore the owner's folder") from error


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "its content does not fit in memory"
    if isinstance(error, ValueError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in a text."""
    found = json.loads(text)
    require(isinstance(found, dict), "it holds no JSON object")
    return dict(found)


def require(holds: bool | np.bool_, text: str) -> None:
    """Raise `DataError` with this text unless the condition holds."""
    if not holds:
        raise DataError(text)


def member(found: Any, name: str, kind: type) -> Any:
    """The value of a key in a JSON object, which must be of this kind; a whole number is also a number."""
    require(isinstance(found, Mapping) and name in found, f"the key {name!r} is missing")
    value = found[name]
    fits = type(value) is kind or (kind is float and type(value) is int)
    require(fits, f"{name!r} must be {WORDS[kind]}")
    return float(value) if kind is float else value


def objects(found: Any, name: str) -> list[dict[str, Any]]:
    """A list of JSON objects."""
    listed: list[dict[str, Any]] = member(found, name, list)
    require(all(type(entry) is dict for entry in listed), f"{name!r} must be a list of objects")
    return listed


def texts(found: Any, name: str) -> tuple[str, ...]:
    """A list of texts."""
    listed = member(found, name, list)
    require(all(type(entry) is str for entry in listed), f"{name!r} must be a list of texts")
    return tuple(listed)


def texts_or_null(found: Any, name: str) -> tuple[str | None, ...]:
    """A list of texts, null for a missing value."""
    listed = member(found, name, list)
    require(all(entry is None or type(entry) is str for entry in listed), f"{name!r} must be a list of texts or null")
    return tuple(listed)


def array(found: Any, name: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """An array that `array_to_json` wrote, a list or packed bytes; None in ``shape`` stands for any length. No NaN."""
    require(isinstance(found, Mapping) and name in found, f"the key {name!r} is missing")
    given = found[name]
    made = _unpack(given, name, kind, shape) if isinstance(given, Mapping) else _from_list(given, name, kind, shape)
    _require_shape(name, made.shape, shape)
    require(kind is not np.float64 or not np.isnan(made).any(), f"{name!r} holds NaN")
    return made


def _require_shape(name: str, given: tuple[int, ...], shape: tuple[int | None, ...]) -> None:
    fits = len(given) == len(shape) and all(want in (None, size) for size, want in zip(given, shape, strict=True))
    wanted = " x ".join("any" if size is None else str(size) for size in shape)
    require(fits, f"{name!r} must have the shape {wanted}")


def _from_list(given: Any, name: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    require(type(given) is list, f"{name!r} must be a list")
    size: tuple[int, ...] = (len(given),)
    if len(shape) == 2:
        require(all(type(row) is list for row in given), f"{name!r} must be a list of lists")
        size = (len(given), len(given[0]) if given else shape[1] or 0)
        require(all(len(row) == size[1] for row in given), f"{name!r} has rows of different lengths")
        given = [value for row in given for value in row]
    if kind is np.float64:
        require(all(type(v) in (int, float) or v in ("inf", "-inf") for v in given), f"{name!r} must hold numbers")
        return np.array([float(v) for v in given], kind).reshape(size)
    require(all(type(v) is int for v in given), f"{name!r} must hold whole numbers")
    _require_range(name, min(given, default=0), max(given, default=0), kind)
    return np.array(given, kind).reshape(size)


def _unpack(given: Mapping[str, Any], name: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    size = member(given, "shape", list)
    require(all(type(n) is int and n >= 0 for n in size), f"the shape of {name!r} must hold whole numbers from 0 up")
    _require_shape(name, tuple(size), shape)
    require(math.prod(size) <= MOST, f"{name!r} claims more than {MOST:,} numbers")
    type_ = member(given, "type", str)
    allowed = ("<f8",) if kind is np.float64 else ("<i4", "<i8")
    require(type_ in allowed, f"the type of {name!r} must be one of {', '.join(allowed)}")
    expected = math.prod(size) * np.dtype(type_).itemsize
    unpacker = zlib.decompressobj()
    try:  # one byte more than the shape allows shows that there is too much
        content = unpacker.decompress(base64.b64decode(member(given, "packed", str), validate=True), expected + 1)
    except (ValueError, zlib.error):
        raise DataError(f"{name!r} cannot be unpacked") from None
    whole = unpacker.eof and not unpacker.unused_data
    require(whole and len(content) == expected, f"{name!r} holds more or fewer numbers than its shape says")
    found = np.frombuffer(content, np.dtype(type_)).reshape(size)
    if found.size and found.dtype != np.dtype(kind):
        _require_range(name, int(found.min()), int(found.max()), kind)
    return found.astype(kind)


def _require_range(name: str, low: int, high: int, kind: type[np.generic]) -> None:
    limits = np.iinfo(np.dtype(kind))
    require(limits.min <= low and high <= limits.max, f"{name!r} holds a number that is too large")


def array_to_json(values: NDArray[Any]) -> Any:
    """An array for JSON: a list (infinity as text, whole numbers as such), or its bytes where it is long.

    `array` reads it.
    """
    if len(values) > LISTED or values.size > LISTED:
        packed = base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 1)).decode("ascii")
        return {"shape": list(values.shape), "type": values.dtype.newbyteorder("<").str, "packed": packed}
    if values.ndim == 2:
        return [array_to_json(row) for row in values]
    if values.dtype.kind != "f":
        return values.tolist()
    return [str(v) if np.isinf(v) else int(v) if v == int(v) else float(v) for v in values.tolist()]
