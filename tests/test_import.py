"""What `import shoal` and short commands load, and that every public name is there."""

from __future__ import annotations

import pickle
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import shoal

FRAMES = ("pandas", "polars", "pyarrow", "narwhals", "duckdb", "pyspark", "ibis")
COMPILER = ("numba", "llvmlite")
MODELS = ("sklearn", "skops", "scipy")
TERMINAL = ("typer", "rich")
HEAVY = (*FRAMES, *COMPILER, *MODELS, *TERMINAL)
LAZY = ("shoal", "shoal.cli", "shoal.datasets", "shoal.measures", "shoal.tables")  # packages that import names on use
POLICY = "quasi:\n  age: numeric\nrequire:\n  - k-anonymity: 2\n"
COMMAND = "import sys; sys.argv = {!r}; from shoal.cli import main\ntry: main()\nexcept SystemExit: pass"


def find_loaded(program: str, names: tuple[str, ...], folder: Path | None = None) -> list[str]:
    """The modules among ``names`` that are loaded after a program in a process of its own."""
    report = f"\nimport sys\nprint()\nprint(*(name for name in {names!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program + report], capture_output=True, text=True, check=True, cwd=folder
    )
    return done.stdout.splitlines()[-1].split()


def command(*arguments: str) -> str:
    return COMMAND.format(["shoal", *arguments])


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("import shoal", (*HEAVY, "numpy", "pydantic", "yaml")),
        ("import shoal; shoal.ShoalError, dir(shoal), shoal.__version__", (*HEAVY, "numpy", "pydantic", "yaml")),
        (command("--version"), (*HEAVY, "numpy", "pydantic", "yaml", "shoal.cli.command_tree")),
        (f"import shoal; shoal.Policy.parse({POLICY!r}), shoal.Taxonomy, shoal.Certificate", HEAVY),
        ("import shoal; shoal.tables.METHODS.names()", (*HEAVY, "shoal.tables.mondrian")),
        ("import shoal; shoal.tables.Mondrian, shoal.anonymize", (*HEAVY, "shoal.tables.kmember", "shoal.datasets")),
        ("import shoal; shoal.datasets.hospital", (*HEAVY, "ssl", "shoal.datasets.uci_adult")),
        (command("--help"), (*FRAMES, *COMPILER, *MODELS, "shoal.tables.mondrian")),
    ],
    ids=["import", "errors", "version", "policy", "methods", "one method", "hospital", "help"],
)
def test_nothing_is_loaded_in_advance(program: str, unwanted: tuple[str, ...]) -> None:
    assert find_loaded(program, unwanted) == []


def test_a_run_on_a_file_loads_one_method_and_no_model(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("age\n" + "\n".join(map(str, range(20, 40))) + "\n", encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    unwanted = ("polars", "duckdb", "pyspark", "ibis", "sklearn", "skops", "shoal.models", "shoal.datasets")
    check = command("check", "table.csv", "-p", "policy.yaml")
    assert find_loaded(check, (*unwanted, "shoal.tables.mondrian"), tmp_path) == []
    anonymize = command("anonymize", "table.csv", "-p", "policy.yaml", "--out", "out")
    watched = (*unwanted, "shoal.tables.mondrian", "shoal.tables.kmember")
    assert find_loaded(anonymize, watched, tmp_path) == ["shoal.tables.mondrian"]
    assert (tmp_path / "out" / "table.csv").is_file()


@pytest.mark.parametrize("name", shoal.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(shoal, name).__doc__


@pytest.mark.parametrize("package", LAZY)
def test_a_lazy_package_is_like_any_other(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    found: dict[str, object] = {}
    exec(f"from {package} import *", found)  # noqa: S102
    assert set(module.__all__) <= set(found)
    for name in module.__all__:
        value = found[name]
        assert getattr(module, name) is value
        if isinstance(value, type):
            assert pickle.loads(pickle.dumps(value)) is value  # noqa: S301
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize("package", LAZY)
def test_no_lazy_name_is_the_name_of_a_module(package: str) -> None:
    """The import of such a module would replace the public name."""
    module = import_module(package)
    modules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert {
        name
        for name in module.__all__
        if name in modules and getattr(module, name) is not sys.modules.get(f"{package}.{name}")
    } == set()


def test_every_subpackage_is_an_attribute() -> None:
    programs = {"cli", "spark", "lazy"}
    for found in pkgutil.iter_modules(shoal.__path__):
        if found.name not in programs:
            assert getattr(shoal, found.name).__name__ == f"shoal.{found.name}"


def test_registered_names_are_those_of_the_methods() -> None:
    assert {name: shoal.tables.METHODS.find(name).name for name in shoal.tables.BUILT_IN} == {
        name: name for name in shoal.tables.BUILT_IN
    }
