"""The commands `shoal taxonomy show`, `make` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.command_help import CommandGroup, PlainCommand
from shoal.encoding.attributes import encode_attribute
from shoal.engines import Distinct, Reading, open_data
from shoal.errors import DataError, PolicyError, escape_invisible
from shoal.formats.numbers import format_count, format_number
from shoal.policy import Policy
from shoal.requirements.requirement import parse_real_number
from shoal.taxonomy import Taxonomy, Widths, parse_tree_builder

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help="Show, make and check taxonomies.")

MOST_LISTED = 20  # values that a list shows at most
BUILDERS = ("--mask", "--date", "--widths", "--boundaries", "--balanced")

TableFile = Annotated[Path, typer.Argument(help="CSV or Parquet file.")]
Column = Annotated[str, typer.Argument(help="Column of TABLE.")]
TaxonomyFile = Annotated[
    Path, typer.Argument(help="Taxonomy file: nested YAML, or CSV with one row per leaf and one column per level.")
]
MissingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--missing", help="Text of a missing value (default: the empty text). Repeat the option for more texts."
    ),
]


@app.command(cls=PlainCommand)
def show(file: TaxonomyFile) -> None:
    """Print the taxonomy in FILE, its number of leaves and its height in levels."""
    tree = Taxonomy.load(file)
    for label, level in zip(tree.label, tree.level.tolist(), strict=True):
        typer.echo(f"{'  ' * level}{escape_invisible(str(label))}")
    typer.echo(f"\n{format_count(tree.size, 'leaf', 'leaves')}, height {int(tree.height[0])}")


@app.command(cls=PlainCommand)
def make(
    table: TableFile,
    column: Column,
    mask: Annotated[
        str | None, typer.Option(help="Side from which the characters of codes are masked one by one: right or left.")
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Units of dates from fine to coarse, beginning with day, such as day,month,year.")
    ] = None,
    widths: Annotated[
        str | None,
        typer.Option(help="Widths of intervals from fine to coarse, in units of the column, such as 5,10,20."),
    ] = None,
    origin: Annotated[
        float | None, typer.Option(help="With --widths: number at which an interval begins (default: 0).")
    ] = None,
    boundaries: Annotated[
        list[str] | None,
        typer.Option(
            help="Boundaries of intervals, in units of the column, such as 18,30,65. Repeat the option with fewer "
            "boundaries for coarser levels."
        ),
    ] = None,
    balanced: Annotated[
        int | None,
        typer.Option(
            help="Number of children per node, at least 2. Each child covers about the same number of records."
        ),
    ] = None,
    numeric: Annotated[bool, typer.Option("--numeric", help="With --balanced: the column contains numbers.")] = False,
    missing: MissingOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write, .yaml or .csv (default: print YAML to standard output)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Make a taxonomy from the values of COLUMN in TABLE.

    Edit the taxonomy and name its file in a policy under `taxonomy`.
    The first line marks the file as made from the data. Shoal does not publish a marked taxonomy.
    Without this line a release publishes the taxonomy, with every value of the column.
    A rule in the policy needs no file, for example `mask: right` or `widths: [5, 10]`.
    """
    rules: dict[str, Any] = {
        "mask": mask,
        "date": date.split(",") if date is not None else None,
        "widths": _parse_numbers("--widths", widths) if widths is not None else None,
        "boundaries": [_parse_numbers("--boundaries", ends) for ends in boundaries] if boundaries else None,
        "balanced": balanced,
    }
    chosen = [rule for rule in rules if rules[rule] is not None]
    if len(chosen) != 1:
        raise PolicyError(f"a taxonomy is made by one rule. Give exactly one of the options {', '.join(BUILDERS)}.")
    if out is not None:
        _refuse_file(out, table, force)
    rule: dict[str, Any] = {chosen[0]: rules[chosen[0]]}
    rule |= {} if origin is None else {"origin": origin}
    rule |= {"kind": "numeric"} if numeric else {}
    parse_tree_builder({"origin": 0.0, "numeric": numeric, **rule})  # its errors name no key of a policy
    try:
        policy = Policy(quasi={column: rule}, missing=_missing_texts(missing))
    except PolicyError as error:
        place = f"{'.'.join(('quasi', column))!r}: "
        raise PolicyError(str(error).removeprefix(place)) from None
    reading = policy.raw_reading(column)
    distinct = _read_distinct(table, column, reading)
    attribute, _ = encode_attribute(column, policy.quasi[column], distinct, reading)
    tree, builder = attribute.taxonomy, policy.quasi[column].tree_builder
    assert tree is not None  # noqa: S101
    if isinstance(builder, Widths) and len(distinct.values):  # a policy looks up the numbers in the tree of a file
        tree = Taxonomy.from_paths([[format_number(v), *builder.path(v)] for v in distinct.values], made=True)
    if out is None:
        typer.echo(tree.to_yaml(), nl=False)
        return
    tree.save(out)
    typer.echo(
        f"{escape_invisible(str(out))}: {format_count(len(tree.code), 'leaf', 'leaves')}, height {int(tree.height[0])}"
    )


@app.command(cls=PlainCommand)
def check(
    tree: TaxonomyFile,
    table: TableFile,
    column: Column,
    missing: MissingOption = None,
) -> None:
    """List the values of COLUMN that are not in the taxonomy, and the leaves of the taxonomy that no record has.

    Exit status 1 if a value is not in the taxonomy.
    """
    taxonomy = Taxonomy.load(tree)
    distinct = _read_distinct(table, column, Reading("text", _missing_texts(missing)))
    counts = {str(v): int(n) for v, n in zip(distinct.values, distinct.counts, strict=True)}
    absent = [f"{value} ({format_count(n, 'record')})" for value, n in counts.items() if value not in taxonomy.code]
    unused = [leaf for leaf in taxonomy.code if leaf not in counts]
    _print_list(f"{format_count(len(absent), 'value')} not in the taxonomy", absent)
    _print_list(f"{format_count(len(unused), 'leaf', 'leaves')} without records", unused)
    raise typer.Exit(1 if absent else 0)


def _read_distinct(table: Path, column: str, reading: Reading) -> Distinct:
    distinct = open_data(table).distinct(column, reading)
    if not len(distinct.values):
        raise DataError(f"column {column!r} contains no values, or only missing values. Choose another column.")
    return distinct


def _parse_numbers(option: str, text: str) -> list[float]:
    return [parse_real_number(part, f"{option}: each entry") for part in text.split(",")]


def _missing_texts(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(texts) if texts else ("",)


def _refuse_file(out: Path, table: Path, force: bool) -> None:
    if out.suffix.lower() not in (".yaml", ".yml", ".csv"):
        raise PolicyError(f"the file name {str(out)!r} of --out must end in .yaml or .csv. Choose another name.")
    if out.resolve() == table.resolve():
        raise PolicyError(f"--out would overwrite the input {str(out)!r}. Choose another file.")
    if out.exists() and not force:
        raise PolicyError(f"the file {str(out)!r} already exists. Choose another file, or overwrite it with --force.")


def _print_list(head: str, lines: list[str]) -> None:
    typer.echo(head + (":" if lines else ""))
    for line in lines[:MOST_LISTED]:
        typer.echo(f"  {escape_invisible(line)}")
    if len(lines) > MOST_LISTED:
        typer.echo(f"  and {len(lines) - MOST_LISTED} more")
