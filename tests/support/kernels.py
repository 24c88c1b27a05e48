"""Call inner kernels from tests."""

from __future__ import annotations

from typing import Any

import numba


def compile_inner(function: Any) -> Any:
    """A copy of an inner kernel that Python can call."""
    return numba.njit(function.py_func)
