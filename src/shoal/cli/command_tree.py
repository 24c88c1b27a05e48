"""The commands of the program `shoal`."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import commands, model_commands, sql_commands, taxonomy_commands
from shoal.cli.command_help import CommandGroup, PlainCommand
from shoal.cli.program import EXIT_STATUSES, print_version

SUMMARY = "Anonymize personal data for release, and certify the privacy requirements that the release meets."


def _print_version(wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


def shoal_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options in front of the command; ``--version`` acts in its callback."""


app = typer.Typer(
    name="shoal",
    cls=CommandGroup,
    callback=shoal_options,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help=SUMMARY,
    epilog="\n\n".join(["Exit status:", *(f"{status:d}: {text}" for status, text in EXIT_STATUSES.items())]),
)
for command in (
    commands.anonymize,
    commands.check,
    commands.measure,
    commands.methods,
    commands.schema,
    commands.demo,
):
    app.command(cls=PlainCommand)(command)
app.command("audit-model", cls=PlainCommand)(model_commands.audit_model)
app.command("compile", cls=PlainCommand)(commands.compile_kernels)
app.add_typer(taxonomy_commands.app, name="taxonomy")
app.add_typer(sql_commands.recoding_app, name="recoding")
app.add_typer(sql_commands.dbt_app, name="dbt")
