"""The numbers of the records of divided cells, in their keyed order.

PostgreSQL cannot compute the keyed hash of the other engines, and the secret must not be sent to the server. Therefore the
database counts the records of divided cells by their content, Python numbers them, and the database joins the numbers with its
records. Records with the same cell and content are interchangeable.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.arrays import Int64Array, UInt64Array
from shoal.engines import fingerprint
from shoal.engines.databases.session import Session
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.sql.release_query import DividedRecords
from shoal.engines.sql.table import SqlTable

WORD = 2**64


def number_records(session: Session, source: SqlTable, divided: DividedRecords) -> str:
    """Return the SQL expression for the records of divided cells with their numbers as ``o``; see `SqlEngine`."""
    keys, records = divided.records.keys, divided.records
    stored = session.store_query("divided", f"SELECT * FROM {divided.sql} d")
    hashes, joins = ["0::numeric"], []
    for place, column in enumerate(divided.order.columns):
        table = _hash_values(session, source, stored, column, divided)
        condition, found = session.look_up(f"s.{records.name(column)}", table, f"h{place}", "h")
        hashes.append(found)
        joins.append(f"LEFT JOIN {table} h{place} ON {condition}")
    total = f"mod({' + '.join(hashes)}, {WORD})"
    content = session.store_query("content", f"SELECT s.*, {total} AS h_ FROM {stored} s {' '.join(joins)}")
    counted = session.fetch_arrow(
        f"SELECT {keys.name_list}, h_, c.h, count(*) AS n FROM {content} JOIN {divided.hashes} c USING ({keys.name_list}) "
        f"GROUP BY {keys.name_list}, h_, c.h"
    )
    words = [counted[word].to_numpy() for word in keys.names]
    contents = np.array([int(value) for value in counted["h_"].to_pylist()], np.uint64)
    cells = counted["h"].to_numpy().view(np.uint64)
    of, equal, number = _number(words, contents, cells, counted["n"].to_numpy(), divided.order.hash)
    numbers = {name: pa.array(word[of]) for name, word in zip(keys.names, words, strict=True)}
    table = session.create_table(
        "numbers", pa.table({**numbers, "h_": pa.array(contents[of]), "e_": pa.array(equal), "o": pa.array(number)})
    )
    columns = ", ".join(f"e.{name}" for name in (*keys.names, *records.names))
    by = ", ".join((*keys.names, "h_"))
    each = f"SELECT *, row_number() OVER (PARTITION BY {by}) - 1 AS e_ FROM {content}"
    return f"(SELECT {columns}, n.o FROM ({each}) e JOIN {table} n USING ({by}, e_))"


def _hash_values(session: Session, source: SqlTable, stored: str, column: str, divided: DividedRecords) -> str:
    """Create a table of the values of a column in divided cells with their keyed hashes, and return its name."""
    name = divided.records.name(column)
    raw = session.fetch_arrow(f"SELECT DISTINCT {name} AS raw FROM {stored}")
    array = source.restore_type(column, raw["raw"])
    hashes = fingerprint.hash_rows_with_key(divided.order.hash, {column: array}, len(array))
    return session.create_table("hashed", raw.append_column("h", pa.array(hashes)))


def _number(
    words: list[Int64Array], contents: UInt64Array, cells: UInt64Array, count: Int64Array, keyed: KeyedHash
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return for every record the counted content that it belongs to, its number among equal records, and in its cell."""
    of = np.repeat(np.arange(len(count)), count)
    first = np.repeat(np.cumsum(count) - count, count)
    equal = np.arange(len(of)) - first
    place = keyed.mix(keyed.mix(cells, contents)[of], equal.astype(np.uint64))
    order = np.lexsort((place, *(word[of] for word in reversed(words))))
    ordered = [word[of][order] for word in words]
    new = np.ones(len(of), bool)
    if len(of):
        new[1:] = np.any([word[1:] != word[:-1] for word in ordered], axis=0)
    begin = np.flatnonzero(new)
    number = np.empty(len(of), np.int64)
    number[order] = np.arange(len(of)) - np.repeat(begin, np.diff(np.append(begin, len(of)))) + 1
    return of, equal, number
