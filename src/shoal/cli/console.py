"""Output of the commands: certificates, tables of figures, progress and errors."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from shoal.errors import escape_invisible
from shoal.formats.numbers import format_count
from shoal.progress import JsonLog
from shoal.progress import Progress as ReportProgress
from shoal.release import Release
from shoal.report.summary import INFORMATION_KEPT, RISKS, STATISTICS_KEPT
from shoal.requirements import EVIDENCE_NOTES, PARTITIONS_NOTE, Certificate

COMPILING = "compiling the search, at its first use only: 5 to 20 seconds"
WIDTH = 160  # characters per line in files and pipes


class SafeConsole(Console):
    """A console on which no name or value can move the cursor, change colours or hide text."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape invisible characters except newlines; all texts and cells of tables pass through this method."""
        return super().render_str(escape_invisible(text, keep="\n"), **options)


def open_console(*, stderr: bool = False) -> Console:
    """A console that shows names and values without markup; files and pipes get lines of up to 160 characters."""
    console = SafeConsole(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def print_error(title: str, error: Exception | str) -> None:
    """Print an error on standard error."""
    console = open_console(stderr=True)
    console.print(title, style="red", end=" ", soft_wrap=True)
    console.print(str(error), soft_wrap=True)


def print_line(text: str, style: str | None = None) -> None:
    """Print a text that the console does not wrap."""
    open_console().print(text, style=style, soft_wrap=True)


def print_json(text: str) -> None:
    """Print JSON with JSON escapes for invisible characters, so that the content does not change."""
    typer.echo("".join(s if s == "\n" or escape_invisible(s) == s else json.dumps(s)[1:-1] for s in text))


@contextlib.contextmanager
def show_progress(*, quiet: bool = False, log: JsonLog | None = None) -> Iterator[ReportProgress]:
    """Show one progress bar per stage on standard error, if that is a terminal; or write the stages to a log."""
    if log is not None:
        try:
            yield log
        except BaseException as error:
            log.write("failed", error=type(error).__name__)  # its text may quote a value
            raise
        return
    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = open_console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}
        compiling = bars.add_task(COMPILING, total=None, visible=False)

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(escape_invisible(stage), total=total)
            bars.update(tasks[stage], completed=done, total=total)

        if bars.disable:
            yield report
            return
        from shoal.cli.compilation import watch_compilation  # here, since it loads the compiler

        with watch_compilation(lambda begins: bars.update(compiling, visible=begins)):
            yield report


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print rows under a head; the columns with the numbers ``right`` are aligned to the right."""
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(head):
        table.add_column(title, justify="right" if number in right else "left")
    for row in rows:
        table.add_row(*map(escape_invisible, row))
    open_console().print(table)


def print_figures(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print an empty line and a table with the figures in the last column."""
    open_console().print()
    print_table(head, rows, right=(len(head) - 1,))


def print_release(release: Release) -> None:
    """Print the certificate of a release, its risks and the information kept."""
    summary = release.summary()
    print_certificate(release.certificate)
    print_figures(RISKS, summary.risks())
    if summary.information_kept:
        print_figures(INFORMATION_KEPT, summary.information())
    if "improved" in summary.measures:
        weights = " with the weights of the method" if summary.parameters.get("weights") else ""
        print_line(
            f"the local search reduced the information loss{weights} by {summary.measures['improved']:.1%} (improved)"
        )
    if summary.statistics():
        print_figures(STATISTICS_KEPT, summary.statistics())


def print_folders(folder: Path, release: Release) -> None:
    """Print the notes of a release, the dropped columns and the folders of its files."""
    open_console().print()
    name = escape_invisible(str(folder))
    for note in release.notes:
        print_line(f"Note: {note.replace('OUT', name)}", "yellow")
    if release.dropped:
        print_line(f"Dropped columns: {', '.join(map(escape_invisible, release.dropped))}")
    if release.path is not None:
        print_line(f"Path: {format_count(len(release.path), 'step')}, {name}.owner/path.html")
    print_line(f"Public folder: {name}   Owner folder (do not publish): {name}.owner")


def print_certificate(certificate: Certificate) -> None:
    """Print the verdict, the result of each requirement, the worst group of each failed one, and the notes."""
    colour = "green" if certificate.publishable else "yellow" if certificate.holds else "red"
    verdict = Text(certificate.verdict, style=f"bold {colour}")
    scope = " together with the earlier releases" if certificate.evidence == "union" else ""
    open_console().print(verdict.append(f": {certificate.counts}{scope}", style="default not bold"), soft_wrap=True)
    rows = [(f.text, f.reached_text, f"{f.failing_groups:,}", f"{f.failing_records:,}") for f in certificate.findings]
    print_table(("requirement", "worst group reaches", "failing groups", "failing records"), rows, right=(1, 2, 3))
    for f in certificate.findings:
        if not f.holds:
            worst = ", ".join(f"{k}={'(missing)' if v is None else v}" for k, v in f.worst.items())
            size = format_count(f.worst_size, "record")
            print_line(f"worst group of {f.text}: {f'{escape_invisible(worst)} ({size})' if worst else size}")
    if certificate.parts > 1:
        print_line(PARTITIONS_NOTE.format(certificate.parts))
    if certificate.evidence in EVIDENCE_NOTES:
        print_line(EVIDENCE_NOTES[certificate.evidence], "yellow")
    for remark in certificate.remarks:
        print_line(escape_invisible(remark), "yellow")
    print_line(f"fingerprint {certificate.fingerprint}")
