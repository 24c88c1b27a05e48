"""The command line.

Exit status 0: holds; 1: the requirement does not hold, or `check` finds identifiers; 2: the input or the policy is wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

import shoal
from shoal.cli import taxonomy_commands
from shoal.errors import RequirementNotMet, ShoalError, escape_invisible
from shoal.pipeline.method import constructor_parameters
from shoal.policy import Policy
from shoal.progress import Progress as Tell
from shoal.recoding import STYLES
from shoal.recoding.group_labels import ENDS
from shoal.release import Release, read_earlier_seed
from shoal.report.formatting import format_count
from shoal.requirements import PARTITIONS_NOTE, SYNTHETIC_NOTE, UNION_NOTE, Certificate
from shoal.secret import ONE
from shoal.tables import METHODS


@contextlib.contextmanager
def _escape_arguments() -> Iterator[None]:
    """A usage error quotes arguments, which may be names of files: its characters that cannot be seen become escapes."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = escape_invisible(message)  # type: ignore[attr-defined]
        raise


class _Group(TyperGroup):
    """The commands, whose usage errors are harmless to a terminal."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the arguments in front of the command."""
        with _escape_arguments():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of the command, and run it."""
        with _escape_arguments():
            return super().invoke(ctx)


app = typer.Typer(
    name="shoal",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Release what personal data teaches, so that every person in it hides in a crowd.",
    epilog="Exit status: 0 holds, 1 the requirement does not hold or identifiers are present (check), 2 the input or the "
    "policy is wrong, 3 a fault of Shoal.",
)
app.add_typer(taxonomy_commands.app, name="taxonomy")

WIDE = 160
OWN = {
    "write": "--write",
    "seed": "--seed",
    "secret": "--secret",
    "policy": "--policy",
    "method": "--method",
    "data": "the table",
    "progress": "-q",
    "engine": "--engine",
    "memory": "--memory",
    "combinations": "--combinations",
    "temp": "--temp",
    "recoding": "--recoding",
    "nearest": "--nearest",
}

PolicyFile = Annotated[Path, typer.Option("--policy", "-p", help="The policy, a YAML file.")]
TableFile = Annotated[
    Path, typer.Argument(help="A CSV or Parquet file, a folder of them, or a .duckdb file with one table.")
]
EngineOption = Annotated[str | None, typer.Option("--engine", help="memory or duckdb; as the table needs unless said.")]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", help="Use at most so much memory, as 4GB, and the disk beyond (duckdb).")
]
EndsOption = Annotated[
    str | None, typer.Option(help=f"Where ranges of numbers end: {', '.join(ENDS)} (default: as the method does).")
]
SeedOption = Annotated[
    int | None, typer.Option(help="The secret of the release, for tests (default: from the operating system).")
]
SecretOption = Annotated[
    Path | None, typer.Option(help="Owner's folder of an earlier release, whose secret is used again.")
]
FormulasOption = Annotated[
    bool,
    typer.Option(
        help="In CSV, write an apostrophe before texts that a spreadsheet program would run as formulas; Shoal's readers "
        "remove it.",
    ),
]
TempOption = Annotated[
    Path | None, typer.Option("--temp", help="A folder for what does not fit into memory; raw data while it lasts.")
]


class _Console(Console):
    """A console on which no name or value can move the cursor, change colours or hide text."""

    def render_str(self, text: str, **options: Any) -> Text:
        """All texts and cells of tables come through here; the newlines of texts of several lines stay."""
        return super().render_str(escape_invisible(text, keep="\n"), **options)


def _console(*, stderr: bool = False) -> Console:
    """Names and values are shown without markup; what goes to a file or a pipe is not folded at 80 signs."""
    console = _Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


@app.command()
def anonymize(
    table: TableFile,
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", help="The folder to make; what must not leave goes to OUT.owner.")
    ],
    policy: Annotated[
        Path | None,
        typer.Option("--policy", "-p", help="The policy, a YAML file; with --recoding the one beside it unless said."),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="A method, mondrian unless said; `shoal methods` lists them.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the method, NAME=VALUE; may be repeated.")
    ] = None,
    write: Annotated[
        str | None, typer.Option(help=f"How values are written: {', '.join(STYLES)}; as the method does unless said.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="csv or parquet; as the input unless said.")] = None,
    ends: EndsOption = None,
    seed: SeedOption = None,
    secret: SecretOption = None,
    recoding: Annotated[
        Path | None,
        typer.Option(help="recoding.json of an earlier release: TABLE has new rows, recoded and tested with those."),
    ] = None,
    nearest: Annotated[
        bool,
        typer.Option(
            "--nearest",
            help="With --recoding: rows that no box holds go to the nearest box, whose labels are not true of them.",
        ),
    ] = False,
    engine: EngineOption = None,
    memory: MemoryOption = None,
    combinations: Annotated[
        int | None,
        typer.Option(help="Hold at most so many distinct combinations at once; more are worked on in parts (duckdb)."),
    ] = None,
    temp: TempOption = None,
    escape_formulas: FormulasOption = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier release.")] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print the steps of the method's path; names raw values, so not for others."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing unless something is wrong.")] = False,
) -> None:
    """Make a release of TABLE that meets the policy, checked before it is written."""
    if format not in (None, "csv", "parquet"):
        raise shoal.PolicyError(f"unknown format {format!r}; choose from 'csv', 'parquet'")
    if policy is None and recoding is None:
        raise shoal.PolicyError("give a policy with --policy, or an earlier release with --recoding, which has one")
    with _progress(quiet) as tell:
        given_styles = {name: value for name, value in (("write", write), ("ends", ends)) if value is not None}
        parameters = _parameters(set_ or []) | given_styles
        parameters |= {"seed": seed, "secret": secret, "recoding": recoding, "nearest": nearest}
        parameters |= {
            "engine": engine,
            "memory": memory,
            "combinations": combinations,
            "temp": temp or _beside(out_folder),
        }
        given = None if policy is None else Policy.load(policy)
        if force and given is not None and seed is None and secret is None and recoding is None:
            parameters["seed"] = read_earlier_seed(out_folder, given)
        release = shoal.anonymize(table, given, method=method, progress=tell, **parameters)
        story = release.explain() if explain else ""  # a method without a path is told before anything is written
        release.save(out_folder, format=format, overwrite=force, escape_formulas=escape_formulas)  # type: ignore[arg-type]
    if not quiet:
        _show(replace(release, certificate=replace(release.certificate, notes=_read_notes(out_folder))))
    if explain:
        _console().print(f"\n{story}", soft_wrap=True)
    if not quiet:
        _where(out_folder, release)


@app.command()
def check(
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet file, or a folder of them, whoever made it.")],
    policy: PolicyFile,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write the certificate to this file; - for standard output.")
    ] = None,
    engine: EngineOption = None,
    memory: MemoryOption = None,
    temp: TempOption = None,
) -> None:
    """Test TABLE against the policy by its published values; exit 1 where it does not hold or identifiers are present."""
    if json_ is not None and json_.resolve() in (table.resolve(), policy.resolve()):
        raise shoal.PolicyError(f"--json would overwrite {str(json_)!r}, which is read; choose another file")
    certificate = shoal.check(table, Policy.load(policy), engine=engine, memory=memory, temp=temp)
    if json_ is not None and str(json_) == "-":
        _echo_json(certificate.to_json())
    else:
        if json_ is not None:
            _write(json_, certificate.to_json() + "\n")
        _show_certificate(certificate)
    raise typer.Exit(0 if certificate.publishable else 1)


@app.command()
def measure(
    original: Annotated[Path, typer.Argument(help="The raw table, a CSV or Parquet file, or a folder of them.")],
    released: Annotated[Path, typer.Argument(help="The released table, whoever made it.")],
    policy: PolicyFile,
    threshold: Annotated[float, typer.Option(help="The risk above which a record counts as at risk.")] = 0.2,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write the measures to this file; - for standard output.")
    ] = None,
    engine: EngineOption = None,
    memory: MemoryOption = None,
    temp: TempOption = None,
) -> None:
    """Measure what a release kept and what is at risk, from the two tables and the policy."""
    if json_ is not None and json_.resolve() in (original.resolve(), released.resolve(), policy.resolve()):
        raise shoal.PolicyError(f"--json would overwrite {str(json_)!r}, which is read; choose another file")
    given = Policy.load(policy)
    found = shoal.measure(original, released, given, threshold=threshold, engine=engine, memory=memory, temp=temp)
    text = json.dumps({**found, "columns": found.columns}, indent=2, ensure_ascii=False)
    if json_ is not None and str(json_) == "-":
        _echo_json(text)
        return
    if json_ is not None:
        _write(json_, text + "\n")
    _pairs(("measure", ""), [(name, f"{value:,.6g}") for name, value in found.items()])
    _pairs(("what was kept", "certainty"), [(name, f"{1 - c['ncp']:.1%}") for name, c in found.columns.items()])


@app.command()
def methods() -> None:
    """List the methods and their parameters."""
    listed = Table(box=None, pad_edge=False)
    for column in ("method", "what it does", "parameters"):
        listed.add_column(column)
    for name, method in METHODS.items():
        given = [f"{n}={p.default}" for n, p in constructor_parameters(method).items() if n != "policy"]
        listed.add_row(name, method.summary, ", ".join(given))
    _console().print(listed)


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="How many patients.")] = 50_000,
    k: Annotated[int, typer.Option(help="The least size of a group.")] = 10,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")] = Path("shoal-demo"),
) -> None:
    """Make a hospital table, anonymize it, check it, and show what was kept and what is at risk."""
    _console().print(
        f"A hospital with {rows:,} patients; a release in which everybody shares their traits with {k - 1} others."
    )
    policy = shoal.datasets.hospital_policy(k)
    with _progress(False) as tell:
        raw = shoal.datasets.hospital(rows)
        release = shoal.anonymize(raw, policy, seed=read_earlier_seed(out_folder, policy), progress=tell)
        release.save(out_folder, overwrite=True)
    before = shoal.check(raw, policy)
    finding = before.findings[0]
    _console().print(f"\nBefore: {finding.failing_records:,} of {before.records:,} patients stood in groups below {k}.")
    _show(release)
    _where(out_folder, release)


def _beside(folder: Path) -> Path:
    """The disk that the release goes to has room for it; what is put aside goes there too, and need not be copied."""
    return next(parent for parent in folder.resolve().parents if parent.is_dir())


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise shoal.EngineError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None


def _echo_json(text: str) -> None:
    """Print JSON in which characters that cannot be seen are JSON's own escapes, so that it says the same."""
    typer.echo("".join(s if s == "\n" or escape_invisible(s) == s else json.dumps(s)[1:-1] for s in text))


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Tell]:
    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    err = _console(stderr=True)
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(escape_invisible(stage), total=total)
            bar.update(tasks[stage], completed=done, total=total)

        yield tell


