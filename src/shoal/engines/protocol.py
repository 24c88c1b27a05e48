"""The interface between the methods and the engines that hold the data.

Code outside this package uses no frame library. It exchanges small objects with an engine: dictionaries of distinct values,
counted cells of integer codes, and a plan with the group of every cell and the published values of every group.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import DataError, PolicyError
from shoal.formats.conventions import Conventions

if TYPE_CHECKING:
    from shoal.engines.resources import Resources

KEY_LIMIT = 2**63  # codes are packed into keys below this number
NOT_COUNTED = (
    "the plan is for cells that this engine did not count. Count the encoded table, and plan for these counts."
)
ReadingKind = Literal["number", "date", "text"]
Format = Literal["csv", "parquet"]
FileKind = Literal["csv", "parquet", "excel", "statistics"]
SUFFIXES: dict[str, FileKind] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".gz"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
    **dict.fromkeys((".sav", ".zsav", ".dta", ".sas7bdat", ".xpt"), "statistics"),
}
SPREADSHEETS = (".xls", ".xlsb", ".ods")


def detect_kind(path: Path) -> FileKind:
    """Return the kind of a file by its suffix."""
    suffix = path.suffix.lower()
    if suffix in SPREADSHEETS:
        raise DataError(f"cannot read {path.name!r}: {suffix} files cannot be read. Save the table as .xlsx or as CSV.")
    if suffix not in SUFFIXES:
        *others, last = SUFFIXES
        raise DataError(
            f"cannot detect the format of {path.name!r} by its suffix. Use a file that ends in {', '.join(others)} or {last}."
        )
    return SUFFIXES[suffix]


def detect_format(path: Path) -> Format:
    """Return the format in which a table is written that was read from a file: CSV, except for Parquet files."""
    return "parquet" if detect_kind(path) == "parquet" else "csv"


def digest_file(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Reading:
    """How the values of a column are read: their kind, and the texts that mean a missing value.

    Spaces around these texts are ignored, except with ``exact``. With ``normalized``, values whose texts are equal after
    `Normalizer` are one value.
    """

    kind: ReadingKind = "text"
    missing: tuple[str, ...] = ("",)
    exact: bool = False
    normalized: bool = False


AS_PUBLISHED = Reading("text", ("",), exact=True)  # a published column: only empty values are missing


@dataclass(frozen=True)
class Detected:
    """How the source is written, as the user named it or as it was detected, and notes on what was detected."""

    conventions: Conventions = field(default_factory=Conventions)
    notes: tuple[str, ...] = ()


UNKNOWN = Detected()


class TextFormat(Protocol):
    """How the numbers or dates of a column are written in its source."""

    def render(self, text: str) -> str:
        """Return a published text as the source would write it: a single number or date; other texts unchanged."""
        ...

    def restore(self, text: str) -> str:
        """Return the published text that `render` changed."""
        ...


@dataclass(frozen=True)
class Column:
    """A column built in memory: numbers, dates (datetime64[D]), or codes into ``categories`` (-1 is missing)."""

    values: NDArray[Any]
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Schema:
    """The column names in order, and the number of records."""

    names: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class Distinct:
    """The distinct values of a column in ascending order, the count of each, and the number of missing values.

    ``values`` are float64 for numbers and dates (seconds since 1970-01-01), texts otherwise.
    """

    values: NDArray[Any]
    counts: Int64Array
    missing: int


@dataclass(frozen=True)
class ColumnSummary:
    """The number of distinct raw values of a column, the number of records that have one, and one of them.

    ``example`` is a text; for numbers, dates and other values it is ``0``.
    """

    values: int
    records: int
    example: str


@dataclass(frozen=True)
class Dictionary:
    """The code of every distinct value, in the order of ``distinct.values``, and the code of a missing value."""

    reading: Reading
    distinct: Distinct
    codes: Int32Array
    missing: int


@dataclass(frozen=True)
class Counts:
    """Distinct combinations of quasi-identifier codes, sorted, each with the counts of its sensitive values.

    Combination ``u`` owns the cells ``start[u]:start[u + 1]``. ``handle`` is how the engine that counted finds the records of
    the cells again, to apply a plan; no other code reads it. Counts without a handle cannot be applied.
    """

    quasi: Int32Array
    start: Int64Array
    sensitive: Int32Array
    size: Int64Array
    handle: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Partitioning:
    """A coarse split of a table into partitions that are searched one after another, as a tree over codes.

    Node n sends codes up to ``at[n]`` of the column with the number ``column[n]`` to the node ``left[n]``, others to
    ``right[n]``. Where ``column[n]`` is -1, node n is the partition ``partition[n]``. Without a split the whole table is the
    only partition. ``folder`` takes the recoding of each partition, which then need not be held in memory; it exists as long
    as ``owner`` does. ``most`` is the largest number of cells in memory (0: no limit is known), and
    ``memory`` the bytes for the cells and their search, unless the user limits the number of cells.
    """

    column: Int32Array
    at: Int32Array
    left: Int32Array
    right: Int32Array
    partition: Int32Array
    folder: Path | None = None
    owner: Any = field(default=None, repr=False, compare=False)
    most: int = 0
    memory: int = 0

    @classmethod
    def whole(cls) -> Partitioning:
        """The whole table as one partition."""
        return cls.without_tree(1)

    @classmethod
    def without_tree(cls, partitions: int) -> Partitioning:
        """A number of partitions, without the tree that assigns codes to them."""
        none = np.full(partitions, -1, np.int32)
        return cls(none, none, none, none, np.arange(partitions, dtype=np.int32))

    def limit_cells(self, bytes_of_cell: int) -> int:
        """The largest number of cells for a search that needs so many bytes for each; 0: no limit is known."""
        return min(self.most, max(self.memory // bytes_of_cell, 1)) if self.memory else self.most

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return int(self.partition.max()) + 1


@dataclass(frozen=True)
class UnchangedColumn:
    """A released column with the unchanged values of the source."""

    name: str


@dataclass(frozen=True)
class HiddenColumn(UnchangedColumn):
    """A column that only the audit reads: the person of every record. It has no influence on the order of the rows.

    The column is encoded or carried. An encoded column is read again as it was encoded. `Engine.without` removes the column
    before anything is released.
    """


@dataclass(frozen=True)
class GroupColumn:
    """A released column with one value per group: ``values[index[group]]``, where index -1 is missing."""

    name: str
    values: NDArray[Any]
    index: Int32Array


@dataclass(frozen=True)
class KeyedOrder:
    """The order in which the records of a divided cell are assigned to groups: by a keyed hash of the cell and of ``columns``.

    ``columns`` are the columns that are released unchanged, and the policy's ``key``. ``cells`` is the hash of every counted
    cell.
    """

    hash: KeyedHash
    cells: UInt64Array
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The group of every counted cell: entry ``p`` sends ``count[p]`` records of cell ``cell[p]`` to ``group[p]``.

    Entries are sorted by cell; records of group -1 are suppressed. A cell with several entries is divided among their groups
    in the order that ``keyed_order`` gives its records. The result is then independent of the order of the source, and cannot
    be repeated without the secret seed. ``keyed_order`` is None where no cell is divided.

    The rows of the result are in the order of the source, or with ``by_group`` in the order of the groups; then all columns are
    `GroupColumn`.
    """

    counts: Counts
    cell: Int64Array
    group: Int32Array
    count: Int64Array
    columns: tuple[UnchangedColumn | GroupColumn, ...]
    keyed_order: KeyedOrder | None = None
    by_group: bool = False

    @property
    def order(self) -> KeyedOrder:
        """The order of the records of divided cells."""
        if self.keyed_order is None:
            raise ValueError("A plan that divides cells needs a keyed_order, which assigns their records to groups.")
        return self.keyed_order


