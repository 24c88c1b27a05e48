"""Registries of engines, methods, requirements and measures, which other packages extend by entry points.

A package adds an entry in its ``pyproject.toml``, under the entry point group of the registry::

    [project.entry-points."shoal.engines"]
    spark = "shoal_spark:SparkEngine"
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar, cast

from shoal.errors import PolicyError, ShoalError, list_choices

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name: the built-in entries, then the entries of other packages.

    Other packages are searched once per process, and only for a name that is not built in or for a list of all names. An entry
    of another package never replaces another entry: equal names are an error.

    Parameters
    ----------
    group : entry point group of the other packages
    noun : name of an entry in error texts
    built_in : built-in entries by name; a text such as ``"shoal.engines.memory:MemoryEngine"`` is imported on use
    base : class that an entry of another package must be a subclass or an instance of (default: not checked)

    Examples
    --------
    >>> engines = Registry[type]("shoal.doctest", "engine", {"memory": dict, "ordered": "collections:OrderedDict"})
    >>> engines.names()
    ['memory', 'ordered']
    >>> engines.find("ordered")
    <class 'collections.OrderedDict'>
    """

    def __init__(
        self, group: str, noun: str, built_in: Mapping[str, Entry | str], *, base: type[Any] | None = None
    ) -> None:
        self.group, self.noun, self.base = group, noun, base
        self._built_in = dict(built_in)

    def names(self) -> list[str]:
        """Return the built-in names in written order, then the names of other packages in alphabetical order."""
        return [*self._built_in, *self._entry_points]

    def find(self, name: str) -> Entry:
        """Return an entry by its name; raise a `PolicyError` with the choices if there is none."""
        if name in tuple(self._built_in):  # a tuple, because users may give objects that cannot be hashed
            return self._load_built_in(name)
        if name not in self.names():
            raise PolicyError(f"unknown {self.noun} {name!r}; {list_choices(name, self.names())}")
        return self._load_entry_point(self._entry_points[name])

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over all entries in the order of `names`; other packages are searched after the built-in entries."""
        yield from map(self._load_built_in, self._built_in)
        yield from map(self._load_entry_point, self._entry_points.values())

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        """The entry points of other packages by name, in alphabetical order."""
        found: dict[str, EntryPoint] = {}
        for point in sorted(
            importlib.metadata.entry_points(group=self.group), key=lambda p: (p.name, _quote_package(p))
        ):
            if point.name in self._built_in:
                raise ShoalError(
                    f"the package {_quote_package(point)} adds the {self.noun} {point.name!r}, but Shoal has a built-in "
                    f"{self.noun} of this name. Uninstall the package, or rename the entry in its group {self.group!r}."
                )
            if point.name in found:
                packages = f"{_quote_package(found[point.name])} and {_quote_package(point)}"
                raise ShoalError(
                    f"the packages {packages} both add the {self.noun} {point.name!r}. Uninstall one of them, or rename its "
                    f"entry in the group {self.group!r}."
                )
            found[point.name] = point
        return found

    def _load_built_in(self, name: str) -> Entry:
        entry = self._built_in[name]
        return cast(Entry, resolve_name(entry)) if isinstance(entry, str) else entry

    def _load_entry_point(self, point: EntryPoint) -> Entry:
        source = f"the {self.noun} {point.name!r} of the package {_quote_package(point)}"
        try:
            entry = point.load()
        except Exception as error:  # the code of another package may raise anything
            raise ShoalError(
                f"cannot import {source} from {point.value!r} ({type(error).__name__}: {error}). Repair, update or uninstall "
                "the package."
            ) from error
        kind = entry if isinstance(entry, type) else type(entry)
        if self.base is not None and not issubclass(kind, self.base):
            raise ShoalError(
                f"{source} is {point.value!r}, which is neither a subclass nor an instance of {self.base.__name__}. Update "
                "or uninstall the package."
            )
        if getattr(entry, "name", point.name) != point.name:
            raise ShoalError(
                f"{source} calls itself {entry.name!r}. Its entry point and its attribute 'name' must be equal: update or "
                "uninstall the package."
            )
        return cast(Entry, entry)


def _quote_package(point: EntryPoint) -> str:
    """Return the quoted name of the package that declares an entry point."""
    return repr(point.dist.name if point.dist else "(unknown)")
