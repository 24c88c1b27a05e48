"""The raw values of a column as a database groups them: their distinct values, and their codes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shoal.arrays import Int32Array, Int64Array
from shoal.engines import column_values
from shoal.engines.protocol import Dictionary, Distinct, Reading, TextFormat
from shoal.engines.sql.session import SqlSession
from shoal.formats.conventions import Conventions


@dataclass
class CodedColumn:
    """The codes of a column: ``codes[i]`` is the code of the raw value ``raw[i]``, and ``size`` the number of codes.

    ``is_stored``: the records hold these codes, so no table is needed.
    """

    raw: pa.Array
    codes: Int32Array
    size: int
    is_stored: bool = False
    _table: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, raw: pa.Array, index: Int32Array, dictionary: Dictionary, hidden: Dictionary | None) -> CodedColumn:
        """Code raw values; ``index`` is that of each among the dictionary's values, where -1 is missing.

        ``hidden`` is the dictionary of the codes that the records hold, if they do.
        """
        target = np.append(dictionary.codes, np.int32(dictionary.missing)).astype(np.int32)
        is_stored = hidden is not None and _has_same_codes(dictionary, hidden)
        return cls(raw, target[index], int(target.max(initial=0)) + 1, is_stored)

    @property
    def is_ambiguous(self) -> bool:
        """Whether several raw values have one code."""
        return bool(np.bincount(self.codes).max(initial=0) > 1)

    def decode(self, codes: Int32Array) -> pa.Array:
        """Return the raw values of codes, of which no two raw values have the same."""
        place = np.zeros(self.size, np.int64)
        place[self.codes] = np.arange(len(self.codes))
        return self.raw.take(pa.array(place[codes]))

    def table(self, session: SqlSession) -> str:
        """The name of a table of raw values and codes; it is created on first use."""
        if self._table is None:
            self._table = session.create_table("codes", pa.table({"raw": self.raw, "code": self.codes}))
        return self._table


def unify_raw_values(
    raw: pa.Array, records: Int64Array, column: str, reading: Reading, conventions: Conventions
) -> tuple[Distinct, Int32Array, TextFormat | None]:
    """Return the distinct values, the index of every raw value among them (-1: missing), and the format of their texts.

    ``records`` is the number of records of every raw value.
    """
    present = raw.is_valid().to_numpy(zero_copy_only=False)
    values, target, style = column_values.unify_values(raw.filter(pa.array(present)), column, reading, conventions)
    index = np.full(len(raw), -1, np.int32)
    index[present] = target
    tally = np.bincount(index + 1, records, minlength=len(values) + 1).astype(np.int64)
    return Distinct(values, tally[1:], int(tally[0])), index, style


def _has_same_codes(dictionary: Dictionary, hidden: Dictionary) -> bool:
    """Whether the values of a hidden column have the same codes again: none was suppressed, so none has another place."""
    return dictionary.missing == hidden.missing and np.array_equal(dictionary.codes, hidden.codes)
