"""The words for arguments and options in the help: TABLE, FILE, NUMBER, TEXT, and none for options without a value."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

from shoal.errors import escape_invisible

WORDS = {"Path": "FILE", "int": "NUMBER", "float": "NUMBER"}


def name_values(parameters: list[Any]) -> list[Any]:
    """Give every parameter a word for its value, except where the command names one; arguments show no type."""
    for parameter in parameters:
        if isinstance(parameter, TyperArgument):
            parameter.display_type_rich = _show_no_type  # type: ignore[method-assign]
        if parameter.metavar is None:
            parameter.metavar = _choose_word(parameter)
    return parameters


def _show_no_type(ctx: Any) -> None:
    """The column of types in the help is empty for arguments: their names say what they are."""


def _choose_word(parameter: Any) -> str:
    if isinstance(parameter, TyperArgument):
        return str(parameter.name).upper()
    if parameter.is_flag:
        return ""
    kind = str(getattr(getattr(parameter, "type_descriptor", None), "annotation", ""))
    return next((word for part, word in WORDS.items() if part in kind), "TEXT")


class PlainCommand(TyperCommand):
    """A command whose help says TABLE instead of {table}, and NUMBER instead of <int>."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with a word for the value of each."""
        return name_values(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, without braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


@contextlib.contextmanager
def _escape_usage_error() -> Iterator[None]:
    """Escape invisible characters in usage errors, which quote arguments such as file names."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = escape_invisible(message)  # type: ignore[attr-defined]
        raise


class CommandGroup(TyperGroup):
    """A group of commands whose usage errors contain no control characters."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments in front of the command."""
        with _escape_usage_error():
            return super().make_context(*arguments, **options)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, with a word for the value of each."""
        return name_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of the command and run it."""
        with _escape_usage_error():
            return super().invoke(ctx)
