"""CSV and Parquet files: columns of text stay text, so ZIP 01234 stays 01234."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from shoal.engines.base import Format
from shoal.errors import DataError, EngineError, some

TEXT = pa.dictionary(pa.int32(), pa.string())


def format_of(path: Path) -> Format:
    """The format that a file's name tells."""
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return "parquet"
    if suffix in (".csv", ".tsv", ".txt", ".gz"):
        return "csv"
    raise DataError(f"cannot tell the format of {path.name!r}; use a file that ends in .csv or .parquet")


def read_table(path: Path) -> pa.Table:
    """The file as an Arrow table, texts as dictionaries."""
    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; pass one CSV or Parquet file")
    try:
        table = _read_parquet(path) if format_of(path) == "parquet" else _read_csv(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0].split(" Row: ")[0]
        raise DataError(f"cannot read {path.name!r}: {reason}") from error
    names = table.column_names
    twice = [n for n in dict.fromkeys(names) if names.count(n) > 1]
    if twice:
        raise DataError(f"column names occur more than once in {path.name!r}: {some(twice)}; rename or drop them")
    return table


def _read_parquet(path: Path) -> pa.Table:
    schema = pq.read_schema(path)
    texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    return pq.read_table(path, read_dictionary=texts, partitioning=None)


def _read_csv(path: Path) -> pa.Table:
    header = _header(path)
    if header is None:
        raise DataError(f"{path.name!r} is empty: there is not even a header line")
    delimiter, names = header
    return pc_csv.read_csv(
        path,
        parse_options=pc_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, TEXT),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _header(path: Path) -> tuple[str, list[str]] | None:
    """The delimiter (comma, semicolon or tab, whichever the first line has most of) and the names."""
    with pa.input_stream(str(path)) as stream:
        first = stream.read(1 << 20)
    if not first.strip():
        return None
    line = first.decode("utf-8-sig", errors="replace").splitlines()[0]
    delimiter = max(",;\t", key=line.count)
    head = pa.BufferReader(first)
    parse = pc_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    return delimiter, pc_csv.open_csv(head, parse_options=parse).schema.names


def write_table(table: pa.Table, path: Path, format: Format) -> None:
    """Write an Arrow table as CSV or Parquet."""
    try:
        if format == "parquet":
            pq.write_table(table, path)
        else:
            plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
            pc_csv.write_csv(pa.table(plain, names=table.column_names), path)
    except OSError as error:
        raise EngineError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
