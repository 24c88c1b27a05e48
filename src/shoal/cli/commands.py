"""The commands `shoal anonymize`, `check`, `measure`, `methods`, `schema` and `demo`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import shoal
from shoal.cli.console import (
    open_console,
    print_certificate,
    print_figures,
    print_folders,
    print_json,
    print_line,
    print_release,
    print_table,
    show_progress,
)
from shoal.cli.options import (
    FORMATS,
    CombinationsOption,
    DatesOption,
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    EndsOption,
    EngineOption,
    ExplainOption,
    ForceOption,
    FormatOption,
    FormulasOption,
    JsonOption,
    LikeInputOption,
    LogOption,
    MemoryOption,
    MethodOption,
    NearestOption,
    OutOption,
    OutTableOption,
    PolicyFile,
    PolicyOption,
    QuietOption,
    RangeTypesOption,
    RecodingOption,
    SecretOption,
    SeedOption,
    SetOption,
    SheetOption,
    TableOption,
    TableSource,
    TempOption,
    WriteOption,
    name_conventions,
    open_log,
    override_read,
    parse_source,
    refuse_overwriting,
    write_file,
)
from shoal.cli.sql_commands import DialectOption, print_check_query
from shoal.engines import Engine, TargetTable, open_data, parse_resources
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import escape_invisible, list_choices
from shoal.pipeline.method import list_constructor_parameters
from shoal.policy import Policy, policy_schema
from shoal.release import read_earlier_seed
from shoal.release.artifact import SaveOptions
from shoal.report.summary import INFORMATION_KEPT, MEASURE_HEADINGS, format_measures
from shoal.requirements.requirement import parse_share
from shoal.tables import METHODS

OPTIONS = {  # parameters of `shoal.anonymize` that are not parameters of the method
    "write": "--write",
    "seed": "--seed",
    "secret": "--secret",
    "policy": "--policy",
    "method": "--method",
    "data": "the argument TABLE",
    "progress": "--quiet",
    "engine": "--engine",
    "memory": "--memory",
    "combinations": "--combinations",
    "temp": "--temp",
    "recoding": "--recoding",
    "nearest": "--nearest",
    "table": "--table",
}


def anonymize(
    table: TableSource,
    out_folder: OutOption,
    policy: PolicyOption = None,
    method: MethodOption = None,
    set_: SetOption = None,
    write: WriteOption = None,
    table_name: TableOption = None,
    out_table: OutTableOption = None,
    range_types: RangeTypesOption = False,
    format: FormatOption = None,
    ends: EndsOption = None,
    seed: SeedOption = None,
    secret: SecretOption = None,
    recoding: RecodingOption = None,
    nearest: NearestOption = False,
    engine: EngineOption = None,
    memory: MemoryOption = None,
    combinations: CombinationsOption = None,
    temp: TempOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    sheet: SheetOption = None,
    like_input: LikeInputOption = False,
    escape_formulas: FormulasOption = True,
    force: ForceOption = False,
    explain: ExplainOption = False,
    log: LogOption = None,
    quiet: QuietOption = False,
) -> shoal.Release:
    """Anonymize TABLE, check the release against the policy, and write it if every requirement holds."""
    _refuse_folder(out_folder)
    if format is not None and format not in FORMATS:
        raise shoal.PolicyError(f"unknown format {format!r}; {list_choices(format, FORMATS)}")
    options = SaveOptions(format, escape_formulas, like_input, out_table, range_types)  # type: ignore[arg-type]
    if out_table is not None and recoding is None:
        refuse_several_tables(method, set_, "--out-table")
    lines = open_log(log)
    with show_progress(quiet=quiet, log=lines) as report:
        styles = {name: value for name, value in (("write", write), ("ends", ends)) if value is not None}
        parameters = _parse_parameters(set_ or []) | styles
        parameters |= {"seed": seed, "secret": secret, "recoding": recoding, "nearest": nearest}
        parameters |= {
            "engine": engine,
            "memory": memory,
            "combinations": combinations,
            "temp": temp or (_existing_parent(out_folder) if isinstance(table, Path) else None),
            "table": table_name,
        }
        if explain and parameters.get("improve") is True:
            raise shoal.PolicyError(
                "with improve=True there is no search path to explain: the local search changes the groups of the path. "
                "Remove --explain or improve=True."
            )
        named = name_conventions(delimiter, decimal, encoding, dates, sheet)
        loaded = _load_policy(policy, recoding, named)
        if force and loaded is not None and seed is None and secret is None and recoding is None:
            parameters["seed"] = read_earlier_seed(out_folder, loaded)
        if out_table is not None:
            table = _open_for_table(table, loaded, options, parameters, force=force)
        release = shoal.anonymize(table, loaded, method=method, progress=report, **parameters)
        steps = release.explain() if explain else ""  # raises for a method without steps, before anything is written
        release.save(out_folder, overwrite=force, **asdict(options))
    if lines is not None:
        certificate = release.certificate
        lines.write("released", rows=certificate.records, suppressed=certificate.suppressed, holds=certificate.holds)
    if not quiet:
        print_release(replace(release, certificate=replace(release.certificate, **_read_statement(out_folder))))
    if explain:
        print_line(f"\n{steps}")
    if not quiet:
        print_folders(out_folder, release)
        if out_table is not None:
            print_line(f"Public table in the database: {escape_invisible(out_table)}")
    return release


def refuse_several_tables(method: str | None, settings: list[str] | None, option: str) -> None:
    """Raise `PolicyError` if a release of a method with the arguments of --set is not one table, which ``option`` needs."""
    chosen = METHODS.find(method or "mondrian")
    if not chosen.publishes_one_table(_parse_parameters(settings or [])):
        raise shoal.PolicyError(
            f"the release of {chosen.name} is not one table, so {option} cannot write it to a table. Remove {option} to write "
            "files, or use another method. Nothing was read."
        )


def _open_for_table(
    table: Any, policy: Policy | None, options: SaveOptions, parameters: dict[str, Any], *, force: bool
) -> Engine:
    """Open the table, and refuse an output table that cannot be written before anything is read."""
    limits = {name: parameters.pop(name) for name in ("engine", "memory", "combinations", "temp", "table")}
    target = TargetTable(options.table or "", KeyedHash.of(0), overwrite=force)
    resources = replace(parse_resources(**limits), target=target)
    return open_data(table, resources if policy is None else policy.with_conventions(resources))


def check(
    policy: PolicyFile,
    table: Annotated[
        Any,
        typer.Argument(
            parser=parse_source,
            help="CSV or Parquet file, folder of such files, or PostgreSQL database with --table, from any tool.",
        ),
    ] = None,
    table_name: TableOption = None,
    json_: JsonOption = None,
    records: Annotated[
        bool,
        typer.Option("--records", help="Accept a count of records if the table does not have the unit of the policy."),
    ] = False,
    sensitive: Annotated[
        Path | None,
        typer.Option(help="Second table of a release in buckets (method anatomy): the sensitive values by bucket."),
    ] = None,
    engine: EngineOption = None,
    memory: MemoryOption = None,
    temp: TempOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    sheet: SheetOption = None,
    print_sql: Annotated[
        bool,
        typer.Option(
            "--print-sql",
            help="Print the SQL query that counts the violations in a table of a database, and exit. With TABLE, its columns "
            "decide whether a quasi-identifier is one column or two (age_lo, age_hi).",
        ),
    ] = False,
    dialect: DialectOption = None,
) -> None:
    """Test the published values of TABLE against the policy.

    Exit status 1 if a requirement does not hold, identifiers are present, or people cannot be counted.
    """
    named = name_conventions(delimiter, decimal, encoding, dates, sheet)
    loaded = override_read(Policy.load(policy), named)
    if print_sql:
        print_check_query(loaded, dialect=dialect, name=table_name, table=table, records=records)
        return
    if table is None:
        raise shoal.PolicyError(
            "the table is missing. Name its file, or print the query for a database with --print-sql."
        )
    if dialect is not None:
        raise shoal.PolicyError("--dialect needs --print-sql. Add --print-sql, or remove --dialect.")
    refuse_overwriting(json_, table, policy)
    certificate = shoal.check(
        table,
        loaded,
        records=records,
        sensitive=sensitive,
        engine=engine,
        memory=memory,
        temp=temp,
        table=table_name,
    )
    if json_ is not None and str(json_) == "-":
        print_json(certificate.to_json())
    else:
        if json_ is not None:
            write_file(json_, certificate.to_json() + "\n")
        print_certificate(certificate)
    raise typer.Exit(0 if certificate.publishable else 1)


def measure(
    original: Annotated[
        Any,
        typer.Argument(
            parser=parse_source,
            help="Original table: CSV or Parquet file, folder of such files, or PostgreSQL database with --table.",
        ),
    ],
    released: Annotated[
        Any,
        typer.Argument(
            parser=parse_source, help="Released table, from any tool. Or PostgreSQL database with --released-table."
        ),
    ],
    policy: PolicyFile,
    table_name: TableOption = None,
    released_table: Annotated[
        str | None,
        typer.Option("--released-table", metavar="NAME", help="Released table of the database: TABLE or SCHEMA.TABLE."),
    ] = None,
    threshold: Annotated[
        str,
        typer.Option(
            metavar="NUMBER",
            help="Risk from 0 to 1, or a percentage such as 20%. The measure risk_above is the share of records with a higher "
            "risk.",
        ),
    ] = "0.2",
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write the measures as JSON to this file (-: standard output).")
    ] = None,
    engine: EngineOption = None,
    memory: MemoryOption = None,
    temp: TempOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    dates: DatesOption = None,
    sheet: SheetOption = None,
) -> None:
    """Measure information loss and re-identification risk of a release against its original table.

    The options on delimiter, decimals, encoding, dates and sheet are for ORIGINAL.
    """
    refuse_overwriting(json_, original, released, policy)
    loaded = override_read(Policy.load(policy), name_conventions(delimiter, decimal, encoding, dates, sheet))
    risk = parse_share(threshold, "threshold")
    resources = parse_resources(engine, memory, temp=temp)
    table = open_data(original, loaded.with_conventions(replace(resources, table=table_name)))
    after = open_data(released, replace(resources, table=released_table))
    measures = shoal.measure(table, after, loaded, threshold=risk, engine=engine, memory=memory, temp=temp)
    text = json.dumps({**measures, "columns": measures.columns}, indent=2, ensure_ascii=False)
    if json_ is not None and str(json_) == "-":
        print_json(text)
        return
    if json_ is not None:
        write_file(json_, text + "\n")
    print_figures(MEASURE_HEADINGS, format_measures(measures, risk))
    print_figures(INFORMATION_KEPT, [(name, f"{1 - c['ncp']:.1%}") for name, c in measures.columns.items()])
    for note in table.detected.notes:
        print_line(f"Note: {note}")


def methods() -> None:
    """List the methods with their parameters and defaults."""
    rows = []
    for method in METHODS:
        parameters = list_constructor_parameters(method)
        defaults = [f"{n}={_show_default(p.default)}" for n, p in parameters.items() if n != "policy"]
        rows.append((method.name, method.summary, ", ".join(defaults)))
    print_table(("method", "description", "parameters and defaults"), rows)
    print_line(
        "\nSet a parameter with `shoal anonymize --set NAME=VALUE`. docs/reference/methods.md (`make docs`) explains them."
    )


def _show_default(default: object) -> str:
    return "automatic" if default is None else str(default)


def schema(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write (default, and -: standard output).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Print the JSON Schema of policy files. An editor can use this schema to complete and check policy files.

    Editors with the YAML language server read the schema named in the first line of the policy file:

    # yaml-language-server: $schema=policy.schema.json
    """
    text = json.dumps(policy_schema(), indent=2, ensure_ascii=False)
    if out is None or str(out) == "-":
        print_json(text)
        return
    if out.exists() and not force:
        raise shoal.PolicyError(
            f"the file {str(out)!r} already exists. Choose another file, or overwrite it with --force."
        )
    write_file(out, text + "\n")


