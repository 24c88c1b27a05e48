"""Tables as counted cells that COUNT queries are answered on: the original, and a released table.

The domain of a quasi-identifier is the list of the different values of its original column. A published label stands for
the values of the domain that it covers. A single number or date that is not in the domain (a mean, a midpoint, a synthetic
value) is added to the domain of the released table, and is tested as it is.

``write="lo-hi"`` publishes no ends for groups of missing values, and for groups of missing and other values. Such a pair is a
missing value, except where more records have it than values are missing in the original: then it is read as ``*``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute, encode_attribute
from shoal.encoding.codes import encode_column
from shoal.engines import Dictionary, Engine, Reading
from shoal.errors import DataError
from shoal.formats.bucket_columns import BUCKET, COUNT
from shoal.formats.labels import ROOT, format_ends
from shoal.formats.numbers import parse_number
from shoal.kernels.combinations import number_combinations
from shoal.measures.conditions import Domain
from shoal.measures.label_extents import read_single, read_values
from shoal.measures.restoring import choose_restoring
from shoal.policy import Policy


@dataclass(frozen=True)
class Runs:
    """The values that labels cover, as runs of codes of a domain; label i has the runs ``start[i]:start[i + 1]``."""

    start: Int64Array
    first: Int64Array
    end: Int64Array

    @classmethod
    def of(cls, covered: Sequence[Int64Array]) -> Runs:
        """Find the runs of sorted codes."""
        starts, firsts, ends = [0], [], []
        for codes in covered:
            breaks = np.flatnonzero(np.diff(codes) > 1)
            firsts.append(codes[np.concatenate(([0], breaks + 1))] if len(codes) else codes)
            ends.append(codes[np.concatenate((breaks, [len(codes) - 1]))] + 1 if len(codes) else codes)
            starts.append(starts[-1] + len(firsts[-1]))
        none = np.zeros(0, np.int64)
        first, end = np.concatenate([none, *firsts]), np.concatenate([none, *ends])
        return cls(np.array(starts, np.int64), first.astype(np.int64), end.astype(np.int64))

    def average(self, table: FloatArray) -> FloatArray:
        """The mean of the rows that each label covers; 0 for a label that covers none."""
        total = np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(table, axis=0)])
        before = np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(total[self.end] - total[self.first], axis=0)])
        sums = before[self.start[1:]] - before[self.start[:-1]]
        length = np.concatenate(([0], np.cumsum(self.end - self.first)))
        covered = length[self.start[1:]] - length[self.start[:-1]]
        return np.asarray(sums / np.maximum(covered, 1)[:, np.newaxis], np.float64)


@dataclass(frozen=True)
class QueryColumn:
    """A column of codes: of the values of a domain, or with ``runs`` of labels that cover values of it."""

    domain: Domain
    runs: Runs | None = None

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.domain.name

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.domain.values) if self.runs is None else len(self.runs.start) - 1


@dataclass(frozen=True)
class CountedSide:
    """Cells by group, with their numbers of records or another weight."""

    columns: tuple[QueryColumn, ...]
    start: Int64Array
    codes: Int32Array
    weight: FloatArray


@dataclass(frozen=True)
class CountedTable:
    """Groups with two sides of cells: a record of the group is on both sides, each independently of the other.

    In a generalized table, the one side is the box of the group, the other its sensitive values. In a bucketed table, they
    are the quasi-identifiers of the bucket and the shares of its sensitive values.
    """

    one: CountedSide
    other: CountedSide


@dataclass(frozen=True)
class Original:
    """The original table: its attributes, the domains of the columns that queries use, and the position of every source value.

    ``position[name]`` has the code in the domain of every source value of a quasi-identifier, -1 for leaves that do not
    occur.
    """

    policy: Policy
    quasi: tuple[str, ...]
    plain: tuple[str, ...]
    rows: int
    domains: dict[str, Domain]
    attributes: dict[str, Attribute]
    position: dict[str, Int64Array]
    records: dict[str, Int64Array]
    engine: Engine

    def count_missing(self, name: str) -> int:
        """The number of records without a value of a quasi-identifier."""
        return int(self.records[name][self.domains[name].is_missing].sum())

    def count(self) -> Iterator[CountedTable]:
        """Count the cells, partition by partition."""
        columns = {name: QueryColumn(domain) for name, domain in self.domains.items()}
        yield from _count_cells(self.engine, [columns[n] for n in self.quasi], [columns[n] for n in self.plain])


def read_original(engine: Engine, policy: Policy, used: Sequence[str]) -> Original:
    """Read the columns of the original table that queries use; at least one quasi-identifier is read."""
    quasi = tuple(name for name in policy.quasi if name in used) or tuple(policy.quasi)[:1]
    plain = tuple(name for name in used if name not in policy.quasi)
    readings = {n: policy.raw_reading(n) for n in quasi} | {n: policy.published_reading(n) for n in plain}
    engine.prepare(readings)
    dictionaries: dict[str, Dictionary] = {}
    domains: dict[str, Domain] = {}
    attributes: dict[str, Attribute] = {}
    position: dict[str, Int64Array] = {}
    records: dict[str, Int64Array] = {}
    for name in quasi:
        distinct = engine.distinct(name, readings[name])
        attribute, coded = encode_attribute(name, policy.quasi[name], distinct, readings[name])
        attributes[name] = attribute
        place = _find_source_values(attribute, coded)
        occurring, codes = np.unique(place, return_inverse=True)
        size = len(occurring)
        values = np.empty(size, distinct.values.dtype)
        values[codes] = distinct.values
        position[name] = np.full(attribute.source_size, -1, np.int64)
        position[name][occurring] = np.arange(size)
        records[name] = np.bincount(codes, distinct.counts, minlength=size).astype(np.int64)
        if distinct.missing:
            position[name][-1] = size
            records[name] = np.append(records[name], distinct.missing)
        dictionaries[name] = Dictionary(readings[name], distinct, codes.astype(np.int32), size)
        domains[name] = _make_domain(name, readings[name], values, policy, missing=distinct.missing > 0)
    for name in plain:
        domains[name] = _read_plain(engine, name, policy, dictionaries).domain
    encoded = engine.encode(dictionaries)
    return Original(policy, quasi, plain, engine.schema().rows, domains, attributes, position, records, encoded)


def _find_source_values(attribute: Attribute, coded: Dictionary) -> Int64Array:
    """The number of every distinct value in the order of the source values of an attribute."""
    if attribute.source is None:
        return coded.codes.astype(np.int64)
    place = np.empty(len(coded.codes), np.int64)
    place[np.lexsort((np.asarray(coded.distinct.values, np.float64), coded.codes))] = np.arange(len(coded.codes))
    return place


def read_released(engine: Engine, original: Original) -> Iterator[CountedTable]:
    """The groups of a released table, with the values that their labels cover."""
    dictionaries: dict[str, Dictionary] = {}
    labels = [_read_labels(engine, name, original, dictionaries) for name in original.quasi]
    published = engine.schema().names
    hidden = [name for name in original.plain if name not in published]
    if hidden and BUCKET in published:
        raise DataError(
            f"the released table has no column {hidden[0]!r}, which a query asks for, but buckets. Give the table of sensitive "
            "values of the release: query_error(…, sensitive=…)."
        )
    plain = [_read_plain(engine, name, original.policy, dictionaries) for name in original.plain]
    names = [column for label in labels for column in label.columns]
    for table in _count_cells(engine.encode(dictionaries), names, plain):
        yield replace(table, one=_merge_pairs(table.one, labels, original))


def read_bucketed(engine: Engine, sensitive: Engine, original: Original) -> CountedTable:
    """The buckets of a bucketed table, with the shares of the sensitive values in each."""
    names = sensitive.schema().names
    for name in (BUCKET, COUNT):
        if name not in names:
            raise DataError(
                f"the table of sensitive values has no column {name!r}. Pass the sensitive table of the release."
            )
    hidden = [name for name in original.plain if name in names]
    dictionaries: dict[str, Dictionary] = {}
    bucket = _read_plain(engine, BUCKET, original.policy, dictionaries)
    labels = [_read_labels(engine, name, original, dictionaries) for name in original.quasi]
    open_columns = [n for n in original.plain if n not in names]
    plain = [_read_plain(engine, name, original.policy, dictionaries) for name in open_columns]
    listed = [column for label in labels for column in label.columns] + plain
    (one,) = (table.other for table in _count_cells(engine.encode(dictionaries), [bucket], listed, whole=True))
    counted: dict[str, Dictionary] = {}
    columns = [_read_plain(sensitive, name, original.policy, counted) for name in (BUCKET, COUNT, *hidden)]
    (found,) = _count_cells(sensitive.encode(counted), columns, [], whole=True)
    number = {label: i for i, label in enumerate(bucket.domain.values.tolist())}
    if number.keys() != set(columns[0].domain.values.tolist()):
        raise DataError("the two tables of the release have different buckets. Pass both tables of one release.")
    owner = np.array([number.get(label, -1) for label in columns[0].domain.values.tolist()], np.int64)
    numbers = np.array([_read_count(text) for text in columns[1].domain.values], np.float64)
    bucket_of = owner[found.one.codes[:, 0]]
    total = np.concatenate(([0.0], found.other.weight.cumsum()))[found.other.start]
    records = numbers[found.one.codes[:, 1]] * np.diff(total)
    order = np.argsort(bucket_of, kind="stable")[int((bucket_of < 0).sum()) :]
    size = np.bincount(bucket_of[order], records[order], minlength=bucket.size)
    start = np.searchsorted(bucket_of[order], np.arange(bucket.size + 1)).astype(np.int64)
    codes = np.ascontiguousarray(found.one.codes[order, 2:])
    other = CountedSide(tuple(columns[2:]), start, codes, records[order] / size[bucket_of[order]])
    return CountedTable(_merge_pairs(one, labels, original), other)


def _read_count(text: Any) -> float:
    number = None if text is None else parse_number(str(text))
    if number is None or number < 0:
        raise DataError(
            f"column {COUNT!r} of the table of sensitive values holds {text!r}. It must hold numbers of records."
        )
    return number


@dataclass(frozen=True)
class _Labels:
    """The published columns of a quasi-identifier, one or a pair of ends, with the function that restores their texts.

    ``without_ends`` is the label of a pair whose ends are both missing.
    """

    name: str
    columns: tuple[QueryColumn, ...]
    restore: Any
    without_ends: str | None

    def join(self, ends: Sequence[str | None]) -> str | None:
        """The label of the texts of the columns."""
        if len(ends) == 1:
            return ends[0]
        return self.without_ends if ends[0] is ends[1] is None else format_ends(*ends)


def _read_labels(engine: Engine, name: str, original: Original, dictionaries: dict[str, Dictionary]) -> _Labels:
    policy = original.policy
    names = policy.published_columns(engine.schema().names)[name]
    absent = [n for n in names if n not in engine.schema().names]
    if absent:
        raise DataError(
            f"the released table has no column {name!r}, which a query asks for. Pass the whole released table."
        )
    columns = tuple(_read_plain(engine, n, policy, dictionaries) for n in names)
    empty = min(dictionaries[n].distinct.missing for n in names)
    without_ends = None if empty <= original.count_missing(name) else ROOT
    return _Labels(name, columns, choose_restoring(engine, policy.quasi[name].kind), without_ends)


def _read_plain(engine: Engine, name: str, policy: Policy, dictionaries: dict[str, Dictionary]) -> QueryColumn:
    """A column whose values are published unchanged, or labels as texts."""
    if name not in engine.schema().names:
        raise DataError(f"the table has no column {name!r}, which a query asks for. Pass the whole table.")
    reading = policy.published_reading(name)
    column = encode_column(engine, name, reading, dictionaries)
    values = np.array([*column.labels, None], object)[:-1]
    return QueryColumn(_make_domain(name, reading, values, policy))


def _make_domain(name: str, reading: Reading, values: Any, policy: Policy, *, missing: bool = False) -> Domain:
    if reading.kind == "text":
        listed = np.array([*map(_as_text, values), None], object)
        values = listed if missing else listed[:-1]
    elif missing:
        values = np.append(np.asarray(values, np.float64), np.nan)
    normalize = policy.normalizer if reading.normalized else None
    return Domain(name, reading.kind, values, reading.missing, normalize)


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _merge_pairs(side: CountedSide, labels: Sequence[_Labels], original: Original) -> CountedSide:
    """Replace the published columns of the quasi-identifiers by one column of labels each; other columns stay behind them."""
    columns: list[QueryColumn] = []
    codes: list[Any] = []
    at = 0
    for label in labels:
        given = side.codes[:, at : at + len(label.columns)]
        number = number_combinations([given[:, c] for c in range(given.shape[1])], len(given))
        first = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
        first[number[::-1]] = np.arange(len(number))[::-1]
        tokens = original.policy.missing_texts  # other tools may publish these texts
        ends = [
            [_restore(column.domain.values[code], tokens, label.restore) for code in given[first, c]]
            for c, column in enumerate(label.columns)
        ]
        texts = [label.join(pair) for pair in zip(*ends, strict=True)]
        columns.append(_cover(label.name, texts, original))
        codes.append(number)
        at += len(label.columns)
    stacked = [*codes, *(side.codes[:, c] for c in range(at, side.codes.shape[1]))]
    matrix = np.stack(stacked, axis=1).astype(np.int32)
    return replace(side, columns=(*columns, *side.columns[at:]), codes=np.ascontiguousarray(matrix))


def _restore(text: str | None, tokens: Sequence[str], restore: Any) -> str | None:
    return None if text is None or text.strip() in tokens else restore(text)


def _cover(name: str, labels: Sequence[str | None], original: Original) -> QueryColumn:
    """The values of the domain that each label covers."""
    attribute, domain, position = original.attributes[name], original.domains[name], original.position[name]
    extra: dict[float, int] = {}
    covered: list[Int64Array] = []
    for label, values in zip(labels, read_values(attribute, labels, np.zeros(attribute.size, np.int64)), strict=True):
        codes = position[values]
        codes = np.sort(codes[codes >= 0])
        single = read_single(attribute, label) if not len(codes) and attribute.kind != "categorical" else None
        if single is not None:
            codes = np.array([len(domain.values) + extra.setdefault(single, len(extra))])
        covered.append(codes)
    if extra:
        domain = replace(domain, values=np.append(domain.values, list(extra)))
    return QueryColumn(domain, Runs.of(covered))


def _count_cells(
    engine: Engine, quasi: Sequence[QueryColumn], plain: Sequence[QueryColumn], *, whole: bool = False
) -> Iterator[CountedTable]:
    """The counted cells of encoded columns: one cell per combination on the one side, the plain columns on the other."""
    names = [c.name for c in quasi], [c.name for c in plain]
    partitions = [None] if whole else range(engine.partition(*names).partitions)
    for partition in partitions:
        counts = engine.count(*names, partition=partition)
        groups = len(counts.quasi)
        codes = np.ascontiguousarray(counts.quasi, np.int32).reshape(groups, len(quasi))
        one = CountedSide(tuple(quasi), np.arange(groups + 1), codes, np.ones(groups))
        start = np.asarray(counts.start, np.int64)
        inner = np.ascontiguousarray(counts.sensitive, np.int32).reshape(len(counts.size), len(plain))
        yield CountedTable(one, CountedSide(tuple(plain), start, inner, counts.size.astype(np.float64)))
