"""Escape and restore formulas in arrays of CSV texts; `formulas.escape_formula` states the rule.

Only values whose first byte is a sign are examined, each distinct value once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.formats.formulas import APOSTROPHE, DECIMAL, FORMULA, SIGNS


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are free text: not numbers, dates, times or booleans, which no spreadsheet program runs."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def escape_formulas(array: pa.Array, *, signs: bool = True) -> tuple[pa.Array, int]:
    """Put an apostrophe before each formula; return the texts and the number of formulas.

    Without ``signs``, only formulas that begin with an apostrophe get another one, so that `restore_formulas` is exact.

    >>> array, changed = escape_formulas(pa.array(["=1+1", "-5", "a", "'=1+1"]))
    >>> array.to_pylist(), changed
    (["'=1+1", '-5', 'a', "''=1+1"], 2)
    """
    return _edit(array, APOSTROPHE + SIGNS * signs, _add_apostrophe)


def restore_formulas(array: pa.Array) -> tuple[pa.Array, int]:
    """Remove the apostrophe before each formula; return the texts and the number of formulas.

    >>> restore_formulas(pa.array(["'=1+1", "'a", "''=1+1", "=1+1"]))[0].to_pylist()
    ['=1+1', "'a", "'=1+1", '=1+1']
    """
    return _edit(array, APOSTROPHE, _remove_apostrophe)


def _edit(array: pa.Array, first: str, change: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, int]:
    """Change the formulas that begin with one of the characters ``first``."""
    candidates = _find_candidates(array, first)
    if not len(candidates):
        return array, 0
    encoded = array.take(pa.array(candidates)).dictionary_encode()
    texts = encoded.dictionary
    is_formula = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, DECIMAL))
    changed = is_formula.take(encoded.indices).fill_null(False)
    rows = candidates[changed.to_numpy(zero_copy_only=False)]
    if not len(rows):
        return array, 0
    mask = np.zeros(len(array), bool)
    mask[rows] = True
    return pc.replace_with_mask(array, pa.array(mask), change(array.take(pa.array(rows)))), len(rows)


def _find_candidates(array: pa.Array, first: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the indexes of all values that begin with a character of ``first``, and of some null or empty values."""
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
