"""CSV and Parquet files. Text columns are read as text, so the ZIP code 01234 stays 01234."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from shoal.engines.column_values import format_values
from shoal.engines.csv_formulas import escape_formulas as escape_array
from shoal.engines.csv_formulas import is_text, restore_formulas
from shoal.engines.frames import decode_dictionary, refuse_duplicate_names
from shoal.engines.protocol import Format, detect_format
from shoal.errors import DataError, EngineError
from shoal.formats.formulas import APOSTROPHE, escape_formula, restore_formula

TEXT = pa.dictionary(pa.int32(), pa.string())
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
VIEWS = {  # Arrow can neither sort nor write views
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}
HEADER_BYTES = 1 << 20  # the header must end within
BOM = b"\xef\xbb\xbf"
CSV = pc_csv.WriteOptions(quoting_style="needed")


def read_table(path: Path) -> pa.Table:
    """Read a file as an Arrow table, with texts as dictionaries."""
    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}. Check the path.")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder, and the engine 'memory' reads only files. Use engine='duckdb'.")
    path = path.absolute()  # Arrow reads a name such as 's3:x' as a network address
    with explain_read_errors(path):
        return _read_parquet(path) if detect_format(path) == "parquet" else _read_csv(path)


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn errors in reading a file into errors that name the file and quote no data."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        if "UTF" in str(error) or isinstance(error, UnicodeDecodeError):
            raise DataError(f"cannot read {path.name!r}: its text is not UTF-8. Save the file in UTF-8.") from None
        raise DataError(f"cannot read {path.name!r}: {_remove_quoted_data(str(error))}") from None
    except UnicodeEncodeError:  # Arrow and DuckDB take paths as UTF-8
        raise DataError(
            f"cannot read {str(path)!r}: the path is not valid UTF-8. Rename the file or its folder."
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path.name!r}: {error.strerror or _remove_quoted_data(str(error))}") from None


def _remove_quoted_data(text: str) -> str:
    """Remove the data that a parser's message quotes from the file."""
    first = next(iter(text.splitlines()), "").replace("CSV parse error: ", "")
    return re.split(r"(?<=got \d)|(?<=got \d\d)|: (?=[^:]*$)", first)[0]


def read_parquet_schema(path: Path) -> pa.Schema:
    """Return the schema of a Parquet file; raise an error for duplicate column names."""
    with explain_read_errors(path):
        schema = pq.read_schema(path)
    refuse_duplicate_names(schema.names)
    return schema


def estimate_size_in_memory(path: Path) -> int:
    """Estimate the bytes of memory that the data of a file need."""
    if detect_format(path) == "csv":
        return path.stat().st_size
    with explain_read_errors(path):
        metadata = pq.read_metadata(path.absolute())
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def list_dictionary_columns(path: Path, *, own: bool = False) -> list[str]:
    """Return the text columns of a Parquet file that can be read as dictionaries.

    DuckDB writes dictionaries of ENUM columns in which values occur twice; Arrow reads these wrongly. Files that DuckDB wrote
    are therefore read value by value, except Shoal's ``own`` files.
    """
    schema = read_parquet_schema(path)
    if not own and "duckdb" in (pq.read_metadata(path).created_by or "").lower():
        return []
    return [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]


def _read_parquet(path: Path) -> pa.Table:
    return pq.read_table(path, read_dictionary=list_dictionary_columns(path), partitioning=None)


def _read_csv(path: Path) -> pa.Table:
    layout = _CsvFormat.of(path)
    if layout.is_empty:
        return pa.table({name: pa.array([], pa.string()).dictionary_encode() for name in layout.names})
    table = pc_csv.read_csv(path, **layout.options(TEXT))
    layout.refuse_invalid_rows()
    if len(table):
        layout.refuse_open_quote([column[-1].as_py() for column in table.columns], len(table))
    for column in table.columns:
        for chunk in column.chunks:
            chunk.dictionary.validate(full=True)  # detects text that is not UTF-8
    return pa.table([_restore_column(column) for column in table.columns], names=layout.names)