@dataclass(frozen=True)
class TargetTable:
    """A table that is created in a database.

    ``hash`` decides the order of the rows. ``overwrite``: replace a table of this name that Shoal wrote. ``ranges`` are
    columns of numbers and dates that get a range type of the database, if their labels are ranges.
    """

    name: str
    hash: KeyedHash
    overwrite: bool = False
    ranges: tuple[str, ...] = ()


def explain_no_database(target: TargetTable, engine: str) -> PolicyError:
    """The error for a table that is to be written in a database, where the source is in none."""
    return PolicyError(
        f"the released table cannot be written to the database table {target.name!r}, because the data are not in a database "
        f"(engine {engine!r}). Remove table (--out-table)."
    )


class WrittenTable(ABC):
    """A table that was written in a database and is not visible yet. Without `commit` it does not stay."""

    name: str
    """The name as recipients write it, with its schema."""

    engine: Engine
    """The table as it was read back."""

    fingerprint: str | None = None
    """The fingerprint of the table as recipients read it, if it differs from that of ``engine``."""

    @abstractmethod
    def commit(self) -> None:
        """Give the table its name, and make it visible."""

    @abstractmethod
    def abort(self) -> None:
        """Remove the table, if it is not visible yet."""


class Engine(ABC):
    """A table, and the operations that every engine must implement; ``memory.py`` is the simplest implementation.

    Other packages add engines by the entry point group ``shoal.engines``; see `shoal.registry`. An opened engine is recognized
    by this base class.
    """

    name: ClassVar[str]
    """The name for the parameter ``engine`` and in error texts."""

    takes_limits: ClassVar[bool] = False
    """Whether the engine respects the limits ``memory`` and ``combinations`` of `Resources`."""

    takes_table: ClassVar[bool] = False
    """Whether the engine opens the ``table`` of `Resources`, and writes tables in a database."""

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """Whether this engine opens data of this type where the user names no engine (default: only where it is named).

        The answer depends on a path or on the type of the data. Neither importing the library of the data nor reading an
        attribute of the data is allowed, because it could execute a query.
        """
        return False

    @classmethod
    @abstractmethod
    def open(cls, data: Any, resources: Resources) -> Engine:
        """Open data that a user gives."""

    @property
    @abstractmethod
    def format(self) -> Format:
        """The default format for writing the data."""

    @property
    def detected(self) -> Detected:
        """How the source is written (default: nothing is known)."""
        return UNKNOWN

    @abstractmethod
    def schema(self) -> Schema:
        """Return the column names and the number of records."""

    @abstractmethod
    def distinct(self, column: str, reading: Reading) -> Distinct:
        """Return the distinct values of one column."""

    def summarize(self, column: str) -> ColumnSummary:
        """Return a summary of the raw values of a column (default: from `distinct`). Engines may count faster."""
        distinct = self.distinct(column, AS_PUBLISHED)
        example = str(distinct.values[len(distinct.values) // 2]) if len(distinct.values) else ""
        return ColumnSummary(len(distinct.values), int(distinct.counts.sum()), example)

    def count_once(self, column: str) -> int:
        """Return the number of raw values of a column that occur once (default: from `distinct`). Engines may count faster."""
        return int((self.distinct(column, AS_PUBLISHED).counts == 1).sum())

    def holds_truth_values(self, column: str) -> bool:
        """Return whether the type of a column is that of truth values (default: no)."""
        return False

    def prepare(self, readings: Mapping[str, Reading]) -> None:  # noqa: B027  an engine need not prepare anything
        """Compute the distinct values of several columns in advance, for later calls of `distinct` (default: nothing)."""

    @abstractmethod
    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> Engine:
        """Return the same data with codes for the named columns.

        ``carry`` names the other columns that `apply` needs. Without it, the result can be counted but not released.
        """

    def partition(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, least: int = 1) -> Partitioning:
        """Split the table into partitions where it has more cells than the memory limit allows at once.

        Every partition has at least ``least`` records. Default: the whole table is one partition.
        """
        return Partitioning.whole()

    @abstractmethod
    def count(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, partition: int | None = None) -> Counts:
        """Count the cells of encoded columns, over all records or over one partition."""

    def map_partitions(
        self, search: Callable[[int, Counts], Any], quasi: Sequence[str], sensitive: Sequence[str], partitions: int
    ) -> Iterator[tuple[Counts, Any]]:
        """Count and search all partitions; yield the counts and the result of each, in the order of the partitions.

        ``search`` gets the number and the counts of a partition. Default: one partition after another, in this process. An
        engine may call ``search`` in other processes, on several partitions at a time: ``search``, its results and its errors
        can be pickled. An error of a partition is raised when its result would be yielded.
        """
        for number in range(partitions):
            counts = self.count(quasi, sensitive, partition=number)
            yield counts, search(number, counts)

    @abstractmethod
    def apply(self, plans: Iterable[Plan]) -> Engine:
        """Return the released data. There is one plan per partition; each is applied before the next is requested.

        The plans are for counts of this table, which may have been counted at any time and in any order.
        """

    @abstractmethod
    def without(self, columns: Sequence[str]) -> Engine:
        """Return the same rows, in the same order, without some columns."""

    @abstractmethod
    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Write the data in an order that depends only on the content of the rows.

        ``path`` becomes a file, or a folder of files where the source was a folder. In CSV files, texts that a spreadsheet
        program would run as formulas get an apostrophe in front (`formulas.escape_formula`). Without ``escape_formulas``, only
        formulas that already begin with an apostrophe get another one. Opening a CSV file removes the added apostrophes.
        Returns the number of cells that got an apostrophe.
        """

    def write_like_input(self, path: Path, *, escape_formulas: bool = True) -> tuple[int, Conventions]:
        """Write a CSV file as `write` does, with the delimiter, the encoding, the decimals and the dates of the source.

        Also return how the file is written. Default: like any CSV file.
        """
        return self.write(path, "csv", escape_formulas=escape_formulas), Conventions()

    def refuse_unwritable(self, target: TargetTable) -> None:
        """Raise an error if `write_table` cannot create the table, before anything is read (default: always)."""
        raise explain_no_database(target, self.name)

    def write_table(self, target: TargetTable) -> WrittenTable:
        """Write the data to a new table in the database of the source, in the order of a keyed hash of the rows.

        The table is not visible to others before `WrittenTable.commit`.
        """
        raise explain_no_database(target, self.name)

    @abstractmethod
    def reopen(self, path: Path, written: Conventions | None = None) -> Engine:
        """Open a file or folder that this engine wrote, with the same kind of engine.

        ``written``: the file was written by `write_like_input`, in this way. The values are again those of the engine.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of the rows as a multiset: the same for every row order, engine and file format."""

    @abstractmethod
    def frame(self) -> Any:
        """Return the data as the user's kind of frame."""
