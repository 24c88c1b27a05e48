"""The commands that print SQL: `shoal check --print-sql`, `shoal recoding sql` and `shoal dbt package`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal import sql
from shoal.cli.command_help import CommandGroup, PlainCommand
from shoal.cli.console import print_line
from shoal.engines import Resources, open_data
from shoal.errors import PolicyError, list_choices
from shoal.policy import Policy

recoding_app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help="Write recodings in another form.")
dbt_app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help="Tests of dbt.")

DialectOption = Annotated[
    str | None,
    typer.Option(
        "--dialect",
        help=f"SQL dialect: {', '.join(sql.DIALECTS)}.",
        autocompletion=lambda: list(sql.DIALECTS),
    ),
]


def print_check_query(
    policy: Policy, *, dialect: str | None, name: str | None, table: Path | str | None, records: bool
) -> None:
    """Print the query of a check; the columns of ``table`` decide which quasi-identifiers are two columns."""
    columns = None
    if table is not None:
        resources = Resources(table=name if isinstance(table, str) else None)  # a text is the address of a database
        columns = open_data(table, policy.with_conventions(resources)).schema().names
        if policy.unit_column is not None and policy.unit_column not in columns and not records:
            raise PolicyError(
                f"people cannot be counted: column {policy.unit_column!r} is not in the table. Accept a count of records with "
                "--records."
            )
    given = {} if name is None else {"table": name}
    typer.echo(
        sql.check_query(policy, dialect=require_dialect(dialect), columns=columns, records=records, **given) + ";"
    )


def require_dialect(dialect: str | None) -> str:
    """Return the dialect, or raise `PolicyError` if none is given."""
    if dialect is None:
        raise PolicyError(f"the SQL dialect is missing. Add --dialect; {list_choices('', tuple(sql.DIALECTS))}.")
    return dialect


@recoding_app.command("sql", cls=PlainCommand)
def print_recoding(
    recoding: Annotated[Path, typer.Argument(help="recoding.json in the owner folder of a release.")],
    dialect: DialectOption = None,
    table: Annotated[
        str,
        typer.Option("--table", help="Name of the original table, with its schema if needed, such as ward.patients."),
    ] = "patients",
    view: Annotated[
        str | None, typer.Option("--view", help="Name of a view to create (default: print a query).")
    ] = None,
) -> None:
    """Print RECODING as SQL: a query or a view that publishes a table as the release did.

    The SQL contains values from the data. It belongs to the owner: do not publish it. Only recodings of the kinds cut and boxes
    can be written as SQL. Records that the recoding suppresses or does not contain are left out. Check the result before you
    publish it.
    """
    typer.echo(sql.recoding_query(recoding, dialect=require_dialect(dialect), table=table, view=view) + ";")


@dbt_app.command("package", cls=PlainCommand)
def write_package(
    out_folder: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="New folder for the dbt package.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the files of an earlier package.")] = False,
) -> None:
    """Write a dbt package with the generic tests k_anonymity and l_diversity, for the adapters of all databases."""
    files = sql.write_dbt_package(out_folder, overwrite=force)
    print_line(f"{len(files)} files in {out_folder}")
