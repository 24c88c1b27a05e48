"""The words for arguments and options in the help: TABLE, FILE, NUMBER, TEXT, and none for options without a value."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand

WORDS = {"Path": "FILE", "int": "NUMBER", "float": "NUMBER"}


def name_values(parameters: list[Any]) -> list[Any]:
    """Give every parameter a word for its value, except where the command names one."""
    for parameter in parameters:
        if parameter.metavar is None:
            parameter.metavar = _choose_word(parameter)
    return parameters


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
