"""CSV and Parquet files: columns of text stay text, so ZIP 01234 stays 01234."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from shoal.engines.base import Format, format_of
from shoal.engines.frames import plain, refuse_twice
from shoal.engines.values import texts
from shoal.errors import DataError, EngineError

TEXT = pa.dictionary(pa.int32(), pa.string())
LOOK = 1 << 20  # bytes in which the header is looked for
BOM = b"\xef\xbb\xbf"


def read_table(path: Path) -> pa.Table:
    """The file as an Arrow table, texts as dictionaries."""
    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; pass one CSV or Parquet file")
    try:
        return _read_parquet(path) if format_of(path) == "parquet" else _read_csv(path)
    except (pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        if "UTF" in str(error) or isinstance(error, UnicodeDecodeError):
            raise DataError(f"cannot read {path.name!r}: its text is not UTF-8; save it in that encoding") from None
        raise DataError(f"cannot read {path.name!r}: {_harmless(str(error))}") from None
    except OSError as error:
        raise DataError(f"cannot read {path.name!r}: {error.strerror or _harmless(str(error))}") from None


def _harmless(text: str) -> str:
    """A parser's message without what it quotes from the file."""
    return re.split(r"(?<=got \d)|(?<=got \d\d)|: (?=[^:]*$)", text.splitlines()[0].replace("CSV parse error: ", ""))[0]


def _read_parquet(path: Path) -> pa.Table:
    schema = pq.read_schema(path)
    refuse_twice(schema.names)
    listed = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    return pq.read_table(path, read_dictionary=listed, partitioning=None)


def _read_csv(path: Path) -> pa.Table:
    delimiter, names, header_only = _header(path)
    refuse_twice(names)
    if header_only:
        return pa.table({name: pa.array([], pa.string()).dictionary_encode() for name in names})
    wrong: list[pc_csv.InvalidRow] = []

    def note(row: pc_csv.InvalidRow) -> str:
        wrong.append(row)
        return "skip"

    def parsed(**reading: Any) -> pa.Table:
        return pc_csv.read_csv(
            path,
            read_options=pc_csv.ReadOptions(**reading),
            parse_options=pc_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(names) > 1,  # in a single column an empty line is a missing value
                invalid_row_handler=note,
            ),
            convert_options=pc_csv.ConvertOptions(
                column_types=dict.fromkeys(names, TEXT),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    table = parsed()
    if wrong:
        wrong.clear()
        parsed(use_threads=False)  # rows are numbered only then
        first = wrong[0]
        raise DataError(
            f"cannot read {path.name!r}: row {first.number} has {first.actual_columns} columns where the header has "
            f"{first.expected_columns}; mend the row, or quote the fields that hold {delimiter!r}"
        )
    _refuse_open_quote(path, table)
    for column in table.columns:
        for chunk in column.chunks:
            chunk.dictionary.validate(full=True)  # text that is not UTF-8 is found here, not later
    return table


def _refuse_open_quote(path: Path, table: pa.Table) -> None:
    """A quote that is never closed swallows all rows behind it into one field, which might then be released."""
    last = [column[-1].as_py() for column in table.columns] if len(table) else []
    if not any(value and "\n" in value for value in last):
        return
    quotes = 0
    with pa.input_stream(str(path)) as stream:
        while part := stream.read(1 << 22):
            quotes += part.count(b'"')
    if quotes % 2:
        raise DataError(
            f"cannot read {path.name!r}: a quote that is opened in row {len(table) + 1} or before is never closed; mend it"
        )


def _header(path: Path) -> tuple[str, list[str], bool]:
    """The delimiter (comma, semicolon or tab, whichever the header has most of), the names, and whether that is all."""
    with pa.input_stream(str(path)) as stream:
        first = stream.read(LOOK).removeprefix(BOM)
    text = codecs.getincrementaldecoder("utf-8")().decode(first).lstrip("\r\n")
    if not text.strip():
        raise DataError(f"{path.name!r} is empty: there is not even a header line")
    bare = re.sub(r'"[^"]*"', "", text).split("\n", 1)[0]
    delimiter = max(",;\t", key=bare.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = next(rows)
    more = len(first) >= LOOK or any(row or len(names) == 1 for row in rows)
    return delimiter, names, not more


def write_table(table: pa.Table, path: Path, format: Format) -> None:
    """Write an Arrow table: Parquet with its own types, CSV with the text of every value."""
    columns = [
        pa.chunked_array([texts(chunk, name) for chunk in column.chunks], pa.large_string())
        if format == "csv"
        else _storable(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    ready = pa.table(columns, names=table.column_names)
    try:
        if format == "parquet":
            pq.write_table(ready, path)
        else:
            pc_csv.write_csv(ready, path, pc_csv.WriteOptions(quoting_style="needed"))
    except OSError as error:
        raise EngineError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _storable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as Parquet can hold it, without the values of a dictionary that no released record has."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return plain(column)
