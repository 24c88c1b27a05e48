"""Errors in reading and writing files: the texts name the file and the remedy, and quote no data."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from shoal.engines.protocol import detect_format
from shoal.errors import DataError, EngineError

NOT_TEXT = (
    "not a text file, or in an encoding that cannot be detected. Name the encoding (--encoding, or 'encoding:' under 'read:'), "
    "or save the file as UTF-8: in Excel choose 'CSV UTF-8'."
)
NOT_PARQUET = ("magic bytes", "file footer", "deserialize thrift", "file size is 0 bytes")


def is_encoding_error(error: Exception) -> bool:
    """Whether an error of Python or Arrow says that a text is not in the expected encoding."""
    return isinstance(error, UnicodeDecodeError) or (isinstance(error, pa.ArrowException) and "UTF" in str(error))


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn errors in reading a file into errors that name the file and quote no data."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        if is_encoding_error(error):
            raise DataError(f"cannot read {path.name!r}: {NOT_TEXT}") from None
        if any(words in str(error) for words in NOT_PARQUET):
            raise DataError(
                f"cannot read {path.name!r}: not a Parquet file, or damaged. Export the table again."
            ) from None
        raise DataError(f"cannot read {path.name!r}: {_remove_quoted_data(str(error))}") from None
    except OSError as error:
        if "inflate" in str(error):
            raise DataError(
                f"cannot read {path.name!r}: not a gzip file, or damaged. Remove .gz from the name of a file that is not "
                "compressed."
            ) from None
        raise DataError(f"cannot read {path.name!r}: {error.strerror or _remove_quoted_data(str(error))}") from None


def _remove_quoted_data(text: str) -> str:
    """Remove the data that a parser's message quotes from the file."""
    first = next(iter(text.splitlines()), "").replace("CSV parse error: ", "")
    return re.split(r"(?<=got \d)|(?<=got \d\d)|: (?=[^:]*$)", first)[0]


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn errors in writing a file into errors that name the file and quote no data."""
    try:
        yield
    except OSError as error:
        raise EngineError(f"cannot write {str(path)!r}: {error.strerror or error}. Choose another file.") from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the original message quotes the value
        raise DataError(
            f"cannot write {path.name!r}: a column holds values that {detect_format(path)} cannot store, such as timestamps "
            "far beyond the year 9999. Convert the column to text, or drop it."
        ) from None
