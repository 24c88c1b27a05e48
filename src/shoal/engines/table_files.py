"""Read tables from files of all kinds, and write CSV and Parquet files.

Text columns of CSV files are read as text, so the ZIP code 01234 stays 01234.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.engines.column_values import format_values
from shoal.engines.csv_files import CsvWriter, change_texts, csv_to_parquet, read_csv, write_csv
from shoal.engines.csv_formulas import escape_formulas as escape_array
from shoal.engines.csv_formulas import is_text
from shoal.engines.file_errors import explain_read_errors, explain_write_errors
from shoal.engines.frames import decode_dictionary, refuse_duplicate_names
from shoal.engines.protocol import Detected, Format, TextFormat, detect_kind
from shoal.errors import DataError
from shoal.formats.column_pairs import published_names
from shoal.formats.conventions import Conventions
from shoal.formats.dates import DateFormat
from shoal.formats.formulas import APOSTROPHE, escape_formula
from shoal.formats.numbers import NumberFormat

__all__ = [
    "csv_to_parquet",
    "describe_output",
    "estimate_size_in_memory",
    "explain_read_errors",
    "explain_write_errors",
    "format_csv_values",
    "format_header",
    "list_dictionary_columns",
    "make_storable",
    "normalize",
    "read_parquet_schema",
    "read_table",
    "write_table",
]

TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
VIEWS = {  # Arrow can neither sort nor write views
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}


def read_table(
    path: Path,
    given: Conventions | None = None,
    *,
    numeric: Collection[str] = (),
    formats: Mapping[str, TextFormat] | None = None,
) -> tuple[pa.Table, Detected]:
    """Read a file as an Arrow table, with texts as dictionaries; also return how the file is written.

    ``numeric`` are the columns that are numbers or dates in the policy. ``formats`` restores the texts of a CSV file that Shoal
    wrote like its input.
    """
    given = given or Conventions()
    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}. Check the path.")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder, and the engine 'memory' reads only files. Use engine='duckdb'.")
    path = path.absolute()  # Arrow reads a name such as 's3:x' as a network address
    kind = detect_kind(path)
    with explain_read_errors(path):
        if kind == "csv":
            return read_csv(path, given, formats)
        if kind == "parquet":
            return _read_parquet(path), Detected(given)
        if kind == "excel":
            from shoal.engines.excel_files import read_excel

            return read_excel(path, given)
        from shoal.engines.statistics_files import read_statistics

        return read_statistics(path, given, numeric)


def read_parquet_schema(path: Path) -> pa.Schema:
    """Return the schema of a Parquet file; raise an error for duplicate column names."""
    with explain_read_errors(path):
        schema = pq.read_schema(path)
    refuse_duplicate_names(schema.names)
    return schema


def estimate_size_in_memory(path: Path) -> int:
    """Estimate the bytes of memory that the data of a file need."""
    if detect_kind(path) != "parquet":
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


def write_table(
    table: pa.Table,
    path: Path,
    format: Format,
    *,
    escape_formulas: bool = True,
    written: Conventions | None = None,
    formats: Mapping[str, TextFormat] | None = None,
) -> int:
    """Write an Arrow table: Parquet with its own types, CSV with the text of every value.

    ``written`` and ``formats``: the delimiter and the encoding of the CSV file, and the formats of numbers and dates by column.
    Returns the number of cells, including the header, that got an apostrophe; see `Engine.write`.
    """
    if format == "parquet":
        with explain_write_errors(path):
            pq.write_table(pa.table(list(map(make_storable, table.columns)), names=table.column_names), path)
        return 0
    names, changed = format_header(table.column_names, escape_formulas=escape_formulas)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        style = (formats or {}).get(name)
        formatted = [
            format_csv_values(chunk, name, escape_formulas=escape_formulas, style=style) for chunk in column.chunks
        ]
        columns.append(pa.chunked_array([chunk for chunk, _ in formatted], pa.large_string()))
        changed += sum(count for _, count in formatted)
    with explain_write_errors(path):
        write_csv(pa.table(columns, names=names), path, written)
    return changed


def write_csv_batches(
    batches: Iterable[Mapping[str, pa.Array]],
    path: Path,
    names: Sequence[str],
    *,
    escape_formulas: bool = True,
    written: Conventions | None = None,
    formats: Mapping[str, TextFormat] | None = None,
) -> int:
    """Write the columns ``names`` of batches to a CSV file; see `write_table`. Only one batch is in memory at a time."""
    header, changed = format_header(names, escape_formulas=escape_formulas)
    schema, styles = pa.schema([(name, pa.large_string()) for name in header]), formats or {}
    with explain_write_errors(path), CsvWriter(path, schema, written) as writer:
        for batch in batches:
            formatted = [
                format_csv_values(batch[name], name, escape_formulas=escape_formulas, style=styles.get(name))
                for name in names
            ]
            writer.write(pa.record_batch([texts for texts, _ in formatted], schema=schema))
            changed += sum(count for _, count in formatted)
    return changed


def format_csv_values(
    array: pa.Array, column: str, *, escape_formulas: bool, style: TextFormat | None = None
) -> tuple[pa.Array, int]:
    """Return the texts of a column for a CSV file, and the number of texts that got an apostrophe."""
    texts, changed = format_values(array, column), 0
    if is_text(array.type):
        texts, changed = escape_array(texts, signs=escape_formulas)
    return texts if style is None else change_texts(texts, style.render), changed


def describe_output(
    detected: Detected, styles: Mapping[str, TextFormat], names: Collection[str]
) -> tuple[Conventions, dict[str, TextFormat]]:
    """Return how a CSV file like the input is written, and the formats of numbers and dates by published column.

    A quasi-identifier may be published as a pair of columns, such as ``age_lo`` and ``age_hi``.
    """
    source = detected.conventions
    formats = {
        name: style for column, style in styles.items() for name in published_names(column, names) if name in names
    }
    decimal = next((style.decimal for style in formats.values() if isinstance(style, NumberFormat)), None)
    dates = next((style.pattern for style in formats.values() if isinstance(style, DateFormat)), None)
    return Conventions(source.delimiter, decimal, None, source.encoding, dates), formats


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
