"""CSV and Parquet files: columns of text stay text, so ZIP 01234 stays 01234."""

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

from shoal.engines.column_values import texts
from shoal.engines.csv_formulas import escape_formulas as escape_array
from shoal.engines.csv_formulas import is_text, restore_formulas
from shoal.engines.frames import plain, refuse_duplicate_names
from shoal.engines.protocol import Format, format_of
from shoal.errors import DataError, EngineError
from shoal.formats.formulas import APOSTROPHE, escape_formula, restore_formula

TEXT = pa.dictionary(pa.int32(), pa.string())
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
VIEWS = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}  # which Arrow can neither sort nor write
LOOK = 1 << 20  # bytes in which the header is looked for
BOM = b"\xef\xbb\xbf"
CSV = pc_csv.WriteOptions(quoting_style="needed")


def read_table(path: Path) -> pa.Table:
    """The file as an Arrow table, texts as dictionaries."""
    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder, which the engine 'memory' does not read; use engine='duckdb'")
    path = path.absolute()  # Arrow takes a name such as 's3:x' for an address on the network
    with reading(path):
        return _read_parquet(path) if format_of(path) == "parquet" else _read_csv(path)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong while a file is read, as an error that names it and quotes nothing from it."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        if "UTF" in str(error) or isinstance(error, UnicodeDecodeError):
            raise DataError(f"cannot read {path.name!r}: its text is not UTF-8; save it in that encoding") from None
        raise DataError(f"cannot read {path.name!r}: {_harmless(str(error))}") from None
    except OSError as error:
        raise DataError(f"cannot read {path.name!r}: {error.strerror or _harmless(str(error))}") from None


def _harmless(text: str) -> str:
    """A parser's message without what it quotes from the file."""
    first = next(iter(text.splitlines()), "").replace("CSV parse error: ", "")
    return re.split(r"(?<=got \d)|(?<=got \d\d)|: (?=[^:]*$)", first)[0]


def parquet_schema(path: Path) -> pa.Schema:
    """The columns of a Parquet file."""
    with reading(path):
        schema = pq.read_schema(path)
    refuse_duplicate_names(schema.names)
    return schema


def size_in_memory(path: Path) -> int:
    """About how many bytes a file takes up once it is read."""
    if format_of(path) == "csv":
        return path.stat().st_size
    with reading(path):
        found = pq.read_metadata(path.absolute())
    return sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))


def texts_of(path: Path, *, own: bool = False) -> list[str]:
    """The columns of text of a Parquet file, which can be read as dictionaries.

    DuckDB writes dictionaries of its ENUM columns in which values occur twice, of which Arrow makes wrong ones; so files of
    DuckDB that are not our ``own`` are read value by value.
    """
    schema = parquet_schema(path)
    if not own and "duckdb" in (pq.read_metadata(path).created_by or "").lower():
        return []
    return [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]


def _read_parquet(path: Path) -> pa.Table:
    return pq.read_table(path, read_dictionary=texts_of(path), partitioning=None)


def _read_csv(path: Path) -> pa.Table:
    form = _Form.of(path)
    if form.empty:
        return pa.table({name: pa.array([], pa.string()).dictionary_encode() for name in form.names})
    table = pc_csv.read_csv(path, **form.options(TEXT))
    form.refuse_wrong()
    if len(table):
        form.refuse_open_quote([column[-1].as_py() for column in table.columns], len(table))
    for column in table.columns:
        for chunk in column.chunks:
            chunk.dictionary.validate(full=True)  # text that is not UTF-8 is found here, not later
    return pa.table([_restore(column) for column in table.columns], names=form.names)


