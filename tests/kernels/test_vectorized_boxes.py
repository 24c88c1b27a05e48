"""Boxes that are extended several codes at a time agree with plain loops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit

import shoal
from shoal.kernels import vectorized_boxes
from shoal.kernels.interface import STEP_BYTES
from shoal.kernels.lane_code import lanes, stretch_by_lanes
from shoal.kernels.vectorized_boxes import PLAIN, choose_stretch, clear, stretch_plainly

Grow = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
KINDS = (np.uint8, np.uint16, np.int32)
RELEASE = """
import shoal
from shoal.kernels import vectorized_boxes

release = shoal.anonymize(shoal.datasets.hospital(600, seed=1), shoal.datasets.hospital_policy(k=5), seed=1)
print(vectorized_boxes.stretch.__name__, release.certificate.fingerprint)
"""


def compile_growth(stretch: Callable[..., bool]) -> Grow:
    """Extend the second of three boxes by rows, then by other boxes; ``grew`` tells for each whether the box grew."""

    @njit
    def grow(rows: np.ndarray, boxes: np.ndarray, grew: np.ndarray) -> np.ndarray:
        width = np.uint64(rows.shape[1])
        found = np.zeros(3 * 2 * rows.shape[1], rows.dtype)
        at = np.uint64(2) * width
        clear(found, at, width, np.iinfo(rows.dtype).max)
        for i in range(rows.shape[0]):
            grew[i] = stretch(found, at, width, rows.reshape(-1), np.uint64(i) * width, np.uint64(0))
        for i in range(boxes.shape[0]):
            place = np.uint64(2 * i) * width
            grew[rows.shape[0] + i] = stretch(found, at, width, boxes.reshape(-1), place, width)
        return found

    return grow


BY_LANES, PLAINLY = compile_growth(stretch_by_lanes), compile_growth(stretch_plainly)


@njit
def lanes_in(array: np.ndarray) -> int:
    return lanes(array)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_has_as_many_codes_as_fit(kind: type) -> None:
    assert lanes_in(np.zeros(0, kind)) * np.dtype(kind).itemsize == STEP_BYTES


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_lanes_and_plain_loops_agree(kind: type, data: st.DataObject) -> None:
    most = int(np.iinfo(kind).max)
    width = data.draw(st.integers(1, 4)) * STEP_BYTES // np.dtype(kind).itemsize
    codes = st.integers(0, most) | st.sampled_from([0, 1, most - 1, most])
    rows = data.draw(arrays(kind, (data.draw(st.integers(0, 8)), width), elements=codes))
    ends = data.draw(arrays(kind, (data.draw(st.integers(0, 4)), 2, width), elements=codes))
    low, high = ends.min(axis=1), ends.max(axis=1)
    boxes = np.concatenate([low, high], axis=1)
    grew, grew_plainly = np.zeros(len(rows) + len(boxes), bool), np.zeros(len(rows) + len(boxes), bool)
    found, expected = BY_LANES(rows, boxes, grew), PLAINLY(rows, boxes, grew_plainly)
    assert found.tolist() == expected.tolist()
    assert grew.tolist() == grew_plainly.tolist()
    empty = np.concatenate([np.full((1, width), most, kind), np.zeros((1, width), kind)], axis=1)
    lows = np.minimum.accumulate(np.concatenate([empty[:, :width], rows, low]))
    highs = np.maximum.accumulate(np.concatenate([empty[:, width:], rows, high]))
    outside = np.zeros(2 * width, kind).tolist()  # the boxes before and after are not touched
    assert found.tolist() == [*outside, *lows[-1].tolist(), *highs[-1].tolist(), *outside]
    assert grew.tolist() == ((lows[1:] != lows[:-1]) | (highs[1:] != highs[:-1])).any(axis=1).tolist()


def test_plain_loops_are_used_on_request_and_where_lanes_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vectorized_boxes.stretch is choose_stretch() is stretch_by_lanes
    with monkeypatch.context() as patch:
        patch.setenv(PLAIN, "1")
        assert choose_stretch() is stretch_plainly
    monkeypatch.setitem(sys.modules, "shoal.kernels.lane_code", None)  # the import fails
    assert choose_stretch() is stretch_plainly


def test_a_release_is_the_same_with_plain_loops() -> None:
    """Plain loops are compiled into a folder of their own, beside the ordinary ones."""
    release = shoal.anonymize(shoal.datasets.hospital(600, seed=1), shoal.datasets.hospital_policy(k=5), seed=1)
    environment = {**os.environ, PLAIN: "1"}
    run = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.split() == ["stretch_plainly", release.certificate.fingerprint]
