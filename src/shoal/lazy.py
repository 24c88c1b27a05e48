"""Packages whose public names are imported at their first use, so that a program loads only what it uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def import_on_use(
    package: str, names: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    The package imports the same names under ``TYPE_CHECKING``, for type checkers, editors, the reference pages and the test of
    the layers.

    Parameters
    ----------
    package : name of the package
    names : public names by the module that defines them
    modules : submodules that are attributes of the package without an import statement

    Examples
    --------
    >>> find, list_names = import_on_use("xml", {"xml.dom.minidom": ["parseString"]}, ["sax"])
    >>> find("parseString").__module__, find("sax").__name__
    ('xml.dom.minidom', 'xml.sax')
    >>> find("html")
    Traceback (most recent call last):
    AttributeError: module 'xml' has no attribute 'html'
    """
    sources = {name: module for module, listed in names.items() for name in listed}

    def find(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")  # the import sets the attribute of the package
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(sources[name]), name)
        setattr(sys.modules[package], name, value)  # so that the next use does not come here
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *sources, *modules})

    return find, list_names
