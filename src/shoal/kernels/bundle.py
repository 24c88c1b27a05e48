"""Arrays and numbers that kernels share under one name. This module does not load the compiler."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Bundle:
    """Named arrays, numbers and other bundles that a kernel gets as one pointer.

    A named tuple would pass every array of it, with seven fields each, from function to function, which takes most of the time
    of the compiler. A kernel reads a field from memory each time it names the field, so loops take their arrays from the bundle
    before they begin. Kernels cannot make, change or return bundles; they may write into the arrays.

    The fields are arrays, integers, truth values, floats and bundles. Its words describe them to the compiler (see
    `compiler.BundleType`): an array is its address, its shape and its strides in bytes; a bundle is the address of its words.
    """

    @cached_property
    def _words(self) -> NDArray[np.int64]:
        """The fields as 64-bit words, in their order."""
        return np.array([word for field in fields(self) for word in _list_words(getattr(self, field.name))], np.int64)

    @cached_property
    def _address(self) -> int:
        """The address of the words, which live as long as the bundle."""
        return int(self._words.ctypes.data)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: addresses have no meaning in another process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _list_words(value: Any) -> list[int]:
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape, *value.strides]
    if isinstance(value, Bundle):
        return [value._address]
    if isinstance(value, float | np.floating):
        return [int(np.float64(value).view(np.int64))]
    return [int(value)]
