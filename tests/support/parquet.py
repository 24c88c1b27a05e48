"""Read the decompressed pages of a Parquet file, as a reader with a hex editor sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def pages(path: Path) -> Iterator[bytes]:
    """Every page of every column, dictionaries too, without compression; and the file as it is."""
    content = path.read_bytes()
    yield content
    found = pq.read_metadata(path)
    for group in range(found.num_row_groups):
        for place in range(found.num_columns):
            column = found.row_group(group).column(place)
            begin = min(o for o in (column.dictionary_page_offset, column.data_page_offset) if o)
            end = begin + column.total_compressed_size
            while begin < end:
                (whole, packed), begin = _header(content, begin)
                page = content[begin : begin + packed]
                begin += packed
                if column.compression != "UNCOMPRESSED" and whole:
                    page = pa.decompress(page, whole, codec=column.compression.lower(), asbytes=True)
                yield page


def _header(content: bytes, at: int) -> tuple[tuple[int, int], int]:
    """The sizes of a page, whole and compressed, and where it begins: its header is a struct in Thrift's compact protocol."""
    fields: dict[int, int] = {}
    at = _struct(content, at, fields)
    return (fields[2], fields[3]), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _struct(content: bytes, at: int, fields: dict[int, int]) -> int:
    number = 0
    while content[at]:
        kind, delta = content[at] & 0x0F, content[at] >> 4
        at += 1
        if delta:
            number += delta
        else:
            value, at = _varint(content, at)
            number = value >> 1
        value, at = _value(content, at, kind)
        fields[number] = value
    return at + 1


def _value(content: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind in (1, 2):  # true, false
        return kind, at
    if kind == 3:
        return content[at], at + 1
    if kind in (4, 5, 6):
        value, at = _varint(content, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 7:
        return 0, at + 8
    if kind == 8:
        size, at = _varint(content, at)
        return 0, at + size
    if kind in (9, 10):
        size, inner = content[at] >> 4, content[at] & 0x0F
        at += 1
        if size == 15:
            size, at = _varint(content, at)
        for _ in range(size):
            _, at = _value(content, at, inner)
        return 0, at
    assert kind == 12, kind
    return 0, _struct(content, at, {})
