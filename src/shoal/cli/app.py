"""The program `shoal`: its commands, exit statuses and signals."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Annotated

import typer

import shoal
from shoal import threads
from shoal.cli import commands, model_commands, sql_commands, taxonomy_commands
from shoal.cli.command_help import CommandGroup, PlainCommand
from shoal.cli.console import open_console, print_error
from shoal.errors import RequirementNotMet, ShoalError
from shoal.formats.labels import RUN_SEPARATORS

SUMMARY = "Anonymize personal data for release, and certify the privacy requirements that the release meets."


UNENCODABLE = "shoal.replace"  # a character that the terminal cannot encode must not end the program


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Write two hyphens for the dash of a range, and a question mark for other characters."""
    assert isinstance(error, UnicodeEncodeError)  # noqa: S101
    text = error.object[error.start : error.end]
    return "".join("--" if character == RUN_SEPARATORS[0].strip() else "?" for character in text), error.end


codecs.register_error(UNENCODABLE, _replace_characters)


class ExitStatus(IntEnum):
    """The exit statuses of every command."""

    HOLDS = 0
    FAILS = 1
    WRONG_INPUT = 2
    FAULT = 3
    HUNG_UP = 129
    STOPPED = 130
    CLOSED_PIPE = 141
    TERMINATED = 143


EXIT_STATUSES = {
    ExitStatus.HOLDS: "the command succeeded and every requirement holds.",
    ExitStatus.FAILS: "a requirement does not hold, identifiers are present (check), or a value is not in the taxonomy "
    "(taxonomy check).",
    ExitStatus.WRONG_INPUT: "the input, the policy or an option is wrong.",
    ExitStatus.FAULT: "Shoal itself has a fault.",
    ExitStatus.HUNG_UP: "the terminal was closed (SIGHUP).",
    ExitStatus.STOPPED: "the command was stopped (Ctrl-C).",
    ExitStatus.CLOSED_PIPE: "the program that reads the output ended first.",
    ExitStatus.TERMINATED: "the command was ended by another program (SIGTERM).",
}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shoal {shoal.__version__}")
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


def main() -> None:
    """Run the program `shoal` and exit with its status."""
    run_program(lambda: app(prog_name="shoal"))


def run_program(program: Callable[[], object]) -> None:
    """Run a program of commands, and exit with one of the `ExitStatus`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=UNENCODABLE)
    signals: list[int] = []
    _stop_on_signals(signals)
    try:
        _run(program, signals)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # rich and typer end the program with status 1
            _discard_output()
            raise SystemExit(ExitStatus.CLOSED_PIPE) from None
        if ended.code == ExitStatus.STOPPED:
            status = 128 + signals[0] if signals else ExitStatus.STOPPED
            _exit_without_waiting(status)
            raise SystemExit(status) from None
        raise


def _discard_output() -> None:
    """Send the rest of the output to no file, so that Python does not write to the closed pipe when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_without_waiting(status: int) -> None:
    """If a kernel is still running, remove all temporary files and end the process; its memory must not be released before."""
    if threads.find_running():
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def _run(program: Callable[[], object], signals: list[int]) -> None:
    """Run the command; every error becomes an exit status. ``signals`` are those that asked the program to end."""
    try:
        _run_until_stopped(program, signals)
    except RequirementNotMet as error:
        print_error("the requirement does not hold:", error)
        raise SystemExit(ExitStatus.FAILS) from None
    except ShoalError as error:
        print_error("error:", error)
        raise SystemExit(ExitStatus.WRONG_INPUT) from None
    except KeyboardInterrupt:
        open_console(stderr=True).print("stopped")
        raise SystemExit(ExitStatus.STOPPED) from None
    except Exception as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        print_error("unexpected error:", _describe_fault(error))
        raise SystemExit(ExitStatus.FAULT) from None


def _run_until_stopped(program: Callable[[], object], signals: list[int]) -> None:
    """Run the command; any error after a signal counts as a stop: a library may turn the interrupt into another error."""
    try:
        program()
    except Exception:
        if signals:
            raise KeyboardInterrupt from None
        raise


def _describe_fault(error: Exception) -> str:
    """The type and the place of an unexpected error, without its text, which may quote raw values."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    return (
        f"{type(error).__name__} in {place}. Set SHOAL_DEBUG=1 to see the whole traceback, and report the error. The "
        "traceback may contain raw values."
    )


def _stop_on_signals(received: list[int]) -> None:
    """Let SIGTERM and SIGHUP end the program like Ctrl-C, so that temporary files are removed; note the signals."""

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is None:
            continue
        if name == "SIGTERM" or signal.getsignal(number) is not signal.SIG_IGN:  # nohup, jobs in the background
            signal.signal(number, interrupt)
