"""Options of the commands of the program, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.engines import ENGINES, Conventions
from shoal.engines.database_urls import is_database_url
from shoal.errors import EngineError, PolicyError, list_choices
from shoal.policy import Policy
from shoal.progress import LOGS, JsonLog
from shoal.recoding import STYLES
from shoal.recoding.group_labels import ENDS
from shoal.tables import METHODS

FORMATS = ("csv", "parquet")

JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Write the certificate as JSON to this file (-: standard output).")
]
LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        envvar="SHOAL_LOG",
        help="Log the stages of the run on standard error: json (one JSON object per line).",
        autocompletion=lambda: list(LOGS),
    ),
]
PolicyFile = Annotated[Path, typer.Option("--policy", "-p", help="Policy file (YAML).")]
TableFile = Annotated[
    Path,
    typer.Argument(
        help="CSV, Parquet, Excel, SPSS, Stata or SAS file, folder of CSV or Parquet files, or .duckdb file with one table."
    ),
]


def parse_source(text: str) -> Path | str:
    """The path of a file, or the connection string of a database; a path would lose one of its slashes."""
    return text if is_database_url(text) else Path(text)


TableSource = Annotated[  # a `Path`, or a `str` for a database
    Any,
    typer.Argument(
        parser=parse_source,
        help="CSV, Parquet, Excel, SPSS, Stata or SAS file, folder of CSV or Parquet files, or .duckdb file with one table. "
        "Or a PostgreSQL database without a password, such as postgresql://USER@HOST/DATABASE; --table names its table, and "
        "PGPASSWORD, ~/.pgpass or a service file has the password.",
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option("--table", metavar="NAME", help="Table of the database: TABLE or SCHEMA.TABLE."),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="Delimiter of the CSV file, such as ';', '|' or tab (default: detected from the header).",
    ),
]
DecimalOption = Annotated[
    str | None,
    typer.Option("--decimal", help="Decimal separator of numbers: . or , (default: detected in each column)."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of the CSV file, such as cp1252, latin-1 or utf-16 (default: detected)."),
]
DatesOption = Annotated[
    str | None,
    typer.Option(
        "--dates", metavar="FORMAT", help="Format of dates, such as %d.%m.%Y (default: detected in each column)."
    ),
]
SheetOption = Annotated[
    str | None, typer.Option("--sheet", help="Name of the sheet of an Excel file (default: the first sheet).")
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Engine: memory, duckdb, spark, ibis (databases) or an engine of another package (default: memory for single "
        "files that fit into memory, otherwise duckdb; ibis for databases).",
        autocompletion=ENGINES.names,
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="Memory limit, such as 4GB. The engine duckdb writes data that exceed the limit to temporary files.",
    ),
]
EndsOption = Annotated[
    str | None,
    typer.Option(
        help=f"Ends of published ranges of numbers: {', '.join(ENDS)} (default: depends on the method).",
        autocompletion=lambda: list(ENDS),
    ),
]


def open_log(log: str | None) -> JsonLog | None:
    """The log of a run by the option --log; None without a log."""
    if log is not None and log not in LOGS:
        raise PolicyError(f"unknown log {log!r}; {list_choices(log, LOGS)}.")
    return None if log is None else JsonLog()


def parse_seed(text: str) -> int:
    """The seed of the option --seed."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"The seed is a whole number of at least 0, such as 42, not {text!r}.") from None


SeedOption = Annotated[
    int | None,
    typer.Option(
        parser=parse_seed,
        metavar="NUMBER",
        help="Secret seed of the release, a whole number; only for tests (default: from the operating system).",
    ),
]
SecretOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Owner folder of an earlier release whose secret seed is used again."),
]
FormulasOption = Annotated[
    bool,
    typer.Option(
        help="In CSV, write an apostrophe before texts that a spreadsheet program would run as formulas. Shoal removes "
        "the apostrophe when it reads the file.",
    ),
]
TempOption = Annotated[
    Path | None,
    typer.Option(
        "--temp",
        metavar="FOLDER",
        help="Folder for temporary files. They contain raw data and are removed at the end of the command.",
    ),
]


def refuse_overwriting(file: Path | None, *inputs: Path | str) -> None:
    """Raise `PolicyError` if the file of --json is one of the inputs; texts are databases."""
    if file is not None and file.resolve() in [path.resolve() for path in inputs if isinstance(path, Path)]:
        raise PolicyError(f"--json would overwrite the input {str(file)!r}. Choose another file.")


def write_file(path: Path, text: str) -> None:
    """Write a text file; `EngineError` if that is not possible."""
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"cannot write {str(path)!r}: {reason}. Choose another file.") from None


def name_conventions(*values: str | None) -> dict[str, str]:
    """The conventions that the options name, by their keys under ``read:``."""
    keys = ("delimiter", "decimal", "encoding", "dates", "sheet")
    return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


def override_read(policy: Policy, named: dict[str, str]) -> Policy:
    """The policy with the conventions that the options name instead of those under ``read:``."""
    if not named:
        return policy
    return policy.model_copy(update={"read": (policy.read or Conventions()).override(named)})


# Options of `shoal anonymize`.
OutOption = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FOLDER",
        help="Public folder of the release. OUT.owner gets the files that you must not publish.",
    ),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        "-p",
        help="Policy file (YAML). Default with --recoding: the policy in the folder of the recoding.",
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        help="Method (default: mondrian). `shoal methods` lists all methods.",
        autocompletion=METHODS.names,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Parameter of the method, such as --set cut=median or --set weights=age=2,zip=0.5. Repeat the option for more "
        "parameters.",
    ),
]
WriteOption = Annotated[
    str | None,
    typer.Option(
        help=f"Form of the published values: {', '.join(STYLES)} (default: depends on the method).",
        autocompletion=lambda: list(STYLES),
    ),
]
OutTableOption = Annotated[
    str | None,
    typer.Option(
        "--out-table",
        metavar="NAME",
        help="Write the released table to a new table of the database, TABLE or SCHEMA.TABLE, instead of a file.",
    ),
]
RangeTypesOption = Annotated[
    bool,
    typer.Option("--range-types", help="With --out-table: write ranges with the range types of PostgreSQL."),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        help="File format of the released table: csv or parquet (default: the format of TABLE).",
        autocompletion=lambda: list(FORMATS),
    ),
]
RecodingOption = Annotated[
    Path | None,
    typer.Option(
        help="recoding.json of an earlier release. TABLE contains only new rows; they are recoded in the same way and "
        "tested together with the rows released before."
    ),
]
NearestOption = Annotated[
    bool,
    typer.Option(
        "--nearest",
        help="With --recoding: put rows that no box contains into the nearest box. The labels of that box are not true "
        "for these rows.",
    ),
]
CombinationsOption = Annotated[
    int | None,
    typer.Option(
        help="Largest number of distinct combinations of values in memory. A table with more combinations is "
        "divided into partitions that are searched one after another (duckdb; default: derived from --memory)."
    ),
]
LikeInputOption = Annotated[
    bool,
    typer.Option(
        "--like-input",
        help="Write the released CSV file with the delimiter, encoding, decimals and dates of TABLE.",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Overwrite an earlier release. With the same policy, its secret is used again."),
]
ExplainOption = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Print the steps of the method (tds, bottom-up). The text contains raw values: do not publish it.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