def _restore(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without the apostrophes before formulas."""
    chunks, changed = [], 0
    for chunk in column.chunks:
        values, count = restore_formulas(chunk.dictionary)
        chunks.append(values.take(chunk.indices).dictionary_encode() if count else chunk)  # two texts may be one now
        changed += count
    return pa.chunked_array(chunks, column.type) if changed else column


def csv_to_parquet(path: Path, target: Path) -> None:
    """A CSV file as a Parquet file of texts, some rows at a time; it is read as `read_table` reads it."""
    with reading(path):
        form = _Form.of(path)
        schema = pa.schema([(name, pa.string()) for name in form.names])
        with writing(target), pq.ParquetWriter(target, schema) as writer:
            if form.empty:
                return
            rows, last = 0, None
            with pc_csv.open_csv(path, **form.options(pa.string())) as stream:
                for batch in stream:
                    batch.validate(full=True)
                    restored = [restore_formulas(column)[0] for column in batch.columns]
                    writer.write_batch(pa.record_batch(restored, schema=schema))
                    rows += batch.num_rows
                    last = batch.slice(batch.num_rows - 1) if batch.num_rows else last
            form.refuse_wrong()
            if last is not None:
                form.refuse_open_quote([column[0].as_py() for column in last.columns], rows)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What goes wrong while a file is written, as an error that names it."""
    try:
        yield
    except OSError as error:
        raise EngineError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # its text quotes the value
        raise DataError(
            f"cannot write {path.name!r}: a column holds values that {format_of(path)} cannot hold, such as moments far beyond "
            "the year 9999; turn the column into text, or leave it out"
        ) from None


@dataclass(frozen=True)
class _Form:
    """How a CSV file is written: its delimiter, its header, whether that is all; and rows that do not fit."""

    path: Path
    delimiter: str
    header: list[str]
    empty: bool
    wrong: list[pc_csv.InvalidRow]

    @classmethod
    def of(cls, path: Path) -> _Form:
        found = cls(path, *_header(path), [])
        refuse_duplicate_names(found.names)
        return found

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(map(restore_formula, self.header))

    def options(self, kind: pa.DataType, **reading: Any) -> dict[str, Any]:
        """For Arrow's readers; rows of another length are skipped and remembered."""

        def note(row: pc_csv.InvalidRow) -> str:
            self.wrong.append(row)
            return "skip"

        return {
            "read_options": pc_csv.ReadOptions(**reading),
            "parse_options": pc_csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(self.header) > 1,  # in a single column an empty line is a missing value
                invalid_row_handler=note,
            ),
            "convert_options": pc_csv.ConvertOptions(
                column_types=dict.fromkeys(self.header, kind),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }

    def refuse_wrong(self) -> None:
        """An error for the first row that has more or fewer columns than the header."""
        if not self.wrong:
            return
        self.wrong.clear()
        with pc_csv.open_csv(self.path, **self.options(pa.string(), use_threads=False)) as stream:  # numbers the rows
            while not self.wrong and stream.read_next_batch():
                pass
        first = self.wrong[0]
        raise DataError(
            f"cannot read {self.path.name!r}: row {first.number} has {first.actual_columns} columns where the header has "
            f"{first.expected_columns}; mend the row, or quote the fields that hold {self.delimiter!r}"
        )

    def refuse_open_quote(self, last: Sequence[str | None], rows: int) -> None:
        """A quote that is never closed swallows all rows behind it into one field, which might then be released."""
        if not any(value and "\n" in value for value in last):
            return
        quotes = 0
        with pa.input_stream(str(self.path)) as stream:
            while part := stream.read(1 << 22):
                quotes += part.count(b'"')
        if quotes % 2:
            raise DataError(
                f"cannot read {self.path.name!r}: a quote that is opened in row {rows + 1} or before is never closed; mend it"
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


def write_table(table: pa.Table, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
    """Write an Arrow table: Parquet with its own types, CSV with the text of every value.

    Returns how many cells, those of the header included, are written with an apostrophe before them; see `Engine.write`.
    """
    if format == "parquet":
        with writing(path):
            pq.write_table(pa.table(list(map(storable, table.columns)), names=table.column_names), path)
        return 0
    names, changed = header_texts(table.column_names, escape_formulas=escape_formulas)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        listed = [csv_texts(chunk, name, escape_formulas=escape_formulas) for chunk in column.chunks]
        columns.append(pa.chunked_array([chunk for chunk, _ in listed], pa.large_string()))
        changed += sum(count for _, count in listed)
    with writing(path):
        pc_csv.write_csv(pa.table(columns, names=names), path, CSV)
    return changed


def csv_texts(array: pa.Array, column: str, *, escape_formulas: bool) -> tuple[pa.Array, int]:
    """The texts of a column's values as they stand in a CSV file, and how many have an apostrophe before them."""
    found = texts(array, column)
    return escape_array(found, signs=escape_formulas) if is_text(array.type) else (found, 0)


def header_texts(names: Sequence[str], *, escape_formulas: bool) -> tuple[list[str], int]:
    """The names of columns as they stand in a CSV file, and how many have an apostrophe before them."""
    found = [escape_formula(name) if escape_formulas or name.startswith(APOSTROPHE) else name for name in names]
    return found, sum(written != name for written, name in zip(found, names, strict=True))


def storable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as Parquet can hold it, without the values of a dictionary that no released record has."""
    column = plain(column)
    return column.cast(VIEWS[column.type]) if column.type in VIEWS else column


def normalize(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as it is released: values of one text have one form, so that no form can tell the order of the rows.

    Zero has no sign, and a missing value is null: NaN and empty texts are.
    """
    column = storable(column)
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy()
        return pa.chunked_array([pa.array(numbers + numbers.dtype.type(0), column.type, from_pandas=True)])
    if column.type in TEXTS:
        return pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, column.type), column)
    return column
