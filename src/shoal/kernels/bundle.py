"""Arrays and numbers that kernels share under one name. This module does not load the compiler."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Bundle:
    """Named arrays, numbers and other bundles that a kernel gets as one pointer.

    A named tuple would pass every array of it, with seven fields each, from function to function, which takes most of the time
    of the compiler. A kernel reads a field from memory each time it names the field, so loops take their arrays from the bundle
    before they begin. Kernels cannot make, change or return bundles; they may write into the arrays.

    The fields are arrays, integers, truth values, floats, bundles, and None for what a run does not use. Its words describe
    them to the compiler (see `compiler.BundleType`): an array is its address, its shape and its strides in bytes; a bundle is
    the address of its words.
    """

    def __post_init__(self) -> None:
        # At once, and not at the first use, because threads share bundles.
        words = np.array([word for field in fields(self) for word in _list_words(getattr(self, field.name))], np.int64)
        self.__dict__["_words"] = words
        self.__dict__["_address"] = int(words.ctypes.data)

    def __reduce__(self) -> tuple[Any, ...]:
        """Only the fields: addresses have no meaning in another process."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def _list_words(value: Any) -> list[int]:
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape, *value.strides]
    if isinstance(value, Bundle):
        return [value.__dict__["_address"]]
    if value is None:
        return [0]
    if isinstance(value, float | np.floating):
        return [int(np.float64(value).view(np.int64))]
    return [int(value)]