def _parameters(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise shoal.PolicyError(f"--set takes NAME=VALUE, not {text!r}")
        if name in OWN:
            raise shoal.PolicyError(f"{name!r} is no parameter for --set; it has a place of its own: {OWN[name]}")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = {"True": True, "False": False}.get(value, value)
    return found


def _show(release: Release) -> None:
    facts = release.summary()
    _show_certificate(release.certificate)
    _pairs(("what is at risk", ""), facts.risks())
    if facts.information_kept:
        _pairs(("what was kept", "certainty"), facts.information())
    if "improved" in facts.measures:
        weighted = ", by its weights" if facts.parameters.get("weights") else ""
        gained = f"{facts.measures['improved']:.1%} of the information loss{weighted}"
        _console().print(f"moving records between groups took away {gained}")
    if facts.is_synthetic:
        _pairs(("statistics of the drawn records", "difference"), facts.statistics())


def _read_notes(folder: Path) -> tuple[str, ...]:
    """The notes of a saved certificate: some are known only when the table is written."""
    return tuple(json.loads((folder / "certificate.json").read_text(encoding="utf-8"))["notes"])


def _pairs(head: tuple[str, str], rows: list[tuple[str, str]]) -> None:
    shown = Table(box=None, pad_edge=False)
    shown.add_column(head[0])
    shown.add_column(head[1], justify="right")
    for row in rows:
        shown.add_row(*map(escape_invisible, row))
    _console().print()
    _console().print(shown)


def _where(folder: Path, release: Release) -> None:
    _console().print()
    shown = escape_invisible(str(folder))
    for note in release.notes:
        _console().print(f"Note: {note}", style="yellow", soft_wrap=True)
    if release.dropped:
        _console().print(f"Dropped columns: {', '.join(map(escape_invisible, release.dropped))}", soft_wrap=True)
    if release.path is not None:
        _console().print(f"Path: {format_count(len(release.path), 'step')}, {shown}.owner/path.html", soft_wrap=True)
    _console().print(f"May leave: {shown}   Must stay: {shown}.owner", soft_wrap=True)
    if release.method != "recoding":
        _console().print(ONE.replace("OUT", shown), soft_wrap=True)


def _show_certificate(certificate: Certificate) -> None:
    colour = "green" if certificate.publishable else "yellow" if certificate.holds else "red"
    head = Text(certificate.verdict, style=f"bold {colour}")
    among = " together with the earlier releases" if certificate.evidence == "union" else ""
    counted = f": {certificate.records:,} records in {certificate.groups:,} groups{among}"
    _console().print(head.append(counted, style="default not bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("requirement", "worst group reaches", "failing groups", "failing records"):
        table.add_column(column, justify="left" if column == "requirement" else "right")
    for f in certificate.findings:
        table.add_row(f.text, f.reached_text, f"{f.failing_groups:,}", f"{f.failing_records:,}")
    _console().print(table)
    for f in certificate.findings:
        if not f.holds:
            worst = ", ".join(f"{k}={'(missing)' if v is None else v}" for k, v in f.worst.items())
            _console().print(
                f"worst group of {f.text}: {escape_invisible(worst)} ({f.worst_size} records)", soft_wrap=True
            )
    if certificate.parts > 1:
        _console().print(PARTITIONS_NOTE.format(certificate.parts), soft_wrap=True)
    if certificate.evidence != "table":
        note = SYNTHETIC_NOTE if certificate.evidence == "groups" else UNION_NOTE
        _console().print(note, style="yellow", soft_wrap=True)
    for remark in certificate.remarks:
        _console().print(escape_invisible(remark), style="yellow", soft_wrap=True)
    _console().print(f"fingerprint {certificate.fingerprint}", soft_wrap=True)


def _complain(word: str, error: Exception) -> None:
    console = _console(stderr=True)
    console.print(word, style="red", end=" ", soft_wrap=True)
    console.print(str(error), soft_wrap=True)


def main() -> None:
    """The program `shoal`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show must not end the program
    signal.signal(signal.SIGTERM, _stopped)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _stopped)
    try:
        app()
    except RequirementNotMet as error:
        _complain("the requirement does not hold:", error)
        raise SystemExit(1) from None
    except ShoalError as error:
        _complain("error:", error)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        _console(stderr=True).print("stopped")
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(141) from None
    except Exception as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}, line {where.lineno}"
        kind = type(error).__name__
        _complain("unexpected error:", RuntimeError(f"{kind} in {place}; set SHOAL_DEBUG=1 to see all, and report it"))
        raise SystemExit(3) from None


def _stopped(number: int, frame: object) -> None:
    """Asked to end: clean up as after Ctrl-C."""
    raise KeyboardInterrupt
