"""Texts in CSV files that a spreadsheet program would run as formulas; see `text.escape_formula` for the rule.

The functions here do the same for arrays. Only values whose first byte is a sign are looked at, and each of them once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.formulas import APOSTROPHE, DECIMAL, FORMULA, SIGNS


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are free text: not numbers, dates, times or truth values, which no reader runs."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def escape_formulas(array: pa.Array, *, signs: bool = True) -> tuple[pa.Array, int]:
    """Texts with an apostrophe before each formula, and their number.

    Without ``signs`` only texts that begin with an apostrophe get another one, so that `restore_formulas` gives them back.

    >>> array, changed = escape_formulas(pa.array(["=1+1", "-5", "a", "'=1+1"]))
    >>> array.to_pylist(), changed
    (["'=1+1", '-5', 'a', "''=1+1"], 2)
    """
    return _edit(array, APOSTROPHE + SIGNS * signs, _add_apostrophe)


def restore_formulas(array: pa.Array) -> tuple[pa.Array, int]:
    """Texts without the apostrophe before each formula, and their number.

    >>> restore_formulas(pa.array(["'=1+1", "'a", "''=1+1", "=1+1"]))[0].to_pylist()
    ['=1+1', "'a", "'=1+1", '=1+1']
    """
    return _edit(array, APOSTROPHE, _remove_apostrophe)


def _edit(array: pa.Array, first: str, change: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, int]:
    """Change the formulas that begin with one of the characters ``first``."""
    candidates = _begin_with(array, first)
    if not len(candidates):
        return array, 0
    coded = array.take(pa.array(candidates)).dictionary_encode()
    found = coded.dictionary
    formula = pc.and_not(pc.match_substring_regex(found, FORMULA), pc.match_substring_regex(found, DECIMAL))
    changed = formula.take(coded.indices).fill_null(False)
    rows = candidates[changed.to_numpy(zero_copy_only=False)]
    if not len(rows):
        return array, 0
    place = np.zeros(len(array), bool)
    place[rows] = True
    return pc.replace_with_mask(array, pa.array(place), change(array.take(pa.array(rows)))), len(rows)


def _begin_with(array: pa.Array, first: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The places of values that may begin with one of some ASCII characters: all that do, and perhaps null or empty ones."""
    _, offsets, data = array.buffers()
    size = np.int64 if pa.types.is_large_string(array.type) else np.int32
    content = np.frombuffer(data or b"", np.uint8)
    if not len(content) or not len(array):
        return np.empty(0, np.int64)
    begin = np.frombuffer(offsets, size)[array.offset : array.offset + len(array)]
    wanted = np.isin(np.arange(256), list(first.encode("ascii")))
    return np.flatnonzero(wanted[content[np.minimum(begin, len(content) - 1)]])


def _add_apostrophe(array: pa.Array) -> pa.Array:
    apostrophe, nothing = (pa.scalar(text, array.type) for text in (APOSTROPHE, ""))
    return pc.binary_join_element_wise(apostrophe, array, nothing)


def _remove_apostrophe(array: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(array, 1)
