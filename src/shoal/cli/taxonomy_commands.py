"""`shoal taxonomy`: look at a tree, make one from a column, and hold one against a column."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.encoding.attributes import encode_attribute
from shoal.engines import Distinct, Reading, open_data
from shoal.errors import DataError, PolicyError, escape_invisible
from shoal.policy import Policy
from shoal.taxonomy import Taxonomy

app = typer.Typer(no_args_is_help=True, help="Look at trees of values, make them, and hold them against a column.")

SHOWN = 20
WAYS = ("--mask", "--date", "--widths", "--boundaries", "--balanced")

TableFile = Annotated[Path, typer.Argument(help="A CSV or Parquet file.")]
Column = Annotated[str, typer.Argument(help="A column of it.")]
Missing = Annotated[list[str] | None, typer.Option("--missing", help="A text for a missing value; may be repeated.")]


@app.command()
def show(file: Annotated[Path, typer.Argument(help="A tree, nested YAML or CSV with one row per leaf.")]) -> None:
    """Print the tree in FILE, how many leaves it has and how high it is."""
    tree = Taxonomy.load(file)
    for label, level in zip(tree.label, tree.level.tolist(), strict=True):
        typer.echo(f"{'  ' * level}{escape_invisible(str(label))}")
    typer.echo(f"\n{_count(tree.size, 'leaf', 'leaves')}, height {int(tree.height[0])}")


@app.command()
def make(
    table: TableFile,
    column: Column,
    mask: Annotated[str | None, typer.Option(help="Mask codes from the right or the left.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Parts of dates from fine to coarse, day first, as day,month,year.")
    ] = None,
    widths: Annotated[str | None, typer.Option(help="Widths of intervals from fine to coarse, as 5,10,20.")] = None,
    origin: Annotated[float | None, typer.Option(help="Where an interval begins; with --widths.")] = None,
    boundaries: Annotated[
        list[str] | None,
        typer.Option(
            help="Boundaries of intervals, as 18,30,65; repeat the option with fewer of them for coarser levels."
        ),
    ] = None,
    balanced: Annotated[
        int | None, typer.Option(help="Join neighbours into branches of even weight, so many each.")
    ] = None,
    numeric: Annotated[bool, typer.Option("--numeric", help="The column holds numbers; with --balanced.")] = False,
    missing: Missing = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file to write, .yaml or .csv; else YAML is printed.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Make a tree from the values of COLUMN in TABLE, to mend by hand and to name under a policy's `taxonomy`.

    The tree holds every value of the column, and a policy that names a tree takes it into the release. A policy that says
    how the tree is made, as in `mask: right` or `widths: [5, 10]`, keeps the values at home.
    """
    given: dict[str, Any] = {
        "mask": mask,
        "date": date.split(",") if date is not None else None,
        "widths": widths.split(",") if widths is not None else None,
        "boundaries": [ends.split(",") for ends in boundaries] if boundaries else None,
        "balanced": balanced,
    }
    ways = [way for way in given if given[way] is not None]
    if len(ways) != 1:
        raise PolicyError(f"say how the tree is made, by one of {', '.join(WAYS)}")
    if out is not None:
        _refuse_file(out, table, force)
    more: dict[str, Any] = {} if origin is None else {"origin": origin}
    more |= {"kind": "numeric"} if numeric else {}
    policy = Policy(quasi={column: {ways[0]: given[ways[0]], **more}}, missing=_missing(missing))
    reading = policy.raw_reading(column)
    attribute, _ = encode_attribute(column, policy.quasi[column], _distinct(table, column, reading), reading)
    tree = attribute.taxonomy
    assert tree is not None  # noqa: S101
    if out is None:
        typer.echo(tree.to_yaml(), nl=False)
        return
    tree.save(out)
    leaves = tree.size - (attribute.missing >= 0)
    typer.echo(f"{escape_invisible(str(out))}: {_count(leaves, 'leaf', 'leaves')}, height {int(tree.height[0])}")


@app.command()
def check(
    tree: Annotated[Path, typer.Argument(help="A tree, nested YAML or CSV with one row per leaf.")],
    table: TableFile,
    column: Column,
    missing: Missing = None,
) -> None:
    """List the values of COLUMN that the tree misses, and its leaves that no record has; exit 1 where values are missed."""
    found = Taxonomy.load(tree)
    distinct = _distinct(table, column, Reading("text", _missing(missing)))
    counts = {str(v): int(n) for v, n in zip(distinct.values, distinct.counts, strict=True)}
    missed = [f"{value} ({_count(n, 'record')})" for value, n in counts.items() if value not in found.code]
    unused = [leaf for leaf in found.code if leaf not in counts]
    _list(f"{_count(len(missed), 'value')} that the tree misses", missed)
    _list(f"{_count(len(unused), 'leaf', 'leaves')} that no record has", unused)
    raise typer.Exit(1 if missed else 0)


def _distinct(table: Path, column: str, reading: Reading) -> Distinct:
    distinct = open_data(table).distinct(column, reading)
    if not len(distinct.values):
        raise DataError(f"column {column!r} holds no values")
    return distinct


def _missing(given: list[str] | None) -> tuple[str, ...]:
    return tuple(given) if given else ("",)


def _refuse_file(out: Path, table: Path, force: bool) -> None:
    if out.suffix.lower() not in (".yaml", ".yml", ".csv"):
        raise PolicyError(f"--out {str(out)!r} must end in .yaml or .csv")
    if out.resolve() == table.resolve():
        raise PolicyError(f"--out would overwrite {str(out)!r}, which is read; choose another file")
    if out.exists() and not force:
        raise PolicyError(f"{str(out)!r} is there already; choose another file, or overwrite it with --force")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _list(head: str, lines: list[str]) -> None:
    typer.echo(head + (":" if lines else ""))
    for line in lines[:SHOWN]:
        typer.echo(f"  {escape_invisible(line)}")
    if len(lines) > SHOWN:
        typer.echo(f"  and {len(lines) - SHOWN} more")