def _restore_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without the apostrophes before formulas."""
    chunks, changed = [], 0
    for chunk in column.chunks:
        values, count = restore_formulas(chunk.dictionary)
        chunks.append(
            values.take(chunk.indices).dictionary_encode() if count else chunk
        )  # two texts may have become equal
        changed += count
    return pa.chunked_array(chunks, column.type) if changed else column


def csv_to_parquet(path: Path, target: Path) -> None:
    """Convert a CSV file to a Parquet file of texts, in batches; the values are those of `read_table`."""
    with explain_read_errors(path):
        layout = _CsvFormat.of(path)
        schema = pa.schema([(name, pa.string()) for name in layout.names])
        with explain_write_errors(target), pq.ParquetWriter(target, schema) as writer:
            if layout.is_empty:
                return
            rows, last = 0, None
            with pc_csv.open_csv(path, **layout.options(pa.string())) as stream:
                for batch in stream:
                    batch.validate(full=True)
                    restored = [restore_formulas(column)[0] for column in batch.columns]
                    writer.write_batch(pa.record_batch(restored, schema=schema))
                    rows += batch.num_rows
                    last = batch.slice(batch.num_rows - 1) if batch.num_rows else last
            layout.refuse_invalid_rows()
            if last is not None:
                layout.refuse_open_quote([column[0].as_py() for column in last.columns], rows)


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


@dataclass(frozen=True)
class _CsvFormat:
    """The layout of a CSV file: its delimiter and header, whether it has no rows, and its rows of a wrong length."""

    path: Path
    delimiter: str
    header: list[str]
    is_empty: bool
    invalid_rows: list[pc_csv.InvalidRow]

    @classmethod
    def of(cls, path: Path) -> _CsvFormat:
        layout = cls(path, *_read_header(path), [])
        refuse_duplicate_names(layout.names)
        return layout

    @property
    def names(self) -> list[str]:
        """The column names."""
        return list(map(restore_formula, self.header))

    def options(self, kind: pa.DataType, **read_options: Any) -> dict[str, Any]:
        """Return options for Arrow's readers; rows of a wrong length are skipped and added to ``invalid_rows``."""

        def skip_row(row: pc_csv.InvalidRow) -> str:
            self.invalid_rows.append(row)
            return "skip"

        return {
            "read_options": pc_csv.ReadOptions(**read_options),
            "parse_options": pc_csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(self.header) > 1,  # with a single column, an empty line is a missing value
                invalid_row_handler=skip_row,
            ),
            "convert_options": pc_csv.ConvertOptions(
                column_types=dict.fromkeys(self.header, kind),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }

    def refuse_invalid_rows(self) -> None:
        """Raise an error for the first row that has more or fewer columns than the header."""
        if not self.invalid_rows:
            return
        self.invalid_rows.clear()
        with pc_csv.open_csv(
            self.path, **self.options(pa.string(), use_threads=False)
        ) as stream:  # one thread numbers the rows
            while not self.invalid_rows and stream.read_next_batch():
                pass
        first = self.invalid_rows[0]
        raise DataError(
            f"cannot read {self.path.name!r}: row {first.number} has {first.actual_columns} columns, and the header "
            f"has {first.expected_columns}. Correct the row, or quote the fields that contain {self.delimiter!r}."
        )

    def refuse_open_quote(self, last: Sequence[str | None], rows: int) -> None:
        """Raise an error for a quote without an end, which makes all later rows part of one field that might be released."""
        if not any(value and "\n" in value for value in last):
            return
        quotes = 0
        with pa.input_stream(str(self.path)) as stream:
            while block := stream.read(1 << 22):
                quotes += block.count(b'"')
        if quotes % 2:
            raise DataError(
                f"cannot read {self.path.name!r}: a quote that is opened in row {rows + 1} or before is never closed. Close it."
            )


def _read_header(path: Path) -> tuple[str, list[str], bool]:
    """Return the delimiter (the most frequent of comma, semicolon and tab), the names, and whether the file has no rows."""
    with pa.input_stream(str(path)) as stream:
        first = stream.read(HEADER_BYTES).removeprefix(BOM)
    text = codecs.getincrementaldecoder("utf-8")().decode(first).lstrip("\r\n")
    if not text.strip():
        raise DataError(f"{path.name!r} is empty. A table needs at least a header line.")
    unquoted = re.sub(r'"[^"]*"', "", text).split("\n", 1)[0]
    delimiter = max(",;\t", key=unquoted.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = next(rows)
    has_rows = len(first) >= HEADER_BYTES or any(row or len(names) == 1 for row in rows)
    return delimiter, names, not has_rows


def write_table(table: pa.Table, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
    """Write an Arrow table: Parquet with its own types, CSV with the text of every value.

    Returns the number of cells, including the header, that got an apostrophe; see `Engine.write`.
    """
    if format == "parquet":
        with explain_write_errors(path):
            pq.write_table(pa.table(list(map(make_storable, table.columns)), names=table.column_names), path)
        return 0
    names, changed = format_header(table.column_names, escape_formulas=escape_formulas)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        formatted = [format_csv_values(chunk, name, escape_formulas=escape_formulas) for chunk in column.chunks]
        columns.append(pa.chunked_array([chunk for chunk, _ in formatted], pa.large_string()))
        changed += sum(count for _, count in formatted)
    with explain_write_errors(path):
        pc_csv.write_csv(pa.table(columns, names=names), path, CSV)
    return changed


def format_csv_values(array: pa.Array, column: str, *, escape_formulas: bool) -> tuple[pa.Array, int]:
    """Return the texts of a column for a CSV file, and the number of texts that got an apostrophe."""
    texts = format_values(array, column)
    return escape_array(texts, signs=escape_formulas) if is_text(array.type) else (texts, 0)


def format_header(names: Sequence[str], *, escape_formulas: bool) -> tuple[list[str], int]:
    """Return the column names for a CSV file, and the number of names that got an apostrophe."""
    header = [escape_formula(name) if escape_formulas or name.startswith(APOSTROPHE) else name for name in names]
    return header, sum(text != name for text, name in zip(header, names, strict=True))


def make_storable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to a type that Parquet can store, without unused values of a dictionary."""
    column = decode_dictionary(column)
    return column.cast(VIEWS[column.type]) if column.type in VIEWS else column


def normalize(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as it is released. Values of equal text get one representation, so it reveals no order of the rows.

    Zero has no sign. NaN and empty texts become null.
    """
    column = make_storable(column)
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy()
        return pa.chunked_array([pa.array(numbers + numbers.dtype.type(0), column.type, from_pandas=True)])
    if column.type in TEXTS:
        return pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, column.type), column)
    return column
