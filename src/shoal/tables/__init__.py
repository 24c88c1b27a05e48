"""The methods that anonymize a table, and their registry."""

from __future__ import annotations

from shoal.errors import PolicyError, list_choices
from shoal.pipeline.method import Method
from shoal.tables.bottom_up import BottomUpGeneralization
from shoal.tables.condensation import Condensation
from shoal.tables.kmember import KMember
from shoal.tables.knn import KNearest
from shoal.tables.mdav import MDAV
from shoal.tables.mondrian import Mondrian
from shoal.tables.top_down import TopDownSpecialization

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (Mondrian, TopDownSpecialization, BottomUpGeneralization, KMember, KNearest, Condensation, MDAV)
}


def find_method(name: str) -> type[Method]:
    """The method with this short name, or an error that lists the names."""
    if name not in METHODS:
        raise PolicyError(f"unknown method {name!r}; {list_choices(name, list(METHODS))}")
    return METHODS[name]


__all__ = [
    "MDAV",
    "METHODS",
    "BottomUpGeneralization",
    "Condensation",
    "KMember",
    "KNearest",
    "Mondrian",
    "TopDownSpecialization",
    "find_method",
]
