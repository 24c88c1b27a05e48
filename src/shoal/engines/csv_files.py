"""CSV files: detect the delimiter and the encoding, and read all columns as text.

A UTF-8 file is read by Arrow directly. Only if its bytes are not UTF-8, the file is read again in another encoding.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from shoal.engines.csv_formulas import restore_formulas
from shoal.engines.file_errors import NOT_TEXT, explain_read_errors, explain_write_errors, is_encoding_error
from shoal.engines.frames import refuse_duplicate_names
from shoal.engines.protocol import Detected, TextFormat
from shoal.errors import DataError
from shoal.formats.conventions import DELIMITERS, Conventions
from shoal.formats.formulas import restore_formula

TEXT = pa.dictionary(pa.int32(), pa.string())
HEADER_BYTES = 1 << 20  # the header must end within
NULS = 100  # characters in which NUL is counted
BLOCK = 1 << 22  # bytes that are examined at a time
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ZIP = b"PK\x03\x04"  # the first bytes of an Excel file
NOT_CP1252 = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
UTF8_LETTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
READ_AS_CP1252 = (
    "{!r} is not UTF-8, so it was read as cp1252 (Western European). If letters such as ä or é are wrong, name the encoding: "
    "--encoding, or 'encoding:' under 'read:' in the policy."
)

Result = TypeVar("Result")


def read_csv(
    path: Path, given: Conventions, formats: Mapping[str, TextFormat] | None = None
) -> tuple[pa.Table, Detected]:
    """Read a CSV file as a table of texts. ``formats`` restores the texts of columns that Shoal wrote like its input."""

    def read(layout: CsvLayout) -> pa.Table:
        if layout.is_empty:
            return pa.table({name: pa.array([], pa.string()).dictionary_encode() for name in layout.names})
        table = pc_csv.read_csv(path, **layout.options(TEXT))
        layout.refuse_invalid_rows()
        if len(table):
            layout.refuse_open_quote([column[-1].as_py() for column in table.columns], len(table))
        for column in table.columns:
            for chunk in column.chunks:
                chunk.dictionary.validate(full=True)  # detects text that is not UTF-8
        columns = zip(layout.names, table.columns, strict=True)
        return pa.table(
            [_restore_column(column, (formats or {}).get(name)) for name, column in columns], names=layout.names
        )

    return _read_in_encoding(path, given, read)


def _restore_column(column: pa.ChunkedArray, written: TextFormat | None) -> pa.ChunkedArray:
    """Return a column without the apostrophes before formulas."""
    chunks, changed = [], 0
    for chunk in column.chunks:
        values, count = restore_formulas(chunk.dictionary)
        if written is not None:
            values, count = change_texts(values, written.restore), 1
        chunks.append(
            values.take(chunk.indices).dictionary_encode() if count else chunk
        )  # two texts may have become equal
        changed += count
    return pa.chunked_array(chunks, column.type) if changed else column


def change_texts(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Change each distinct text; nulls stay null."""
    encoded = texts.dictionary_encode()
    changed = [None if text is None else change(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(changed, texts.type).take(encoded.indices)


def csv_to_parquet(
    path: Path, target: Path, given: Conventions | None = None, formats: Mapping[str, TextFormat] | None = None
) -> Detected:
    """Convert a CSV file to a Parquet file of texts, in batches; the values are those of `read_csv`."""

    def convert(layout: CsvLayout) -> None:
        schema = pa.schema([(name, pa.string()) for name in layout.names])
        with explain_write_errors(target), pq.ParquetWriter(target, schema) as writer:
            if layout.is_empty:
                return
            rows, last = 0, None
            for batch in _read_batches(path, layout):
                restored = [restore_formulas(column)[0] for column in batch.columns]
                for number, name in enumerate(layout.names):
                    if name in (formats or {}):
                        restored[number] = change_texts(restored[number], (formats or {})[name].restore)
                writer.write_batch(pa.record_batch(restored, schema=schema))
                rows += batch.num_rows
                last = batch.slice(batch.num_rows - 1) if batch.num_rows else last
            layout.refuse_invalid_rows()
            if last is not None:
                layout.refuse_open_quote([column[0].as_py() for column in last.columns], rows)

    with explain_read_errors(path):
        return _read_in_encoding(path, given or Conventions(), convert)[1]


def _read_batches(path: Path, layout: CsvLayout) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a CSV file. Errors in its encoding are `UnicodeDecodeError`, which no writer explains."""
    try:
        with pc_csv.open_csv(path, **layout.options(pa.string())) as stream:
            for batch in stream:
                batch.validate(full=True)
                yield batch
    except (pa.ArrowInvalid, OSError) as error:
        if is_encoding_error(error):
            raise UnicodeDecodeError("utf-8", b"", 0, 0, "invalid") from None
        with explain_read_errors(path):
            raise


def _read_in_encoding(path: Path, given: Conventions, read: Callable[[CsvLayout], Result]) -> tuple[Result, Detected]:
    """Read a file in the given or the detected encoding. Also return how the file is written."""
    with pa.input_stream(str(path)) as stream:
        first = stream.read(HEADER_BYTES)
    if first.startswith(ZIP):
        raise DataError(
            f"cannot read {path.name!r}: not a text file. If this is an Excel file, its name must end in .xlsx."
        )
    encoding = given.encoding or next((name for mark, name in MARKS.items() if first.startswith(mark)), "utf-8")
    try:
        layout = CsvLayout.of(path, first, replace(given, encoding=encoding))
        return read(layout), Detected(layout.conventions)
    except (UnicodeError, pa.ArrowInvalid) as error:
        if not isinstance(error, UnicodeError) and not is_encoding_error(error):
            raise
        if encoding != "utf-8" or given.encoding:
            raise DataError(
                f"cannot read {path.name!r}: the text is not {encoding}. Name another encoding (--encoding, or 'encoding:' "
                "under 'read:'), such as utf-8 or cp1252."
            ) from None
    _refuse_unlike_cp1252(path)
    layout = CsvLayout.of(path, first, replace(given, encoding="cp1252"))
    return read(layout), Detected(layout.conventions, (READ_AS_CP1252.format(path.name),))


def _refuse_unlike_cp1252(path: Path) -> None:
    """Raise an error for bytes that no cp1252 text has, and for letters in UTF-8: most of such a file is UTF-8."""
    rest = b""
    with pa.input_stream(str(path)) as stream:
        while block := stream.read(BLOCK):
            if NOT_CP1252.search(block):
                raise DataError(f"cannot read {path.name!r}: {NOT_TEXT}")
            if UTF8_LETTER.search(rest + block):
                raise DataError(
                    f"cannot read {path.name!r}: parts of the text are UTF-8 and other parts are not, so the encoding cannot "
                    "be detected. Save the file as UTF-8, or name the encoding (--encoding, or 'encoding:' under 'read:')."
                )
            rest = block[-3:]


@dataclass(frozen=True)
class CsvLayout:
    """The layout of a CSV file: its conventions and header, whether it has no rows, and its rows of a wrong length."""

    path: Path
    conventions: Conventions
    header: list[str]
    is_empty: bool
    invalid_rows: list[pc_csv.InvalidRow] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path, first: bytes, given: Conventions) -> CsvLayout:
        """Detect the layout from the first bytes of a file; ``given`` has an encoding."""
        decoder = codecs.getincrementaldecoder(given.encoding or "utf-8")()
        is_whole = len(first) < HEADER_BYTES
        is_utf16 = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = decoder.decode(first, is_utf16 and is_whole).lstrip("\ufeff").lstrip("\r\n")
        if not text.strip():
            raise DataError(f"{path.name!r} is empty. A table needs at least a header line.")
        if text[:NULS].count("\0") * 3 > len(text[:NULS]):  # UTF-16 without a byte order mark
            raise DataError(f"cannot read {path.name!r}: {NOT_TEXT}")
        delimiter = given.delimiter or _detect_delimiter(_list_lines(path, text, is_whole=is_whole), path)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        names = next(rows)
        has_rows = not is_whole or any(row or len(names) == 1 for row in rows)
        layout = cls(path, replace(given, delimiter=delimiter), names, not has_rows)
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
            "read_options": pc_csv.ReadOptions(encoding=self._arrow_encoding, **read_options),
            "parse_options": pc_csv.ParseOptions(
                delimiter=self.conventions.delimiter,
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

    @property
    def _arrow_encoding(self) -> str:
        """The encoding for Arrow, which reads UTF-8 fast only under this name, and skips the byte order mark itself."""
        name = codecs.lookup(self.conventions.encoding or "utf-8").name
        return "utf8" if name in ("utf-8", "utf-8-sig", "ascii") else name

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
            f"has {first.expected_columns}. Correct the row, or quote the fields that contain {self.conventions.delimiter!r}."
        )

    def refuse_open_quote(self, last: Sequence[str | None], rows: int) -> None:
        """Raise an error for a quote without an end, which makes all later rows part of one field that might be released."""
        if not any(value and "\n" in value for value in last):
            return
        quotes = 0
        with pa.input_stream(str(self.path)) as raw:
            encoding = self._arrow_encoding
            stream = raw if encoding == "utf8" else pa.transcoding_input_stream(raw, encoding, "utf8")
            while block := stream.read(BLOCK):
                quotes += block.count(b'"')
        if quotes % 2:
            raise DataError(
                f"cannot read {self.path.name!r}: a quote that is opened in row {rows + 1} or before is never closed. Close it."
            )


def _list_lines(path: Path, text: str, *, is_whole: bool) -> list[str]:
    """Return the first two lines of a text, without quoted parts."""
    unquoted = re.sub(r'"[^"]*"', "", text)
    lines = re.split(r"[\r\n]+", unquoted, maxsplit=2)
    if len(lines) == 1 and not is_whole:
        raise DataError(
            f"cannot read {path.name!r}: the header line has more than 1 MiB ({HEADER_BYTES:,} bytes), or a quote in it is "
            "never closed. Shorten the column names, close the quote, or check the line ends of the file."
        )
    return lines[:2]


def _detect_delimiter(lines: Sequence[str], path: Path) -> str:
    """Return the most frequent delimiter of the header. If two are equally frequent, the first row decides."""
    header = lines[0]
    most = max(map(header.count, DELIMITERS))
    likely = [char for char in DELIMITERS if header.count(char) == most]
    if most and len(likely) > 1 and len(lines) > 1:
        likely = [char for char in likely if lines[1].count(char) == most] or likely
    if most and len(likely) > 1:
        raise DataError(
            f"cannot read {path.name!r}: its header has as many {' as '.join(repr(char) for char in likely)}, so the delimiter "
            "cannot be detected. Name the delimiter (--delimiter, or 'delimiter:' under 'read:')."
        )
    return likely[0] if most else ","


def write_csv(table: pa.Table, path: Path, written: Conventions | None = None) -> None:
    """Write a table of texts as CSV: with commas in UTF-8, or with another delimiter and encoding."""
    if written is None:
        pc_csv.write_csv(table, path, pc_csv.WriteOptions(quoting_style="needed"))
        return
    with CsvWriter(path, table.schema, written) as writer:
        writer.write(table)


class CsvWriter:
    """Writes batches of texts to a CSV file, in the encoding of ``written`` (default: commas, UTF-8)."""

    def __init__(self, path: Path, schema: pa.Schema, written: Conventions | None = None) -> None:
        self.path, self.written = path, written or Conventions()
        encoding = codecs.lookup(self.written.encoding or "utf-8").name
        options = pc_csv.WriteOptions(quoting_style="needed", delimiter=self.written.delimiter or ",")
        self.stream: Any = None
        sink: Any = path
        if encoding != "utf-8":
            self.stream = _EncodedFile(path, encoding)
            sink = pa.PythonFile(self.stream, "w")
        self.writer = pc_csv.CSVWriter(sink, schema, write_options=options)

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Write a table or a batch."""
        self.writer.write(rows)

    def __enter__(self) -> CsvWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        self.writer.close()
        if self.stream is not None:
            self.stream.close()
            self.stream.refuse_unencodable()


class _EncodedFile(io.RawIOBase):
    """A file to which UTF-8 is written, and which holds the text in another encoding."""

    def __init__(self, path: Path, encoding: str) -> None:
        self.file = path.open("wb")
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.encoder = codecs.getincrementalencoder(encoding)()
        self.encoding, self.lost = encoding, ""

    def writable(self) -> bool:
        """Whether bytes can be written."""
        return True

    def write(self, content: Any) -> int:
        """Write UTF-8 bytes. Arrow would not raise an error of this method, so characters that are lost are recorded."""
        data = bytes(content)
        try:
            self.file.write(self.encoder.encode(self.decoder.decode(data)))
        except UnicodeEncodeError as error:
            self.lost = error.object[error.start]
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self.file.close()
        super().close()

    def refuse_unencodable(self) -> None:
        """Raise an error if the encoding lacks a character of the text."""
        if self.lost:
            raise DataError(
                f"cannot write the table like its input: the encoding {self.encoding} lacks the character {self.lost!r}. Name "
                "another encoding of the input that has it, such as cp1252 or utf-8, or leave out --like-input "
                "(like_input=True)."
            )
