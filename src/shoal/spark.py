"""A job for `spark-submit`: ``python -m shoal.spark TABLE --policy policy.yaml --out release``.

TABLE is the name of a table in Spark's catalog, or the path or address of Parquet or CSV files that Spark reads. The options
and exit statuses are those of `shoal anonymize`. With ``--save-table`` the released rows also become a table of Spark.

`spark-submit` takes the file of this module: ``spark-submit --master … "$(python -m shoal.spark --file)" TABLE …``.
"""

from __future__ import annotations

import inspect
import secrets
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

import shoal
from shoal.cli import commands
from shoal.cli.command_help import PlainCommand
from shoal.cli.program import EXIT_STATUSES, run_program
from shoal.engines import open_data
from shoal.engines.spark.session import explain_error, find_session
from shoal.errors import DataError, EngineError, RequirementNotMet

TABLE_HELP = "Name of a table of Spark, or path or address of Parquet or CSV files that Spark reads."
SAVE_HELP = "Also save the released rows as a new table of Spark."
FILE_HELP = "Print the path of this program for spark-submit, and exit."
CSV = (".csv", ".tsv", ".txt", ".csv.gz")


def open_table(table: str, *, delimiter: str | None = None, encoding: str | None = None) -> Any:
    """Return the DataFrame of a table of Spark's catalog, or of files. All columns of CSV files are texts."""
    spark = find_session()
    with explain_error():
        if "/" not in table and not Path(table).exists():
            if not spark.catalog.tableExists(table):
                raise DataError(f"Spark's catalog has no table {table!r}, and there is no such file. Check the name.")
            return spark.table(table)
        if "://" not in table and not Path(table).exists():
            raise DataError(f"there is no file {table!r}. Check the path.")
        address = table if "://" in table else Path(table).absolute().as_uri()
        if table.lower().rstrip("/").endswith(CSV):
            given = {"sep": delimiter, "encoding": encoding}
            options = {name: value for name, value in given.items() if value is not None}
            return spark.read.options(header=True, escape='"', multiLine=True, **options).csv(address)
        return spark.read.parquet(address)


def save_table(release: shoal.Release, name: str) -> None:
    """Save the released rows as a new table: under another name first, and renamed if the rows are those that were audited."""
    spark = find_session()
    with explain_error():
        temporary = f"{name}_{secrets.token_hex(6)}"
        try:
            release.frame.write.saveAsTable(temporary)
            if open_data(spark.table(temporary)).fingerprint() != release.certificate.fingerprint:
                raise RequirementNotMet(
                    f"the rows of the table {name!r} differ from those that were audited, so it was removed. Run again; if the "
                    "error returns, check the storage of the table."
                )
            spark.sql(f"ALTER TABLE {temporary} RENAME TO {name}")
        except BaseException:
            spark.sql(f"DROP TABLE IF EXISTS {temporary}")
            raise


def _refuse_table(name: str) -> None:
    """Refuse a name that a new table cannot have, before the data are read."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise EngineError(f"--save-table needs the name of a table, such as clinic.released, not {name!r}.")
    with explain_error():
        if find_session().catalog.tableExists(name):
            raise EngineError(f"the table {name!r} already exists. Choose another name, or drop the table.")


def run_job(table: str, save_as: str | None, options: dict[str, Any]) -> None:
    """Anonymize a table with Spark, with the options of `shoal anonymize`."""
    if save_as is not None:
        if options["recoding"] is None:
            commands.refuse_several_tables(options["method"], options["set_"], "--save-table")
        _refuse_table(save_as)
    data = open_table(table, delimiter=options["delimiter"], encoding=options["encoding"])
    release = commands.anonymize(table=data, **options)
    if save_as is not None:
        save_table(release, save_as)


def _print_file(wanted: bool) -> None:
    if wanted:
        typer.echo(str(Path(__file__)))
        raise typer.Exit


def build_program() -> typer.Typer:
    """Build the program: one command with the options of `shoal anonymize`, and its own."""
    own = {
        "table": Annotated[str, typer.Argument(metavar="TABLE", help=TABLE_HELP)],
        "save_as": Annotated[str | None, typer.Option("--save-table", metavar="NAME", help=SAVE_HELP)],
        "file": Annotated[bool, typer.Option("--file", help=FILE_HELP, callback=_print_file, is_eager=True)],
    }
    hints = get_type_hints(commands.anonymize, include_extras=True) | own
    shared = [p for p in inspect.signature(commands.anonymize).parameters.values() if p.name not in own]

    def job(**given: Any) -> None:
        """Anonymize TABLE with Spark, check the release against the policy, and write it if every requirement holds."""
        del given["file"]
        run_job(given.pop("table"), given.pop("save_as"), given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("table", keyword, annotation=hints["table"]),
        *(p.replace(kind=keyword, annotation=hints[p.name]) for p in shared),
        inspect.Parameter("save_as", keyword, annotation=hints["save_as"], default=None),
        inspect.Parameter("file", keyword, annotation=hints["file"], default=False),
    ]
    job.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    job.__annotations__ = {p.name: p.annotation for p in parameters}
    statuses = [f"{status:d}: {text}" for status, text in EXIT_STATUSES.items()]
    program = typer.Typer(
        context_settings={"help_option_names": ["-h", "--help"]}, pretty_exceptions_enable=False, add_completion=False
    )
    program.command(cls=PlainCommand, epilog="\n\n".join(["Exit status:", *statuses]))(job)
    return program


def main() -> None:
    """Run the job and exit with its status."""
    run_program(lambda: build_program()(prog_name="python -m shoal.spark"))


if __name__ == "__main__":
    main()
