"""Registries: built-in entries, entries of other packages, and conflicts between them."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from shoal.errors import PolicyError, ShoalError
from shoal.registry import Registry

GROUP = "shoal.animals"


class Animal:
    name = "animal"


class Cat(Animal):
    name = "cat"


class Dog(Animal):
    name = "dog"


class Eel(Animal):
    name = "eel"


@dataclass(frozen=True)
class Package:
    """The distribution package of an entry point, as far as a registry reads it."""

    name: str


def point(name: str, value: str, package: str | None = "zoo") -> EntryPoint:
    made = EntryPoint(name, value, GROUP)
    vars(made)["dist"] = None if package is None else Package(package)
    return made


Install = Callable[..., list[str]]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Replace the installed entry points; returns the list of searched groups."""
    module: Any = ModuleType("zoo")
    module.Dog, module.Eel, module.fish, module.dog = Dog, Eel, 3, Dog()
    monkeypatch.setitem(sys.modules, "zoo", module)

    def replace(*points: EntryPoint) -> list[str]:
        searched: list[str] = []

        def entry_points(*, group: str) -> list[EntryPoint]:
            searched.append(group)
            return [p for p in points if p.group == group]

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
        return searched

    return replace


def animals(base: type[Any] | None = Animal) -> Registry[Any]:
    return Registry(GROUP, "animal", {"cat": Cat, "ant": "string:Template"}, base=base)


def test_built_in_names_do_not_search_other_packages(install: Install) -> None:
    searched = install(point("dog", "zoo:Dog"))
    registry = animals()
    assert registry.find("cat") is Cat
    assert registry.find("ant").__name__ == "Template"
    assert next(iter(registry)) is Cat
    assert searched == []


def test_a_lazy_entry_is_imported_on_use(install: Install) -> None:
    install()
    registry = Registry[Any](GROUP, "animal", {"gone": "shoal.no_such_module:Gone", "cat": Cat})
    assert registry.names() == ["gone", "cat"]
    assert registry.find("cat") is Cat
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.find("gone")


def test_other_packages_follow_the_built_in_entries_and_are_searched_once(install: Install) -> None:
    searched = install(point("eel", "zoo:Eel", "sea"), point("dog", "zoo:Dog"))
    registry = animals()
    assert registry.names() == ["cat", "ant", "dog", "eel"]
    assert [entry.__name__ for entry in registry] == ["Cat", "Template", "Dog", "Eel"]
    assert registry.find("dog") is Dog
    with pytest.raises(PolicyError):
        registry.find("cow")
    assert searched == [GROUP]


def test_an_unknown_name_is_an_error_with_all_choices(install: Install) -> None:
    install(point("dog", "zoo:Dog"))
    with pytest.raises(
        PolicyError, match=r"^unknown animal 'dgo'; choose from 'cat', 'ant', 'dog' \(did you mean 'dog'\?\)$"
    ):
        animals().find("dgo")
    wrong: Any = ["cat"]
    with pytest.raises(PolicyError, match="unknown animal"):
        animals().find(wrong)


def test_only_the_own_group_is_read(install: Install) -> None:
    install(EntryPoint("dog", "zoo:Dog", "shoal.plants"))
    assert animals().names() == ["cat", "ant"]


def test_a_built_in_entry_is_never_replaced(install: Install) -> None:
    install(point("cat", "zoo:Dog"))
    with pytest.raises(
        ShoalError, match=r"package 'zoo' adds the animal 'cat'.*built-in animal.*Uninstall.*'shoal\.animals'"
    ):
        animals().names()
    with pytest.raises(ShoalError, match="built-in"):
        list(animals())
    assert animals().find("cat") is Cat


@pytest.mark.parametrize("turned", [False, True], ids=["listed", "turned"])
def test_two_packages_with_one_name_are_an_error(install: Install, turned: bool) -> None:
    points = [point("dog", "zoo:Dog"), point("dog", "zoo:Eel", "sea")]
    install(*(points[::-1] if turned else points))
    with pytest.raises(ShoalError, match=r"packages 'sea' and 'zoo' both add the animal 'dog'\. Uninstall one"):
        animals().find("dog")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("shoal_no_such_package:Dog", "ModuleNotFoundError: No module named 'shoal_no_such_package'"),
        ("zoo:Cow", "AttributeError"),
    ],
)
def test_an_entry_that_cannot_be_imported_is_an_error(install: Install, value: str, reason: str) -> None:
    install(point("dog", value))
    registry = animals()
    assert registry.names() == ["cat", "ant", "dog"]
    for use in (lambda: registry.find("dog"), lambda: list(registry)):
        with pytest.raises(ShoalError, match="cannot import the animal 'dog' of the package 'zoo'") as caught:
            use()
        assert reason in str(caught.value)
        assert str(caught.value).endswith("Repair, update or uninstall the package.")
        assert caught.value.__cause__ is not None


def test_entries_are_subclasses_or_instances_of_the_base(install: Install) -> None:
    install(point("dog", "zoo:dog"), point("eel", "zoo:Eel"), point("fish", "zoo:fish"))
    registry = animals()
    assert isinstance(registry.find("dog"), Dog)
    assert registry.find("eel") is Eel
    with pytest.raises(ShoalError, match=r"the animal 'fish' of the package 'zoo' is 'zoo:fish', which is neither"):
        registry.find("fish")
    assert animals(base=None).find("fish") == 3


def test_an_entry_has_the_name_of_its_entry_point(install: Install) -> None:
    install(point("hound", "zoo:Dog", None))
    with pytest.raises(ShoalError, match=r"animal 'hound' of the package '\(unknown\)' calls itself 'dog'"):
        animals().find("hound")
