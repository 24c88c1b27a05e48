"""The ways to run the contract tests, from the registries: nothing that is registered is left out.

A way is a method with one of its declared examples of parameters; see `shoal.pipeline.method.Method`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import pytest

import shoal
from shoal.engines import ENGINES
from shoal.pipeline.method import BucketingMethod, GroupingMethod, Need, RandomizingMethod
from shoal.recoding.group_labels import AVERAGES
from shoal.requirements import REQUIREMENTS
from shoal.tables import METHODS

__all__ = ["AVERAGES", "Way"]

Way = tuple[str, dict[str, Any]]

SERVERS = ("spark", "ibis")  # engines that need Java or a database server
SOME = shoal.Policy(
    quasi={"age": {"kind": "numeric", "balanced": 3}},
    sensitive=["ill"],
    target="ill",
    truly_sensitive={"ill": ["flu"]},
    require=[shoal.KAnonymity(3)],
)


def list_methods(family: type[Any]) -> list[str]:
    """The names of the registered methods of a family."""
    return [method.name for method in METHODS if issubclass(method, family)]


def list_ways(*, labels: bool = False) -> list[Way]:
    """Every grouping method with every example of its parameters; with ``labels``, those that publish labels write them."""
    ways: list[Way] = []
    for method in METHODS:
        for example in method.examples if issubclass(method, GroupingMethod) else ():
            way = (method.name, dict(example))
            if labels and evidence(method.name) == "table":
                way = (method.name, write_as(way, "label"))
            if way not in ways:
                ways.append(way)
    return ways


def list_unwritten() -> list[Way]:
    """Every grouping method with every example, but without the parameter for the way of writing."""
    ways: list[Way] = []
    for method, example in list_ways():
        way = (method, {name: value for name, value in example.items() if name != "write"})
        if way not in ways:
            ways.append(way)
    return ways


def allows_style(row: Mapping[str, Any]) -> bool:
    """Whether the way of a row of `cover_pairs` allows its way of writing, as far as both are known."""
    return not {"way", "style"} <= {*row} or row["style"] in list_styles(row["way"][0])


def write_as(way: Way, style: str) -> dict[str, Any]:
    """The parameters of a way that writes in this style; ``write`` is left out where it is the default."""
    return way[1] if writes(way) == style else {**way[1], "write": style}


def list_labelled() -> list[Way]:
    """The ways whose releases are tables of labels that show the groups."""
    return [way for way in list_ways(labels=True) if evidence(way[0]) == "table"]


def list_hidden() -> list[Way]:
    """The ways whose releases do not show the groups, such as synthetic records."""
    return [way for way in list_ways() if evidence(way[0]) != "table"]


def writes(way: Way) -> str:
    """How a way writes generalized values."""
    return str(METHODS.find(way[0])(SOME, **way[1]).write)


def evidence(method: str) -> str:
    """What the certificate of a method is based on."""
    kind = METHODS.find(method)
    return kind(SOME).publication().evidence if issubclass(kind, GroupingMethod) else "operator"


def list_needs(method: str, parameters: Mapping[str, Any]) -> frozenset[Need]:
    """What a method needs of a policy for these parameters."""
    return METHODS.find(method).list_needs(parameters)


def list_styles(method: str) -> list[str]:
    """The ways of writing that a method allows."""
    return list(METHODS.find(method).styles)


def list_requirements(of: str, *, tested_on: tuple[str, ...] = ("table",)) -> list[Any]:
    """The examples of every registered requirement, on the sensitive column ``of``."""
    found = []
    for kind in REQUIREMENTS:
        assert kind.examples, f"the requirement {kind.name!r} has no examples for the tests"
        if kind.tested_on in tested_on:
            column = {"of": of} if "of" in [field.name for field in fields(kind)] else {}
            found += [kind(**example, **column) for example in kind.examples]
    return found


def list_engines() -> list[str]:
    """The registered engines that need no server, the engine in memory first."""
    return [name for name in ENGINES.names() if name not in SERVERS]


def list_server_engines() -> list[str]:
    """The registered engines that need a server; their tests have the mark `engines`."""
    return [name for name in ENGINES.names() if name in SERVERS]


def list_randomizing() -> list[str]:
    """The randomizing methods."""
    return list_methods(RandomizingMethod)


def list_bucketing() -> list[str]:
    """The methods that publish buckets."""
    return list_methods(BucketingMethod)


def each_of(ways: Sequence[Way]) -> pytest.MarkDecorator:
    """Run a test with every one of these ways."""
    return pytest.mark.parametrize(("method", "parameters"), ways, ids=str)
