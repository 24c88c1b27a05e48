"""How kernels are compiled: the two kinds of functions, bundles as arguments, and the folder of compiled code.

A function that Python calls is an `entry`. A function that only other kernels call is `inner`: it gets no wrapper for Python,
which saves a third of the time of the compiler.

Compiled code is kept in a folder whose name is a digest of all that it depends on: the sources of all kernels, the versions of
the compiler, the processor. The compiler itself looks at one source file only, and would go on with an old copy of an inner
function of another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.core.imputils import lower_getattr_generic
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import populate_array

from shoal.kernels import code_folder
from shoal.kernels.bundle import Bundle

WORD = ir.IntType(64)


def entry(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that Python calls, at its first call."""
    return _compile(function, {"no_cfunc_wrapper": True, **options})


def inner(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that only kernels call, together with the first of them. Python cannot call it."""
    return _compile(function, {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, **options})


def _compile(function: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
    def decorate(function: Callable[..., Any]) -> Any:
        with _use_code_folder():
            compiled = numba.njit(cache=True, nogil=True, **options)(function)
        if "no_cpython_wrapper" in options and isinstance(compiled, CPUDispatcher):
            compiled.__class__ = _InnerFunction
        return compiled

    return decorate if function is None else decorate(function)


class _InnerFunction(CPUDispatcher):
    """A compiled function without a wrapper for Python. A call from Python would end the process."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError(
            f"{self.py_func.__qualname__} is an inner kernel, which Python cannot call. Declare it as `entry`."
        )


@cache
def describe_compiler() -> str:
    """All that compiled code depends on beside the sources: the compiler, its options, and the processor."""
    features = llvmlite.binding.get_host_cpu_features().flatten()
    options = (config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT, config.LOOP_VECTORIZE)  # type: ignore[attr-defined]
    parts = (numba.__version__, llvmlite.__version__, llvmlite.binding.get_process_triple())
    return repr((*parts, llvmlite.binding.get_host_cpu_name(), features, *map(str, options)))


def find_code_folder() -> Path:
    """The folder of compiled kernels."""
    return code_folder.find(config.CACHE_DIR, describe_compiler())  # type: ignore[attr-defined]


@contextmanager
def _use_code_folder() -> Iterator[None]:
    """Let the compiler keep the functions that are declared here in our folder; other packages keep theirs elsewhere."""
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(find_code_folder())  # type: ignore[attr-defined]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


class BundleType(types.Type):
    """The type of a `Bundle`: the names and types of its fields, and the place of each among its words."""

    def __init__(self, label: str, members: tuple[tuple[str, types.Type], ...]) -> None:
        self.members = members
        self.places: dict[str, tuple[int, types.Type]] = {}
        place = 0
        for name, kind in members:
            self.places[name] = place, kind
            place += 1 + 2 * kind.ndim if isinstance(kind, types.Array) else 1
        digest = hashlib.sha256(repr(members).encode()).hexdigest()
        super().__init__(name=f"{label}_{digest[:10]}")  # short: it is a part of the name of every compiled function


@register_model(BundleType)
class _BundleModel(models.PrimitiveModel):
    """A bundle is the address of its words."""

    def __init__(self, manager: Any, kind: BundleType) -> None:
        super().__init__(manager, kind, WORD.as_pointer())


@typeof_impl.register(Bundle)
def _find_type(bundle: Bundle, context: Any) -> BundleType:
    known = bundle.__dict__.get("_type")
    if known is None:
        members = tuple((field.name, _find_member_type(getattr(bundle, field.name))) for field in fields(bundle))
        known = bundle.__dict__["_type"] = BundleType(type(bundle).__name__, members)
    return known


def _find_member_type(value: Any) -> types.Type:
    """The type of a field. Numbers have one type each, and an array that is read-only the type of other arrays."""
    if isinstance(value, np.ndarray):
        return numba.typeof(value).copy(readonly=False)
    if isinstance(value, bool | np.bool_):
        return types.boolean
    if isinstance(value, int | np.integer):
        return types.int64
    return types.float64 if isinstance(value, float | np.floating) else numba.typeof(value)


@unbox(BundleType)
def _read_address(kind: BundleType, instance: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(instance, "_address")
    pointer = c.builder.inttoptr(c.pyapi.long_as_longlong(address), WORD.as_pointer())
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=c.pyapi.c_api_error())


@infer_getattr
class _BundleFields(AttributeTemplate):
    key = BundleType

    def generic_resolve(self, kind: BundleType, name: str) -> Any:  # type: ignore[override]
        return kind.places[name][1] if name in kind.places else None


@lower_getattr_generic(BundleType)
def _load_field(context: Any, builder: Any, kind: BundleType, words: Any, name: str) -> Any:
    """Read a field. The words do not change during a call, so a loop can read them before it begins."""
    place, member = kind.places[name]

    def load(at: int) -> Any:
        word = builder.load(builder.gep(words, [ir.Constant(WORD, at)]))
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word

    if isinstance(member, types.Array):
        return _load_array(context, builder, member, [load(place + i) for i in range(1 + 2 * member.ndim)])
    if isinstance(member, BundleType):
        return builder.inttoptr(load(place), WORD.as_pointer())
    if member is types.none:
        return context.get_dummy_value()
    if member is types.float64:
        return builder.bitcast(load(place), ir.DoubleType())
    return context.cast(builder, load(place), types.int64, member)


def _load_array(context: Any, builder: Any, kind: types.Array, words: list[Any]) -> Any:
    """A view of an array of a bundle. Python keeps the array alive during the call."""
    item = context.get_data_type(kind.dtype)
    size = context.get_constant(types.intp, context.get_abi_sizeof(item))
    shape, strides = words[1 : 1 + kind.ndim], words[1 + kind.ndim :]
    if kind.layout == "C":
        strides[-1] = size  # known to the compiler
    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(words[0], item.as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()
