"""Kernels read the fields of bundles, and write into their arrays."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.kernels import compiler  # noqa: F401  (declares bundles to the compiler)
from shoal.kernels.bundle import Bundle


@dataclass(frozen=True, eq=False)
class Inside(Bundle):
    numbers: NDArray[Any]
    factor: float


@dataclass(frozen=True, eq=False)
class Outside(Bundle):
    matrix: NDArray[Any]
    inside: Inside
    count: int
    doubles: bool
    flags: NDArray[Any]


@numba.njit
def add_all(bundle):  # type: ignore[no-untyped-def]
    """Every field takes part in the result; the first number of the matrix is overwritten."""
    matrix, total = bundle.matrix, 0.0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            total += matrix[i, j]
    for i in range(bundle.inside.numbers.shape[0]):
        if bundle.flags[i]:
            total += bundle.inside.factor * bundle.inside.numbers[i]
    matrix[0, 0] = bundle.count
    return 2 * total if bundle.doubles else total


def make(matrix: NDArray[Any]) -> Outside:
    return Outside(matrix, Inside(np.array([3, 4, 5], np.int32), 0.5), 7, True, np.array([True, False, True]))


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint16, np.float64])
def test_a_kernel_reads_all_kinds_of_fields(kind: type) -> None:
    matrix = np.arange(6).reshape(2, 3).astype(kind)
    assert add_all(make(matrix)) == 2 * (15 + 0.5 * 8)
    assert matrix[0, 0] == 7


def test_arrays_with_other_strides() -> None:
    whole = np.arange(24).reshape(4, 6)
    assert add_all(make(whole[::2, 1::3])) == 2 * (1 + 4 + 13 + 16 + 4)
    assert add_all(make(np.asfortranarray(np.arange(6).reshape(2, 3)))) == 2 * 19


def test_numbers_and_arrays_have_one_type_each() -> None:
    one = make(np.zeros((1, 1), np.int64))
    frozen = np.zeros((1, 1), np.int64)
    frozen.flags.writeable = False
    other = replace(one, matrix=frozen, count=np.int32(3), doubles=np.bool_(False))
    assert numba.typeof(one) == numba.typeof(other)


def test_a_bundle_can_be_sent_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(make(np.ones((2, 2)))))  # noqa: S301
    assert add_all(sent) == 2 * (4 + 4)


def test_python_cannot_call_an_inner_kernel() -> None:
    with pytest.raises(TypeError, match="inner kernel"):
        from shoal.kernels import boxes

        boxes.interval_loss(0, 0, 0, np.zeros(1, np.int32), np.zeros(1))
