"""The program `shoal`: its exit statuses and signals.

This module imports little, so that `shoal --version` answers at once: the commands are imported when one is run, and the
terminal library when something is printed.
"""

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

import shoal
from shoal import threads
from shoal.errors import RequirementNotMet, ShoalError

UNENCODABLE = "shoal.replace"  # a character that the terminal cannot encode must not end the program
DASH = "–"  # in the labels of runs


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Write two hyphens for the dash of a range, and a question mark for other characters."""
    assert isinstance(error, UnicodeEncodeError)  # noqa: S101
    text = error.object[error.start : error.end]
    return "".join("--" if character == DASH else "?" for character in text), error.end


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


def main() -> None:
    """Run the program `shoal` and exit with its status."""
    run_program(_run_command)


def _run_command() -> None:
    """Run the command that the arguments name."""
    if sys.argv[1:] == ["--version"]:
        print_version()
        raise SystemExit(ExitStatus.HOLDS)
    from shoal.cli.command_tree import app  # here, since the commands load NumPy, Pydantic and the terminal library

    app(prog_name="shoal")


def print_version() -> None:
    """Print the version."""
    sys.stdout.write(f"shoal {shoal.__version__}\n")
    sys.stdout.flush()  # a closed pipe is noticed here


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
    except BrokenPipeError:
        raise SystemExit(ExitStatus.CLOSED_PIPE) from None
    except RequirementNotMet as error:
        _print_error("the requirement does not hold:", error)
        raise SystemExit(ExitStatus.FAILS) from None
    except ShoalError as error:
        _print_error("error:", error)
        raise SystemExit(ExitStatus.WRONG_INPUT) from None
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        raise SystemExit(ExitStatus.STOPPED) from None
    except Exception as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        _print_error("unexpected error:", _describe_fault(error))
        raise SystemExit(ExitStatus.FAULT) from None


def _print_error(title: str, error: Exception | str) -> None:
    from shoal.cli.console import print_error  # here, since the terminal library is loaded when something is printed

    print_error(title, error)


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