def compile_kernels(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD]...",
            help="Methods to compile, 'improve' (the local search) or 'models' (default: all of them).",
        ),
    ] = None,
) -> None:
    """Compile searches in advance, on all cores. Otherwise each method compiles its search at its first use.

    Compiled code is kept in the folder of the package. If this folder is not writable, it is kept in the cache folder of the
    user. A new version of Shoal, of the compiler or of the processor needs a new compilation.
    """
    from shoal.cli import compilation  # here, since the other commands start no processes

    chosen = compilation.choose_names(names or [])
    seconds = compilation.estimate_seconds(chosen)
    if seconds:
        what = "all searches" if not names else ", ".join(chosen)
        print_line(f"Compiling {what}. This takes about {seconds:.0f} seconds on a quiet machine.")
    with show_progress() as report:
        seconds = compilation.compile_named(chosen, report)
    done = "All searches are compiled" if not names else f"Compiled: {', '.join(chosen)}"
    print_line(f"{done} ({seconds:.0f} s). Later runs start at once.")


def demo(
    rows: Annotated[int, typer.Option(help="Number of patients.")] = 50_000,
    k: Annotated[int, typer.Option(help="Smallest allowed group, in records.")] = 10,
    out_folder: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Public folder of the release. OUT.owner gets the files that you must not publish.",
        ),
    ] = Path("shoal-demo"),
) -> None:
    """Generate a hospital table, anonymize it, check it, and print its risks and the information kept."""
    _refuse_folder(out_folder)
    policy = shoal.datasets.hospital_policy(k)
    with show_progress() as report:
        patients = shoal.datasets.hospital(rows, kind="pyarrow")
        release = shoal.anonymize(patients, policy, seed=read_earlier_seed(out_folder, policy), progress=report)
        release.save(out_folder, overwrite=True)
    open_console().print(
        f"A generated hospital table with {rows:,} patients. In its release every patient shares the published "
        f"quasi-identifiers with at least {k - 1} others."
    )
    before = shoal.check(patients, policy)
    small = before.findings[0].failing_records
    open_console().print(
        f"\nOriginal table: {small:,} of {before.records:,} patients are in groups of fewer than {k} records. The release:"
    )
    print_release(release)
    print_folders(out_folder, release)


