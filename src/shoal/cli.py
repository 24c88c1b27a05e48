"""The command line. Exit status 0: holds; 1: the requirement does not hold; 2: the input or the policy is wrong."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import shoal
from shoal.errors import RequirementNotMet, ShoalError
from shoal.method import Progress as Tell
from shoal.method import constructor
from shoal.policy import Policy
from shoal.recoding import STYLES
from shoal.release import Release
from shoal.requirements import Certificate
from shoal.tables import METHODS

app = typer.Typer(
    name="shoal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Release what personal data teaches, so that every person in it hides in a crowd.",
    epilog="Exit status: 0 holds, 1 the requirement does not hold, 2 the input or the policy is wrong.",
)
out = Console(soft_wrap=False)
err = Console(stderr=True)

PolicyFile = Annotated[Path, typer.Option("--policy", "-p", help="The policy, a YAML file.")]


@app.command()
def anonymize(
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet file.")],
    policy: PolicyFile,
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", help="The folder to make; what must not leave goes to OUT.owner.")
    ],
    method: Annotated[str, typer.Option("--method", "-m", help="A method; `shoal methods` lists them.")] = "mondrian",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the method, NAME=VALUE; may be repeated.")
    ] = None,
    write: Annotated[str, typer.Option(help=f"How values are written: {', '.join(STYLES)}.")] = "label",
    format: Annotated[str | None, typer.Option(help="csv or parquet; as the input unless said.")] = None,
    seed: Annotated[int | None, typer.Option(help="For randomized methods; a secret.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier release.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing unless something is wrong.")] = False,
) -> None:
    """Make a release of TABLE that meets the policy, checked before it is written."""
    if format not in (None, "csv", "parquet"):
        raise shoal.PolicyError(f"unknown format {format!r}; choose from 'csv', 'parquet'")
    with _progress(quiet) as tell:
        release = shoal.anonymize(
            table, Policy.load(policy), method=method, seed=seed, progress=tell, write=write, **_parameters(set_ or [])
        )
        release.save(out_folder, format=format, overwrite=force)  # type: ignore[arg-type]
    if not quiet:
        _show(release)
        _where(out_folder, release)


@app.command()
def check(
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet file, whoever made it.")],
    policy: PolicyFile,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write the certificate to this file; - for standard output.")
    ] = None,
) -> None:
    """Test TABLE against the policy as a stranger sees it; exit 1 where it does not hold."""
    certificate = shoal.check(table, Policy.load(policy))
    if json_ is not None and str(json_) == "-":
        typer.echo(certificate.to_json())
    else:
        if json_ is not None:
            json_.write_text(certificate.to_json() + "\n", encoding="utf-8")
        _show_certificate(certificate)
    raise typer.Exit(0 if certificate.holds else 1)


@app.command()
def methods() -> None:
    """List the methods and their parameters."""
    listed = Table(box=None, pad_edge=False)
    for column in ("method", "what it does", "parameters"):
        listed.add_column(column)
    for name, method in METHODS.items():
        given = [f"{n}={p.default}" for n, p in constructor(method).items() if n != "policy"]
        listed.add_row(name, method.summary, escape(", ".join(given)))
    out.print(listed)


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="How many patients.")] = 50_000,
    k: Annotated[int, typer.Option(help="The least size of a group.")] = 10,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")] = Path("shoal-demo"),
) -> None:
    """Make a hospital table, anonymize it, check it, and show what was kept and what is at risk."""
    out.print(
        f"A hospital with {rows:,} patients; a release in which everybody shares their traits with {k - 1} others."
    )
    policy = shoal.datasets.hospital_policy(k)
    with _progress(False) as tell:
        raw = shoal.datasets.hospital(rows)
        release = shoal.anonymize(raw, policy, progress=tell)
        release.save(out_folder, overwrite=True)
    before = shoal.check(raw, policy)
    finding = before.findings[0]
    out.print(f"\nBefore: {finding.failing_records:,} of {before.records:,} patients stood in groups below {k}.")
    _show(release)
    _where(out_folder, release)


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Tell]:
    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield tell


def _parameters(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise shoal.PolicyError(f"--set takes NAME=VALUE, not {text!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = {"True": True, "False": False}.get(value, value)
    return found


def _show(release: Release) -> None:
    facts = release.facts()
    _show_certificate(release.certificate)
    shown = Table(box=None, pad_edge=False, show_header=True)
    shown.add_column("what is at risk")
    shown.add_column("", justify="right")
    for name, figure in facts.risks():
        shown.add_row(name, figure)
    out.print()
    out.print(shown)
    kept = Table(box=None, pad_edge=False)
    kept.add_column("what was kept")
    kept.add_column("certainty", justify="right")
    for name, figure in facts.knowledge():
        kept.add_row(escape(name), figure)
    out.print()
    out.print(kept)


def _where(folder: Path, release: Release) -> None:
    out.print()
    if release.dropped:
        out.print(f"Dropped columns: {escape(', '.join(release.dropped))}", soft_wrap=True)
    out.print(f"May leave: {escape(str(folder))}   Must stay: {escape(str(folder))}.owner", soft_wrap=True)


def _show_certificate(certificate: Certificate) -> None:
    word, colour = ("holds", "green") if certificate.holds else ("does not hold", "red")
    out.print(f"[bold {colour}]{word}[/]: {certificate.records:,} records in {certificate.groups:,} groups")
    table = Table(box=None, pad_edge=False)
    for column in ("requirement", "worst group reaches", "failing groups", "failing records"):
        table.add_column(column, justify="left" if column == "requirement" else "right")
    for f in certificate.findings:
        table.add_row(escape(f.text), f"{f.reached:g}", f"{f.failing_groups:,}", f"{f.failing_records:,}")
    out.print(table)
    for f in certificate.findings:
        if not f.holds:
            worst = ", ".join(f"{k}={'(missing)' if v is None else v}" for k, v in f.worst.items())
            out.print(f"worst group of {escape(f.text)}: {escape(worst)} ({f.worst_size} records)", soft_wrap=True)
    out.print(f"fingerprint {certificate.fingerprint}", soft_wrap=True)


def main() -> None:
    """The program `shoal`."""
    try:
        app()
    except RequirementNotMet as error:
        err.print(f"[red]the requirement does not hold:[/] {escape(str(error))}", soft_wrap=True)
        raise SystemExit(1) from None
    except ShoalError as error:
        err.print(f"[red]error:[/] {escape(str(error))}", soft_wrap=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        err.print("stopped; nothing was written")
        raise SystemExit(130) from None
