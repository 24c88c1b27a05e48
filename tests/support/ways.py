"""The ways to run the contract tests, from the registries: nothing that is registered is left out.

A method of another package runs with its defaults, and with the requirements' own examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

import shoal
from shoal.engines import ENGINES
from shoal.pipeline.method import BucketingMethod, GroupingMethod, RandomizingMethod
from shoal.recoding.group_labels import STYLES
from shoal.requirements import REQUIREMENTS
from shoal.tables import METHODS

Way = tuple[str, dict[str, Any]]

VARIANTS: dict[str, list[dict[str, Any]]] = {  # parameters of built-in methods that lead through other code
    "mondrian": [
        {"cut": "gain"},
        {"cut": "median"},
        {"cut": "median", "relaxed": True},
        {"cut": "target"},
        {"improve": True},
    ],
    "tds": [{}, {"split": "valid"}],
    "agglomerative": [{"direction": "bottom-up"}, {"direction": "top-down"}],
    "kmember": [{}, {"diversity": "equal"}],
    "condensation": [{"seed": 7}],
    "genetic": [{"population": 8, "generations": 4}],
    "annealing": [{"steps": 40}],
}
SEARCHES: dict[
    str, list[dict[str, Any]]
] = {  # further parameters that concern the search alone, the same in every engine
    "tds": [{"by": "gain"}, {"improve": True}],
    "bottom-up": [{"anonymity": "smallest"}],
    "optimal": [{"objective": "dm"}, {"objective": "entropy", "improve": True}],
    "k-optimize": [{"improve": True}],
    "peel": [
        {"exclusive": True},
        {"improve": True, "objective": "loss_mean"},
        {"step": 0.5, "tries": 1, "spend": True},
    ],
    "agglomerative": [{}, {"part": 5}],
    "kmember": [{"target_penalty": 0.5}, {"part": 5}, {"improve": True, "objective": "il"}],
}
SERVERS = ("spark", "ibis")  # engines that need Java or a database server
AVERAGES = ("mean", "median")
TREES = (
    "bottom-up",
    "tds",
    "optimal",
    "samarati",
    "datafly",
    "incognito",
    "k-optimize",
    "genetic",
    "annealing",
)  # one cut for the whole table: no group has a mean of its own
STARS = ("local-suppression",)  # single values or *, which are labels
SOME = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(3)])


def list_methods(family: type[Any]) -> list[str]:
    """The names of the registered methods of a family."""
    return [method.name for method in METHODS if issubclass(method, family)]


def evidence(method: str) -> str:
    """What the certificate of a method is based on."""
    kind = METHODS.find(method)
    return kind(SOME).publication().evidence if issubclass(kind, GroupingMethod) else "operator"


def list_ways(*, searches: bool = False) -> list[Way]:
    """Every grouping method with its parameters; ``searches`` adds those that concern the search alone."""
    more = SEARCHES if searches else {}
    names = list_methods(GroupingMethod)
    return [(name, given) for name in names for given in [*VARIANTS.get(name, [{}]), *more.get(name, [])]]


def list_styles(method: str) -> list[str]:
    """The ways of writing that a method allows."""
    if evidence(method) != "table" or method in STARS:
        return ["label"]
    return [style for style in STYLES if not (style in AVERAGES and method in TREES)]


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