def _existing_parent(folder: Path) -> Path:
    """The nearest existing parent: temporary files on the disk of the release can be moved instead of copied."""
    return next(parent for parent in folder.resolve().parents if parent.is_dir())


def _refuse_folder(folder: Path) -> None:
    """Refuse a folder that cannot get a release, before the table is read."""
    if str(folder) in ("", ".", "-"):  # an empty name is the current folder
        raise shoal.PolicyError("--out needs the name of a new folder, such as --out release.")
    parent = _existing_parent(folder)
    if not os.access(parent, os.W_OK):
        raise shoal.EngineError(
            f"no permission to write in the folder {str(parent)!r}. Choose a folder in which you may write."
        )


def _parse_parameters(settings: list[str]) -> dict[str, Any]:
    """The parameters in the arguments of --set; values are JSON or plain text."""
    parameters: dict[str, Any] = {}
    for text in settings:
        name, sign, value = text.partition("=")
        if not sign:
            raise shoal.PolicyError(f"--set must have the form NAME=VALUE, such as stop_at=2, not {text!r}.")
        if name in OPTIONS:
            raise shoal.PolicyError(f"{name!r} is not a parameter of the method. Use {OPTIONS[name]} instead of --set.")
        try:
            parameters[name] = json.loads(value)
        except (ValueError, RecursionError):
            parameters[name] = {"True": True, "False": False}.get(value, value)
    return parameters


def _read_statement(folder: Path) -> dict[str, Any]:
    """The notes of a saved certificate, some of which are added when the table is written, and its fingerprint."""
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    return {"notes": tuple(content["notes"]), "fingerprint": content["fingerprint"]}


def _load_policy(policy: Path | None, recoding: Path | None, named: dict[str, str]) -> Policy | None:
    """The policy with the named conventions; None for the policy in the folder of the recoding, without a change."""
    if policy is None and recoding is None:
        raise shoal.PolicyError(
            "the policy is missing. Give a policy file with --policy, or the recoding.json of an earlier release with "
            "--recoding."
        )
    if policy is None and recoding is not None and named:
        policy = (recoding if recoding.is_dir() else recoding.parent) / "policy.yaml"
    return None if policy is None else override_read(Policy.load(policy), named)
