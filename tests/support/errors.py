"""The texts of errors."""

from __future__ import annotations


def everything(error: BaseException | None) -> str:
    """All that a log with the traceback would show of an error."""
    found = []
    while error is not None:
        found.append(str(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(found)
