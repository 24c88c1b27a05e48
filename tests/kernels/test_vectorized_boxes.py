"""Boxes that are extended several attributes at a time agree with plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from shoal.kernels.vectorized_boxes import clear, lanes, stretch


@njit
def boxed(rows: np.ndarray, box: np.ndarray) -> int:
    """Stretch an empty box row by row; how often it grew."""
    flat, width, grew = rows.reshape(-1), np.uint64(rows.shape[1]), 0
    clear(box)
    for i in range(rows.shape[0]):
        grew += stretch(box, np.uint64(0), width, flat, np.uint64(i) * width, np.uint64(0))
    return grew


@njit
def joined(boxes: np.ndarray, box: np.ndarray) -> None:
    """Stretch an empty box by other boxes."""
    flat, width = boxes.reshape(-1), np.uint64(boxes.shape[1] // 2)
    clear(box)
    for i in range(boxes.shape[0]):
        stretch(box, np.uint64(0), width, flat, np.uint64(2 * i) * width, width)


@njit
def lanes_in(array: np.ndarray) -> int:
    return lanes(array)


@pytest.mark.parametrize(("kind", "most"), [(np.uint16, 2**16), (np.int32, 2**31 - 1)])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_box_is_stretched_over_all_rows(kind: type, most: int, steps: int) -> None:
    width = steps * lanes_in(np.zeros(0, kind))
    rows = np.random.default_rng(0).integers(0, most, (50, width)).astype(kind)
    rows[:, 0], rows[:, -1] = 0, most - 1
    box = np.empty(2 * width, kind)
    grew = boxed(rows, box)
    assert box.tolist() == [*rows.min(axis=0).tolist(), *rows.max(axis=0).tolist()]
    low, high = np.minimum.accumulate(rows), np.maximum.accumulate(rows)
    assert grew == 1 + int(((low[1:] != low[:-1]) | (high[1:] != high[:-1])).any(axis=1).sum())
    boxes = np.concatenate([low[::7], high[::7]], axis=1)
    joined(boxes, box)
    assert box.tolist() == [*low[49].tolist(), *high[49].tolist()]
