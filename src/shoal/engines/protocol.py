"""The seam between the methods and wherever the data live.

Above this room nobody knows a frame library. What crosses the seam is small: dictionaries of distinct values,
counted cells of integer codes, and a plan that says which group each cell goes to and what is written for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import DataError

ReadingKind = Literal["number", "date", "text"]
Format = Literal["csv", "parquet"]


def format_of(path: Path) -> Format:
    """The format that a file's name tells."""
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return "parquet"
    if suffix in (".csv", ".tsv", ".txt", ".gz"):
        return "csv"
    raise DataError(f"cannot tell the format of {path.name!r}; use a file that ends in .csv or .parquet")


def digest_of(path: Path) -> str:
    """The SHA-256 of what a file holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Reading:
    """How a column is to be understood: its kind, and the texts that stand for a missing value.

    Spaces around such a text do not count, unless the reading is ``exact``. With ``normalized``, values whose texts agree after
    `Normalizer` are one value.
    """

    kind: ReadingKind = "text"
    missing: tuple[str, ...] = ("",)
    exact: bool = False
    normalized: bool = False


AS_PUBLISHED = Reading(
    "text", ("",), exact=True
)  # as a stranger sees a published column: only what is empty is missing


@dataclass(frozen=True)
class Column:
    """A column made in memory: numbers, dates (datetime64[D]), or codes into ``categories`` (-1 is missing)."""

    values: NDArray[Any]
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Schema:
    """The names of the columns in their order, and the number of records."""

    names: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class Distinct:
    """The distinct values of a column in ascending order, how often each occurs, and how many are missing.

    ``values`` are float64 for numbers and dates (seconds since 1970-01-01), texts otherwise.
    """

    values: NDArray[Any]
    counts: Int64Array
    missing: int


@dataclass(frozen=True)
class Dictionary:
    """The code of every distinct value, in the order of ``distinct.values``, and of a missing one."""

    reading: Reading
    distinct: Distinct
    codes: Int32Array
    missing: int


@dataclass(frozen=True)
class Counts:
    """Distinct combinations of codes, sorted, each with the counts of its confidential values.

    Combination ``u`` owns the cells ``start[u]:start[u + 1]``. ``row`` gives the cell of every record where the
    engine can address records, and belongs to the engine that made it; ``partition`` is the part of the table that was counted.
    """

    quasi: Int32Array
    start: Int64Array
    sensitive: Int32Array
    size: Int64Array
    row: Int32Array | None = None
    partition: int = 0


@dataclass(frozen=True)
class Partitioning:
    """A first coarse cut of a table into parts, which are worked on one after another, as a tree over codes.

    Node n sends codes up to ``at[n]`` of the column with the number ``column[n]`` to the node ``left[n]``, others to
    ``right[n]``; where ``column[n]`` is -1 it is the part ``partition[n]``. Without a cut the whole table is the only part.
    ``folder`` is a place for what is learned of each part, so that it need not be held until the last; it is there as long
    as ``owner`` is.
    """

    column: Int32Array
    at: Int32Array
    left: Int32Array
    right: Int32Array
    partition: Int32Array
    folder: Path | None = None
    owner: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def whole(cls) -> Partitioning:
        """No cut."""
        return cls.listed(1)

    @classmethod
    def listed(cls, parts: int) -> Partitioning:
        """Parts without a word on where they lie."""
        nowhere = np.full(parts, -1, np.int32)
        return cls(nowhere, nowhere, nowhere, nowhere, np.arange(parts, dtype=np.int32))

    @property
    def partitions(self) -> int:
        """The number of parts."""
        return int(self.partition.max()) + 1


@dataclass(frozen=True)
class KeptColumn:
    """A released column that is the source's own, untouched."""

    name: str


@dataclass(frozen=True)
class GroupColumn:
    """A released column that is written per group: ``values[index[group]]``, where -1 is missing."""

    name: str
    values: NDArray[Any]
    index: Int32Array


@dataclass(frozen=True)
class KeyedOrder:
    """The order in which equal records are dealt to groups: by a keyed hash of the cell and of these columns.

    ``columns`` are those that are released as they are, and the policy's ``key``; ``cells`` has the hash of every counted cell.
    """

    hash: KeyedHash
    cells: UInt64Array
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Where every counted cell goes: entry ``p`` sends ``count[p]`` records of cell ``cell[p]`` to ``group[p]``.

    Entries are sorted by cell; group -1 is left out of the release. A cell with several entries is divided among them
    in the order that ``keyed_order`` gives its records, so that the result does not follow the order of the source and nobody
    without the secret can repeat it; where no cell is divided there is none.
    """

    counts: Counts
    cell: Int64Array
    group: Int32Array
    count: Int64Array
    columns: tuple[KeptColumn | GroupColumn, ...]
    keyed_order: KeyedOrder | None = None

    @property
    def order(self) -> KeyedOrder:
        """The order of the records of a cell that is divided."""
        if self.keyed_order is None:
            raise ValueError("a plan that divides cells needs the order in which their records are dealt to groups")
        return self.keyed_order


class Engine(Protocol):
    """What every home of data must offer; see ``memory.py`` for the plainest one."""

    @property
    def format(self) -> Format:
        """The format in which the data are written unless another is asked for."""
        ...

    def schema(self) -> Schema:
        """Names and number of records."""
        ...

    def distinct(self, column: str, reading: Reading) -> Distinct:
        """The distinct values of one column."""
        ...

    def prepare(self, readings: Mapping[str, Reading]) -> None:
        """Get ready to answer `distinct` for several columns, all at once."""
        ...

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> Engine:
        """The same data with codes beside the named columns.

        ``carry`` names the other columns that `apply` will ask for; without it nothing is to be applied.
        """
        ...

    def partition(self, quasi: Sequence[str], secret: Sequence[str] = (), *, least: int = 1) -> Partitioning:
        """The parts to count one by one, where the cells of the whole table are more than may be held at once.

        Every part has at least ``least`` records.
        """
        ...

    def count(self, quasi: Sequence[str], secret: Sequence[str] = (), *, part: int | None = None) -> Counts:
        """Counted cells over columns that were encoded, of all records or of one part of the division."""
        ...

    def batches(self, columns: Sequence[str], *, part: int | None = None) -> Iterator[Mapping[str, Any]]:
        """The columns as they stand, some records at a time, as Arrow arrays by name."""
        ...

    def apply(self, plans: Iterable[Plan]) -> Engine:
        """The released data; there is one plan for every part, and each is carried out before the next is asked for."""
        ...

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Write the data, in an order that depends on the content of the rows alone.

        What stands at ``path`` is a file, or a folder of files where the data came as one. Returns the number of cells that
        are written with an apostrophe before them, which only CSV needs: texts that a spreadsheet program would run as
        formulas (`text.escape_formula`). Without ``escape_formulas`` these are written as they are, but for those that
        begin with an apostrophe themselves. Opening a CSV file removes the apostrophes.
        """
        ...

    def reopen(self, path: Path) -> Engine:
        """A file or folder that was written, opened as these data were."""
        ...

    def fingerprint(self) -> str:
        """A digest of the rows as a multiset: the same for every order, engine and file format."""
        ...

    def frame(self) -> Any:
        """The data as the user's kind of frame."""
        ...
