"""Any predictor as cells: its outputs for every combination of public values in a table and of possible private values.

Private values are those of the table. Every combination is predicted, so the number of predictions is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import Int64Array
from shoal.engines.raw_columns import RawColumns
from shoal.errors import DataError, list_some
from shoal.formats.numbers import format_number
from shoal.kernels.combinations import sort_combinations
from shoal.mining.read_cells import ReadCells
from shoal.spans import CellSets, Knowledge, collect_pairs

MOST_PREDICTIONS = 20_000_000
BATCH = 200_000
SHOWN = 3  # digits of probabilities in words
DIGITS = 12  # of probabilities; smaller differences are rounding

Predict = Callable[
    [Mapping[str, Int64Array]], NDArray[Any]
]  # from a record for each column and row to an output for each row


@dataclass
class _Outputs:
    """The cells so far: the number of every output, and its words."""

    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def number(self, found: NDArray[Any]) -> Int64Array:
        """The number of every output; rows of an array of probabilities are one output."""
        plain = found.reshape(len(found), -1)
        if plain.dtype.kind == "f":
            plain = np.round(plain, DIGITS) + 0.0
        distinct, inverse = np.unique(
            plain.astype(str) if plain.dtype.kind == "O" else plain, axis=0, return_inverse=True
        )
        number = np.empty(len(distinct), np.int64)
        for i, row in enumerate(distinct):
            key = tuple(row.tolist())
            number[i] = self.numbers.setdefault(key, len(self.names))
            if number[i] == len(self.names):
                shown = [format_number(float(f"{v:.{SHOWN}g}")) if isinstance(v, float) else str(v) for v in key]
                self.names.append(shown[0] if len(shown) == 1 else f"({', '.join(shown)})")
        return np.asarray(number[inverse.ravel()], np.int64)


def read_outputs(raw: RawColumns, columns: Sequence[str], predict: Predict) -> ReadCells:
    """Read a predictor over the columns that it uses.

    ``predict`` gives the outputs for inputs that are taken from records, by column: classes, or rows of probabilities.
    """
    coded = {name: raw.factorize(name) for name in columns}
    rows = len(raw.data)
    outputs = _Outputs()
    cell = outputs.number(predict({name: np.arange(rows) for name in columns}))

    def find_cell_sets(knowledge: Knowledge) -> CellSets:
        public = [name for name in columns if name in knowledge.columns]
        hidden = [name for name in columns if name not in knowledge.columns]
        combination, order, start = sort_combinations([coded[name][0] for name in public], rows)
        sample = order[start].astype(np.int64)
        choices = [len(coded[name][1]) for name in hidden]
        each = math.prod(choices)
        _refuse_large(len(sample), each, hidden)
        step = max(BATCH // each, 1)
        found_rows, found_cells = [], []
        for begin in range(0, len(sample), step):
            part = sample[begin : begin + step]
            inputs = {name: np.repeat(part, each) for name in public}
            for name, digit in zip(hidden, _list_digits(choices), strict=True):
                inputs[name] = np.tile(coded[name][1][digit], len(part))
            number = outputs.number(predict({name: inputs[name] for name in columns}))
            found_rows.append(np.repeat(np.arange(begin, begin + len(part)), each))
            found_cells.append(number)
        joined = np.concatenate(found_rows), np.concatenate(found_cells)
        return collect_pairs(*joined, combination, knowledge, outputs.names, "prediction")

    return ReadCells(tuple(columns), cell, len(outputs.names), find_cell_sets, "outputs")


def _list_digits(choices: Sequence[int]) -> list[Int64Array]:
    """The number of each column's value in every combination of values."""
    each = math.prod(choices)
    found, block = [], each
    for size in choices:
        block //= size
        found.append(np.arange(each) // block % size)
    return found


def _refuse_large(public: int, hidden: int, names: Sequence[str]) -> None:
    if public * hidden > MOST_PREDICTIONS:
        raise DataError(
            f"the audit needs {public * hidden:,} predictions: {public:,} combinations of public values, each with {hidden:,} "
            f"combinations of the values of {list_some(names)}. At most {MOST_PREDICTIONS:,} are made. Round the values of "
            "these columns, fit the model on fewer columns, or pass fewer records."
        )


@dataclass(frozen=True)
class PredictionTable:
    """The outputs of a model of any language, as a table: one row for every combination of inputs.

    ``inputs`` and ``outputs`` are columns of the table. Values are compared as texts, numbers by value.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: Mapping[tuple[str, ...], int]
    values: NDArray[Any]

    @classmethod
    def of(cls, raw: RawColumns, inputs: Sequence[str]) -> PredictionTable:
        """Read a table; all columns that are no inputs are outputs."""
        names = raw.data.columns
        absent = [name for name in inputs if name not in names]
        if absent:
            raise DataError(
                f"the table of predictions lacks columns of the policy: {list_some(absent)}. Add them, or remove them from the "
                "policy."
            )
        outputs = [name for name in names if name not in inputs]
        if not outputs:
            raise DataError("the table of predictions has no column with predictions beside the inputs. Add one.")
        keys = list(zip(*([write_key(v) for v in raw.list_all(name)] for name in inputs), strict=True))
        columns = [raw.list_all(name) for name in outputs]
        values = np.array([[write_key(v) for v in row] for row in zip(*columns, strict=True)], object)
        rows: dict[tuple[str, ...], int] = {}
        for i, key in enumerate(keys):
            first = rows.setdefault(key, i)
            if first != i and (values[first] != values[i]).any():
                raise DataError(
                    f"the table of predictions has two different predictions for the same inputs: {', '.join(key)}. Keep one."
                )
        return cls(tuple(inputs), tuple(outputs), rows, values)

    def look_up(self, frame: RawColumns) -> NDArray[Any]:
        """The outputs for the inputs of a frame; `DataError` if a combination is absent."""
        columns = []
        for name in self.inputs:
            code, first = frame.factorize(name)
            columns.append(np.array([write_key(v) for v in frame.list_values(name, first)], object)[code])
        keys = list(zip(*(c.tolist() for c in columns), strict=True))
        found = [self.rows.get(key, -1) for key in keys]
        if -1 in found:
            example = ", ".join(f"{n} = {v}" for n, v in zip(self.inputs, keys[found.index(-1)], strict=True))
            raise DataError(
                f"the table of predictions lacks {found.count(-1):,} of {len(found):,} combinations that the audit needs, such "
                f"as {example}. Add a row for every combination of public values in the table and of private values."
            )
        outputs: NDArray[Any] = self.values[found]
        return outputs


def write_key(value: Any) -> str:
    """A value as a text by which tables are compared: 1, 1.0 and '1' are equal, missing values are empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(value)
    if isinstance(value, (int, float, np.number)):
        return format_number(float(value))
    text = str(value).strip()
    try:
        return format_number(float(text))
    except ValueError:
        return text
