"""Methods that release a table, and the one registry that knows them."""

from __future__ import annotations

from shoal.errors import PolicyError, choices
from shoal.method import Method
from shoal.tables.bottom_up import BottomUpGeneralization
from shoal.tables.mondrian import Mondrian
from shoal.tables.tds import TopDownSpecialization

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Mondrian, TopDownSpecialization, BottomUpGeneralization)
}


def find_method(name: str) -> type[Method]:
    """A method by its short name, or an error that lists them."""
    if name not in METHODS:
        raise PolicyError(f"unknown method {name!r}; {choices(name, list(METHODS))}")
    return METHODS[name]


__all__ = ["METHODS", "BottomUpGeneralization", "Mondrian", "TopDownSpecialization", "find_method"]
