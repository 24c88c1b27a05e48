"""What `mkdocs build` makes from the project itself, so that it cannot go stale.

A line ``<!-- shoal: word -->`` in a page is replaced: by the help of every command, or by a reference entry for every
function, requirement, method, dataset or error that the package has. CONTRIBUTING and CHANGELOG become pages.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import shoal
from shoal.cli import app
from shoal.engines import ENGINES, Engine
from shoal.measures import Measure, built_in
from shoal.pipeline.method import BucketingMethod, GroupingMethod, RandomizingMethod
from shoal.requirements import REQUIREMENTS
from shoal.tables import METHODS

ROOT = Path(__file__).resolve().parents[2]
TAKEN = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
WIDTH = 80


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose source lies in the project's root."""
    for page, source in TAKEN.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what a marker asks for."""
    return re.sub(r"^<!-- shoal: (\w+) -->$", lambda found: MAKERS[found[1]](), markdown, flags=re.MULTILINE)


def commands() -> Iterator[tuple[str, str]]:
    """Every command and its help text, as `--help` says it, without the frames that a terminal draws."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, str]]:
        command.rich_markup_mode = None
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            command.main(["--help"], prog_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
        yield name, said.getvalue().strip()
        for below, part in getattr(command, "commands", {}).items():
            yield from walk(part, f"{name} {below}")

    yield from walk(typer.main.get_command(app), "shoal")


def _commands() -> str:
    return "\n\n".join(f"## `{name}` {{: #{name.replace(' ', '-')} }}\n\n```\n{text}\n```" for name, text in commands())


def _entries(names: list[str], room: str = "shoal") -> str:
    return "\n\n".join(f"::: {room}.{name}" for name in names)


def _measures(measures: tuple[Measure, ...]) -> str:
    """A table of measures from their registry."""
    rows = ["| key | meaning | counting rule | published |", "| --- | --- | --- | --- |"]
    rows += [f"| `{m.name}` | {m.meaning} | {m.rule} | {'yes' if m.public else 'no'} |" for m in measures]
    return "\n".join(rows)


ABILITIES = {  # by the operation that an engine implements itself
    "searches a large table in partitions": "partition",
    "searches partitions on its workers": "map_partitions",
    "writes the release to a table of the database": "write_table",
    "writes CSV files like the input (`--like-input`)": "write_like_input",
}


FAMILIES = (GroupingMethod, RandomizingMethod, BucketingMethod)  # the contract tests run each with every engine


def _list_methods(family: type[Any]) -> str:
    return ", ".join(f"`{method.name}`" for method in METHODS if issubclass(method, family))


def _engines() -> str:
    """A table of what each engine supports, from the registries of engines and methods that the contract tests use."""
    engines = [engine for engine in ENGINES if engine.__module__.startswith("shoal.")]
    rows = {f"the same release as in memory: {_list_methods(family)}": [True] * len(engines) for family in FAMILIES}
    rows["takes the limits `memory` and `combinations`"] = [engine.takes_limits for engine in engines]
    for ability, operation in ABILITIES.items():
        own = [getattr(engine, operation) is not getattr(Engine, operation) for engine in engines]
        rows[ability] = own
    head = f"| | {' | '.join(f'`{engine.name}`' for engine in engines)} |\n| --- |{' --- |' * len(engines)}\n"
    return head + "\n".join(f"| {row} | {' | '.join('yes' if y else 'no' for y in own)} |" for row, own in rows.items())


def _requirements() -> str:
    names = [kind.__name__ for kind in REQUIREMENTS]
    return "\n\n".join(_entries([n], "shoal" if n in shoal.__all__ else "shoal.requirements") for n in names)


def functions() -> list[str]:
    """The public functions."""
    public = ((name, getattr(shoal, name)) for name in shoal.__all__)
    return [name for name, thing in public if callable(thing) and not isinstance(thing, type)]


def errors() -> list[str]:
    """The public errors, the general one first."""
    public = ((name, getattr(shoal, name)) for name in shoal.__all__)
    found = [(name, thing) for name, thing in public if isinstance(thing, type) and issubclass(thing, Exception)]
    return [name for name, thing in sorted(found, key=lambda pair: len(pair[1].__mro__))]


MAKERS: dict[str, Callable[[], str]] = {
    "engines": _engines,
    "commands": _commands,
    "functions": lambda: _entries(functions()),
    "requirements": _requirements,
    "methods": lambda: _entries([kind.__name__ for kind in METHODS], "shoal.tables"),
    "measures_sizes": lambda: _measures((*built_in.SIZES, *built_in.RISKS, built_in.DOWNCODED, *built_in.ENDS)),
    "measures_sensitive": lambda: _measures(built_in.SENSITIVE),
    "measures_losses": lambda: _measures(
        (*built_in.LOSSES, built_in.IMPROVED, *built_in.STARS, built_in.DISCERNIBILITY, *built_in.TARGET)
    ),
    "measures_statistics": lambda: _measures(built_in.STATISTICS),
    "measures_randomized": lambda: _measures(built_in.RANDOMIZED),
    "measures_buckets": lambda: _measures((built_in.RECONSTRUCTION,)),
    "datasets": lambda: _entries(shoal.datasets.__all__, "shoal.datasets"),
    "errors": lambda: _entries(errors()),
}
