"""Read saved JSON files and check every value before it is used.

A file in the owner folder may be damaged or manipulated, and kernels do not check bounds. Every fault raises `DataError`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DataError, list_some

LARGEST = 2**30  # bytes of a file; a million records in clusters need up to 100 MB
MOST_VALUES = 2**24  # in a file; a million records in clusters need up to two million labels
MOST_LISTS = 2_000_000  # lists and objects in a file; a list takes ten times as long to read as a number
LONGEST_LIST = 20_000  # longer arrays are saved as packed bytes
UNPACKED = 2**26  # bytes of all packed arrays of a file
RATIO = 64  # further bytes for each character of the file; see `array`
STEP, PACKED_STEP = 2**20, 2**14  # bytes that are searched and unpacked at a time
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
def report_damage(path: Path, what: str, remedy: str = "Restore the folder from a backup.") -> Iterator[None]:
    """Turn every error that a damaged file causes into a `DataError` that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot read the {what} {str(path)!r}: {error.strerror or error}") from error
    except DAMAGE as error:
        reason = _explain(error)
        raise DataError(f"the {what} {str(path)!r} is damaged: {reason}. {remedy}") from error


def _explain(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "the file is nested too deeply"
    if isinstance(error, MemoryError):
        return "the content does not fit in memory"
    if isinstance(error, ValueError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def read_text(path: Path) -> str:
    """Read a UTF-8 file of at most `LARGEST` bytes."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    require(len(content) <= LARGEST, f"the file has more than {LARGEST:,} bytes")
    return content.decode()


def read_object(text: str) -> dict[str, Any]:
    """Parse a text that must be a JSON object, with a limited number of values and limited arrays, and valid Unicode."""
    _refuse_many(text)
    declared = 0

    def add_declared(found: dict[str, Any]) -> dict[str, Any]:
        nonlocal declared
        if "packed" in found:
            declared += _declared_bytes(found)
            require(declared <= UNPACKED + RATIO * len(text), "its arrays are too long for the size of the file")
        return found

    content = json.loads(text, object_hook=add_declared)
    require(isinstance(content, dict), "the file contains no JSON object")
    if re.search(r"\\u[dD][89a-fA-F]", text):
        try:
            json.dumps(content, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise DataError("a text contains a lone surrogate, which is not valid Unicode") from None
    return dict(content)


def _refuse_many(text: str) -> None:
    """Raise `DataError` if a text has so many JSON values that reading them takes long."""
    lists, values = text.count("[") + text.count("{"), text.count(",")
    if lists > MOST_LISTS or values > MOST_VALUES:  # labels may contain these characters: count outside texts
        lists, values = _count_outside_texts(text)
    require(lists <= MOST_LISTS, f"the file has more than {MOST_LISTS:,} lists and objects")
    require(values <= MOST_VALUES, f"the file has more than {MOST_VALUES:,} values")


def _count_outside_texts(text: str) -> tuple[int, int]:
    """The number of opening brackets, and the number of commas, outside the texts of a JSON document."""
    content = np.frombuffer(text.replace("\\\\", "").replace('\\"', "").encode("utf-8", "surrogatepass"), np.uint8)
    lists = values = quotes = 0
    for begin in range(0, len(content), STEP):
        part = content[begin : begin + STEP]
        before = np.cumsum(part == ord('"'), dtype=np.int32) + quotes
        outside = part[before % 2 == 0]
        lists += int(((outside == ord("[")) | (outside == ord("{"))).sum())
        values += int((outside == ord(",")).sum())
        quotes = int(before[-1]) % 2
    return lists, values


def _declared_bytes(found: Mapping[str, Any]) -> int:
    """The bytes of a packed array by its shape; 0 for a shape that `array` refuses."""
    shape: Any = found.get("shape")
    is_shape = type(shape) is list and len(shape) <= 2 and all(type(n) is int and n >= 0 for n in shape)
    return math.prod(shape) * (4 if found.get("type") == "<i4" else 8) if is_shape else 0


def refuse_unknown(found: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise `DataError` if a JSON object has a key that is not known."""
    unknown = [key for key in found if key not in known]
    require(not unknown, f"it has keys that are unknown to this version of Shoal: {list_some(unknown)}")


def require(holds: bool | np.bool_, text: str) -> None:
    """Raise `DataError` with this text if the condition does not hold."""
    if not holds:
        raise DataError(text)


def member(found: Any, name: str, kind: type) -> Any:
    """Return the value of a key in a JSON object and check its type; an integer is accepted as a number."""
    require(isinstance(found, Mapping) and name in found, f"the key {name!r} is missing")
    value = found[name]
    fits = type(value) is kind or (kind is float and type(value) is int)
    require(fits, f"{name!r} must be {WORDS[kind]}")
    return float(value) if kind is float else value


def objects(found: Any, name: str) -> list[dict[str, Any]]:
    """Return the value of a key, which must be a list of JSON objects."""
    listed: list[dict[str, Any]] = member(found, name, list)
    require(all(type(entry) is dict for entry in listed), f"{name!r} must be a list of objects")
    return listed


def texts(found: Any, name: str) -> tuple[str, ...]:
    """Return the value of a key, which must be a list of texts."""
    listed = member(found, name, list)
    require(all(type(entry) is str for entry in listed), f"{name!r} must be a list of texts")
    return tuple(listed)


def texts_or_null(found: Any, name: str) -> tuple[str | None, ...]:
    """Return the value of a key, which must be a list of texts, with null for a missing value."""
    listed = member(found, name, list)
    require(all(entry is None or type(entry) is str for entry in listed), f"{name!r} must be a list of texts or null")
    return tuple(listed)


def array(found: Any, name: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return an array that `array_to_json` wrote as a list or packed bytes. None in ``shape`` allows any length. No NaN.

    `read_object` limits the bytes of all packed arrays. Saved recodings have about 2 bytes for each character of the file, and
    up to 45 where nearly all of 50 columns are constant. A constant array alone has 170.
    """
    require(isinstance(found, Mapping) and name in found, f"the key {name!r} is missing")
    content = found[name]
    read = _unpack if isinstance(content, Mapping) else _from_list
    values = read(content, name, kind, shape)
    _require_shape(name, values.shape, shape)
    require(kind is not np.float64 or not np.isnan(values).any(), f"{name!r} contains NaN")
    return values


def _require_shape(name: str, actual: tuple[int, ...], shape: tuple[int | None, ...]) -> None:
    fits = len(actual) == len(shape) and all(want in (None, size) for size, want in zip(actual, shape, strict=True))
    required = " x ".join("any" if size is None else str(size) for size in shape)
    require(fits, f"{name!r} must have the shape {required}")


def _from_list(given: Any, name: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    require(type(given) is list, f"{name!r} must be a list")
    size: tuple[int, ...] = (len(given),)
    if len(shape) == 2:
        require(all(type(row) is list for row in given), f"{name!r} must be a list of lists")
        size = (len(given), len(given[0]) if given else shape[1] or 0)
        require(all(len(row) == size[1] for row in given), f"{name!r} has rows of different lengths")
        given = [value for row in given for value in row]
    if kind is np.float64:
        require(
            all(type(v) in (int, float) or v in ("inf", "-inf") for v in given), f"{name!r} must contain numbers only"
        )
        return np.array([float(v) for v in given], kind).reshape(size)
    require(all(type(v) is int for v in given), f"{name!r} must contain whole numbers only")
    _require_range(name, min(given, default=0), max(given, default=0), kind)
    return np.array(given, kind).reshape(size)


def _unpack(given: Mapping[str, Any], name: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    size = member(given, "shape", list)
    require(all(type(n) is int and n >= 0 for n in size), f"the shape of {name!r} must be whole numbers of at least 0")
    _require_shape(name, tuple(size), shape)
    type_ = member(given, "type", str)
    allowed = ("<f8",) if kind is np.float64 else ("<i4", "<i8")
    require(type_ in allowed, f"the type of {name!r} must be one of {', '.join(allowed)}")
    content = _decompress(member(given, "packed", str), math.prod(size) * np.dtype(type_).itemsize, name)
    values = content.view(np.dtype(type_)).reshape(size)
    if values.size and values.dtype != np.dtype(kind):
        _require_range(name, int(values.min()), int(values.max()), kind)
    result: NDArray[Any] = values.astype(kind, copy=False)
    return result


def _decompress(packed: str, size: int, name: str) -> NDArray[np.uint8]:
    """Unpack an array that must have ``size`` bytes, in small steps, so that its bytes are in memory only once."""
    content, end = np.empty(size, np.uint8), 0
    unpacker = zlib.decompressobj()
    try:
        data = memoryview(base64.b64decode(packed, validate=True))
        for begin in range(0, len(data), PACKED_STEP):
            require(not unpacker.eof, f"{name!r} has surplus data")
            part = unpacker.decompress(data[begin : begin + PACKED_STEP], size - end + 1)  # one more, to detect surplus
            require(end + len(part) <= size, f"the number of values of {name!r} differs from its shape")
            content[end : end + len(part)] = np.frombuffer(part, np.uint8)
            end += len(part)
    except (binascii.Error, zlib.error):
        raise DataError(f"{name!r} cannot be unpacked") from None
    fits = unpacker.eof and not unpacker.unused_data and end == size
    require(fits, f"the number of values of {name!r} differs from its shape")
    return content


def _require_range(name: str, low: int, high: int, kind: type[np.generic]) -> None:
    limits = np.iinfo(np.dtype(kind))
    require(
        limits.min <= low and high <= limits.max,
        f"{name!r} contains a number outside the range of {np.dtype(kind).name}",
    )


def array_to_json(values: NDArray[Any]) -> Any:
    """Convert an array to JSON: a list with infinity as text and whole numbers as integers, or packed bytes if it is long.

    `array` reads the result.
    """
    if len(values) > LONGEST_LIST or values.size > LONGEST_LIST:
        packed = base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 1)).decode("ascii")
        return {"shape": list(values.shape), "type": values.dtype.newbyteorder("<").str, "packed": packed}
    if values.ndim == 2:
        return [array_to_json(row) for row in values]
    if values.dtype.kind != "f":
        return values.tolist()
    return [str(v) if np.isinf(v) else int(v) if v == int(v) else float(v) for v in values.tolist()]
